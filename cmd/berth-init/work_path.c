#include "cmd/berth-init/work_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "cmd/berth-init/number.h"

#define PATH_FLAGS (O_PATH | O_DIRECTORY)
#define LINKS_MAX  40 /* as the kernel has it */
#define TRIES_MAX  100

void place_close(struct place *place)
{
	close_fdp(&place->fd);
}

int path_open(int from, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS | resolve,
	};
	int fd, tries = 0;

	/* A rename somewhere meanwhile makes the kernel unsure whether it is still beneath. */
	do
		fd = (int)syscall(SYS_openat2, from, path, &how, sizeof(how));
	while (fd < 0 && errno == EAGAIN && resolve & RESOLVE_BENEATH && ++tries < TRIES_MAX);
	return fd < 0 ? -errno : fd;
}

void path_of_fd(char ret[PATH_FD_SIZE], int fd)
{
	static const char start[] = "/proc/self/fd/";

	memcpy(ret, start, sizeof(start));
	number_put(ret + sizeof(start) - 1, fd);
}

/* One directory further, made if it is missing. */
static int step_into(int fd, const char *name, bool is_made)
{
	int next = path_open(fd, name, PATH_FLAGS, 0);

	if (next != -ENOENT || !is_made)
		return next;
	if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	return path_open(fd, name, PATH_FLAGS, 0);
}

/* The directory `path` of `len` bytes, name by name. */
static int walk_into(int from, const char *path, size_t len, bool is_made)
{
	cleanup_fd int fd = path_open(from, *path == '/' ? "/" : ".", PATH_FLAGS, 0);
	char name[NAME_MAX + 1];
	size_t at = 0;

	while (fd >= 0 && at < len) {
		size_t end;
		int next;

		while (at < len && path[at] == '/')
			at++;
		for (end = at; end < len && path[end] != '/'; end++)
			;
		if (end == at)
			break;
		if (end - at > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path + at, end - at);
		name[end - at] = '\0';
		at = end;
		next = step_into(fd, name, is_made);
		close(fd);
		fd = next;
	}
	return take_fd(&fd);
}

/* The whole of it at once, if nothing has to be made. */
static int open_above(int from, const char *path, size_t len, bool is_made)
{
	char above[PATH_MAX];
	int fd;

	if (len >= sizeof(above))
		return -ENAMETOOLONG;
	memcpy(above, path, len);
	above[len] = '\0';
	fd = path_open(from, len ? above : ".", PATH_FLAGS, 0);
	return fd == -ENOENT && is_made ? walk_into(from, path, len, true) : fd;
}

static int find_from(int from, const char *path, bool is_made, struct place *ret)
{
	size_t end = strlen(path), start;
	size_t len;

	while (end && path[end - 1] == '/')
		end--;
	for (start = end; start && path[start - 1] != '/'; start--)
		;
	len = end - start;
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(ret->name, path + start, len);
	ret->name[len] = '\0';
	if (strcmp(ret->name, ".") == 0 || strcmp(ret->name, "..") == 0)
		return -EINVAL;
	ret->fd = open_above(from, path, start, is_made);
	return ret->fd < 0 ? ret->fd : 0;
}

int place_find(const char *path, bool is_made, struct place *ret)
{
	ret->fd = -1;
	return find_from(AT_FDCWD, path, is_made, ret);
}

int place_stat(const struct place *place, struct stat *ret)
{
	if (fstatat(place->fd, place->name, ret,
		    AT_SYMLINK_NOFOLLOW | (place->name[0] ? 0 : AT_EMPTY_PATH)) < 0)
		return -errno;
	return 0;
}

