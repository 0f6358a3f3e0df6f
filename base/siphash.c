#include "base/siphash.h"

struct state {
	uint64_t a, b, c, d;
};

static uint64_t rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void mix(struct state *s, int rounds)
{
	while (rounds-- > 0) {
		s->a += s->b;
		s->c += s->d;
		s->b = rotate(s->b, 13) ^ s->a;
		s->d = rotate(s->d, 16) ^ s->c;
		s->a = rotate(s->a, 32);
		s->c += s->b;
		s->a += s->d;
		s->b = rotate(s->b, 17) ^ s->c;
		s->d = rotate(s->d, 21) ^ s->a;
		s->c = rotate(s->c, 32);
	}
}

static void take_word(struct state *s, uint64_t word)
{
	s->d ^= word;
	mix(s, 2);
	s->a ^= word;
}

/* Of up to eight bytes, the first being the lowest. */
static uint64_t word_of(const unsigned char *at, size_t len)
{
	uint64_t word = 0;

	for (size_t i = 0; i < len; i++)
		word |= (uint64_t)at[i] << (8 * i);
	return word;
}

uint64_t siphash(const struct siphash_key *key, const void *bytes, size_t len)
{
	struct state s = {
		key->words[0] ^ 0x736f6d6570736575,
		key->words[1] ^ 0x646f72616e646f6d,
		key->words[0] ^ 0x6c7967656e657261,
		key->words[1] ^ 0x7465646279746573,
	};
	const unsigned char *at = bytes;
	size_t rest = len;

	for (; rest >= 8; rest -= 8, at += 8)
		take_word(&s, word_of(at, 8));
	take_word(&s, word_of(at, rest) | (uint64_t)len << 56);
	s.c ^= 0xff;
	mix(&s, 4);
	return s.a ^ s.b ^ s.c ^ s.d;
}
