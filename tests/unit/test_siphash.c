#include "base/siphash.h"

#include "tests/unit/tap.h"

int main(void)
{
	/* Of the paper that describes it, and of its authors' table: the bytes 0, 1, 2, ... */
	static const struct {
		size_t len;
		uint64_t hash;
	} known[] = {
		{0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd},  {7, 0xab0200f58b01d137},
		{8, 0x93f5f5799a932462}, {15, 0xa129ca6149be45e5}, {63, 0x958a324ceb064572},
	};
	struct siphash_key key = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};
	struct siphash_key other = {{0x0706050403020100, 0x0f0e0d0c0b0a0909}};
	unsigned char bytes[64];

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)i;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		check(siphash(&key, bytes, known[i].len) == known[i].hash);
	tap_ok("hashes that are known");
	check(siphash(&key, bytes, 16) != siphash(&other, bytes, 16));
	tap_ok("another key, another hash");
	return tap_done();
}
