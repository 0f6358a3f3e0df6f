/*
 * SipHash-2-4: a short hash of bytes that others choose. Without the key nobody can tell which of
 * them collide, so a table that is found by it stays fast whoever fills it.
 */
#ifndef BERTH_BASE_SIPHASH_H
#define BERTH_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
	uint64_t words[2];
};

uint64_t siphash(const struct siphash_key *key, const void *bytes, size_t len);

#endif
