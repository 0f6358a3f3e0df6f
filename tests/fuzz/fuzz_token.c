/* Every token of a token file is visible ASCII of the promised length and lies inside the input. */
#include "proto/token_file.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *end = (const char *)data + size;
	struct str rest = {(const char *)data, size}, token;
	struct err err = {0};
	unsigned line = 0;
	int r;

	while ((r = token_file_next(&rest, &line, &token, &err)) > 0) {
		assert(token.at >= (const char *)data && token.at + token.len <= end);
		assert(token.len >= TOKEN_MIN && token.len <= TOKEN_MAX);
		for (size_t i = 0; i < token.len; i++)
			assert(token.at[i] > ' ' && token.at[i] <= '~');
	}
	assert(r == 0 ? rest.len == 0 : err.code == ERR_INVALID_REQUEST);
	return 0;
}
