#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/work.h"
#include "cmd/berth-init/work_path.h"

#define DEFAULT_MODE 0755
#define OPEN_FLAGS   (O_RDONLY | O_DIRECTORY | O_NONBLOCK)

static int stat_path(struct work *w)
{
	cleanup_fd int fd = path_open(AT_FDCWD, w->path, O_PATH | O_DIRECTORY, 0);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	work_set_stat(&w->result.stat, &st);
	return 0;
}

int work_mkdir(struct work *w)
{
	cleanup_place struct place place = {.fd = -1};
	bool has_mode = w->request.flags & FILE_HAS_MODE;
	mode_t mode = has_mode ? w->request.mode : DEFAULT_MODE;
	int error = place_find(w->path, true, &place);

	if (error < 0 && error != -EINVAL)
		return work_at(w, FILE_AT_PARENT, error);
	if (error == 0 && place.name[0]) {
		if (mkdirat(place.fd, place.name, mode) == 0)
			w->result.is_new = 1;
		else if (errno != EEXIST)
			return work_at(w, FILE_AT_PATH, -errno);
	}
	/* These bits are not mkdir's to give. */
	if (w->result.is_new && mode & 07000 && fchmodat(place.fd, place.name, mode, 0) < 0)
		return work_at(w, FILE_AT_PATH, -errno);
	error = stat_path(w);
	/* Something is there, but no directory. */
	if (error == -ENOTDIR || (error == -ENOENT && place.fd >= 0))
		error = -EEXIST;
	return work_at(w, FILE_AT_PATH, error);
}

int work_move(struct work *w)
{
	cleanup_place struct place from = {.fd = -1}, to = {.fd = -1};
	struct stat st;
	int error = place_find(w->path, false, &from);

	if (error == 0)
		error = from.name[0] ? place_stat(&from, &st) : -EBUSY;
	if (error < 0)
		return work_at(w, FILE_AT_PATH, error);
	work_set_stat(&w->result.stat, &st);
	error = place_find(w->other, true, &to);
	if (error == 0 && !to.name[0])
		error = -EBUSY;
	if (error < 0)
		return work_at(w, FILE_AT_OTHER, error);
	w->result.is_new = place_stat(&to, &st) == -ENOENT;
	if (renameat(from.fd, from.name, to.fd, to.name) < 0)
		/* ENOTDIR: `other` itself, not what is above it; that was found. */
		return work_at(w, FILE_AT_OTHER, errno == ENOTDIR ? -EEXIST : -errno);
	return 0;
}

static int remove_one(struct work *w, int dir_fd, const char *name, const struct stat *st)
{
	if (unlinkat(dir_fd, name, S_ISDIR(st->st_mode) ? AT_REMOVEDIR : 0) < 0)
		return errno == ENOENT ? 0 : -errno;
	w->result.count++;
	if (S_ISREG(st->st_mode))
		w->result.bytes += (uint64_t)st->st_size;
	return 0;
}

static int remove_below(struct work *w)
{
	struct walk *walk = &w->walk;
	int r;

	walk->is_one_mount = walk->is_any_order = true;
	walk->max = 1024; /* what is left is found by reading on */
	while ((r = walk_next(walk)) > 0) {
		if (r == WALK_ENTRY && S_ISDIR(walk->st.st_mode))
			continue;
		r = remove_one(w, walk->at.fd, walk->name, &walk->st);
		if (r < 0)
			break;
	}
	if (r < 0)
		work_at_entry(w, r);
	return r == -EXDEV ? -EBUSY : r;
}

int work_remove_tree(struct work *w, int dir_fd, const char *name)
{
	/* A mount would lose all that is in it before it turned out that it cannot be removed. */
	cleanup_fd int seen = path_open(dir_fd, name, O_PATH | O_NOFOLLOW, RESOLVE_NO_XDEV);
	struct stat st;
	int fd, error;

	if (seen < 0)
		return seen == -EXDEV ? -EBUSY : seen;
	if (fstat(seen, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode)) {
		fd = path_open(dir_fd, name, OPEN_FLAGS | O_NOFOLLOW, RESOLVE_NO_XDEV);
		if (fd < 0)
			return fd;
		error = walk_init(&w->walk, fd);
		if (error == 0)
			error = remove_below(w);
		walk_close(&w->walk);
		if (error < 0)
			return error;
	}
	return remove_one(w, dir_fd, name, &st);
}

int work_remove(struct work *w)
{
	cleanup_place struct place place = {.fd = -1};
	struct stat st;
	int error = place_find(w->path, false, &place);

	work_at(w, FILE_AT_PATH, 0);
	if (error == 0)
		error = place.name[0] ? place_stat(&place, &st) : -EBUSY;
	if (error < 0)
		return error;
	work_set_stat(&w->result.stat, &st);
	if (S_ISDIR(st.st_mode) && !(w->request.flags & FILE_RECURSIVE))
		return -EISDIR;
	return work_remove_tree(w, place.fd, place.name);
}

/* Of what the fd stands for, which may be opened with O_PATH. */
static int chmod_fd(int fd, mode_t mode)
{
	char path[PATH_FD_SIZE];

	path_of_fd(path, fd);
	return chmod(path, mode) < 0 ? -errno : 0;
}

static int chmod_entry(struct work *w)
{
	cleanup_fd int fd = path_open(w->walk.at.fd, w->walk.name, O_PATH | O_NOFOLLOW, 0);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return 0;
	w->result.count++;
	return chmod_fd(fd, w->request.mode);
}

/* A directory's new mode must let us in, or be set when we are out again. */
static bool lets_in(mode_t mode)
{
	return (mode & 0500) == 0500;
}

static int chmod_below(struct work *w, int fd)
{
	bool is_early = lets_in(w->request.mode);
	int r = walk_init(&w->walk, fd);

	if (r < 0)
		return work_at(w, FILE_AT_PATH, r);
	while ((r = walk_next(&w->walk)) > 0) {
		if (S_ISDIR(w->walk.st.st_mode) && is_early != (r == WALK_ENTRY))
			continue;
		r = chmod_entry(w);
		if (r < 0)
			break;
	}
	return r < 0 ? work_at_entry(w, r) : 0;
}

int work_chmod(struct work *w)
{
	cleanup_fd int fd = path_open(AT_FDCWD, w->path, O_PATH, 0);
	bool is_early = lets_in(w->request.mode);
	struct stat st;
	int error = fd < 0 ? fd : 0, dir_fd;

	work_at(w, FILE_AT_PATH, 0);
	if (error == 0 && fstat(fd, &st) < 0)
		error = -errno;
	if (error == 0 && is_early)
		error = chmod_fd(fd, w->request.mode);
	if (error < 0)
		return error;
	if (S_ISDIR(st.st_mode) && w->request.flags & FILE_RECURSIVE) {
		dir_fd = path_open(fd, ".", OPEN_FLAGS, 0);
		error = dir_fd < 0 ? dir_fd : chmod_below(w, dir_fd);
	}
	if (error < 0)
		return error;
	if (!is_early)
		error = chmod_fd(fd, w->request.mode);
	if (error == 0 && fstat(fd, &st) < 0)
		error = -errno;
	w->result.count++;
	work_set_stat(&w->result.stat, &st);
	return error;
}
