/* Connections into a sandbox, with an init that answers as the test says, and a server of ours. */
#include "daemon/upstream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/port.h"
#include "daemon/port_connect.h"
#include "daemon/registry.h"
#include "daemon/vigil.h"
#include "tests/unit/tap.h"

#define HANG_S 60 /* SIGALRM then ends us */

static struct {
	uv_loop_t loop;
	struct sandbox sb;
	struct port port;
	struct ports_kept kept;
	uint32_t version;
	/* What init was asked last. */
	uint16_t type;
	uint32_t tag, asked;
	/* The server, and its end of the connection. */
	int listener, server;
	/* What the owner has heard. */
	unsigned connected, ended, rooms, sents;
	int error, status;
	char data[256];
	size_t data_len, total;
	struct upstream *close_on_data, *keep_on_data;
} t;

struct ports_kept *ports_kept(const struct sandbox *sb)
{
	return &t.kept;
}

uv_loop_t *registry_loop(const struct registry *registry)
{
	return &t.loop;
}

void vigil_begin(struct sandbox *sb)
{
}

uint32_t agent_version(const struct agent *agent)
{
	return t.version;
}

int agent_send(struct agent *agent, const struct channel_message *message)
{
	t.type = message->head.type;
	t.tag = message->head.tag;
	t.asked++;
	check(message->head.version == 2);
	return 0;
}

/* --- the owner --- */

static void on_connected(void *arg, int error)
{
	t.connected++;
	t.error = error;
}

static void on_data(void *arg, const char *bytes, size_t len)
{
	size_t some = sizeof(t.data) - 1 - t.data_len;

	some = len < some ? len : some;
	memcpy(t.data + t.data_len, bytes, some);
	t.data_len += some;
	t.total += len;
	if (t.close_on_data)
		upstream_close(take(t.close_on_data));
	if (t.keep_on_data)
		upstream_keep(take(t.keep_on_data));
}

static void on_end(void *arg, int status)
{
	t.ended++;
	t.status = status;
}

static void on_room(void *arg)
{
	t.rooms++;
}

static void on_sent(void *arg)
{
	t.sents++;
}

static const struct upstream_ops ops = {on_connected, on_data, on_end, on_room, on_sent};

/* --- the stage --- */

static void begin(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	memset(&t, 0, sizeof(t));
	check(uv_loop_init(&t.loop) == 0);
	t.version = 2;
	t.kept.max = 2 * UPSTREAM_IDLE_MAX;
	t.server = -1;
	t.sb = (struct sandbox){.id = {"one"}, .state = SANDBOX_RUNNING};
	t.sb.agent = (struct agent *)&t;
	list_init(&t.sb.connects);
	list_init(&t.sb.upstreams);
	t.port = (struct port){.sb = &t.sb, .number = 80};
	list_init(&t.port.idle);
	t.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	check(bind(t.listener, (struct sockaddr *)&any, sizeof(any)) == 0);
	check(listen(t.listener, 100) == 0);
	alarm(HANG_S);
}

static void end(const char *name)
{
	upstream_drop_idle(&t.port);
	close_fdp(&t.listener);
	close_fdp(&t.server);
	uv_run(&t.loop, UV_RUN_DEFAULT);
	check(list_is_empty(&t.sb.upstreams) && list_is_empty(&t.sb.connects));
	check(t.sb.connects_len == 0 && t.port.idle_len == 0 && list_is_empty(&t.port.idle));
	check(uv_loop_close(&t.loop) == 0);
	tap_ok(name);
}

static void turn(void)
{
	for (int i = 0; i < 4; i++)
		uv_run(&t.loop, UV_RUN_NOWAIT);
}

/* As daemon/channel.c does it: what nobody takes is closed. */
static void answer(struct agent_event event, int fd)
{
	struct channel_frame frame = {.head = {(uint16_t)event.type, 2, t.tag}, .fds = {fd}};

	frame.fds_len = fd >= 0;
	event.frame = &frame;
	port_connect_answered(&t.sb, &event);
	if (frame.fds_len)
		close_fdp(&frame.fds[0]);
}

static int make_client(void)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	check(getsockname(t.listener, (struct sockaddr *)&address, &size) == 0);
	check(connect(fd, (struct sockaddr *)&address, size) == 0);
	return fd;
}

/* Init connects: our server's end of it is in t.server. */
static void answer_connected(void)
{
	int fd = make_client();

	close_fdp(&t.server);
	t.server = accept4(t.listener, NULL, NULL, SOCK_CLOEXEC);
	answer((struct agent_event){.type = AGENT_CONNECTED}, fd);
}

