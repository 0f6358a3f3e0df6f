/* Clients that leave, and handlers that come late, in the orders that are hard to meet. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/exchange.h"
#include "daemon/server.h"
#include "daemon/websocket.h"
#include "tests/unit/tap.h"

#define UPGRADE(path)                                                                              \
	"GET " path " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"        \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static uv_loop_t loop;
static struct server *server;
static struct sockaddr_in address;
static bool is_drained;

static struct exchange *waiting[2]; /* of /wait, in order of arrival */
static unsigned waiting_len;
static unsigned ended, aborted, closed, gone;
static int end_status;
static struct websocket *ws;
static bool closes_when_paused;

static void turn(unsigned times)
{
	while (times--) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(200);
	}
}

/* --- handlers --- */

static void handle_ok(struct exchange *x)
{
	exchange_reply(x, 200, "text/plain", STR("ok\n"));
}

static void handle_wait(struct exchange *x)
{
	waiting[waiting_len++] = x;
}

static void endless_pause(void *arg)
{
	*(bool *)arg = true;
}

static void endless_resume(void *arg)
{
}

static void endless_abort(void *arg)
{
	aborted++;
}

static void handle_endless(struct exchange *x)
{
	static const struct stream_producer producer = {endless_pause, endless_resume,
							endless_abort};
	bool *is_paused = arena_zalloc(exchange_arena(x), sizeof(*is_paused));
	struct stream *out = exchange_respond(x, 200, "text/plain", &producer, is_paused);

	for (int i = 0; i < 1000 && !*is_paused; i++)
		stream_push(out, "more and more", 13);
	check(*is_paused);
}

static void ws_message(void *arg, bool is_text, struct str bytes)
{
}

static void ws_pause(void *arg)
{
	if (closes_when_paused)
		websocket_close(ws, 4000, STR("too slow"));
}

static void ws_resume(void *arg)
{
}

static void ws_closed(void *arg, uint16_t code)
{
	closed++;
	ws = NULL;
}

static const struct websocket_ops ws_ops = {ws_message, ws_pause, ws_resume, ws_closed};

static void handle_ws(struct exchange *x)
{
	ws = websocket_accept(x, &ws_ops, 1024 * 1024, NULL);
}

/* --- around each case --- */

