/*
 * What the keeper takes for a list of mounts has no surprises: it can be walked through to its end,
 * and each is within the promises of proto/mounts.h. The same bytes as a folder that is allowed.
 */
#include "proto/mounts.h"

#include <assert.h>
#include <stddef.h>

#include "proto/mounts_allowed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_item(const struct mount_item *item)
{
	assert(mounts_is_path(str_of(item->target)) && !mounts_is_reserved(str_of(item->target)));
	assert(!strstr(item->target, "/../") && !strstr(item->target, "//"));
	if (item->kind == MOUNT_BIND)
		assert(item->source && mounts_is_path(str_of(item->source)));
	else
		assert(item->size >= MOUNTS_SIZE_MIN && item->size <= MOUNTS_SIZE_MAX);
}

static void check_list(struct str list)
{
	struct mount_item items[MOUNTS_MAX];
	unsigned which = 0, count = 0;
	int r;

	if (mounts_check(list, &which) < 0) {
		assert(which <= MOUNTS_MAX);
		return;
	}
	while (list.len) {
		assert(count < MOUNTS_MAX);
		r = mounts_next(&list, &items[count]);
		assert(r == 1);
		check_item(&items[count]);
		for (unsigned i = 0; i < count; i++)
			assert(!mounts_is_below(str_of(items[count].target),
						str_of(items[i].target)));
		count++;
	}
}

static void check_allowed(struct str text)
{
	struct mounts_allowed allowed;

	if (mounts_allowed_parse(text, &allowed) < 0)
		return;
	assert(mounts_is_path(allowed.path) && allowed.path.len <= text.len);
	assert(mounts_allowed_find(&allowed, 1, allowed.path) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = {(const char *)data, size};

	check_list(text);
	check_allowed(text);
	return 0;
}
