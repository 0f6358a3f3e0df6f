#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/work.h"
#include "cmd/berth-init/work_file.h"

#define PART_MAX   (16 * 1024 * 1024)
#define OPEN_FLAGS (O_RDONLY | O_DIRECTORY | O_NONBLOCK)

/* Bytes from *at to `end`, by the kernel alone. Less if the file ends. */
static int copy_range(int in, int out, off_t at, off_t end)
{
	bool is_shared = true;

	if (lseek(in, at, SEEK_SET) < 0 || lseek(out, at, SEEK_SET) < 0)
		return -errno;
	while (at < end) {
		size_t part = end - at < PART_MAX ? (size_t)(end - at) : PART_MAX;
		ssize_t n = is_shared ? copy_file_range(in, NULL, out, NULL, part, 0)
				      : sendfile(out, in, NULL, part);

		if (n < 0 && errno == EINTR)
			continue;
		/* Between some file systems it cannot be done that way. */
		if (n < 0 && is_shared && errno != ENOSPC && errno != EDQUOT && errno != EFBIG) {
			is_shared = false;
			continue;
		}
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		at += n;
	}
	return 0;
}

/* `st` is of `in`, and says afterwards how much it was: a file that became shorter meanwhile is as
 * long as it is now, and not filled up. */
static int copy_data(int in, int out, struct stat *st)
{
	off_t at = 0, size = st->st_size;
	int error = 0;

	while (at < size && error == 0) {
		off_t data = lseek(in, at, SEEK_DATA), end;

		if (data < 0 && errno == ENXIO)
			break; /* only a hole is left */
		if (data < 0)
			data = at;
		end = lseek(in, data, SEEK_HOLE);
		if (end <= data || end > size)
			end = size;
		if (data < size)
			error = copy_range(in, out, data, end);
		at = end;
	}
	if (error == 0 && fstat(in, st) < 0)
		error = -errno;
	if (st->st_size > size)
		st->st_size = size; /* what was added is not in it */
	if (error == 0 && ftruncate(out, st->st_size) < 0)
		error = -errno;
	return error;
}

static int copy_file(struct work *w, int in, struct stat *st)
{
	cleanup_place struct place place = {.fd = -1};
	cleanup_temp struct temp temp = {.fd = -1};
	struct stat old;
	int r = file_has_no_size(in);

	if (r != 0)
		return work_at(w, FILE_AT_PATH, r < 0 ? r : -EOPNOTSUPP);
	r = place_find_target(w->other, &place);
	if (r == 0)
		r = file_check_target(&place, &old);
	w->result.is_new = r > 0;
	/* Onto itself: it would only change its owner. */
	if (r == 0 && old.st_dev == st->st_dev && old.st_ino == st->st_ino)
		r = -EINVAL;
	if (r >= 0)
		r = temp_open(&temp, place.fd);
	if (r < 0)
		return work_at(w, FILE_AT_OTHER, r);
	r = copy_data(in, temp.fd, st);
	if (r == 0 && fchmod(temp.fd, st->st_mode & 07777) < 0)
		r = -errno;
	if (r < 0)
		return work_at(w, FILE_AT_DATA, r);
	w->result.count = 1;
	w->result.bytes = (uint64_t)st->st_size;
	return work_at(w, FILE_AT_OTHER, temp_place(&temp, place.name));
}

