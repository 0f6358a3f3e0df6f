/* Checks 29, 33, 37, 40, 41: the network, and the API itself. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <grp.h>

#include "base/cleanup.h"
#include "cmd/berth/address.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/selftest.h"

#define NOBODY    65534
#define HEARD_MAX (1024 * 1024)
#define DEPTH     100000

/* --- 29, 33 --- */

/* Somebody on this host whom nobody inside may reach. */
static int listen_on_loopback(char ret_port[8])
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof(address);
	cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, 1) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &len) < 0)
		return -errno;
	snprintf(ret_port, 8, "%u", ntohs(address.sin_port));
	return take_fd(&fd);
}

int verify_network(struct selftest *t, struct outcome *ret)
{
	char port[8];
	cleanup_fd int fd = listen_on_loopback(port);

	if (fd < 0)
		return haul_fail(&t->haul, fd, "cannot listen on the loopback of this host: %s",
				 strerror(-fd));
	outcome_ok(ret, "there is only lo: no TCP, UDP, ping, raw packet, IPv6 or DNS leaves it");
	return selftest_probe(t, BOX_FIRST, NULL, WORDS("network", port), ret);
}

int verify_routes(struct selftest *t, struct outcome *ret)
{
	outcome_ok(ret, "no address, route or interface can be added, none can be shut");
	return selftest_probe(t, BOX_FIRST, NULL, WORDS("routes"), ret);
}

/* --- 37: who may ask --- */

/* As somebody whom nothing belongs to. The errno, 0 when the socket let us in. */
static int connect_as_nobody(const char *path)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct address address = {.dir = -1};
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

		if (fd < 0 || setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
			_exit(255);
		r = address_fill(&address, path);
		if (r == 0 && connect(fd, (struct sockaddr *)&address.un, sizeof(address.un)) < 0)
			r = -errno;
		_exit(-r & 0x7f);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return 255;
	return WEXITSTATUS(status);
}

static void judge_socket(struct selftest *t, struct outcome *ret)
{
	struct paths paths;
	struct stat st;
	unsigned mode;
	int error;

	if (client_way(t->haul.globals, &paths, &t->haul.err) < 0 || stat(paths.socket, &st) < 0) {
		outcome_untried(ret, "the socket cannot be looked at: %m");
		return;
	}
	mode = st.st_mode & 0777;
	if (mode != 0600 && mode != 0660)
		outcome_hole(ret, "the socket's mode is %03o", mode);
	outcome_ok(ret, "the socket's mode is %03o", mode);
	if (geteuid() != 0)
		return;
	error = connect_as_nobody(paths.socket);
	if (error == 0)
		outcome_hole(ret, "another user can connect to the socket");
	outcome_ok(ret, "the socket's mode is %03o, and another user cannot connect: %s", mode,
		   error == 255 ? "which could not be tried" : strerror(error));
}

/* Without a token, and with one that is none. */
static int judge_token(struct selftest *t, struct outcome *ret)
{
	static const char *const tokens[] = {NULL, "wrong"};
	const struct globals *own = t->haul.globals;
	int r = 0;

	for (size_t i = 0; i < array_len(tokens); i++) {
		struct globals globals = *own;

		globals.token = tokens[i];
		t->haul.globals = &globals;
		r = selftest_send(t, "GET", "/v1/info", SELFTEST_WAIT_MS);
		t->haul.globals = own;
		if (r == 0)
			outcome_hole(ret, "the API answers %s",
				     tokens[i] ? "whatever the token is" : "without a token");
		if (r < 0 && t->haul.answer.status != 401)
			return r;
	}
	outcome_ok(ret, "without a token, and with a wrong one, the answer is 401");
	return 0;
}

int verify_access(struct selftest *t, struct outcome *ret)
{
	if (t->haul.globals->url)
		return judge_token(t, ret);
	judge_socket(t, ret);
	return 0;
}

/* --- 40: what is no request --- */

#define GET_HEALTH "GET /health HTTP/1.1\r\n"
#define GET_IT     GET_HEALTH "Host: a\r\n"
#define POST_IT    "POST /v1/sandbox HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"

