#include "proto/sse_reader.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/sse.h"
#include "tests/unit/tap.h"

/* All events as "name|data;", read in pieces of `step` bytes. */
static int read_all(struct str text, size_t step, struct buf *out, size_t max)
{
	struct sse_reader r;
	int got = 0;

	sse_reader_init(&r, max);
	for (size_t at = 0; at < text.len && got >= 0; at += step) {
		size_t len = text.len - at < step ? text.len - at : step;
		/* Of its exact size, so that a sanitizer sees a read past the end. */
		cleanup_free char *exact = malloc(len);
		struct str piece = {exact, len};
		struct sse_event event;

		memcpy(exact, text.at + at, len);
		while ((got = sse_reader_next(&r, &piece, &event)) > 0)
			buf_printf(out, "%.*s|%.*s;", STR_ARGS(event.event), STR_ARGS(event.data));
		check(got < 0 || !piece.len);
	}
	sse_reader_close(&r);
	return got;
}

static void check_events(struct str text, const char *wanted)
{
	for (size_t step = 1; step <= text.len + 1; step++) {
		struct buf out;

		buf_init(&out, 4096);
		check(read_all(text, step, &out, 1024) == 0);
		buf_append(&out, "", 1);
		check_str(buf_at(&out), wanted);
		buf_close(&out);
	}
}

static void test_streams(void)
{
	check_events(STR("event: stdout\ndata: aGk=\n\nevent: exit\ndata: {}\n\n"),
		     "stdout|aGk=;exit|{};");
	check_events(STR("data:a\ndata: b\ndata\n\n"), "|a\nb\n;");
	check_events(STR("data: a\r\n\r\ndata: b\r\rdata: c\n\r\n"), "|a;|b;|c;");
	check_events(STR(": hello\n\n:\n\nevent: x\n\ndata: y\n\n"), "|y;");
	check_events(STR("\xef\xbb\xbf"
			 "data: 1\n\n\xef\xbb\xbf"
			 "data: 2\n\n"),
		     "|1;");
	check_events(STR("id: 5\nretry: 7\nfoo: bar\nevent:e\nevent: f\ndata:  two\n\n"),
		     "f| two;");
	check_events(STR("data:\n\nevent: x\ndata: cut\n"), "|;");
	check_events(STR("\n\n\r\r\r\n"), "");
	check_events(STR("datax: 1\nDATA: 2\ndata : 3\n\n"), "");
	tap_ok("streams in pieces of every size");
}

static void test_limits(void)
{
	struct buf out;
	char text[2048];

	buf_init(&out, 4096);
	memset(text, 'x', sizeof(text));
	memcpy(text, "data:", 5);
	check(read_all((struct str){text, 1025}, 7, &out, 1024) == -EMSGSIZE);
	check(read_all((struct str){text, 1025}, 2000, &out, 1024) == -EMSGSIZE);
	text[1000] = '\n';
	memcpy(text + 1001, "data:", 5);
	text[1500] = '\n';
	check(read_all((struct str){text, 1501}, 2000, &out, 1024) == -EMSGSIZE);
	check(read_all(STR("event: 0123456789012345678901234567890123456789012345678901234567890123"
			   "\ndata:\n\n"),
		       2000, &out, 1024) == -EMSGSIZE);
	check(buf_len(&out) == 0);
	buf_close(&out);
	tap_ok("limits");
}

static void test_own(void)
{
	struct buf text;

	buf_init(&text, 4096);
	check(sse_format(&text, STR("stdout"), STR("7"), STR("a\nb")) == 0);
	check(buf_append_str(&text, SSE_HEARTBEAT) == 0);
	check(sse_format(&text, STR("exit"), STR(""), STR("")) == 0);
	check_events((struct str){buf_at(&text), buf_len(&text)}, "stdout|a\nb;exit|;");
	buf_close(&text);
	tap_ok("what our writer writes");
}

int main(void)
{
	test_streams();
	test_limits();
	test_own();
	return tap_done();
}
