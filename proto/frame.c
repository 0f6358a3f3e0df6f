#include "proto/frame.h"

#include <errno.h>
#include <limits.h>

static void put_number(char *at, uint64_t value, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		at[i] = (char)(value >> (8 * i));
}

static uint64_t get_number(const char *at, unsigned size)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < size; i++)
		value |= (uint64_t)(uint8_t)at[i] << (8 * i);
	return value;
}

/* The bytes that a number takes in a frame, or the length that stands before a run of bytes. */
static unsigned fixed_size(enum frame_kind kind)
{
	return kind == FRAME_U64 ? 8 : 4;
}

static uint64_t load(const struct frame_field *f, const void *value)
{
	const char *at = (const char *)value + f->offset;
	struct str bytes;
	uint64_t wide;
	uint32_t narrow;

	switch (f->kind) {
	case FRAME_U64:
		memcpy(&wide, at, sizeof(wide));
		return wide;
	case FRAME_U32:
		memcpy(&narrow, at, sizeof(narrow));
		return narrow;
	default:
		memcpy(&bytes, at, sizeof(bytes));
		return bytes.len;
	}
}

static int is_within(const struct frame_field *f, uint64_t number)
{
	return f->kind == FRAME_BYTES ? number <= f->max : !f->max || number <= f->max;
}

int frame_encode(char *bytes, size_t size, const struct frame_head *head,
		 const struct frame_field *fields, const void *value)
{
	size_t used = FRAME_HEADER_SIZE;

	if (size > FRAME_MAX)
		size = FRAME_MAX;
	if (size < FRAME_HEADER_SIZE)
		return -EMSGSIZE;
	for (const struct frame_field *f = fields; f->kind != FRAME_END; f++) {
		uint64_t number = load(f, value);
		unsigned width = fixed_size(f->kind);
		struct str run = {NULL, 0};

		if (f->kind == FRAME_BYTES)
			memcpy(&run, (const char *)value + f->offset, sizeof(run));
		if (!is_within(f, number) || size - used < width || size - used - width < run.len)
			return -EMSGSIZE;
		put_number(bytes + used, number, width);
		used += width;
		if (run.len)
			memcpy(bytes + used, run.at, run.len);
		used += run.len;
	}
	put_number(bytes, used, 4);
	put_number(bytes + 4, head->type, 2);
	put_number(bytes + 6, head->version, 2);
	put_number(bytes + 8, head->tag, 4);
	put_number(bytes + 12, 0, 4);
	return (int)used;
}

int frame_decode_head(struct str message, struct frame_head *ret)
{
	if (message.len < FRAME_HEADER_SIZE || message.len > FRAME_MAX ||
	    get_number(message.at, 4) != message.len || get_number(message.at + 12, 4) != 0)
		return -EBADMSG;
	ret->type = (uint16_t)get_number(message.at + 4, 2);
	ret->version = (uint16_t)get_number(message.at + 6, 2);
	ret->tag = (uint32_t)get_number(message.at + 8, 4);
	return 0;
}

static void store(const struct frame_field *f, void *ret, uint64_t number, const char *run)
{
	char *at = (char *)ret + f->offset;
	struct str bytes = {run, (size_t)number};
	uint32_t narrow = (uint32_t)number;

	if (f->kind == FRAME_U64)
		memcpy(at, &number, sizeof(number));
	else if (f->kind == FRAME_U32)
		memcpy(at, &narrow, sizeof(narrow));
	else
		memcpy(at, &bytes, sizeof(bytes));
}

int frame_decode(struct str message, const struct frame_field *fields, void *ret)
{
	size_t used = FRAME_HEADER_SIZE;

	for (const struct frame_field *f = fields; f->kind != FRAME_END; f++) {
		unsigned width = fixed_size(f->kind);
		uint64_t number;

		if (message.len - used < width)
			return -EBADMSG;
		number = get_number(message.at + used, width);
		used += width;
		if (!is_within(f, number))
			return -EBADMSG;
		if (f->kind == FRAME_BYTES && number > message.len - used)
			return -EBADMSG;
		store(f, ret, number, message.at + used);
		if (f->kind == FRAME_BYTES)
			used += (size_t)number;
	}
	return used == message.len ? 0 : -EBADMSG;
}

int frame_list_count(struct str list)
{
	int count = 0;

	if (list.len > INT_MAX || (list.len && list.at[list.len - 1] != '\0'))
		return -EBADMSG;
	for (size_t i = 0; i < list.len; i++)
		count += list.at[i] == '\0';
	return count;
}

const char *frame_list_next(struct str *list)
{
	const char *item = list->at;
	size_t len;

	if (!list->len)
		return NULL;
	len = strlen(item) + 1; /* the list was counted, so it ends with a NUL */
	*list = (struct str){list->at + len, list->len - len};
	return item;
}
