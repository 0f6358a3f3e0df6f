/*
 * Memory that dies with its request. Allocations are never freed one by one; arena_close() frees
 * all of them and the arena can be used again. An arena refuses to grow past its limit: every
 * allocation may return NULL, and the caller answers for it.
 */
#ifndef BERTH_BASE_ARENA_H
#define BERTH_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#include "base/str.h"

struct arena_block;

struct arena {
	struct arena_block *blocks;
	char *at, *end; /* what is left of the newest block */
	size_t used;    /* bytes of all blocks, counted against the limit */
	size_t limit;
};

void arena_init(struct arena *arena, size_t limit);
void arena_close(struct arena *arena);

/* Aligned for any type. */
void *arena_alloc(struct arena *arena, size_t size);
void *arena_zalloc(struct arena *arena, size_t size);

/* Copies with a terminating NUL that `len` does not count. */
char *arena_strndup(struct arena *arena, const char *bytes, size_t len);

__attribute__((format(printf, 2, 3))) char *arena_printf(struct arena *arena, const char *format,
							 ...);

#endif