static int copy_file_entry(struct work *w)
{
	const char *name = w->walk.name;
	cleanup_fd int in =
		path_open(w->walk.at.fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
	cleanup_fd int out = -1;
	struct stat st;
	int error;

	if (in < 0)
		return in;
	if (fstat(in, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EAGAIN; /* not what it was a moment ago */
	out = openat(w->target.fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return -errno;
	error = copy_data(in, out, &st);
	if (error == 0 && fchmod(out, st.st_mode & 07777) < 0)
		error = -errno;
	w->result.bytes += (uint64_t)st.st_size;
	return error;
}

static int copy_link(struct work *w)
{
	char target[FILE_PATH_MAX + 1];
	ssize_t len = readlinkat(w->walk.at.fd, w->walk.name, target, sizeof(target) - 1);

	if (len < 0)
		return -errno;
	target[len] = '\0';
	return symlinkat(target, w->target.fd, w->walk.name) < 0 ? -errno : 0;
}

static int copy_directory(struct work *w)
{
	int fd;

	if (mkdirat(w->target.fd, w->walk.name, 0700) < 0)
		return -errno;
	fd = path_open(w->target.fd, w->walk.name, OPEN_FLAGS | O_NOFOLLOW, 0);
	return fd < 0 ? fd : descent_enter(&w->target, fd);
}

static int copy_entry(struct work *w)
{
	mode_t mode = w->walk.st.st_mode;

	w->result.count++;
	switch (mode & S_IFMT) {
	case S_IFREG:
		return copy_file_entry(w);
	case S_IFDIR:
		return copy_directory(w);
	case S_IFLNK:
		return copy_link(w);
	default:
		/* The kernel says which of these a sandbox may have. */
		if (mknodat(w->target.fd, w->walk.name, mode, w->walk.st.st_rdev) < 0)
			return -errno;
		return 0;
	}
}

static int copy_below(struct work *w)
{
	int r;

	while ((r = walk_next(&w->walk)) > 0) {
		if (r == WALK_ENTRY)
			r = copy_entry(w);
		else if (fchmod(w->target.fd, w->walk.st.st_mode & 07777) < 0)
			r = -errno;
		else
			r = descent_leave(&w->target);
		if (r < 0)
			break;
	}
	return r < 0 ? work_at_entry(w, r) : 0;
}

/* True if `fd` is, or lies in, the directory with these ids. */
static int is_within(int fd, const struct stat *tree)
{
	cleanup_fd int at = path_open(fd, ".", O_PATH | O_DIRECTORY, 0);
	struct stat st, last = {0};

	for (int i = 0; i < WALK_LEVELS_MAX; i++) {
		int above;

		if (at < 0)
			return at;
		if (fstat(at, &st) < 0)
			return -errno;
		if (st.st_dev == tree->st_dev && st.st_ino == tree->st_ino)
			return 1;
		if (i && st.st_dev == last.st_dev && st.st_ino == last.st_ino)
			return 0; /* the root is its own parent */
		last = st;
		above = path_open(at, "..", O_PATH | O_DIRECTORY, 0);
		close(at);
		at = above;
	}
	return -ENAMETOOLONG;
}

static int make_directory(const struct temp_maker *maker, const char *name)
{
	return mkdirat(maker->dir_fd, name, 0700) < 0 ? -errno : 0;
}

/* Into a directory that nobody knows; takes the fd of the old one. */
static int copy_into(struct work *w, int in, const struct place *place, const char *temp)
{
	int fd = path_open(place->fd, temp, OPEN_FLAGS | O_NOFOLLOW, 0);
	int error = walk_init(&w->walk, in);
	struct stat st;

	if (error == 0)
		error = fd < 0 ? fd : descent_init(&w->target, fd);
	if (error == 0 && fstat(in, &st) < 0)
		error = -errno;
	if (error == 0)
		error = copy_below(w);
	if (error == 0 && fchmod(fd, st.st_mode & 07777) < 0)
		error = work_at(w, FILE_AT_OTHER, -errno);
	if (fd >= 0)
		descent_close(&w->target);
	walk_close(&w->walk);
	return error;
}

static int copy_tree(struct work *w)
{
	cleanup_place struct place place = {.fd = -1};
	struct temp_maker maker = {.make = make_directory};
	cleanup_fd int in = path_open(AT_FDCWD, w->path, OPEN_FLAGS, 0);
	char temp[PLACE_TEMP_SIZE];
	struct file_result result;
	struct stat st, old;
	int r = in < 0 ? in : 0;

	if (r == 0 && fstat(in, &st) < 0)
		r = -errno;
	if (r == 0)
		r = file_has_no_size(in);
	if (r != 0)
		return work_at(w, FILE_AT_PATH, r < 0 ? r : -EOPNOTSUPP);
	work_at(w, FILE_AT_OTHER, 0);
	r = place_find(w->other, true, &place);
	if (r == 0 && (!place.name[0] || place_stat(&place, &old) != -ENOENT))
		r = -EEXIST;
	if (r == 0)
		r = is_within(place.fd, &st);
	if (r != 0)
		return r > 0 ? -EINVAL : r;
	maker.dir_fd = place.fd;
	r = temp_make(&maker, temp);
	if (r < 0)
		return r;
	w->result.count = w->result.is_new = 1;
	r = copy_into(w, take_fd(&in), &place, temp);
	if (r == 0 && renameat(place.fd, temp, place.fd, place.name) < 0)
		r = -errno;
	if (r == 0)
		return 0;
	/* The first failure is the one to tell of; where it was has its own memory by now. */
	result = w->result;
	memcpy(w->text, w->where, sizeof(w->where));
	work_remove_tree(w, place.fd, temp);
	memcpy(w->where, w->text, sizeof(w->where));
	w->result = result;
	return r;
}

int work_copy(struct work *w)
{
	cleanup_fd int in = -1;
	struct stat st = {0};
	int error = file_open(w->path, &st, &in);

	work_set_stat(&w->result.stat, &st);
	if (error == -EISDIR && w->request.flags & FILE_RECURSIVE)
		return copy_tree(w);
	if (error < 0)
		return work_at(w, FILE_AT_PATH, error);
	return copy_file(w, in, &st);
}
