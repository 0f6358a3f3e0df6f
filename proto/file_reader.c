#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/file.h"

void file_reader_init(struct file_reader *reader)
{
	*reader = (struct file_reader){0};
}

void file_reader_close(struct file_reader *reader)
{
	free(take(reader->frame));
	reader->have = 0;
}

bool file_reader_is_clean(const struct file_reader *reader)
{
	return !reader->have && !reader->raw;
}

void file_reader_skip(struct file_reader *reader, size_t size)
{
	assert(size <= reader->raw);
	reader->raw -= size;
}

static struct str cut(struct str *in, uint64_t len)
{
	struct str piece = {in->at, len < in->len ? (size_t)len : in->len};

	*in = (struct str){in->at + piece.len, in->len - piece.len};
	return piece;
}

/* Of the frame whose first bytes are these; 0: not known yet. */
static int frame_size(struct str start)
{
	uint32_t size = 0;

	if (start.len < sizeof(size))
		return 0;
	for (unsigned i = 0; i < sizeof(size); i++)
		size |= (uint32_t)(uint8_t)start.at[i] << (8 * i);
	return size < FRAME_HEADER_SIZE || size > FRAME_MAX ? -EBADMSG : (int)size;
}

/* Until the frame has `size` bytes. True: it has. */
static bool collect(struct file_reader *reader, struct str *in, size_t size)
{
	struct str piece = cut(in, size - reader->have);

	memcpy(reader->frame + reader->have, piece.at, piece.len);
	reader->have += piece.len;
	return reader->have == size;
}

/* One whole frame, from `in` alone if it is all there. An empty str: more bytes are needed. */
static int whole_frame(struct file_reader *reader, struct str *in, struct str *ret)
{
	int size;

	*ret = (struct str){NULL, 0};
	if (!reader->have) {
		size = frame_size(*in);
		if (size < 0)
			return size;
		if (size && in->len >= (size_t)size) {
			*ret = cut(in, (uint64_t)size);
			return 0;
		}
	}
	if (!reader->frame)
		reader->frame = malloc(FRAME_MAX);
	if (!reader->frame)
		return -ENOMEM;
	if (reader->have < sizeof(uint32_t) && !collect(reader, in, sizeof(uint32_t)))
		return 0;
	size = frame_size((struct str){reader->frame, reader->have});
	if (size < 0)
		return size;
	if (collect(reader, in, (size_t)size)) {
		*ret = (struct str){reader->frame, (size_t)size};
		reader->have = 0;
	}
	return 0;
}

static int take_frame(struct file_reader *reader, struct file_piece *piece)
{
	struct file_data data;

	if (frame_decode_head(piece->message, &piece->head) < 0)
		return -EBADMSG;
	if (piece->head.type != FILE_DATA)
		return FILE_FOUND_FRAME;
	if (frame_decode(piece->message, file_data_fields, &data) < 0)
		return -EBADMSG;
	reader->raw = data.size;
	return FILE_FOUND_FRAME;
}

int file_reader_next(struct file_reader *reader, struct str *in, struct file_piece *ret)
{
	int r;

	if (!in->len)
		return FILE_FOUND_NOTHING;
	if (reader->raw) {
		ret->bytes = cut(in, reader->raw);
		reader->raw -= ret->bytes.len;
		return FILE_FOUND_BYTES;
	}
	r = whole_frame(reader, in, &ret->message);
	if (r < 0)
		return r;
	return ret->message.len ? take_frame(reader, ret) : FILE_FOUND_NOTHING;
}
