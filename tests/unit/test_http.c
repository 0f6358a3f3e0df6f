#include "proto/http.h"

#include "tests/http_trace.h"
#include "tests/unit/http_cases.h"
#include "tests/unit/tap.h"

static const size_t whole = SIZE_MAX;

/* Compares the trace of every cut with that of the whole. */
static void check_cuts(struct str input, const struct buf *expected)
{
	for (size_t i = 0; i < input.len; i++) {
		size_t lens[] = {i ? i : 1, i ? SIZE_MAX : 1}; /* i == 0: byte by byte */
		struct buf cut = trace_run(input, (struct cuts){lens, 2}, false);

		if (!trace_eq(&cut, expected))
			printf("# cut at %zu: got \"%s\"\n", i, cut.bytes);
		check(trace_eq(&cut, expected));
		buf_close(&cut);
	}
}

static void check_code(const struct buf *trace, enum err_code code)
{
	const char *mark = strrchr(trace->bytes, '!');
	size_t len = strlen(err_code_name(code));

	if (!mark || strncmp(mark + 1, err_code_name(code), len) != 0 || mark[len + 1] != ':')
		printf("# expected %s: got \"%s\"\n", err_code_name(code), trace->bytes);
	check(mark && strncmp(mark + 1, err_code_name(code), len) == 0 && mark[len + 1] == ':');
}

/* A person reads it: visible characters only, whatever the client sent. */
static void check_sentence(const struct buf *trace)
{
	const char *mark = strrchr(trace->bytes, '!');

	for (; mark && *mark; mark++)
		check(*mark >= 0x20 && *mark < 0x7f);
}

static void test_bad(void)
{
	for (size_t i = 0; i < array_len(bad_cases); i++) {
		const struct bad_case *c = &bad_cases[i];
		struct buf trace = trace_run(c->input, (struct cuts){&whole, 1}, false);

		check_code(&trace, c->code);
		check_sentence(&trace);
		check_cuts(c->input, &trace);
		buf_close(&trace);
		tap_ok(c->name);
	}
}

static void test_good(void)
{
	for (size_t i = 0; i < array_len(good_cases); i++) {
		const struct good_case *c = &good_cases[i];
		struct buf trace = trace_run(c->input, (struct cuts){&whole, 1}, false);

		check_str(trace.bytes, c->trace);
		check_cuts(c->input, &trace);
		buf_close(&trace);
		tap_ok(c->name);
	}
}

/* A text made of a beginning, `count` times a middle, and an end. */
static struct buf repeat(const char *begin, const char *middle, size_t count, const char *end)
{
	struct buf b;

	buf_init(&b, 1 << 24);
	check(buf_append_str(&b, str_of(begin)) == 0);
	for (size_t i = 0; i < count; i++)
		check(buf_append_str(&b, str_of(middle)) == 0);
	check(buf_append_str(&b, str_of(end)) == 0);
	return b;
}

static void check_sized(struct buf input, enum err_code code)
{
	static const size_t cuts[] = {SIZE_MAX, 1, 1000, 4096, HTTP_HEAD_MAX - 1};

	for (size_t i = 0; i < array_len(cuts); i++) {
		struct str s = {buf_at(&input), buf_len(&input)};
		struct buf trace = trace_run(s, (struct cuts){&cuts[i], 1}, false);

		if (code)
			check_code(&trace, code);
		else
			check(!strchr(trace.bytes, '!') && !strstr(trace.bytes, "..."));
		buf_close(&trace);
	}
	buf_close(&input);
}

