#include "cmd/berth-init/work_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/work_path.h"

#define OPEN_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK)

int descent_init(struct descent *d, int fd)
{
	struct stat st;

	d->fd = fd;
	d->depth = 0;
	if (fstat(fd, &st) < 0)
		return -errno;
	d->ids[0].dev = st.st_dev;
	d->ids[0].ino = st.st_ino;
	return 0;
}

int descent_enter(struct descent *d, int fd)
{
	cleanup_fd int taken = fd;
	struct stat st;

	if (d->depth + 1 == WALK_LEVELS_MAX)
		return -ENAMETOOLONG;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (d->depth < WALK_FDS_MAX)
		d->fds[d->depth] = d->fd;
	else
		close(d->fd);
	d->depth++;
	d->ids[d->depth].dev = st.st_dev;
	d->ids[d->depth].ino = st.st_ino;
	d->fd = take_fd(&taken);
	return 0;
}

int descent_leave(struct descent *d)
{
	size_t above = d->depth - 1;
	cleanup_fd int fd = -1;
	struct stat st;

	if (above < WALK_FDS_MAX) {
		close(d->fd);
		d->fd = d->fds[above];
		d->depth = above;
		return 0;
	}
	fd = path_open(d->fd, "..", O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* Moved meanwhile, out of the tree perhaps. */
	if (st.st_dev != d->ids[above].dev || st.st_ino != d->ids[above].ino)
		return -ESTALE;
	close(d->fd);
	d->fd = take_fd(&fd);
	d->depth = above;
	return 0;
}

void descent_close(struct descent *d)
{
	size_t above = d->depth < WALK_FDS_MAX ? d->depth : WALK_FDS_MAX;

	close(d->fd);
	while (above)
		close(d->fds[--above]);
}

/* Names for this level: from `from` on, as many as there is room for. */
static int read_names(struct walk *w, struct scan_bound bound)
{
	struct walk_level *level = &w->levels[w->at.depth];
	uint32_t reserved = (uint32_t)(WALK_LEVELS_MAX - w->at.depth) * WALK_NAME_SIZE;
	uint32_t room = (WALK_NAMES_SIZE - level->start - reserved) / 2;
	const char *last = NULL;
	int error;

	bound.max = w->max;
	bound.no_hidden = w->no_hidden;
	bound.is_any = w->is_any_order;
	level->next = level->end = level->start;
	level->has_more = false;
	error = scan_read(&w->scan, w->at.fd, &bound);
	if (error < 0)
		return error;
	/* One has its place for sure. */
	if (room < WALK_NAME_SIZE)
		room = WALK_NAME_SIZE;
	level->has_more = w->scan.has_more;
	for (size_t i = 0; i < w->scan.count; i++) {
		const char *name = w->scan.names[w->scan.order[i]];
		uint32_t size = (uint32_t)strlen(name) + 1;

		if (last && strcmp(name, last) == 0)
			continue; /* renamed while it was read */
		if (level->end - level->start + size > room) {
			level->has_more = true;
			break;
		}
		memcpy(w->names + level->end, name, size);
		last = w->names + level->end;
		level->end += size;
	}
	return 0;
}

/* The names of a directory that was just entered, from the cursor's on if that leads here. */
static int begin_level(struct walk *w, uint32_t start)
{
	struct str rest = w->cursor, first = str_cut(&rest, '/');
	char from[NAME_MAX + 1] = "";

	w->levels[w->at.depth] = (struct walk_level){start, start, start, start, false};
	if (first.len > NAME_MAX)
		return -ENAMETOOLONG;
	if (first.len)
		memcpy(from, first.at, first.len);
	return read_names(w, (struct scan_bound){.from = from, .is_inclusive = true});
}

static int go_on(struct walk *w)
{
	const struct walk_level *level = &w->levels[w->at.depth];
	char from[NAME_MAX + 1];

	memcpy(from, w->names + level->current, strlen(w->names + level->current) + 1);
	return read_names(w, (struct scan_bound){.from = from});
}

int walk_init(struct walk *w, int fd)
{
	w->cursor = (struct str){NULL, 0};
	w->is_one_mount = w->no_hidden = w->is_any_order = w->is_flat = w->is_lost = false;
	w->max = 0;
	w->name = NULL;
	/* The first names are read when the walk is set up. */
	w->is_entering = true;
	return descent_init(&w->at, fd);
}

void walk_close(struct walk *w)
{
	descent_close(&w->at);
}

void walk_skip(struct walk *w)
{
	w->is_entering = false;
}

bool walk_is_made_up(int fd)
{
	/* The last two: mqueue and fuse's control, which have no names of their own. */
	static const uint32_t types[] = {PROC_SUPER_MAGIC,   0x62656572 /* sysfs */,
					 CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
					 DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC,
					 TRACEFS_MAGIC,      SECURITYFS_MAGIC,
					 BPF_FS_MAGIC,       0x19800202,
					 0x65735543};
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return true;
	for (size_t i = 0; i < array_len(types); i++) {
		if ((uint32_t)fs.f_type == types[i])
			return true;
	}
	return false;
}

/* Into the directory that was found last. */
static int enter(struct walk *w)
{
	int fd = path_open(w->at.fd, w->name, OPEN_FLAGS, RESOLVE_NO_XDEV);
	uint32_t start = w->levels[w->at.depth].end;
	bool is_empty = false;
	int error;

	if (fd == -EXDEV && !w->is_one_mount) {
		fd = path_open(w->at.fd, w->name, OPEN_FLAGS, 0);
		is_empty = fd >= 0 && walk_is_made_up(fd);
	}
	if (fd < 0)
		return fd;
	error = descent_enter(&w->at, fd);
	if (error < 0)
		return error;
	if (is_empty) {
		w->levels[w->at.depth] = (struct walk_level){start, start, start, start, false};
		return 0;
	}
	error = begin_level(w, start);
	if (error < 0)
		descent_leave(&w->at);
	return error;
}

static int leave(struct walk *w)
{
	int error = 0;

	w->cursor.len = 0;
	if (fstat(w->at.fd, &w->st) < 0)
		error = -errno;
	if (error == 0)
		error = descent_leave(&w->at);
	w->is_lost = error < 0;
	w->name = w->names + w->levels[w->at.depth].current;
	return error < 0 ? error : WALK_LEAVE;
}

/* The next name of this level. True: it was seen already, and only what is in it counts. */
static bool take_name(struct walk *w)
{
	struct walk_level *level = &w->levels[w->at.depth];
	struct str first;

	level->current = level->next;
	w->name = w->names + level->current;
	level->next += (uint32_t)strlen(w->name) + 1;
	if (!w->cursor.len)
		return false;
	first = str_cut(&w->cursor, '/');
	if (str_eq(first, str_of(w->name)))
		return true;
	w->cursor.len = 0;
	return false;
}

int walk_next(struct walk *w)
{
	int error;

	for (;;) {
		const struct walk_level *level = &w->levels[w->at.depth];
		bool is_seen;

		if (w->is_entering) {
			w->is_entering = false;
			error = w->name ? enter(w) : begin_level(w, 0);
			if (error < 0)
				return error;
			continue;
		}
		if (level->next == level->end && level->has_more) {
			error = go_on(w);
			if (error < 0)
				return error;
			continue;
		}
		if (level->next == level->end)
			return w->at.depth ? leave(w) : WALK_END;
		is_seen = take_name(w);
		if (fstatat(w->at.fd, w->name, &w->st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno != ENOENT)
				return -errno;
			continue;
		}
		w->is_entering = S_ISDIR(w->st.st_mode) && !w->is_flat;
		if (!is_seen)
			return WALK_ENTRY;
		if (!w->is_entering)
			w->cursor.len = 0;
	}
}

int walk_path(const struct walk *w, char *ret, size_t size)
{
	size_t used = 0;

	ret[0] = '\0';
	for (size_t i = 0; w->name && i <= w->at.depth; i++) {
		const char *name = w->names + w->levels[i].current;
		size_t len = strlen(name);

		if (used + (i > 0) + len + 1 > size)
			return -ENAMETOOLONG;
		if (i)
			ret[used++] = '/';
		memcpy(ret + used, name, len + 1);
		used += len;
	}
	return (int)used;
}
