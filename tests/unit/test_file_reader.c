#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "proto/file.h"
#include "tests/unit/tap.h"

static void put(struct buf *out, uint16_t type, const struct frame_field *fields, const void *value)
{
	cleanup_free char *bytes = malloc(FRAME_MAX);
	struct frame_head head = {type, FRAME_VERSION, 7};
	int size = frame_encode(bytes, FRAME_MAX, &head, fields, value);

	check(size > 0 && buf_append(out, bytes, (size_t)size) == 0);
}

static void put_data(struct buf *out, struct str bytes)
{
	struct file_data data = {bytes.len};

	put(out, FILE_DATA, file_data_fields, &data);
	buf_append_str(out, bytes);
}

/* What came out: the frames' types as digits, raw bytes in brackets, joined however they came. */
static int read_all(struct str text, size_t step, struct buf *out, struct file_reader *r)
{
	bool is_raw = false;
	int got = 0;

	file_reader_init(r);
	for (size_t at = 0; at < text.len && got >= 0; at += step) {
		size_t len = text.len - at < step ? text.len - at : step;
		/* Of its exact size, so that a sanitizer sees a read past the end. */
		cleanup_free char *exact = malloc(len);
		struct str in = {exact, len};
		struct file_piece piece;

		memcpy(exact, text.at + at, len);
		while ((got = file_reader_next(r, &in, &piece)) > 0) {
			if (is_raw != (got == FILE_FOUND_BYTES))
				buf_append(out, is_raw ? "]" : "[", 1);
			is_raw = got == FILE_FOUND_BYTES;
			if (is_raw)
				buf_append_str(out, piece.bytes);
			else
				buf_printf(out, "%u", piece.head.type);
			check(is_raw || piece.head.tag == 7);
		}
		check(got < 0 || !in.len);
	}
	if (is_raw)
		buf_printf(out, "]");
	buf_append(out, "", 1);
	return got;
}

static void check_stream(const struct buf *text, int result, bool is_clean, const char *wanted)
{
	for (size_t step = 1; step <= buf_len(text); step++) {
		struct file_reader r;
		struct buf out;

		buf_init(&out, 4096);
		check(read_all((struct str){buf_at(text), buf_len(text)}, step, &out, &r) ==
		      result);
		check(result < 0 || file_reader_is_clean(&r) == is_clean);
		check_str(buf_at(&out), wanted);
		file_reader_close(&r);
		buf_close(&out);
	}
}

static void test_streams(void)
{
	struct file_result result = {.stat = {.size = 5}, .where = STR("some/name")};
	struct file_entry entry = {.name = STR("a"), .link = STR("b")};
	struct file_end end = {0};
	struct buf text;

	buf_init(&text, 65536);
	put(&text, FILE_RESULT, file_result_fields, &result);
	put_data(&text, STR("hello"));
	check_stream(&text, 0, true, "35[hello]");
	put(&text, FILE_ENTRY, file_entry_fields, &entry);
	put_data(&text, STR(""));
	put_data(&text, STR("x"));
	put_data(&text, STR("y"));
	put(&text, FILE_END, file_end_fields, &end);
	check_stream(&text, 0, true, "35[hello]455[x]5[y]7");
	buf_close(&text);
	tap_ok("frames and raw bytes, however they are cut");
}

static void test_cut(void)
{
	struct file_end end = {0};
	struct buf text, cut;

	buf_init(&text, 65536);
	buf_init(&cut, 65536);
	put_data(&text, STR("hello"));
	put(&text, FILE_END, file_end_fields, &end);
	buf_append(&cut, buf_at(&text), buf_len(&text) - 1);
	check_stream(&cut, 0, false, "5[hello]");
	buf_close(&cut);
	buf_init(&cut, 65536);
	buf_append(&cut, buf_at(&text), FRAME_HEADER_SIZE + 8 + 3);
	check_stream(&cut, 0, false, "5[hel]");
	buf_close(&cut);
	buf_close(&text);
	tap_ok("an end in the middle is seen");
}

static void test_nonsense(void)
{
	static const struct {
		struct str bytes;
	} bad[] = {
		{STR("\x0f\0\0\0")},
		{STR("\0\0\0\0")},
		{STR("\x01\0\1\0")},
		{STR("\xff\xff\xff\xff")},
		{STR("\x10\0\0\0\3\0\1\0\7\0\0\0\1\0\0\0")},
		{STR("\x10\0\0\0\5\0\1\0\7\0\0\0\0\0\0\0")},
		{STR("\x19\0\0\0\5\0\1\0\7\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0")},
	};

	for (size_t i = 0; i < array_len(bad); i++) {
		struct buf text;

		buf_init(&text, 65536);
		buf_append_str(&text, bad[i].bytes);
		check_stream(&text, -EBADMSG, false, "");
		put_data(&text, STR("never"));
		check_stream(&text, -EBADMSG, false, "");
		buf_close(&text);
	}
	tap_ok("what is no frame ends the stream");
}

static void test_largest(void)
{
	cleanup_free char *xattrs = calloc(1, FILE_XATTRS_MAX);
	struct file_entry entry = {.name = STR("big"), .xattrs = {xattrs, FILE_XATTRS_MAX}};
	struct file_reader r;
	struct buf text, out;

	buf_init(&text, 1 << 20);
	buf_init(&out, 4096);
	for (int i = 0; i < 3; i++)
		put(&text, FILE_ENTRY, file_entry_fields, &entry);
	check(read_all((struct str){buf_at(&text), buf_len(&text)}, 4000, &out, &r) == 0);
	check(file_reader_is_clean(&r));
	check_str(buf_at(&out), "444");
	file_reader_close(&r);
	buf_close(&out);
	buf_close(&text);
	tap_ok("large frames, one after the other");
}

int main(void)
{
	test_streams();
	test_cut();
	test_nonsense();
	test_largest();
	return tap_done();
}