/* 1: it is a link, and `place` is where it leads now. */
static int follow(struct place *place)
{
	struct place next = {.fd = -1};
	char target[PATH_MAX];
	cleanup_fd int fd = -1;
	ssize_t len = readlinkat(place->fd, place->name, target, sizeof(target) - 1);
	int error;

	if (len < 0)
		return errno == EINVAL || errno == ENOENT ? 0 : -errno;
	/* A magic link's text is not where it leads. */
	fd = path_open(place->fd, place->name, O_PATH, 0);
	if (fd < 0 && fd != -ENOENT)
		return fd;
	target[len] = '\0';
	error = find_from(place->fd, target, true, &next);
	place_close(place);
	*place = next;
	return error < 0 ? error : 1;
}

int place_find_target(const char *path, struct place *ret)
{
	int r = place_find(path, true, ret);

	for (int i = 0; r >= 0 && ret->name[0]; i++) {
		r = i < LINKS_MAX ? follow(ret) : -ELOOP;
		if (r <= 0)
			break;
	}
	if (r == -EINVAL || (r >= 0 && !ret->name[0]))
		r = -EISDIR;
	return r < 0 ? r : 0;
}

#define TEMP_START  ".berth-"
#define TEMP_DIGITS "abcdefghijklmnopqrstuvwxyz234567"
#define TEMP_RANDOM 8

bool temp_is_name(const char *name)
{
	size_t len = strlen(TEMP_START);

	return strncmp(name, TEMP_START, len) == 0 &&
	       strspn(name + len, TEMP_DIGITS) == TEMP_RANDOM && !name[len + TEMP_RANDOM];
}

int temp_make(const struct temp_maker *maker, char ret[PLACE_TEMP_SIZE])
{
	static const char digits[] = TEMP_DIGITS;
	const size_t start = strlen(TEMP_START);
	uint8_t random[TEMP_RANDOM];
	int r = -EEXIST;

	memcpy(ret, TEMP_START, start);
	ret[start + sizeof(random)] = '\0';
	for (int i = 0; i < TRIES_MAX && r == -EEXIST; i++) {
		if (syscall(SYS_getrandom, random, sizeof(random), 0) != sizeof(random))
			return -EIO;
		for (size_t k = 0; k < sizeof(random); k++)
			ret[start + k] = digits[random[k] % (sizeof(digits) - 1)];
		r = maker->make(maker, ret);
	}
	return r;
}

static int make_named(const struct temp_maker *maker, const char *name)
{
	int fd = openat(maker->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int temp_open(struct temp *ret, int dir_fd)
{
	struct temp_maker maker = {.make = make_named, .dir_fd = dir_fd};

	ret->dir_fd = dir_fd;
	ret->name[0] = '\0';
	ret->fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (ret->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
		return -errno;
	ret->fd = temp_make(&maker, ret->name);
	if (ret->fd >= 0)
		return 0;
	ret->name[0] = '\0';
	return ret->fd;
}

void temp_close(struct temp *temp)
{
	if (temp->name[0])
		unlinkat(temp->dir_fd, temp->name, 0);
	temp->name[0] = '\0';
	close_fdp(&temp->fd);
	temp->fd = -1;
}

static int make_link(const struct temp_maker *maker, const char *name)
{
	if (linkat(AT_FDCWD, maker->from, maker->dir_fd, name, AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	return 0;
}

int temp_place(struct temp *temp, const char *name)
{
	char path[PATH_FD_SIZE];
	struct temp_maker maker = {.make = make_link, .dir_fd = temp->dir_fd, .from = path};
	int error;

	path_of_fd(path, temp->fd);
	error = make_link(&maker, name);
	/* Before anybody looks at it: what a file is known by (its ctime) changes with its names.
	 */
	if (error == 0 && temp->name[0]) {
		unlinkat(temp->dir_fd, temp->name, 0);
		temp->name[0] = '\0';
	}
	/* Not every file system has links. */
	if (error == 0 || (!temp->name[0] && error != -EEXIST))
		return error;
	if (!temp->name[0]) {
		error = temp_make(&maker, temp->name);
		if (error < 0) {
			temp->name[0] = '\0';
			return error;
		}
	}
	if (renameat(temp->dir_fd, temp->name, temp->dir_fd, name) < 0)
		return -errno;
	temp->name[0] = '\0';
	return 0;
}
