#include "cmd/berth-init/work_links.h"

struct str links_find(struct links *l, const struct stat *st, struct str name)
{
	uint64_t hash = ((uint64_t)st->st_ino ^ (uint64_t)st->st_dev << 32) * 0x9e3779b97f4a7c15ULL;
	uint32_t i = (uint32_t)(hash >> 40) % LINKS_SLOTS;

	for (; l->slots[i].len; i = (i + 1) % LINKS_SLOTS) {
		if (l->slots[i].ino == st->st_ino && l->slots[i].dev == st->st_dev)
			return (struct str){l->names + l->slots[i].at, l->slots[i].len};
	}
	if (name.len && l->count < LINKS_SLOTS / 4 * 3 && name.len <= LINKS_NAMES_SIZE - l->used) {
		l->slots[i].dev = st->st_dev;
		l->slots[i].ino = st->st_ino;
		l->slots[i].at = l->used;
		l->slots[i].len = (uint32_t)name.len;
		memcpy(l->names + l->used, name.at, name.len);
		l->used += (uint32_t)name.len;
		l->count++;
	}
	return (struct str){NULL, 0};
}
