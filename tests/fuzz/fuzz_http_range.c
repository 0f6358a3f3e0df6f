/*
 * Up to the first line break: a size; then a Range or a list of tags. A part must lie within the
 * size, and mean the same when it is written again.
 */
#include <stdio.h>
#include <stdlib.h>

#include "proto/http_range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
	if (!condition)
		abort();
}

static void check_range(struct str value, uint64_t size)
{
	struct http_range range, again;
	char text[64];

	if (http_range_parse(value, size, &range) != HTTP_RANGE_PART)
		return;
	must(range.length > 0 && range.first < size && range.length <= size - range.first);
	snprintf(text, sizeof(text), "bytes=%llu-%llu", (unsigned long long)range.first,
		 (unsigned long long)(range.first + range.length - 1));
	must(http_range_parse(str_of(text), size, &again) == HTTP_RANGE_PART);
	must(again.first == range.first && again.length == range.length);
}

static void check_tags(struct str list)
{
	struct str tag = STR("\"5-1f\"");

	bool has_star = false, has_tag = false;

	for (size_t i = 0; i < list.len; i++) {
		has_star = has_star || list.at[i] == '*';
		has_tag = has_tag || str_starts_with((struct str){list.at + i, list.len - i}, tag);
	}
	/* A tag can only be named by its own bytes, or by the star. */
	must(!http_etag_listed(list, tag) || has_tag || has_star);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = {(const char *)data, size}, number = str_cut(&rest, '\n');
	uint64_t of = 0;

	for (size_t i = 0; i < number.len && i < 20; i++)
		of = of * 10 + (uint8_t)number.at[i] % 10;
	check_range(rest, of);
	if (rest.len)
		check_tags(rest);
	return 0;
}