static struct upstream *open_one(void)
{
	struct upstream *u = upstream_open(&t.sb, &t.port, 80, &ops, NULL);

	check(u && t.type == AGENT_CONNECT && !upstream_is_open(u) && !t.connected);
	answer_connected();
	check(t.connected == 1 && t.error == 0 && upstream_is_open(u));
	t.connected = 0;
	return u;
}

static size_t put(struct upstream *u, const char *bytes, size_t len)
{
	uv_buf_t parts[2] = {uv_buf_init((char *)bytes, (unsigned)(len / 2)),
			     uv_buf_init((char *)bytes + len / 2, (unsigned)(len - len / 2))};

	return upstream_write(u, parts, 2);
}

static void say(const char *text)
{
	check(write(t.server, text, strlen(text)) == (ssize_t)strlen(text));
	turn();
}

static void hear(const char *text)
{
	char bytes[256] = "";

	check(read(t.server, bytes, sizeof(bytes) - 1) == (ssize_t)strlen(text));
	check_str(bytes, text);
}

/* --- cases --- */

static void test_message(void)
{
	struct upstream *u;

	begin();
	u = upstream_open(&t.sb, &t.port, 80, &ops, NULL);
	check(put(u, "early ", 6) == 6); /* it waits */
	answer_connected();
	check(t.connected == 1 && t.sents == 1 && t.rooms == 0);
	check(put(u, "late", 4) == 0);
	hear("early late");
	say("answer");
	check_str(t.data, "answer");
	upstream_pause(u);
	say(" more");
	check_str(t.data, "answer");
	upstream_resume(u);
	turn();
	check_str(t.data, "answer more");
	upstream_shutdown(u);
	hear("");
	say(" last");
	shutdown(t.server, SHUT_WR);
	turn();
	check_str(t.data, "answer more last");
	check(t.ended == 1 && t.status == 0);
	upstream_close(u);
	end("bytes go both ways, and so do ends");
}

static void test_refused(void)
{
	struct upstream *u;

	begin();
	u = upstream_open(&t.sb, NULL, 80, &ops, NULL);
	answer((struct agent_event){.type = AGENT_CONNECT_FAILED, .connect_failed = {ECONNREFUSED}},
	       -1);
	check(t.connected == 1 && t.error == -ECONNREFUSED && t.asked == 1);
	upstream_close(u);
	u = upstream_open(&t.sb, NULL, 80, &ops, NULL);
	port_connect_lose_all(&t.sb);
	check(t.connected == 2 && t.error == -ECONNRESET);
	upstream_close(u);
	t.version = 1;
	check(!upstream_open(&t.sb, NULL, 80, &ops, NULL) && errno == EPROTONOSUPPORT);
	t.version = 2;
	t.sb.state = SANDBOX_FROZEN;
	check(!upstream_open(&t.sb, NULL, 80, &ops, NULL) && errno == EAGAIN);
	check(t.connected == 2);
	end("nobody listens, init is gone, or too old, or asleep");
}

static void test_late(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct upstream *u;
	int fd;

	begin();
	u = upstream_open(&t.sb, NULL, 80, &ops, NULL);
	upstream_close(u);
	fd = make_client();
	answer((struct agent_event){.type = AGENT_CONNECTED}, fd);
	check(fcntl(fd, F_GETFD) < 0); /* nobody wants it any more */
	/* On its way when it was handed out, and refused only then. */
	u = upstream_open(&t.sb, NULL, 80, &ops, NULL);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	address.sin_port = htons(1);
	check(connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0);
	answer((struct agent_event){.type = AGENT_CONNECTED}, fd);
	turn();
	check(t.asked == 3 && t.connected == 0); /* once more, for whoever listens on ::1 */
	answer_connected();
	check(t.connected == 1 && t.error == 0);
	upstream_close(u);
	end("an answer that comes too late, and a refusal that does");
}