/* Whoever takes them for requests answers with 200: /health needs no token. */
static const struct str malformed[] = {
	STR("\x16\x03\x01 hello\r\n\r\n"),
	STR("GET /health HTTP/3.0\r\nHost: a\r\n\r\n"),
	STR("GET /health\r\nHost: a\r\n\r\n"),
	STR("GET /health HTTP/1.1\nHost: a\n\n"),
	STR(GET_HEALTH "\r\n"),
	STR(GET_IT "Host: b\r\n\r\n"),
	STR(GET_IT "X: a\0b\r\n\r\n"),
	STR(GET_IT "X: a\r\n folded\r\n\r\n"),
	STR(GET_IT "X : a\r\n\r\n"),
	STR(GET_IT "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}\n"),
	STR(GET_IT "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
	STR(GET_IT "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
	STR(GET_IT "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n\r\n"),
	STR(GET_IT "Content-Length: -1\r\n\r\n"),
	STR(POST_IT "Content-Length: 10\r\n\r\n{\"id\":\"\xff\"}"),
};

/* The status of the first answer; 0: it was closed without one. */
static int status_of(const struct buf *heard)
{
	int status = 0;
	char line[32] = "";

	if (buf_len(heard))
		memcpy(line, buf_at(heard),
		       buf_len(heard) < sizeof(line) - 1 ? buf_len(heard) : sizeof(line) - 1);
	return sscanf(line, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

static int try_bytes(struct selftest *t, struct str bytes, const char *what, struct outcome *ret)
{
	cleanup(buf_close) struct buf heard;
	struct upgrade u;
	int r, status;

	buf_init(&heard, HEARD_MAX);
	r = selftest_connect(t, &u);
	if (r < 0)
		return r;
	r = selftest_say(t, &u, bytes);
	if (r == 0)
		r = selftest_hear(t, &u, "\r\n\r\n", &heard);
	status = status_of(&heard);
	if (r == -ETIMEDOUT)
		outcome_hole(ret, "%s is waited on for ever", what);
	else if (r >= 0 && (status < 400 || status == 500 || status == 502))
		outcome_hole(ret, "%s is answered by %d", what, status);
	upgrade_close(&u);
	return r == -ETIMEDOUT || r > 0 ? 0 : r;
}

/* A nest of brackets, and a head that does not end. */
static int try_large(struct selftest *t, struct outcome *ret)
{
	cleanup_free char *deep = malloc(DEPTH + 256);
	int len, r;

	if (!deep)
		return haul_fail(&t->haul, -ENOMEM, "out of memory");
	len = snprintf(deep, 256, POST_IT "Content-Length: %d\r\n\r\n", DEPTH);
	memset(deep + len, '[', DEPTH);
	r = try_bytes(t, (struct str){deep, (size_t)len + DEPTH}, "JSON of 100000 brackets", ret);
	if (r < 0)
		return r;
	len = snprintf(deep, 256, GET_IT "X: ");
	memset(deep + len, 'x', DEPTH);
	return try_bytes(t, (struct str){deep, (size_t)len + DEPTH}, "a head without an end", ret);
}

int verify_malformed(struct selftest *t, struct outcome *ret)
{
	char what[64];
	pid_t before, after;
	int r = selftest_send(t, "GET", "/health", SELFTEST_WAIT_MS);

	before = t->haul.answer.peer;
	for (size_t i = 0; r == 0 && i < array_len(malformed); i++) {
		snprintf(what, sizeof(what), "malformed request %zu", i + 1);
		r = try_bytes(t, malformed[i], what, ret);
	}
	if (r == 0)
		r = try_large(t, ret);
	if (r < 0 && r != -ECONNREFUSED)
		return r;
	r = selftest_send(t, "GET", "/health", SELFTEST_WAIT_MS);
	after = t->haul.answer.peer;
	if (r == -EINTR)
		return r;
	if (r < 0 || before != after)
		outcome_hole(ret, "the daemon did not survive malformed requests");
	outcome_ok(ret, "%zu malformed requests are refused, and the daemon lives",
		   array_len(malformed) + 2);
	return 0;
}

/* --- 41: names --- */

int verify_names(struct selftest *t, struct outcome *ret)
{
	static const char *const names[] = {
		"..",
		"%2e%2e",
		"a%2fb",
		"..%2f..%2fetc",
		"a%00b",
		"-a",
		"a-",
		"a_b",
		"a.b",
		"%24(id)",
		"a%20b",
		"a%0ab",
		"%ff",
		"a;b",
		"0123456789012345678901234567890123456789012345678901234567890123",
	};
	static const char *const methods[] = {"GET", "PUT", "DELETE"};
	char path[160];
	int r = 0;

	for (size_t i = 0; r == 0 && i < array_len(names) * array_len(methods); i++) {
		const char *method = methods[i % array_len(methods)];

		snprintf(path, sizeof(path), "/v1/sandbox/%s", names[i / array_len(methods)]);
		r = buf_append_str(&t->haul.body, strcmp(method, "PUT") ? STR("") : STR("{}"));
		if (r == 0)
			r = selftest_send(t, method, path, SELFTEST_WAIT_MS);
		if (r == 0 || (r == -EREMOTEIO && t->haul.answer.status >= 500))
			outcome_hole(ret, "%s %s is answered by %ld", method, path,
				     t->haul.answer.status);
		r = selftest_is_lost(r) ? r : 0;
	}
	if (r == 0)
		r = selftest_make(t, BOX_FIRST);
	snprintf(path, sizeof(path), "/v1/sandbox/SELFTEST%s",
		 t->boxes[BOX_FIRST].id + strlen("selftest"));
	if (r == 0)
		r = selftest_send(t, "GET", path, SELFTEST_WAIT_MS);
	outcome_ok(ret, "%zu names that are none are refused; upper case is folded",
		   array_len(names));
	return r;
}