static void test_limits(void)
{
	const size_t fixed = sizeof(GET H "X: \r\n\r\n") - 1;

	check_sized(repeat(GET H "X: ", "a", HTTP_HEAD_MAX - fixed, "\r\n\r\n"), ERR_NONE);
	check_sized(repeat(GET H "X: ", "a", HTTP_HEAD_MAX - fixed + 1, "\r\n\r\n"),
		    ERR_HEAD_TOO_LARGE);
	check_sized(repeat(GET H "X: ", "a", 1 << 20, ""), ERR_HEAD_TOO_LARGE);
	check_sized(repeat("GET /", "a", 1 << 20, ""), ERR_HEAD_TOO_LARGE);
	check_sized(repeat("", "G", 1 << 20, ""), ERR_HEAD_TOO_LARGE);
	tap_ok("a head may have 32 kB");
	check_sized(repeat(GET H, "a:b\r\n", HTTP_HEADERS_MAX - 1, "\r\n"), ERR_NONE);
	check_sized(repeat(GET H, "a:b\r\n", HTTP_HEADERS_MAX, "\r\n"), ERR_HEAD_TOO_LARGE);
	check_sized(repeat(GET H, "a:b\r\n", 100000, "\r\n"), ERR_HEAD_TOO_LARGE);
	tap_ok("a head may have 100 headers");
	check_sized(repeat(CHUNKED "5;", "a", HTTP_CHUNK_LINE_MAX - 2, "\r\nhello\r\n0\r\n\r\n"),
		    ERR_NONE);
	check_sized(repeat(CHUNKED "5;", "a", HTTP_CHUNK_LINE_MAX - 1, "\r\nhello\r\n0\r\n\r\n"),
		    ERR_INVALID_REQUEST);
	check_sized(repeat(CHUNKED "5;", "a", 1 << 20, ""), ERR_INVALID_REQUEST);
	tap_ok("a chunk's line may have 256 bytes");
	check_sized(repeat(CHUNKED "0\r\nX: ", "a", HTTP_TRAILER_MAX - 7, "\r\n\r\n"), ERR_NONE);
	check_sized(repeat(CHUNKED "0\r\n", "a:b\r\n", HTTP_TRAILER_MAX / 5, "\r\n"), ERR_NONE);
	check_sized(repeat(CHUNKED "0\r\n", "a:b\r\n", HTTP_TRAILER_MAX / 5 + 1, "\r\n"),
		    ERR_HEAD_TOO_LARGE);
	check_sized(repeat(CHUNKED "0\r\nX: ", "a", 1 << 20, ""), ERR_HEAD_TOO_LARGE);
	tap_ok("trailers may have 8 kB together");
	check_sized(repeat(CHUNKED, "1\r\na\r\n", 10000, "0\r\n\r\n"), ERR_NONE);
	check_sized(repeat("", GET H "\r\n", 1000, ""), ERR_NONE);
	tap_ok("many chunks, many requests");
}

static struct http_head *parse(struct http_parser *p, struct arena *arena, struct str input)
{
	struct http_head *head = NULL;
	struct err err = {0};
	struct str bytes;

	http_parser_init(p);
	arena_init(arena, 1 << 20);
	check(http_head_feed(p, &input, &bytes, &err) == HTTP_DONE);
	check(http_head_parse(p, arena, bytes, &head, &err) == 0);
	return head;
}

static void test_headers(void)
{
	struct http_parser p;
	struct arena arena;
	struct http_head *head = parse(
		&p, &arena,
		STR(GET
		    "hOST:  h\t\r\nX-A:\r\nx-a: 2\r\nLong: a \t b \xff \r\nConnection:\r\n\r\n"));
	const struct str *found;

	if (head) {
		check(head->method == HTTP_METHOD_GET && head->headers_len == 5);
		found = http_header_find(head, STR("Host"));
		check(found && str_eq(*found, STR("h")));
		found = http_header_find(head, STR("X-A"));
		check(found && found->len == 0);
		check(str_eq(head->headers[2].name, STR("x-a")));
		check(str_eq(head->headers[2].value, STR("2")));
		found = http_header_find(head, STR("LONG"));
		check(found && str_eq(*found, STR("a \t b \xff")));
		check(!http_header_find(head, STR("X")) && !http_header_find(head, STR("X-AB")));
	}
	arena_close(&arena);
	http_parser_close(&p);
	tap_ok("headers are trimmed and found by name");
}