static void test_hostile(void)
{
	int fds[8], pair[2], count = 0;

	begin();
	check(pipe2(pair, O_CLOEXEC) == 0);
	fds[count++] = pair[0];
	fds[count++] = pair[1];
	fds[count++] = open("/dev/null", O_RDWR | O_CLOEXEC);
	fds[count++] = eventfd(0, EFD_CLOEXEC);
	fds[count++] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	fds[count++] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	fds[count++] = fcntl(t.listener, F_DUPFD_CLOEXEC, 3);
	fds[count++] = -1;
	for (int i = 0; i < count; i++) {
		struct upstream *u = upstream_open(&t.sb, NULL, 80, &ops, NULL);

		answer((struct agent_event){.type = AGENT_CONNECTED}, fds[i]);
		check(t.connected == (unsigned)i + 1 && t.error == -EPROTO);
		check(fds[i] < 0 || fcntl(fds[i], F_GETFD) < 0);
		upstream_close(u);
	}
	for (int type = AGENT_LISTENING_IS; type >= AGENT_CONNECT_FAILED; type--) {
		struct upstream *u = upstream_open(&t.sb, NULL, 80, &ops, NULL);

		t.connected = 0;
		answer((struct agent_event){.type = (enum agent_type)type}, -1);
		check(t.connected == 1 && t.error == -EPROTO);
		upstream_close(u);
	}
	end("what is no connection is not taken for one");
}

