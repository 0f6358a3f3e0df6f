#include "proto/http_response.h"

#include "tests/http_response_trace.h"
#include "tests/unit/http_response_cases.h"
#include "tests/unit/tap.h"

static const size_t whole = SIZE_MAX;

/* Compares the trace of every cut with that of the whole. */
static void check_cuts(const struct response_case *c, const struct buf *expected)
{
	for (size_t i = 0; i < c->input.len; i++) {
		size_t lens[] = {i ? i : 1, i ? SIZE_MAX : 1}; /* i == 0: byte by byte */
		struct buf cut =
			trace_responses(c->input, (struct cuts){lens, 2}, true, c->is_bodiless);

		if (!trace_eq(&cut, expected))
			printf("# cut at %zu: got \"%s\"\n", i, cut.bytes);
		check(trace_eq(&cut, expected));
		buf_close(&cut);
	}
}

/* It is the server's fault, and a person can read why. */
static void check_refused(const struct buf *trace, const char *words)
{
	static const char code[] = "!exec_transport_error: ";
	const char *mark = strrchr(trace->bytes, '!');
	bool is_refused = mark && strncmp(mark, code, sizeof(code) - 1) == 0 && strstr(mark, words);

	if (!is_refused)
		printf("# expected \"%s\": got \"%.400s\"\n", words, trace->bytes);
	check(is_refused);
	for (; mark && *mark; mark++)
		check(*mark >= 0x20 && *mark < 0x7f);
}

static void test_bad(void)
{
	for (size_t i = 0; i < array_len(bad_cases); i++) {
		const struct response_case *c = &bad_cases[i];
		struct buf trace =
			trace_responses(c->input, (struct cuts){&whole, 1}, true, c->is_bodiless);

		check_refused(&trace, c->expected);
		check_cuts(c, &trace);
		buf_close(&trace);
		tap_ok(c->name);
	}
}

static void test_good(void)
{
	for (size_t i = 0; i < array_len(good_cases); i++) {
		const struct response_case *c = &good_cases[i];
		struct buf trace =
			trace_responses(c->input, (struct cuts){&whole, 1}, true, c->is_bodiless);

		check_str(trace.bytes, c->expected);
		check_cuts(c, &trace);
		buf_close(&trace);
		tap_ok(c->name);
	}
}

/* A beginning, `count` times a middle, and an end; refused with these words, or good if NULL. */
struct long_case {
	const char *begin, *middle;
	size_t count;
	const char *end, *words;
};

static void check_long(struct long_case c)
{
	static const size_t cuts[] = {SIZE_MAX, 1, 1000, HTTP_HEAD_MAX - 1};
	struct buf b;

	buf_init(&b, 1 << 24);
	check(buf_append_str(&b, str_of(c.begin)) == 0);
	for (size_t i = 0; i < c.count; i++)
		check(buf_append_str(&b, str_of(c.middle)) == 0);
	check(buf_append_str(&b, str_of(c.end)) == 0);
	for (size_t i = 0; i < array_len(cuts); i++) {
		struct buf trace = trace_responses((struct str){buf_at(&b), buf_len(&b)},
						   (struct cuts){&cuts[i], 1}, true, false);

		if (c.words)
			check_refused(&trace, c.words);
		else
			check(!strchr(trace.bytes, '!') && !strstr(trace.bytes, "..."));
		buf_close(&trace);
	}
	buf_close(&b);
}

static void test_limits(void)
{
	const size_t fixed = sizeof(OK "X: \r\n\r\n") - 1;

	check_long((struct long_case){OK "X: ", "a", HTTP_HEAD_MAX - fixed, "\r\n\r\n", NULL});
	check_long(
		(struct long_case){OK "X: ", "a", HTTP_HEAD_MAX - fixed + 1, "\r\n\r\n", "32 kB"});
	check_long((struct long_case){"HTTP/1.1 200 ", "a", 1 << 18, "", "32 kB"});
	check_long((struct long_case){"", "H", 1 << 18, "", "32 kB"});
	tap_ok("a head may have 32 kB");
	check_long((struct long_case){OK, "a:b\r\n", HTTP_HEADERS_MAX, "\r\n", NULL});
	check_long((struct long_case){OK, "a:b\r\n", HTTP_HEADERS_MAX + 1, "\r\n", "100 headers"});
	tap_ok("a head may have 100 headers");
	check_long((struct long_case){CHUNKED "0\r\nX: ", "a", HTTP_TRAILER_MAX - 6, "\r\n\r\n",
				      NULL});
	check_long((struct long_case){CHUNKED "0\r\nX: ", "a", HTTP_TRAILER_MAX - 5, "\r\n\r\n",
				      "8 kB"});
	check_long((struct long_case){CHUNKED "0\r\nX: ", "a", HTTP_TRAILER_MAX - 4, "\r\n\r\n",
				      "8 kB"});
	check_long(
		(struct long_case){CHUNKED "0\r\n", "a:b\r\n", HTTP_TRAILER_MAX / 5, "\r\n", NULL});
	check_long((struct long_case){CHUNKED "0\r\nX: ", "a", 1 << 18, "", "8 kB"});
	tap_ok("trailers may have 8 kB together");
	check_long((struct long_case){"", "HTTP/1.1 100 Continue\r\n\r\n", 1000, "", NULL});
	tap_ok("many responses");
}

