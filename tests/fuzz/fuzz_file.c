/*
 * What a file worker says, however its bytes are cut: the same frames and the same raw bytes come
 * out. The first byte says into which pieces. Frames are decoded by the table of their type, too.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "proto/file.h"
#include "proto/watch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

union any {
	struct file_request request;
	struct file_go go;
	struct file_result result;
	struct file_entry entry;
	struct file_data data;
	struct file_end end;
	struct watch_add add;
	struct watch_number number;
	struct watch_ready ready;
	struct watch_event event;
	struct watch_gone gone;
};

static const struct frame_field *const tables[] = {
	[FILE_REQUEST] = file_request_fields, [FILE_GO] = file_go_fields,
	[FILE_RESULT] = file_result_fields,   [FILE_ENTRY] = file_entry_fields,
	[FILE_DATA] = file_data_fields,       [FILE_HOLE] = file_data_fields,
	[FILE_END] = file_end_fields,         [WATCH_ADD] = watch_add_fields,
	[WATCH_REMOVE] = watch_number_fields, [WATCH_READY] = watch_ready_fields,
	[WATCH_EVENT] = watch_event_fields,   [WATCH_OVERFLOW] = watch_number_fields,
	[WATCH_GONE] = watch_gone_fields,
};

/* What can be decoded comes back byte for byte. */
static void decode(const struct file_piece *piece)
{
	cleanup_free char *again = malloc(FRAME_MAX);
	union any value;
	int len;

	if (!again || piece->head.type >= array_len(tables) || !tables[piece->head.type])
		return;
	if (frame_decode(piece->message, tables[piece->head.type], &value) < 0)
		return;
	len = frame_encode(again, FRAME_MAX, &piece->head, tables[piece->head.type], &value);
	assert(len == (int)piece->message.len &&
	       memcmp(again, piece->message.at, (size_t)len) == 0);
}

static int read_all(struct str text, size_t step, struct buf *out, bool *ret_is_clean)
{
	struct file_reader r;
	struct file_piece piece;
	int got = 0;

	file_reader_init(&r);
	for (size_t at = 0; at < text.len && got >= 0; at += step) {
		size_t len = text.len - at < step ? text.len - at : step;
		/* Of its exact size, so that a sanitizer sees a read past the end. */
		cleanup_free char *exact = malloc(len);
		struct str in = {exact, len};

		assert(exact);
		memcpy(exact, text.at + at, len);
		while ((got = file_reader_next(&r, &in, &piece)) > 0) {
			struct str found = piece.bytes;

			if (got == FILE_FOUND_FRAME) {
				found = piece.message;
				decode(&piece);
				assert(buf_append(out, "F", 1) == 0);
			}
			assert(found.len && buf_append_str(out, found) == 0);
		}
		assert(got < 0 || !in.len);
	}
	*ret_is_clean = file_reader_is_clean(&r);
	file_reader_close(&r);
	return got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = {(const char *)data + 1, size - 1};
	bool is_clean_whole, is_clean_pieces;
	struct buf whole, pieces;
	int a, b;

	if (!size)
		return 0;
	buf_init(&whole, 1 << 20);
	buf_init(&pieces, 1 << 20);
	a = read_all(text, text.len ? text.len : 1, &whole, &is_clean_whole);
	b = read_all(text, 1 + data[0] % 64, &pieces, &is_clean_pieces);
	assert(a == b && (a == 0 || a == -EBADMSG));
	assert(a < 0 || is_clean_whole == is_clean_pieces);
	assert(str_eq((struct str){buf_at(&whole), buf_len(&whole)},
		      (struct str){buf_at(&pieces), buf_len(&pieces)}));
	buf_close(&whole);
	buf_close(&pieces);
	return 0;
}
