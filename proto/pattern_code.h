/*
 * What a pattern becomes: pattern.c makes the states from the text, pattern_search.c goes through
 * them, all that are possible at once.
 */
#ifndef BERTH_PROTO_PATTERN_CODE_H
#define BERTH_PROTO_PATTERN_CODE_H

#include "proto/pattern.h"

enum pattern_op {
	PATTERN_BYTE,  /* this byte, then the next state */
	PATTERN_SET,   /* a byte of the set, then the next state */
	PATTERN_SPLIT, /* both `a` and `b` */
	PATTERN_JUMP,  /* `a` */
	PATTERN_BEGIN, /* at the beginning of the line, the next state */
	PATTERN_END,   /* at the end of the line, the next state */
	PATTERN_MATCH,
};

struct pattern_state {
	uint8_t op, byte;
	uint16_t set;
	uint16_t a, b;
};

struct pattern_set {
	uint64_t bits[4];
};

struct pattern {
	struct pattern_state *states;
	struct pattern_set *sets; /* the first: any byte */
	unsigned states_len, sets_len;
};

static inline bool pattern_set_has(const struct pattern_set *set, unsigned char c)
{
	return set->bits[c / 64] >> (c % 64) & 1;
}

static inline void pattern_set_add(struct pattern_set *set, unsigned char c)
{
	set->bits[c / 64] |= 1ULL << (c % 64);
}

#endif
