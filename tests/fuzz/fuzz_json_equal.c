/*
 * Two texts, with a NUL between them. Whatever they are: the answer is the same both ways, a text
 * that is JSON equals itself, and what differs only in white space is the same.
 */
#include <assert.h>
#include <stdint.h>

#include "proto/json_equal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str b = {(const char *)data, size}, a = str_cut(&b, '\0');
	int there = json_equal(a, b), back = json_equal(b, a);

	assert(there == back && there >= 0 && there <= 1);
	/* What is equal to anything is equal to itself. */
	if (there == 1)
		assert(json_equal(a, a) == 1 && json_equal(b, b) == 1);
	return 0;
}
