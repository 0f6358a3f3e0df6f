#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/work_path.h"
#include "cmd/berth-init/work_watch.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NONBLOCK)
#define MASK                                                                                       \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_CLOSE_WRITE |        \
	 IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

uint64_t watch_position(struct watcher *w)
{
	int waiting = 0;

	ioctl(w->fd, FIONREAD, &waiting);
	return w->read + (uint64_t)waiting;
}

/* 1: it was watched before. */
static int watch_fd(struct watcher *w, uint32_t node, int fd)
{
	char path[PATH_FD_SIZE];
	int wd;

	path_of_fd(path, fd);
	wd = inotify_add_watch(w->fd, path, MASK);
	if (wd < 0)
		return -errno;
	w->nodes[node].stamp = w->stamp;
	if (tree_set_wd(w, node, wd))
		return 1;
	tree_clear(w, node); /* what was below another directory of this name */
	return 0;
}

/* Where a walk is. */
struct cover {
	struct watcher *w;
	struct watch_sub *sub;
	uint32_t at; /* of the walk's directory */
	size_t depth;
	bool is_told;
};

static bool is_fatal(int error)
{
	return error == -ENOSPC || error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

/* The directory that the walk has found. 0: it is watched, and the walk goes into it. */
static int cover_directory(struct cover *c)
{
	struct watcher *w = c->w;
	struct walk *walk = &w->work->walk;
	uint32_t child = tree_child(w, c->at, walk->name);
	cleanup_fd int fd = -1;
	int r;

	if (!child)
		child = tree_new(w, c->sub, c->at, walk->name);
	if (!child)
		return -ENOSPC;
	fd = r = path_open(walk->at.fd, walk->name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd >= 0 && walk->st.st_dev != walk->at.ids[walk->at.depth].dev && walk_is_made_up(fd))
		r = -EXDEV;
	else if (fd >= 0)
		r = watch_fd(w, child, fd);
	if (r < 0) {
		tree_remove(w, child);
		walk_skip(walk); /* gone by now, or not to be seen into */
		return is_fatal(r) ? r : 0;
	}
	c->at = child;
	c->depth = walk->at.depth + 1;
	return 0;
}

static int cover_entry(struct cover *c)
{
	struct walk *walk = &c->w->work->walk;
	bool is_directory = S_ISDIR(walk->st.st_mode);
	char path[FILE_PATH_MAX + 1];

	if (!is_directory && !c->is_told)
		return 0;
	/* What is being made by Berth is told when it has its name. */
	if (temp_is_name(walk->name) || tree_path(c->w, c->at, walk->name, path) < 0 ||
	    event_is_excluded(c->sub, path, is_directory)) {
		walk_skip(walk);
		return 0;
	}
	if (c->is_told)
		event_found(c->w, c->at, walk->name, is_directory);
	return is_directory ? cover_directory(c) : 0;
}

static int cover_below(struct cover *c)
{
	struct walk *walk = &c->w->work->walk;
	int r;

	while ((r = walk_next(walk)) != WALK_END) {
		if (walk->is_lost) {
			watch_lose(c->w);
			return 0;
		}
		for (; c->depth > walk->at.depth; c->depth--)
			c->at = c->w->nodes[c->at].parent;
		if (r == WALK_ENTRY)
			r = cover_entry(c);
		/* What cannot be entered, or is gone, is not watched. */
		if (is_fatal(r))
			return r;
	}
	return 0;
}

int watch_cover(struct watcher *w, uint32_t node, int fd, bool is_told)
{
	cleanup_fd int taken = fd;
	struct cover c = {.w = w, .sub = sub_of(w, node), .at = node, .is_told = is_told};
	struct walk *walk = &w->work->walk;
	int r = watch_fd(w, node, fd);

	/* Of one that is watched already everything was told. */
	if (r < 0 || !c.sub->is_recursive || (r == 1 && is_told))
		return r < 0 ? r : 0;
	r = walk_init(walk, take_fd(&taken));
	if (r == 0)
		r = cover_below(&c);
	walk_close(walk);
	return r;
}

int watch_open_root(struct watch_sub *sub)
{
	cleanup_place struct place place = {.fd = -1};
	cleanup_fd int fd = -1;
	struct stat st;
	int error;

	if (sub->only[0]) {
		error = place_find_target(sub->path, &place);
		if (error < 0)
			return error;
		fd = path_open(place.fd, ".", DIR_FLAGS, 0);
		sub->has_target = place_stat(&place, &st) == 0;
	} else {
		fd = path_open(AT_FDCWD, sub->path, DIR_FLAGS, 0);
	}
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != sub->dev || st.st_ino != sub->ino)
		return -ENOENT;
	return take_fd(&fd);
}

/* A directory below, by its names: links are not followed. */
static int open_below(struct watcher *w, uint32_t node, const char *name)
{
	cleanup_fd int root = watch_open_root(sub_of(w, node));
	char path[FILE_PATH_MAX + 1];
	int len;

	if (root < 0)
		return root;
	len = tree_path(w, node, name, path);
	if (len < 0)
		return len;
	return path_open(root, path, DIR_FLAGS | O_NOFOLLOW, RESOLVE_NO_SYMLINKS);
}

static int cover_child(struct watcher *w, uint32_t node, const char *name, int fd)
{
	uint32_t child;
	int r;

	/* Moved, removed or replaced meanwhile: there are events that tell of that. */
	if (fd < 0)
		return is_fatal(fd) ? fd : 0;
	child = tree_child(w, node, name);
	if (!child)
		child = tree_new(w, sub_of(w, node), node, name);
	if (!child) {
		close(fd);
		return -ENOSPC;
	}
	r = watch_cover(w, child, fd, true);
	if (r < 0 && !is_fatal(r)) {
		tree_remove(w, child);
		r = 0;
	}
	return r;
}

int watch_cover_new(struct watcher *w, uint32_t node, const char *name)
{
	return cover_child(w, node, name, open_below(w, node, name));
}

int watch_cover_found(struct watcher *w, uint32_t node, const char *name)
{
	int fd = open_below(w, node, name);

	if (fd >= 0)
		event_found(w, node, name, true);
	return cover_child(w, node, name, fd);
}

int watch_check_moved(struct watcher *w, uint32_t node, const char *name)
{
	int fd = open_below(w, w->nodes[node].parent, name);
	struct watch_sub *sub = sub_of(w, node);
	cleanup_fd int taken = -1;
	int r;

	if (fd < 0)
		return is_fatal(fd) ? fd : 0;
	r = watch_cover(w, node, fd, true);
	/* By its new path other things may be left out. */
	if (r == 0 && sub->exclude.len) {
		taken = open_below(w, w->nodes[node].parent, name);
		if (taken >= 0)
			r = watch_cover(w, node, take_fd(&taken), false);
	}
	return is_fatal(r) ? r : 0;
}