static void begin(void)
{
	/* clang-format off */
	static const struct route routes[] = {
		{ HTTP_METHOD_GET,  "/ok",      handle_ok,      BODY_NONE },
		{ HTTP_METHOD_GET,  "/endless", handle_endless, BODY_NONE },
		{ HTTP_METHOD_GET,  "/ws",      handle_ws,      BODY_NONE },
		{ HTTP_METHOD_GET,  "/wait",    handle_wait,    BODY_NONE },
		{ HTTP_METHOD_POST, "/wait",    handle_wait,    BODY_STREAMED },
		{ 0 },
	};
	/* clang-format on */
	struct server_config config = {
		.loop = &loop,
		.routes = routes,
		.nothing_here = "nothing",
		.limits = SERVER_LIMITS_DEFAULT,
	};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	ended = aborted = closed = gone = waiting_len = 0;
	is_drained = closes_when_paused = false;
	uv_loop_init(&loop);
	check(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	check(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
	check(server_new(&server, &config) == 0);
	check(server_listen(server, fd, false, NULL) == 0);
}

static void on_drained(void *arg)
{
	is_drained = true;
}

static void finish(const char *name)
{
	server_drain(server, 0, on_drained, NULL);
	for (int i = 0; i < 1000 && !is_drained; i++)
		turn(1);
	check(is_drained);
	if (is_drained)
		server_free(server);
	check(uv_loop_close(&loop) == 0);
	tap_ok(name);
}

static int connect_client(const char *request)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ssize_t len = (ssize_t)strlen(request);

	check(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	check(send(fd, request, (size_t)len, MSG_NOSIGNAL) == len);
	turn(20);
	return fd;
}

/* So that the server's next read fails, and its handle is closed. */
static void reset(int fd)
{
	struct linger now = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
	turn(20);
}

/* How many answers came until the end. */
static unsigned count_answers(int fd)
{
	char bytes[4096] = "";
	size_t len = 0;
	unsigned count = 0;
	ssize_t n;

	do {
		turn(5);
		n = recv(fd, bytes + len, sizeof(bytes) - 1 - len, MSG_DONTWAIT);
		len += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	check(n == 0);
	for (const char *at = bytes; (at = strstr(at, "HTTP/1.1 200")); at++)
		count++;
	return count;
}

/* --- cases --- */

static void test_half_closed(void)
{
	int fd;

	begin();
	fd = connect_client(GET("/wait") GET("/ok") GET("/ok"));
	shutdown(fd, SHUT_WR);
	turn(20);
	check(waiting_len == 1);
	handle_ok(waiting[0]);
	check(count_answers(fd) == 3);
	close(fd);
	finish("what was asked before the client's end is answered");
}

static void body_data(void *arg, const char *bytes, size_t len)
{
}

static void body_end(void *arg, int status)
{
	ended++;
	end_status = status;
	handle_ok(arg);
}

static const struct stream_consumer consumer = {body_data, body_end};

static void test_late_body(const char *request, int status, const char *name)
{
	int fd;

	begin();
	fd = connect_client(request);
	reset(fd);
	check(waiting_len == 1 && server_connections(server) == 1);
	exchange_body(waiting[0], &consumer, waiting[0]);
	check(ended == 0);
	turn(20);
	check(ended == 1 && end_status == status && server_connections(server) == 0);
	finish(name);
}

/* The reply frees the connection while its turn is still pending. */
static void test_late_body_and_reply(void)
{
	begin();
	reset(connect_client("POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"));
	exchange_body(waiting[0], &consumer, waiting[0]);
	handle_ok(waiting[0]);
	turn(20);
	check(ended == 0 && server_connections(server) == 0);
	finish("a body is taken and answered after its client left");
}

static void test_late_websocket(void)
{
	begin();
	reset(connect_client(UPGRADE("/wait")));
	check(waiting_len == 1);
	check(!websocket_accept(waiting[0], &ws_ops, 1024, NULL));
	turn(20);
	check(closed == 0 && server_connections(server) == 0);
	finish("a WebSocket is accepted after its client left");
}

static void test_pings(void)
{
	static const unsigned char ping[] = {0x89, 0x80, 0, 0, 0, 0};
	char block[6 * 2048];
	size_t sent = 0;
	int fd, idle = 0;

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (char)ping[i % sizeof(ping)];
	begin();
	fd = connect_client(UPGRADE("/ws"));
	check(ws != NULL);
	while (idle < 20 && sent < 256u << 20) {
		ssize_t n = send(fd, block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL);

		idle = n > 0 ? 0 : idle + 1;
		sent += n > 0 ? (size_t)n : 0;
		turn(1);
	}
	check(sent < 256u << 20);
	reset(fd);
	check(closed == 1);
	finish("who sends empty pings and reads no pong is no longer read from");
}

static void test_close_in_pause(void)
{
	static char bytes[64 * 1024];
	int fd;

	begin();
	closes_when_paused = true;
	fd = connect_client(UPGRADE("/ws"));
	for (int i = 0; i < 1000 && ws; i++)
		websocket_send(ws, false, (struct str){bytes, sizeof(bytes)});
	check(closed == 1);
	reset(fd);
	finish("a WebSocket is closed by the handler that is told to pause");
}

static void test_head(void)
{
	int fd;

	begin();
	fd = connect_client("HEAD /endless HTTP/1.1\r\nHost: x\r\n\r\n" GET("/ok"));
	check(aborted == 1);
	shutdown(fd, SHUT_WR);
	check(count_answers(fd) == 2);
	close(fd);
	finish("the answer to HEAD is not produced");
}

static void on_gone(void *arg)
{
	if (gone++)
		return;
	handle_ok(waiting[0]);
	handle_ok(waiting[1]);
}

static void test_cut_together(void)
{
	int first, second;

	begin();
	first = connect_client(GET("/wait"));
	second = connect_client(GET("/wait"));
	check(waiting_len == 2);
	reset(second);
	exchange_on_gone(waiting[0], on_gone, NULL);
	server_drain(server, 0, on_drained, NULL);
	check(gone == 1);
	close(first);
	finish("a handler that is told of one client answers another");
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	log_set_level(LOG_ERROR_LEVEL);
	test_half_closed();
	test_late_body("POST /wait HTTP/1.1\r\nHost: x\r\n\r\n", 0,
		       "no body is taken after its client left");
	test_late_body("POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", -ECONNRESET,
		       "a body is taken after its client left");
	test_late_body_and_reply();
	test_late_websocket();
	test_pings();
	test_close_in_pause();
	test_head();
	test_cut_together();
	return tap_done();
}
