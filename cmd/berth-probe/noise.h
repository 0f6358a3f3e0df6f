/* Bytes of all values that both sides can make: the probe writes them, `berth` compares. */
#ifndef BERTH_PROBE_NOISE_H
#define BERTH_PROBE_NOISE_H

#include <stddef.h>
#include <stdint.h>

/* xorshift64; `state` is not 0. */
static inline void noise_fill(uint64_t *state, unsigned char *ret, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		*state ^= *state << 13;
		*state ^= *state >> 7;
		*state ^= *state << 17;
		ret[i] = (unsigned char)(*state >> 32);
	}
}

#endif
