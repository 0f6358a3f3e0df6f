/* What is read keeps every promise of its header. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "proto/port_request.h"
#include "proto/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(const struct port_request *q)
{
	size_t len = strnlen(q->token, sizeof(q->token));

	assert(memchr(q->name, '\0', sizeof(q->name)) && utf8_is_valid(str_of(q->name)));
	for (const char *c = q->name; *c; c++)
		assert((unsigned char)*c >= ' ' && *c != 0x7f);
	assert(q->name_given || !q->name[0]);
	assert(q->token_given ? len >= PORT_TOKEN_MIN && len < sizeof(q->token) : len == 0);
	assert(strspn(q->token, "abcdefghijklmnopqrstuvwxyz0123456789") == len);
	assert(!q->is_public || (q->public_given && !q->token_given));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = {(const char *)data, size};
	struct port_request q;
	struct err err = {0};
	struct arena arena;
	uint16_t number = 0;

	arena_init(&arena, 1 << 20);
	if (port_request_parse(&arena, text, &q, &err) == 0)
		check_request(&q);
	if (port_request_parse_tunnel(&arena, text, &q, &err) == 0) {
		check_request(&q);
		assert(!q.token_given && !q.public_given);
	}
	if (port_number_parse(text, &number) == 0)
		assert(number > 0 && size <= 5);
	arena_close(&arena);
	return 0;
}
