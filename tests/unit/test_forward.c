#include "proto/forward.h"

#include <errno.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

#define OURS                                                                                       \
	"Host: h:8620\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: h:8620\r\n"               \
	"X-Forwarded-Proto: http\r\nX-Forwarded-Port: 8620\r\n"
#define HOST "Host: h:8620\r\n"

struct forward_case {
	const char *name, *input, *expected;
};

/* clang-format off */
static const struct forward_case requests[] = {
	{"path and query", "GET /a%20b?c=d&e HTTP/1.1\r\n" HOST "\r\n", "GET /a%20b?c=d&e HTTP/1.1\r\n" OURS "\r\n"},
	{"empty query", "GET /? HTTP/1.1\r\n" HOST "\r\n", "GET /? HTTP/1.1\r\n" OURS "\r\n"},
	{"two slashes", "GET //evil/a HTTP/1.1\r\n" HOST "\r\n", "GET //evil/a HTTP/1.1\r\n" OURS "\r\n"},
	{"a URL becomes a path", "GET http://h:8620/a?b HTTP/1.1\r\nHost: other\r\n\r\n", "GET /a?b HTTP/1.1\r\n" OURS "\r\n"},
	{"OPTIONS *", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "OPTIONS * HTTP/1.1\r\n" OURS "\r\n"},
	{"a method of the client's own", "BREW /pot HTTP/1.1\r\n" HOST "\r\n", "BREW /pot HTTP/1.1\r\n" OURS "\r\n"},
	{"HTTP/1.0 becomes HTTP/1.1", "GET / HTTP/1.0\r\n" HOST "Connection: keep-alive\r\n\r\n", "GET / HTTP/1.1\r\n" OURS "\r\n"},
	{"headers in order, as they were", "GET / HTTP/1.1\r\nB: 1\r\n" HOST "a:2 \r\nCookie: x=y\r\nB: \xc3\xa9\r\nEmpty:\r\n\r\n", "GET / HTTP/1.1\r\nB: 1\r\na: 2\r\nCookie: x=y\r\nB: \xc3\xa9\r\nEmpty: \r\n" OURS "\r\n"},
	{"hop-by-hop", "GET / HTTP/1.1\r\n" HOST "Connection: close\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nProxy-Authenticate: x\r\nPROXY-AUTHORIZATION: x\r\nTE: trailers\r\nTrailer: A\r\nUpgrade: websocket\r\nHTTP2-Settings: x\r\nA: b\r\n\r\n", "GET / HTTP/1.1\r\nA: b\r\n" OURS "\r\n"},
	{"what Connection names", "GET / HTTP/1.1\r\n" HOST "X-A: 1\r\nConnection: x-a ,, X-B\r\nX-B: 2\r\nX-C: 3\r\nConnection: X-D\r\nX-D: 4\r\n\r\n", "GET / HTTP/1.1\r\nX-C: 3\r\n" OURS "\r\n"},
	{"what we say cannot be named away", "GET / HTTP/1.1\r\n" HOST "Connection: Host, X-Forwarded-For, X-Forwarded-Proto\r\n\r\n", "GET / HTTP/1.1\r\n" OURS "\r\n"},
	{"forwarding headers are not believed", "GET / HTTP/1.1\r\n" HOST "Forwarded: for=x\r\nX-Forwarded-For: x\r\nX-Forwarded-Proto: https\r\nx-forwarded-prefix: /x\r\nX-Real-IP: x\r\nX-Forwarded: a\r\n\r\n", "GET / HTTP/1.1\r\nX-Forwarded: a\r\n" OURS "\r\n"},
	{"nor under another spelling", "GET / HTTP/1.1\r\n" HOST "X_Forwarded_For: x\r\nX-Forwarded_Proto: https\r\nX_REAL_IP: x\r\nTransfer_Encoding: chunked\r\nContent_Length: 5\r\nA_B: c\r\n\r\n", "GET / HTTP/1.1\r\nA_B: c\r\n" OURS "\r\n"},
	{"a sized body", "POST / HTTP/1.1\r\n" HOST "Content-Length: 0005\r\nExpect: 100-continue\r\n\r\n", "POST / HTTP/1.1\r\n" OURS "Content-Length: 5\r\n\r\n"},
	{"a chunked body", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", "POST / HTTP/1.1\r\n" OURS "Transfer-Encoding: chunked\r\n\r\n"},
	{"length 0", "POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", "POST / HTTP/1.1\r\n" OURS "Content-Length: 0\r\n\r\n"},
	{"no length", "POST / HTTP/1.1\r\n" HOST "\r\n", "POST / HTTP/1.1\r\n" OURS "\r\n"},
	{"upgrade", "GET / HTTP/1.1\r\n" HOST "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n", "GET / HTTP/1.1\r\nSec-WebSocket-Key: k\r\n" OURS "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
	{"no upgrade to HTTP/2", "GET / HTTP/1.1\r\n" HOST "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n", "GET / HTTP/1.1\r\n" OURS "\r\n"},
	{"nor among others", "GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket\r\nupgrade: a, H2C\r\n\r\n", "GET / HTTP/1.1\r\n" OURS "\r\n"},
	{"no upgrade behind a body", "POST / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\n", "POST / HTTP/1.1\r\n" OURS "Content-Length: 5\r\n\r\n"},
	{"no setting of a CGI program", "GET / HTTP/1.1\r\n" HOST "Proxy: http://evil/\r\nProxy-Hint: a\r\n\r\n", "GET / HTTP/1.1\r\nProxy-Hint: a\r\n" OURS "\r\n"},
};

/* Behind "HTTP/1.1 200 OK", of a server that believes itself to be at port 3000. */
static const struct forward_case responses[] = {
	{"headers of an answer", "Content-Type: text/html\r\nset-cookie: a=b\r\nSet-Cookie: c=d\r\nServer:x\r\nHost: y\r\n\r\n", "Content-Type: text/html\r\nset-cookie: a=b\r\nSet-Cookie: c=d\r\nServer: x\r\nHost: y\r\n"},
	{"hop-by-hop of an answer", "Connection: keep-alive, X-A\r\nKeep-Alive: timeout=5\r\nX-A: b\r\nContent-Length: 5\r\nUpgrade: h2\r\nTrailer: A\r\nProxy-Authenticate: x\r\n\r\n", ""},
	{"chunked", "A: b\r\nTransfer-Encoding: chunked\r\n\r\n", "A: b\r\n"},
	{"redirect to localhost", "Location: http://localhost:3000/a?b#c\r\n\r\n", "Location: https://p.example:8443/a?b#c\r\n"},
	{"redirect to 127.0.0.1", "location: HTTP://127.0.0.1:3000/\r\n\r\n", "location: https://p.example:8443/\r\n"},
	{"redirect to ::1", "Location: http://[::1]:3000/a\r\n\r\n", "Location: https://p.example:8443/a\r\n"},
	{"redirect to 0.0.0.0", "Location: http://0.0.0.0:3000/a\r\n\r\n", "Location: https://p.example:8443/a\r\n"},
	{"redirect to ::", "Location: http://[::]:3000/a\r\n\r\n", "Location: https://p.example:8443/a\r\n"},
	{"redirect without a path", "Location: http://LOCALHOST:3000\r\n\r\n", "Location: https://p.example:8443/\r\n"},
	{"redirect with a query alone", "Location: http://localhost:3000?a=/\r\n\r\n", "Location: https://p.example:8443/?a=/\r\n"},
	{"redirect with two slashes", "Location: http://localhost:3000//evil.example/\r\n\r\n", "Location: https://p.example:8443//evil.example/\r\n"},
	{"Content-Location", "Content-Location: http://localhost:3000/a\r\n\r\n", "Content-Location: https://p.example:8443/a\r\n"},
	{"redirect to another port", "Location: http://localhost:3001/a\r\n\r\n", "Location: http://localhost:3001/a\r\n"},
	{"redirect to a longer port", "Location: http://localhost:30000/a\r\n\r\n", "Location: http://localhost:30000/a\r\n"},
	{"redirect to no port", "Location: http://localhost/a\r\n\r\n", "Location: http://localhost/a\r\n"},
	{"redirect to a longer host", "Location: http://localhost.example:3000/a\r\n\r\n", "Location: http://localhost.example:3000/a\r\n"},
	{"redirect with a user", "Location: http://localhost:3000@evil.example/\r\n\r\n", "Location: http://localhost:3000@evil.example/\r\n"},
	{"redirect by TLS", "Location: https://localhost:3000/a\r\n\r\n", "Location: https://localhost:3000/a\r\n"},
	{"redirect to elsewhere", "Location: http://example.org/http://localhost:3000/\r\n\r\n", "Location: http://example.org/http://localhost:3000/\r\n"},
	{"redirect to a path", "Location: /a?u=http://localhost:3000/\r\n\r\n", "Location: /a?u=http://localhost:3000/\r\n"},
	{"a URL elsewhere in the head", "Link: http://localhost:3000/\r\n\r\n", "Link: http://localhost:3000/\r\n"},
};
/* clang-format on */

static struct str held(const struct buf *b)
{
	return (struct str){buf_at(b), buf_len(b)};
}

static void check_held(const struct buf *b, const char *expected)
{
	struct str got = held(b);

	if (!str_eq(got, str_of(expected)))
		printf("# got \"%.*s\", expected \"%s\"\n", STR_ARGS(got), expected);
	check(str_eq(got, str_of(expected)));
}

static const struct http_head *request_of(struct arena *arena, struct str input)
{
	struct http_head *head = NULL;
	struct http_parser p;
	struct str bytes;
	struct err err;

	http_parser_init(&p);
	if (http_head_feed(&p, &input, &bytes, &err) != HTTP_DONE ||
	    http_head_parse(&p, arena, bytes, &head, &err) < 0)
		printf("# %s\n", err.sentence);
	http_parser_close(&p);
	return head;
}

static const struct http_response *response_of(struct arena *arena, struct str input)
{
	struct http_response *response = NULL;
	struct http_parser p;
	struct str bytes;
	struct err err;

	http_parser_init(&p);
	p.is_bodiless = true;
	if (http_response_feed(&p, &input, &bytes, &err) != HTTP_DONE ||
	    http_response_parse(&p, arena, bytes, &response, &err) < 0)
		printf("# %s\n", err.sentence);
	http_parser_close(&p);
	return response;
}

static struct forward_request from_client(const struct http_head *head)
{
	return (struct forward_request){head, STR("192.0.2.1"), false, 8620};
}

static const struct forward_back back = {3000, {"https", 5}, {"p.example:8443", 14}, false};

/* With every smaller limit it fails, and leaves what was there before. */
static void check_limits(const struct forward_request *f, size_t len)
{
	for (size_t limit = 4; limit < len + 4; limit += len / 7 + 1) {
		struct buf b;

		buf_init(&b, limit);
		check(buf_append_str(&b, STR("held")) == 0);
		check(forward_request(&b, f) == -EMSGSIZE);
		check_held(&b, "held");
		buf_close(&b);
	}
}

static void test_requests(void)
{
	for (size_t i = 0; i < array_len(requests); i++) {
		const struct forward_case *c = &requests[i];
		struct forward_request f;
		struct arena arena;
		struct buf b;

		arena_init(&arena, 1 << 20);
		buf_init(&b, 1 << 16);
		f = from_client(request_of(&arena, str_of(c->input)));
		check(f.head && forward_request(&b, &f) == 0);
		check_held(&b, c->expected);
		if (f.head)
			check_limits(&f, strlen(c->expected));
		/* What goes inside is a request by our own measure. */
		check(request_of(&arena, held(&b)) != NULL);
		buf_close(&b);
		arena_close(&arena);
		tap_ok(c->name);
	}
}

static void test_client(void)
{
	struct forward_request f;
	struct arena arena;
	struct buf b;

	arena_init(&arena, 1 << 20);
	buf_init(&b, 1 << 16);
	f = from_client(request_of(&arena, STR("GET / HTTP/1.0\r\n\r\n")));
	f.client_address = STR("2001:db8::1");
	f.is_https = true;
	f.port = 443;
	check(f.head && forward_request(&b, &f) == 0);
	check_held(&b, "GET / HTTP/1.1\r\nHost: \r\nX-Forwarded-For: 2001:db8::1\r\n"
		       "X-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\n\r\n");
	buf_close(&b);
	f.client_address = STR("::1\r\nX: y");
	check(forward_request(&b, &f) == -EINVAL && buf_len(&b) == 0);
	buf_close(&b);
	arena_close(&arena);
	tap_ok("what is said about the client, and stays on its line");
}

/* Whatever claims to be a head, no value of it begins a line. */
static void test_lines(void)
{
	struct http_header bad[] = {{STR("A"), STR("b\r\nC: d")}, {STR("A\r\nB"), STR("c")},
				    {STR("A"), STR("b\nc")},      {STR(""), STR("a")},
				    {STR("A"), STR("b\0c")},      {STR("A:"), STR("b")}};
	struct buf b;

	buf_init(&b, 1 << 16);
	for (size_t i = 0; i < array_len(bad); i++) {
		struct http_head head = {.method_name = STR("GET"),
					 .path = STR("/"),
					 .headers = &bad[i],
					 .headers_len = 1};
		struct http_response response = {
			.status = 200, .headers = &bad[i], .headers_len = 1};
		struct forward_request f = from_client(&head);

		check(forward_request(&b, &f) == -EINVAL);
		check(forward_response(&b, &response, &back) == -EINVAL);
		check(buf_len(&b) == 0);
	}
	buf_close(&b);
	tap_ok("no value begins a line");
}

static void test_names(void)
{
	struct forward_request f;
	struct arena arena;
	struct buf b, input;

	arena_init(&arena, 1 << 20);
	buf_init(&b, 1 << 16);
	buf_init(&input, 1 << 16);
	check(buf_append_str(&input, STR("GET / HTTP/1.1\r\n" HOST "Connection: ,,")) == 0);
	for (size_t i = 0; i < FORWARD_NAMES_MAX; i++)
		check(buf_printf(&input, ",x%zu", i) == 0);
	check(buf_append_str(&input, STR("\r\nX31: a\r\n")) == 0);
	check(buf_append_str(&input, STR("\r\n")) == 0);
	f = from_client(request_of(&arena, held(&input)));
	check(f.head && forward_request(&b, &f) == 0);
	check_held(&b, "GET / HTTP/1.1\r\n" OURS "\r\n");
	input.end -= 2;
	check(buf_append_str(&input, STR("Connection: y\r\n\r\n")) == 0);
	f = from_client(request_of(&arena, held(&input)));
	check(f.head && forward_request(&b, &f) == -EMSGSIZE);
	check_held(&b, "GET / HTTP/1.1\r\n" OURS "\r\n");
	buf_close(&input);
	buf_close(&b);
	arena_close(&arena);
	tap_ok("Connection may name 32 headers");
}

static void check_response(const char *start, const char *input, const struct forward_back *how,
			   const char *expected)
{
	const struct http_response *response;
	struct arena arena;
	struct buf b, text;

	arena_init(&arena, 1 << 20);
	buf_init(&b, 1 << 16);
	buf_init(&text, 1 << 16);
	check(buf_printf(&text, "HTTP/1.1 %s\r\n%s", start, input) == 0);
	response = response_of(&arena, held(&text));
	check(response && forward_response(&b, response, how) == 0);
	check_held(&b, expected);
	if (response && expected[0]) {
		buf_close(&b);
		buf_init(&b, strlen(expected) - 1);
		check(forward_response(&b, response, how) == -EMSGSIZE && buf_len(&b) == 0);
	}
	buf_close(&text);
	buf_close(&b);
	arena_close(&arena);
}

static void test_responses(void)
{
	for (size_t i = 0; i < array_len(responses); i++) {
		const struct forward_case *c = &responses[i];

		check_response("200 OK", c->input, &back, c->expected);
		tap_ok(c->name);
	}
}

static void test_back(void)
{
	struct forward_back how = back;

	how.keep_length = true;
	check_response("304 Not Modified", "Content-Length: 005\r\nA: b\r\n\r\n", &how,
		       "A: b\r\nContent-Length: 5\r\n");
	check_response("304 Not Modified", "A: b\r\n\r\n", &how, "A: b\r\n");
	check_response("200 OK", "Connection: Content-Length\r\nContent-Length: 5\r\n\r\n", &how,
		       "Content-Length: 5\r\n");
	tap_ok("the length of what has no body is kept");
	check_response("101 Switching Protocols",
		       "connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: k\r\n"
		       "Sec-WebSocket-Protocol: vite-hmr\r\n\r\n",
		       &back,
		       "Sec-WebSocket-Accept: k\r\nSec-WebSocket-Protocol: vite-hmr\r\n"
		       "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	tap_ok("an upgrade is passed on");
	how = (struct forward_back){80, STR("http"), STR("p.example"), false};
	check_response("302 Found", "Location: http://localhost/a\r\n\r\n", &how,
		       "Location: http://p.example/a\r\n");
	check_response("302 Found", "Location: http://localhost:80/a\r\n\r\n", &how,
		       "Location: http://p.example/a\r\n");
	check_response("302 Found", "Location: http://localhost:8080/a\r\n\r\n", &how,
		       "Location: http://localhost:8080/a\r\n");
	check_response("302 Found", "Location: http://localhost.example/a\r\n\r\n", &how,
		       "Location: http://localhost.example/a\r\n");
	how.host = STR("");
	check_response("302 Found", "Location: http://localhost/a\r\n\r\n", &how,
		       "Location: http://localhost/a\r\n");
	tap_ok("port 80 needs not be said");
}

static void check_trailers(struct str lines, int error, const char *expected)
{
	struct buf b;

	buf_init(&b, 64);
	check(forward_trailers(&b, lines) == error);
	check_held(&b, expected);
	buf_close(&b);
}

static void test_trailers(void)
{
	static const char *const held_back[] = {
		"Content-Length", "Transfer-Encoding", "Host",
		"Connection",     "Keep-Alive",        "TE",
		"Trailer",        "Upgrade",           "set-cookie",
		"Authorization",  "Content-Type",      "Content-Encoding",
		"Content-Range",  "X-Forwarded-For",   "Content_Length"};

	check_trailers(STR(""), 0, "");
	check_trailers(STR("A:b\r\nServer-Timing:  c;dur=1 \r\nD:\r\n"), 0,
		       "A: b\r\nServer-Timing: c;dur=1\r\nD: \r\n");
	for (size_t i = 0; i < array_len(held_back); i++) {
		char lines[128];

		snprintf(lines, sizeof(lines), "A: b\r\n%s: x\r\nC: d\r\n", held_back[i]);
		check_trailers(str_of(lines), 0, "A: b\r\nC: d\r\n");
	}
	tap_ok("trailers pass, but for those that may not stand there");
	check_trailers(STR("A: b\r\nC: d"), -EINVAL, "");
	check_trailers(STR("A: b\nC: d\r\n"), -EINVAL, "");
	check_trailers(STR("A: b\rc\r\n"), -EINVAL, "");
	check_trailers(STR("A\r\n"), -EINVAL, "");
	check_trailers(STR(": b\r\n"), -EINVAL, "");
	check_trailers(STR("A : b\r\n"), -EINVAL, "");
	check_trailers(STR("A: b\r\n\r\nHTTP/1.1 200 OK\r\n"), -EINVAL, "");
	check_trailers(STR("\r\n"), -EINVAL, "");
	check_trailers(
		STR("A: "
		    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"),
		-EMSGSIZE, "");
	tap_ok("what is no trailer is refused");
}

int main(void)
{
	test_requests();
	test_client();
	test_lines();
	test_names();
	test_responses();
	test_back();
	test_trailers();
	return tap_done();
}
