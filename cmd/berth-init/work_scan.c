#include "cmd/berth-init/work_scan.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* A heap whose top is the largest name, until it is sorted. */
static bool is_less(const struct scan *s, size_t a, size_t b)
{
	return strcmp(s->names[s->order[a]], s->names[s->order[b]]) < 0;
}

static void swap(struct scan *s, size_t a, size_t b)
{
	uint16_t kept = s->order[a];

	s->order[a] = s->order[b];
	s->order[b] = kept;
}

static void sink(struct scan *s, size_t at, size_t count)
{
	for (;;) {
		size_t largest = at;

		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++) {
			if (is_less(s, largest, child))
				largest = child;
		}
		if (largest == at)
			return;
		swap(s, at, largest);
		at = largest;
	}
}

static void rise(struct scan *s, size_t at)
{
	while (at && is_less(s, (at - 1) / 2, at)) {
		swap(s, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
}

static void add(struct scan *s, const char *name, const struct scan_bound *bound)
{
	size_t max = bound->max && bound->max < SCAN_MAX ? bound->max : SCAN_MAX;
	size_t size = strlen(name) + 1;

	if (size > sizeof(s->names[0]))
		return; /* no such name can be asked for */
	if (s->count < max) {
		s->order[s->count] = (uint16_t)s->count;
		memcpy(s->names[s->count], name, size);
		s->count++;
		if (!bound->is_any)
			rise(s, s->count - 1);
		return;
	}
	s->has_more = true;
	if (bound->is_any || strcmp(name, s->names[s->order[0]]) >= 0)
		return;
	memcpy(s->names[s->order[0]], name, size);
	sink(s, 0, s->count);
}

static bool is_wanted(const struct scan_bound *bound, const char *name)
{
	int r;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	    (bound->no_hidden && name[0] == '.'))
		return false;
	r = strcmp(name, bound->from);
	return bound->is_any || r > 0 || (r == 0 && bound->is_inclusive);
}

int scan_read(struct scan *s, int fd, const struct scan_bound *bound)
{
	int size;

	s->count = 0;
	s->has_more = false;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((size = getdents(fd, (struct dirent *)s->bytes, sizeof(s->bytes))) > 0) {
		for (int at = 0; at < size;) {
			const struct dirent *entry = (const struct dirent *)(s->bytes + at);

			if (is_wanted(bound, entry->d_name))
				add(s, entry->d_name, bound);
			at += entry->d_reclen;
		}
		if (bound->is_any && s->has_more)
			return 0;
	}
	/* Whoever reads a directory that was removed finds nothing in it. */
	if (size < 0 && errno != ENOENT)
		return -errno;
	for (size_t left = s->count; left > 1 && !bound->is_any; left--) {
		swap(s, 0, left - 1);
		sink(s, 0, left - 1);
	}
	return 0;
}