static void ignore(void *arg, const char *bytes, size_t len)
{
	(void)arg;
	(void)bytes;
	(void)len;
}

/* Also those of a request; what they are written into is the caller's, and may have been used. */
static void test_trailers(void)
{
	struct str in = STR("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
			    "2\r\nhi\r\n0\r\nA:b\r\nC: d \r\n\r\nGET"),
		   bytes;
	struct http_parser p;
	struct http_head *head;
	struct arena arena;
	struct err err;
	struct buf kept;

	arena_init(&arena, 1 << 20);
	buf_init(&kept, HTTP_TRAILER_MAX);
	http_parser_init(&p);
	check(!p.trailers);
	p.trailers = &kept;
	check(http_head_feed(&p, &in, &bytes, &err) == HTTP_DONE);
	check(http_head_parse(&p, &arena, bytes, &head, &err) == 0);
	check(http_body_feed(&p, &in, ignore, NULL, &err) == HTTP_DONE);
	check(str_eq(in, STR("GET")));
	check(str_eq((struct str){buf_at(&kept), buf_len(&kept)}, STR("A:b\r\nC: d \r\n")));
	buf_close(&kept);
	http_parser_close(&p);
	arena_close(&arena);
	tap_ok("trailers of a request are kept, too");
}

static struct http_response *parse(struct http_parser *p, struct arena *arena, struct str input)
{
	struct http_response *response = NULL;
	struct err err = {0};
	struct str bytes;

	http_parser_init(p);
	arena_init(arena, 1 << 20);
	check(http_response_feed(p, &input, &bytes, &err) == HTTP_DONE && input.len == 0);
	check(http_response_parse(p, arena, bytes, &response, &err) == 0);
	return response;
}

static void test_headers(void)
{
	struct http_parser p;
	struct arena arena;
	struct http_response *response =
		parse(&p, &arena, STR(OK "location:  /a\t\r\nX-A:\r\nx-a: 2\r\n\r\n"));
	const struct str *found;

	if (response) {
		found = http_response_find(response, STR("Location"));
		check(found && str_eq(*found, STR("/a")));
		found = http_response_find(response, STR("X-A"));
		check(found && found->len == 0);
		check(!http_response_find(response, STR("X")));
	}
	arena_close(&arena);
	http_parser_close(&p);
	tap_ok("headers are found by name");
}

/* Behind it comes something else, which must not be read as a response. */
static void test_last(void)
{
	static const struct str last[] = {STR(OK "\r\n"), STR("HTTP/1.1 101 \r\n\r\n")};

	for (size_t i = 0; i < array_len(last); i++) {
		struct str in = STR(OK "Content-Length: 0\r\n\r\n"), bytes;
		struct err err = {0};
		struct http_parser p;
		struct arena arena;

		check(parse(&p, &arena, last[i]) != NULL);
		check(http_response_feed(&p, &in, &bytes, &err) == HTTP_BAD);
		check(err.code == ERR_EXEC_TRANSPORT_ERROR && err.sentence[0]);
		arena_close(&arena);
		http_parser_close(&p);
	}
	tap_ok("nothing is read behind what goes on until the end");
}

static void test_memory(void)
{
	struct http_parser p;
	struct str in = STR(OK "\r\n"), bytes;
	struct http_response *response;
	struct arena arena;
	struct err err;

	arena_init(&arena, 64);
	http_parser_init(&p);
	check(http_response_feed(&p, &in, &bytes, &err) == HTTP_DONE && !p.kept.bytes);
	check(http_response_parse(&p, &arena, bytes, &response, &err) < 0);
	check(err.code == ERR_UNAVAILABLE);
	http_parser_close(&p);
	arena_close(&arena);
	tap_ok("want of memory is not the server's fault");
}

int main(void)
{
	test_bad();
	test_good();
	test_limits();
	test_trailers();
	test_headers();
	test_last();
	test_memory();
	return tap_done();
}
