#include "container/bind_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/dir.h"

#define LINKS_MAX  16
#define NOT_MAPPED 65534 /* whom our namespace has no number for: root and all others */

/* Where we are on the way. */
struct place {
	int fd;
	struct stat st;
	bool is_top; /* it is "/" */
	char rest[PATH_MAX];
	unsigned links;
};

static void close_place(struct place *place)
{
	close_fdp(&place->fd);
}

static bool is_ordinary(const struct bind_walk *walk, uid_t uid)
{
	return uid != 0 && !(walk->is_rootless && uid == NOT_MAPPED);
}

/* 0, or -EPERM. */
static int check_owner(struct bind_walk *walk, const struct stat *st)
{
	if (!is_ordinary(walk, st->st_uid))
		return 0;
	if (walk->owner != 0 && walk->owner != st->st_uid)
		return -EPERM;
	walk->owner = st->st_uid;
	return 0;
}

/* 1: the next name of a path. 0: there is none. -ENAMETOOLONG */
static int next_name(struct str *rest, char name[NAME_MAX + 1])
{
	struct str part = {0};

	while (rest->len && !part.len)
		part = str_cut(rest, '/');
	if (part.len > NAME_MAX)
		return -ENAMETOOLONG;
	if (part.len)
		memcpy(name, part.at, part.len);
	name[part.len] = '\0';
	return part.len > 0;
}

/* --- to what is allowed --- */

static int go_to(struct bind_walk *walk, struct place *at, int fd)
{
	if (fd < 0)
		return fd;
	close_fdp(&at->fd);
	at->fd = fd;
	if (fstat(fd, &at->st) < 0)
		return -errno;
	return S_ISDIR(at->st.st_mode) ? check_owner(walk, &at->st) : -ENOTDIR;
}

static int go_to_top(struct bind_walk *walk, struct place *at)
{
	int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	at->is_top = true;
	return go_to(walk, at, fd < 0 ? -errno : fd);
}

/* Whether root alone can have put that link into the folder where we are. */
static bool is_roots(const struct bind_walk *walk, const struct place *at, const struct stat *link)
{
	if (walk->owner != 0 || at->st.st_mode & (S_IWGRP | S_IWOTH))
		return false;
	if (walk->is_rootless && at->is_top)
		return !is_ordinary(walk, link->st_uid);
	return at->st.st_uid == 0 && link->st_uid == 0;
}

static int follow(struct bind_walk *walk, struct place *at, int link)
{
	char target[PATH_MAX], rest[PATH_MAX];
	ssize_t len;
	int size;

	if (++at->links > LINKS_MAX)
		return -ELOOP;
	len = readlinkat(link, "", target, sizeof(target) - 1);
	if (len <= 0)
		return len < 0 ? -errno : -ENOENT;
	target[len] = '\0';
	size = snprintf(rest, sizeof(rest), "%s/%s", target, at->rest);
	if (size < 0 || (size_t)size >= sizeof(rest))
		return -ENAMETOOLONG;
	memcpy(at->rest, rest, (size_t)size + 1);
	return target[0] == '/' ? go_to_top(walk, at) : 0;
}

static int step(struct bind_walk *walk, struct place *at, const char *name)
{
	cleanup_fd int fd = -1;
	struct stat st;

	if (strcmp(name, ".") == 0)
		return 0;
	/* Such are in links alone. */
	if (strcmp(name, "..") == 0)
		fd = openat(at->fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	else
		fd = dir_open_file(at->fd, name, O_PATH | O_NOFOLLOW, 0);
	if (fd < 0)
		return strcmp(name, "..") == 0 ? -errno : take_fd(&fd);
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return is_roots(walk, at, &st) ? follow(walk, at, fd) : -ELOOP;
	at->is_top = false;
	return go_to(walk, at, take_fd(&fd));
}

int bind_walk_allowed(struct bind_walk *walk, struct str path)
{
	cleanup(close_place) struct place at = {.fd = -1};
	char name[NAME_MAX + 1];
	int r;

	if (path.len >= sizeof(at.rest))
		return -ENAMETOOLONG;
	memcpy(at.rest, path.at, path.len);
	at.rest[path.len] = '\0';
	r = go_to_top(walk, &at);
	while (r == 0) {
		struct str rest = str_of(at.rest);

		r = next_name(&rest, name);
		if (r <= 0)
			break;
		memmove(at.rest, rest.len ? rest.at : "", rest.len);
		at.rest[rest.len] = '\0';
		r = step(walk, &at, name);
	}
	return r < 0 ? r : take_fd(&at.fd);
}

/* --- below it --- */

int bind_walk_below(struct bind_walk *walk, int folder, const char *path)
{
	cleanup_fd int at = dir_find_here(folder, ".");
	struct str rest = str_of(path);
	char name[NAME_MAX + 1];
	int r = at < 0 ? at : 0;

	while (r == 0 && (r = next_name(&rest, name)) > 0) {
		int fd = dir_find_here(at, name);
		struct stat st;

		if (fd < 0)
			return fd;
		close(at);
		at = fd;
		r = fstat(fd, &st) < 0 ? -errno : check_owner(walk, &st);
	}
	return r < 0 ? r : take_fd(&at);
}