static void test_methods(void)
{
	static const char *const names[] = {"GET",    "HEAD",  "POST",    "PUT",
					    "DELETE", "PATCH", "OPTIONS", "TRACE"};

	for (int i = 0; i <= HTTP_METHOD_OTHER; i++) {
		struct http_parser p;
		struct arena arena;
		char text[64];
		struct http_head *head;

		snprintf(text, sizeof(text), "%s / HTTP/1.1\r\n" H "\r\n", names[i]);
		head = parse(&p, &arena, str_of(text));
		check(head && head->method == (enum http_method)i);
		check(head && str_eq(head->method_name, str_of(names[i])));
		arena_close(&arena);
		http_parser_close(&p);
	}
	tap_ok("methods");
}

static void test_at_once(void)
{
	static const struct str starts[] = {
		STR("\x16"), STR(" "),     STR("\n"),     STR("GET / HTTP/1.1\n"), STR("GET /\0"),
		STR("\r\r"), STR(GET " "), STR("\r\n\r"), STR(GET H ":"),          STR("\x80"),
	};

	for (size_t i = 0; i < array_len(starts); i++) {
		struct http_parser p;
		struct str in = starts[i], bytes;
		struct err err = {0};

		http_parser_init(&p);
		check(http_head_feed(&p, &in, &bytes, &err) == HTTP_BAD);
		check(err.code == ERR_INVALID_REQUEST && err.sentence[0]);
		/* What comes after it is no request either. */
		in = STR(GET H "\r\n");
		check(http_head_feed(&p, &in, &bytes, &err) == HTTP_BAD);
		check(!p.kept.bytes);
		http_parser_close(&p);
	}
	tap_ok("what can no longer become a request is refused at once, for good");
}

static void test_memory(void)
{
	struct http_parser p;
	struct str in = STR(GET H "\r\nGET"), bytes, second;
	struct http_head *head;
	struct arena arena;
	struct err err;

	arena_init(&arena, 1 << 20);
	http_parser_init(&p);
	check(http_head_feed(&p, &in, &bytes, &err) == HTTP_DONE);
	check(bytes.at + bytes.len == in.at && !p.kept.bytes);
	check(str_eq(in, STR("GET")));
	check(http_head_parse(&p, &arena, bytes, &head, &err) == 0);
	check(http_head_feed(&p, &in, &bytes, &err) == HTTP_MORE && in.len == 0);
	check(p.kept.bytes != NULL);
	second = STR(" / HTTP/1.1\r\n" H "\r\nrest");
	check(http_head_feed(&p, &second, &bytes, &err) == HTTP_DONE);
	check(str_eq(bytes, STR(GET H "\r\n")) && str_eq(second, STR("rest")));
	check(http_head_parse(&p, &arena, bytes, &head, &err) == 0 && !p.kept.bytes);
	arena_close(&arena);
	arena_init(&arena, 64);
	in = STR(GET H "\r\n");
	check(http_head_feed(&p, &in, &bytes, &err) == HTTP_DONE);
	check(http_head_parse(&p, &arena, bytes, &head, &err) < 0 && err.code == ERR_UNAVAILABLE);
	http_parser_close(&p);
	check(sizeof(struct http_parser) <= 192);
	tap_ok("a whole head is not copied by the feed, and nothing is held between requests");
}

static void test_lists(void)
{
	check(http_list_has(STR("close"), STR("close")));
	check(http_list_has(STR("a, Close ,b"), STR("close")));
	check(http_list_has(STR(",,\tclose"), STR("close")));
	check(!http_list_has(STR("closed, clos, x close"), STR("close")));
	check(!http_list_has(STR(""), STR("close")) && !http_list_has(STR(",,,"), STR("close")));
	tap_ok("lists");
}

static void test_status_texts(void)
{
	static const int known[] = {100, 101, 200, 201, 202, 204, 206, 304, 400, 401,
				    403, 404, 405, 408, 409, 410, 413, 416, 417, 426,
				    429, 431, 500, 501, 502, 503, 504, 505, 507};

	for (size_t i = 0; i < array_len(known); i++)
		check(strcmp(http_status_text(known[i]), "Unknown") != 0);
	check_str(http_status_text(431), "Request Header Fields Too Large");
	check_str(http_status_text(599), "Unknown");
	tap_ok("status texts");
}

int main(void)
{
	test_bad();
	test_good();
	test_limits();
	test_headers();
	test_methods();
	test_at_once();
	test_memory();
	test_lists();
	test_status_texts();
	return tap_done();
}
