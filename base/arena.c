#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK_SIZE 2048

struct arena_block {
	struct arena_block *next;
	alignas(max_align_t) char bytes[];
};

void arena_init(struct arena *arena, size_t limit)
{
	*arena = (struct arena){.limit = limit};
}

void arena_close(struct arena *arena)
{
	struct arena_block *block = arena->blocks;

	while (block) {
		struct arena_block *next = block->next;

		free(block);
		block = next;
	}
	arena_init(arena, arena->limit);
}

static void *add_block(struct arena *arena, size_t size)
{
	size_t total = sizeof(struct arena_block) + size;
	struct arena_block *block;

	if (total < BLOCK_SIZE)
		total = BLOCK_SIZE;
	if (total > arena->limit - arena->used)
		return NULL;
	block = malloc(total);
	if (!block)
		return NULL;
	block->next = arena->blocks;
	arena->blocks = block;
	arena->used += total;
	arena->at = block->bytes + size;
	arena->end = (char *)block + total;
	return block->bytes;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	void *result = arena->at;

	if (size > arena->limit)
		return NULL;
	size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (size > (size_t)(arena->end - arena->at))
		return add_block(arena, size);
	arena->at += size;
	return result;
}

void *arena_zalloc(struct arena *arena, size_t size)
{
	void *result = arena_alloc(arena, size);

	if (result)
		memset(result, 0, size);
	return result;
}

char *arena_strndup(struct arena *arena, const char *bytes, size_t len)
{
	char *copy;

	if (len == SIZE_MAX)
		return NULL;
	copy = arena_alloc(arena, len + 1);
	if (!copy)
		return NULL;
	if (len)
		memcpy(copy, bytes, len);
	copy[len] = '\0';
	return copy;
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
	va_list args, again;
	char *text = NULL;
	int n;

	va_start(args, format);
	va_copy(again, args);
	n = vsnprintf(NULL, 0, format, args);
	if (n >= 0)
		text = arena_alloc(arena, (size_t)n + 1);
	if (text)
		vsnprintf(text, (size_t)n + 1, format, again);
	va_end(again);
	va_end(args);
	return text;
}
