#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "cmd/berth/haul.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/upgrade.h"

#define JOINTS_MAX  256
#define WAITING_MAX (64 * 1024) /* bytes in one direction of one of them */
#define LINGER_MS   2000        /* that a local program has to close, once it has all */
#define PAUSE_MS    100         /* before the next try, when there were no descriptors left */

/* A connection here, and one inside that is at its other end. */
struct joint {
	struct list link;
	int fd;
	struct upgrade line;
	struct buf in, out; /* on their way inside, and back */
	int64_t due_ms;     /* of the answer, and then of the local end; 0: none */
	bool is_open;       /* the answer was 101 */
	bool is_in_over, is_in_told, is_in_deaf;
	bool is_out_over, is_out_told, is_out_deaf;
	bool has_more; /* something is there that no poll tells of */
};

struct forward {
	struct haul *haul;
	char path[SANDBOX_PATH_MAX];
	int listener;
	struct list joints;
	unsigned joints_len;
	int64_t accepts_at_ms; /* not before: whoever waits would be told of again and again */
	struct err last; /* what was complained about, so that it is not said again and again */
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void joint_free(struct forward *f, struct joint *j)
{
	list_remove(&j->link);
	f->joints_len--;
	f->accepts_at_ms = 0; /* there is room again */
	upgrade_close(&j->line);
	close(j->fd);
	buf_close(&j->in);
	buf_close(&j->out);
	free(j);
}

/* --- a new one --- */

static void complain(struct forward *f, const struct err *err)
{
	if (f->last.code != ERR_NONE && strcmp(f->last.sentence, err->sentence) == 0)
		return;
	f->last = *err;
	screen_error("%s", err->sentence);
}

static void take_connection(struct forward *f)
{
	cleanup_fd int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct joint *j = fd < 0 ? NULL : calloc(1, sizeof(*j));
	struct err err;
	int yes = 1;

	if (!j) {
		/* It has gone again, or there is no room: it stays in the queue. */
		f->accepts_at_ms = now_ms() + PAUSE_MS;
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	if (upgrade_open(&j->line, f->haul->globals, f->path, &err) < 0 ||
	    upgrade_ask(&j->line, "Upgrade: tcp\r\n", &err) < 0) {
		complain(f, &err);
		upgrade_close(&j->line);
		free(j);
		return;
	}
	j->fd = take_fd(&fd);
	j->due_ms = now_ms() + UPGRADE_ANSWER_MS;
	buf_init(&j->in, WAITING_MAX);
	buf_init(&j->out, WAITING_MAX);
	list_init(&j->link);
	list_append(&f->joints, &j->link);
	f->joints_len++;
}

/* False: it is no more. */
static bool greet(struct forward *f, struct joint *j)
{
	struct err err;
	int r = upgrade_answered(&j->line, &err);

	if (r == 1 && now_ms() < j->due_ms)
		return true;
	if (r == 1)
		r = err_set(&err, -ETIMEDOUT, ERR_TIMEOUT, "the daemon did not answer in time");
	if (r < 0) {
		complain(f, &err);
		joint_free(f, j);
		return false;
	}
	upgrade_begin(&j->line);
	j->is_open = j->has_more = true;
	j->due_ms = 0;
	f->last.code = ERR_NONE;
	return true;
}

/* --- bytes --- */

static size_t room_in(const struct buf *buf)
{
	return WAITING_MAX - buf_len(buf);
}

static ssize_t recv_local(struct joint *j, void *bytes, size_t len)
{
	ssize_t n = recv(j->fd, bytes, len, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
	return n;
}

static ssize_t send_local(struct joint *j, const void *bytes, size_t len)
{
	ssize_t n = send(j->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
	return n;
}

static void drop(struct buf *buf)
{
	buf_consume(buf, buf_len(buf));
}

static void move_in(struct joint *j)
{
	ssize_t n = 1;
	char *room;

	while (n > 0 && !j->is_in_over && room_in(&j->in) &&
	       (room = buf_room(&j->in, room_in(&j->in)))) {
		n = recv_local(j, room, room_in(&j->in));
		if (n > 0)
			buf_added(&j->in, (size_t)n);
		j->is_in_over = n == 0 || n == -EPIPE;
	}
	n = 1;
	while (n > 0 && buf_len(&j->in) && !j->is_in_deaf) {
		n = upgrade_send(&j->line, buf_at(&j->in), buf_len(&j->in));
		if (n > 0)
			buf_consume(&j->in, (size_t)n);
		j->is_in_deaf = n == -EPIPE;
	}
	if (j->is_in_deaf)
		drop(&j->in);
	if (j->is_in_over && !buf_len(&j->in) && !j->is_in_told) {
		j->is_in_told = true;
		shutdown(j->line.fd, SHUT_WR);
	}
}

static void move_out(struct joint *j)
{
	ssize_t n = 1;
	char *room;

	while (n > 0 && !j->is_out_over && room_in(&j->out) &&
	       (room = buf_room(&j->out, room_in(&j->out)))) {
		n = upgrade_recv(&j->line, room, room_in(&j->out));
		if (n > 0)
			buf_added(&j->out, (size_t)n);
		j->is_out_over = n == 0 || n == -EPIPE;
	}
	j->has_more = n > 0 && !j->is_out_over;
	n = 1;
	while (n > 0 && buf_len(&j->out) && !j->is_out_deaf) {
		n = send_local(j, buf_at(&j->out), buf_len(&j->out));
		if (n > 0)
			buf_consume(&j->out, (size_t)n);
		j->is_out_deaf = n == -EPIPE;
	}
	if (j->is_out_deaf)
		drop(&j->out);
	if (j->is_out_over && !buf_len(&j->out) && !j->is_out_told) {
		j->is_out_told = true;
		j->due_ms = now_ms() + LINGER_MS;
		shutdown(j->fd, SHUT_WR);
	}
}

/* The server's end is the end of both; what is still sent to it goes nowhere. */
static bool is_done(const struct joint *j)
{
	if (j->is_out_told)
		return j->is_in_over || now_ms() >= j->due_ms;
	/* Who is gone here, and has sent all. */
	return j->is_out_deaf && j->is_in_over && !buf_len(&j->in);
}

static void work(struct forward *f, struct joint *j)
{
	if (!j->is_open && !greet(f, j))
		return;
	if (!j->is_open)
		return;
	move_out(j);
	move_in(j);
	j->is_in_deaf = j->is_in_deaf || j->is_out_over;
	if (is_done(j))
		joint_free(f, j);
}

/* --- the loop --- */

struct polls {
	struct pollfd fds[2 + 2 * JOINTS_MAX];
	nfds_t len;
	int timeout_ms;
};

static void await_until(struct polls *p, int64_t due_ms)
{
	int64_t left = due_ms - now_ms();

	left = left < 0 ? 0 : left;
	if (p->timeout_ms < 0 || left < p->timeout_ms)
		p->timeout_ms = (int)left;
}

static void add_joint(struct polls *p, const struct joint *j)
{
	short local = 0, inside = 0;

	if (!j->is_open) {
		inside = POLLIN;
	} else {
		if (!j->is_in_over && room_in(&j->in))
			local |= POLLIN;
		if (buf_len(&j->out))
			local |= POLLOUT;
		if (!j->is_out_over && room_in(&j->out))
			inside |= POLLIN;
		if (buf_len(&j->in))
			inside |= POLLOUT;
		if (j->has_more && room_in(&j->out))
			p->timeout_ms = 0;
	}
	if (j->due_ms)
		await_until(p, j->due_ms);
	/* Without a wish it would still tell of errors, again and again. */
	p->fds[p->len++] = (struct pollfd){local ? j->fd : -1, local, 0};
	p->fds[p->len++] = (struct pollfd){inside ? j->line.fd : -1, inside, 0};
}

static int turn(struct forward *f, struct polls *p)
{
	bool has_room = f->joints_len < JOINTS_MAX, is_pausing = now_ms() < f->accepts_at_ms;

	p->len = 2;
	p->timeout_ms = -1;
	p->fds[0] = (struct pollfd){f->haul->interrupt_fd, POLLIN, 0};
	p->fds[1] = (struct pollfd){has_room && !is_pausing ? f->listener : -1, POLLIN, 0};
	if (is_pausing)
		await_until(p, f->accepts_at_ms);
	list_for_each (node, &f->joints)
		add_joint(p, list_entry(node, struct joint, link));
	if (poll(p->fds, p->len, p->timeout_ms) < 0 && errno != EINTR)
		return haul_fail(f->haul, -errno, "cannot wait: %s", strerror(errno));
	if (p->fds[0].revents)
		return -EINTR;
	list_for_each_safe (node, &f->joints)
		work(f, list_entry(node, struct joint, link));
	if (p->fds[1].revents)
		take_connection(f);
	return 0;
}

static int serve(struct forward *f)
{
	struct polls polls;
	int r = 0;

	while (r == 0)
		r = turn(f, &polls);
	while (!list_is_empty(&f->joints))
		joint_free(f, list_entry(f->joints.next, struct joint, link));
	return r;
}

/* --- the beginning --- */

/* "5432", "5432:15432" or "5432:0". */
static int parse_ports(const char *text, uint16_t *ret_port, uint16_t *ret_local)
{
	unsigned ports[2] = {0, 0};
	size_t digits[2] = {0, 0}, i = 0;

	for (const char *at = text; *at; at++) {
		if (*at == ':' && i == 0) {
			i = 1;
			continue;
		}
		if (*at < '0' || *at > '9' || ++digits[i] > 5)
			return -EINVAL;
		ports[i] = ports[i] * 10 + (unsigned)(*at - '0');
	}
	if (i == 0) {
		ports[1] = ports[0];
		digits[1] = digits[0];
	}
	if (!ports[0] || ports[0] > UINT16_MAX || ports[1] > UINT16_MAX || !digits[1])
		return -EINVAL;
	*ret_port = (uint16_t)ports[0];
	*ret_local = (uint16_t)ports[1];
	return 0;
}

static int listen_on(struct forward *f, uint16_t *port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(*port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t size = sizeof(address);
	int yes = 1;

	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (f->listener >= 0)
		setsockopt(f->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (f->listener < 0 || bind(f->listener, (struct sockaddr *)&address, size) < 0 ||
	    listen(f->listener, SOMAXCONN) < 0 ||
	    getsockname(f->listener, (struct sockaddr *)&address, &size) < 0) {
		if (errno == EADDRINUSE)
			return haul_fail(f->haul, -EADDRINUSE,
					 "port %u of this machine is taken: choose another with "
					 "PORT:LOCAL, or PORT:0 for any that is free",
					 *port);
		return haul_fail(f->haul, -errno, "cannot listen on 127.0.0.1:%u: %s", *port,
				 strerror(errno));
	}
	*port = ntohs(address.sin_port);
	return 0;
}

static int announce(struct forward *f, const char *id, uint16_t port, uint16_t local)
{
	char text[256];
	int len;

	if (f->haul->globals->json)
		len = snprintf(text, sizeof(text),
			       "{\"id\":\"%s\",\"port\":%u,\"listen\":\"127.0.0.1:%u\"}\n", id,
			       port, local);
	else
		len = snprintf(text, sizeof(text),
			       "port %u of %s is 127.0.0.1:%u here, until Ctrl-C\n", port, id,
			       local);
	return haul_print(f->haul, (struct str){text, (size_t)len});
}

static int forward(struct forward *f, const char *id, uint16_t port, uint16_t local)
{
	char path[SANDBOX_PATH_MAX], suffix[32];
	struct haul *haul = f->haul;
	int r = sandbox_path(id, "", path, &haul->err);

	snprintf(suffix, sizeof(suffix), "/connect/%u", port);
	if (r == 0)
		r = sandbox_path(id, suffix, f->path, &haul->err);
	/* Better now than with the first connection. It does not wake it. */
	if (r == 0)
		r = buf_printf(&haul->target, "%s", path);
	if (r == 0)
		r = haul_ask(haul, "GET");
	if (r == 0)
		r = listen_on(f, &local);
	if (r == 0)
		r = announce(f, id, port, local);
	return r == 0 ? serve(f) : r;
}

static int run(const struct call *call)
{
	struct forward f = {.listener = -1};
	uint16_t port, local;
	struct haul haul;
	int code;

	if (call->arg_count < 2)
		return usage_error("which port of which sandbox? berth forward ID PORT[:LOCAL]");
	if (parse_ports(call->args[1], &port, &local) < 0)
		return usage_error("\"%s\" is no PORT[:LOCAL], such as 5432 or 5432:15432",
				   screen_text(str_of(call->args[1])).text);
	code = haul_init(&haul, call->globals);
	if (code != EXIT_OK)
		return code;
	f.haul = &haul;
	list_init(&f.joints);
	code = haul_finish(&haul, forward(&f, call->args[0], port, local));
	if (f.listener >= 0)
		close(f.listener);
	haul_close(&haul);
	return code;
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth forward db 5432",          "port 5432 inside is 127.0.0.1:5432 here, until Ctrl-C" },
	{ "berth forward db 5432:15432",    "the same on another port of this machine" },
	{ "berth forward --json web 80:0",  "on any that is free, which the line on stdout tells" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_forward = {
	.name = "forward",
	.summary = "reach a port of a sandbox from this machine",
	.arguments = "ID PORT[:LOCAL]",
	.arg_max = 2,
	.description =
		"Listens on a port of this machine, on 127.0.0.1 only, and connects whoever\n"
		"comes to a port inside, byte for byte, as often as is wanted, until Ctrl-C. The\n"
		"sandbox needs no network for it. It is woken or started by the first\n"
		"connection and may sleep while nothing is sent; a connection that is open\n"
		"outlives a sleep by freezing. If nobody listens inside, the connection is\n"
		"closed again, and it is said who does.",
	.examples = examples,
	.run = run,
};