/* Whoever made it may hold it, and play with it. */
static void test_shared(void)
{
	int on =
		SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY;
	struct linger linger = {1, HANG_S * 2};
	struct upstream *u;
	int fd, copy;

	begin();
	u = upstream_open(&t.sb, &t.port, 80, &ops, NULL);
	fd = make_client();
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	t.server = accept4(t.listener, NULL, NULL, SOCK_CLOEXEC);
	answer((struct agent_event){.type = AGENT_CONNECTED}, fd);
	check(fcntl(copy, F_SETFL, 0) == 0); /* blocking */
	say("a");
	check_str(t.data, "a");
	/* An error queue that is never empty: POLLERR for ever, if it were left open. */
	check(setsockopt(copy, SOL_SOCKET, SO_TIMESTAMPING, &on, sizeof(on)) == 0);
	check(setsockopt(copy, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
	put(u, "b", 1);
	turn();
	check(t.ended == 1 && t.status == -EPROTO);
	upstream_close(u);
	close(copy);
	end("a socket that somebody else plays with neither blocks nor spins");
}

static void test_kept(void)
{
	struct upstream *u, *v, *w;
	int other;

	begin();
	u = open_one();
	upstream_keep(u);
	check(t.port.idle_len == 1);
	v = upstream_open(&t.sb, &t.port, 80, &ops, NULL);
	check(v == u && upstream_is_open(v) && t.asked == 1 && t.port.idle_len == 0);
	/* A second one, while the first is in use; the one that was used last comes first. */
	other = take_fd(&t.server);
	w = open_one();
	check(w != u && t.asked == 2);
	upstream_keep(w);
	upstream_keep(u);
	check(t.port.idle_len == 2);
	check(upstream_open(&t.sb, &t.port, 80, &ops, NULL) == u);
	check(upstream_open(&t.sb, &t.port, 80, &ops, NULL) == w);
	/* Its answer is read to the end from within. */
	t.keep_on_data = w;
	say("answer");
	check_str(t.data, "answer");
	check(t.port.idle_len == 1);
	say("nobody has asked");
	check(t.port.idle_len == 0 && t.ended == 0);
	check_str(t.data, "answer");
	upstream_keep(u);
	close(other);
	turn();
	check(t.port.idle_len == 0 && t.ended == 0); /* its server has closed it */
	end("kept for the next, unless the server thinks otherwise");
}

static void test_not_kept(void)
{
	static char many[8 * 1024 * 1024];
	struct upstream *u, *all[UPSTREAM_IDLE_MAX + 1];

	begin();
	u = open_one();
	while (put(u, many, 65536) == 0)
		continue;
	upstream_keep(u); /* something is unsent */
	u = open_one();
	upstream_shutdown(u);
	upstream_keep(u);
	u = open_one();
	upstream_drop_idle(&t.port);
	upstream_keep(u); /* its port has gone */
	u = upstream_open(&t.sb, NULL, 80, &ops, NULL);
	answer_connected();
	upstream_keep(u); /* it never had one */
	check(t.port.idle_len == 0);
	t.connected = 0;
	for (unsigned i = 0; i < array_len(all); i++)
		all[i] = open_one();
	for (unsigned i = 0; i < array_len(all); i++)
		upstream_keep(all[i]);
	check(t.port.idle_len == UPSTREAM_IDLE_MAX && t.kept.len == UPSTREAM_IDLE_MAX);
	upstream_drop_idle(&t.port);
	check(t.kept.len == 0);
	t.kept.max = 1;
	for (unsigned i = 0; i < 2; i++)
		all[i] = open_one();
	for (unsigned i = 0; i < 2; i++)
		upstream_keep(all[i]);
	check(t.port.idle_len == 1);
	end("not kept: half-way, without a port, too many");
}

static void test_pressure(void)
{
	static char many[65536];
	struct upstream *u;
	size_t sent = 0, got = 0;
	ssize_t n;

	begin();
	u = open_one();
	while (put(u, many, sizeof(many)) < UPSTREAM_WRITE_HIGH)
		sent += sizeof(many);
	sent += sizeof(many);
	upstream_shutdown(u);
	turn();
	check(t.rooms == 0 && t.sents == 0);
	while ((n = read(t.server, many, sizeof(many))) > 0) {
		got += (size_t)n;
		turn();
	}
	check(got == sent && t.rooms == 1 && t.sents == 1);
	upstream_close(u);
	/* Who does not mind the mark is cut off. */
	u = open_one();
	for (int i = 0; i < 1000; i++)
		put(u, many, sizeof(many));
	turn();
	check(t.ended == 1 && t.status == -ENOBUFS);
	upstream_close(u);
	end("a server that does not read stops its writer");
}

static void test_reset(void)
{
	struct linger now = {1, 0};
	struct upstream *u;

	begin();
	u = open_one();
	say("half");
	check(setsockopt(t.server, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
	close_fdp(&t.server);
	t.server = -1;
	put(u, "x", 1); /* a write hears of it first */
	turn();
	check_str(t.data, "half");
	check(t.ended == 1 && t.status == -ECONNRESET && !upstream_is_open(u));
	check(put(u, "y", 1) == 0);
	upstream_close(u);
	end("what breaks off does not look like an end");
}

static void test_lost(void)
{
	struct upstream *u, *v;

	begin();
	u = open_one();
	v = open_one();
	upstream_keep(u);
	check(write(t.server, "rest", 4) == 4);
	close_fdp(&t.server);
	t.server = -1;
	upstream_lose_all(&t.sb);
	check_str(t.data, "rest");
	check(t.ended == 1 && t.status == 0);
	upstream_close(v);
	v = open_one();
	t.ended = 0;
	upstream_lose_all(&t.sb);
	check(t.ended == 1 && t.status == -ECONNRESET && !upstream_is_open(v));
	upstream_keep(v);
	v = upstream_open(&t.sb, NULL, 80, &ops, NULL);
	upstream_lose_all(&t.sb);
	check(t.connected == 1 && t.error == -ECONNRESET);
	upstream_close(v);
	end("a sandbox that stops: what has come is read, then all ends");
}

/* --- ports that somebody listens on --- */

static struct port_listening told;
static int told_result = 1;

static void on_told(struct port_connect *c, int result, const struct port_listening *listening)
{
	told_result = result;
	if (listening)
		told = *listening;
}

static void test_list(void)
{
	static const struct {
		struct str ports;
		int result;
	} cases[] = {
		{STR(""), 0},
		{STR("\x50\0\xbb\x01\xff\xff"), 0},
		{STR("\x50"), -EPROTO},
		{STR("\0\0"), -EPROTO},
		{STR("\x51\0\x50\0"), -EPROTO},
		{STR("\x50\0\x50\0"), -EPROTO},
	};
	struct port_connect c = {.done = on_told};

	begin();
	for (size_t i = 0; i < array_len(cases); i++) {
		check(port_list(&t.sb, &c) == 0 && t.type == AGENT_LISTENING);
		answer((struct agent_event){.type = AGENT_LISTENING_IS,
					    .listening = {cases[i].ports}},
		       -1);
		check(told_result == cases[i].result);
	}
	check(port_list(&t.sb, &c) == 0);
	answer((struct agent_event){.type = AGENT_LISTENING_IS, .listening = {cases[1].ports}}, -1);
	check(told.len == 3 && told.ports[0] == 80 && told.ports[1] == 443 &&
	      told.ports[2] == 65535);
	told_result = 1;
	check(port_list(&t.sb, &c) == 0);
	port_connect_cancel(&c);
	port_connect_cancel(&c);
	answer((struct agent_event){.type = AGENT_LISTENING_IS}, -1);
	check(told_result == 1);
	check(port_list(&t.sb, &c) == 0);
	answer((struct agent_event){.type = AGENT_CONNECTED}, make_client());
	check(told_result == -EPROTO);
	end("ports come in order, or not at all");
}

int main(void)
{
	test_message();
	test_refused();
	test_late();
	test_hostile();
	test_shared();
	test_kept();
	test_not_kept();
	test_pressure();
	test_reset();
	test_lost();
	test_list();
	return tap_done();
}
