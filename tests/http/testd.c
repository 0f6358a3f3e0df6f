#include "tests/http/testd.h"

#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/log.h"

/* clang-format off */
static const struct route routes[] = {
	{ HTTP_METHOD_GET,  "/ok",                 handle_ok,           BODY_NONE },
	{ HTTP_METHOD_GET,  "/stats",              handle_stats,        BODY_NONE },
	{ HTTP_METHOD_GET,  "/slow",               handle_slow,         BODY_NONE },
	{ HTTP_METHOD_GET,  "/empty",              handle_empty,        BODY_NONE },
	{ HTTP_METHOD_GET,  "/not-modified",       handle_not_modified, BODY_NONE },
	{ HTTP_METHOD_GET,  "/path/{name}",        handle_path,         BODY_NONE },
	{ HTTP_METHOD_GET,  "/rest/{name...}",     handle_path,         BODY_NONE },
	{ HTTP_METHOD_GET,  "/big",                handle_big,          BODY_NONE },
	{ HTTP_METHOD_GET,  "/cut",                handle_cut,          BODY_NONE },
	{ HTTP_METHOD_GET,  "/sse",                handle_sse,          BODY_NONE },
	{ HTTP_METHOD_GET,  "/ws",                 handle_ws,           BODY_NONE },
	{ HTTP_METHOD_POST, "/count",              handle_count,        BODY_BUFFERED, 1024 },
	{ HTTP_METHOD_POST, "/buffered",           handle_buffered,     BODY_BUFFERED, 1024 * 1024 },
	{ HTTP_METHOD_POST, "/json",               handle_json,         BODY_BUFFERED, 16 * 1024 * 1024 },
	{ HTTP_METHOD_POST, "/echo",               handle_echo,         BODY_STREAMED },
	{ HTTP_METHOD_POST, "/discard",            handle_discard,      BODY_STREAMED },
	{ HTTP_METHOD_POST, "/limited",            handle_discard,      BODY_STREAMED, 1024 * 1024 },
	{ HTTP_METHOD_POST, "/refuse",             handle_refuse,       BODY_STREAMED },
	{ 0 },
};

static const struct option options[] = {
	{ "socket",      required_argument, NULL, 's' },
	{ "head-ms",     required_argument, NULL, 'h' },
	{ "body-ms",     required_argument, NULL, 'b' },
	{ "idle-ms",     required_argument, NULL, 'i' },
	{ "write-ms",    required_argument, NULL, 'w' },
	{ "linger-ms",   required_argument, NULL, 'l' },
	{ "grace-ms",    required_argument, NULL, 'g' },
	{ "connections", required_argument, NULL, 'c' },
	{ "token",       required_argument, NULL, 't' },
	{ 0 },
};
/* clang-format on */

struct flags {
	const char *socket;
	const char *token; /* that TCP needs; NULL: none */
	struct server_limits limits;
	unsigned grace_ms;
};

struct testd *testd_of(struct exchange *x)
{
	return server_arg(exchange_server(x));
}

static int parse_flags(int argc, char **argv, struct flags *ret)
{
	int c;

	*ret = (struct flags){.limits = SERVER_LIMITS_DEFAULT, .grace_ms = 5000};
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		unsigned number = optarg ? (unsigned)strtoul(optarg, NULL, 10) : 0;

		switch (c) {
		case 's':
			ret->socket = optarg;
			break;
		case 'h':
			ret->limits.head_timeout_ms = number;
			break;
		case 'b':
			ret->limits.body_timeout_ms = number;
			break;
		case 'i':
			ret->limits.idle_timeout_ms = number;
			break;
		case 'w':
			ret->limits.write_timeout_ms = number;
			break;
		case 'l':
			ret->limits.linger_timeout_ms = number;
			break;
		case 'g':
			ret->grace_ms = number;
			break;
		case 'c':
			ret->limits.connections = number;
			break;
		case 't':
			ret->token = optarg;
			break;
		default:
			return -EINVAL;
		}
	}
	return ret->socket ? 0 : -EINVAL;
}

static int listen_unix(struct testd *t, const char *path, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || strlen(path) >= sizeof(address.sun_path))
		return err_set(err, -EINVAL, ERR_INTERNAL, "cannot make a socket at %s", path);
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot bind %s: %m", path);
	return server_listen(t->server, take_fd(&fd), false, err);
}

static int listen_tcp(struct testd *t, unsigned *ret_port, struct err *err)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(address);
	cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &len) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot bind a TCP port: %m");
	*ret_port = ntohs(address.sin_port);
	return server_listen(t->server, take_fd(&fd), t->token != NULL, err);
}

static bool authorize(void *arg, struct str token)
{
	struct testd *t = arg;

	return str_eq(token, str_of(t->token));
}

static void on_drained(void *arg)
{
	struct testd *t = arg;

	uv_close((uv_handle_t *)&t->terminate, NULL);
}

static void on_terminate(uv_signal_t *handle, int number)
{
	struct testd *t = handle->data;

	server_drain(t->server, t->grace_ms, on_drained, t);
}

static int serve(struct testd *t, const struct flags *flags, struct err *err)
{
	unsigned port = 0;
	int r = listen_unix(t, flags->socket, err);

	if (r == 0)
		r = listen_tcp(t, &port, err);
	if (r < 0)
		return r;
	printf("ready %u\n", port);
	fflush(stdout);
	return uv_run(&t->loop, UV_RUN_DEFAULT);
}

int main(int argc, char **argv)
{
	struct testd t = {0};
	struct err err = {0};
	struct flags flags;
	int r;

	if (parse_flags(argc, argv, &flags) < 0) {
		fprintf(stderr, "testd: bad flags\n");
		return 2;
	}
	log_set_level(LOG_ERROR_LEVEL);
	signal(SIGPIPE, SIG_IGN);
	t.grace_ms = flags.grace_ms;
	t.token = flags.token;
	uv_loop_init(&t.loop);
	t.terminate.data = &t;
	uv_signal_init(&t.loop, &t.terminate);
	uv_signal_start(&t.terminate, on_terminate, SIGTERM);
	r = server_new(&t.server, &(struct server_config){.loop = &t.loop,
							  .routes = routes,
							  .nothing_here = "there is nothing here",
							  .limits = flags.limits,
							  .authorize = authorize,
							  .arg = &t});
	if (r == 0)
		r = serve(&t, &flags, &err);
	if (r < 0) {
		fprintf(stderr, "testd: %s\n", err.sentence);
		return 1;
	}
	server_free(t.server);
	unlink(flags.socket);
	return uv_loop_close(&t.loop) == 0 ? 0 : 3;
}
