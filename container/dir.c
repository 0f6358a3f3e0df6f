#include "container/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

static int open_below(int dir, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.mode = flags & (O_CREAT | O_TMPFILE) & ~O_DIRECTORY ? mode : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | resolve,
	};
	long fd;

	/* EAGAIN: something below was renamed while the kernel looked. */
	for (int tries = 0; tries < 100; tries++) {
		fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd < 0 ? -errno : (int)fd;
}

int dir_open_file(int dir, const char *path, int flags, mode_t mode)
{
	return open_below(dir, path, flags, mode, 0);
}

int dir_open(int dir, const char *path)
{
	return open_below(dir, path, O_RDONLY | O_DIRECTORY, 0, 0);
}

int dir_open_here(int dir, const char *path)
{
	return open_below(dir, path, O_RDONLY | O_DIRECTORY, 0, RESOLVE_NO_XDEV);
}

int dir_find_here(int dir, const char *path)
{
	return open_below(dir, path, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_XDEV);
}

int dir_make(int dir, const char *name, mode_t mode)
{
	cleanup_fd int fd = -1;

	if (mkdirat(dir, name, mode) < 0 && errno != EEXIST)
		return -errno;
	fd = dir_open(dir, name);
	if (fd < 0)
		return fd;
	/* Whatever the umask was. */
	if (fchmod(fd, mode) < 0)
		return -errno;
	return take_fd(&fd);
}

ssize_t dir_read(int dir, const char *path, char *text, size_t size)
{
	cleanup_fd int fd = dir_open_file(dir, path, O_RDONLY, 0);
	size_t len = 0;

	if (fd < 0)
		return fd;
	for (;;) {
		ssize_t n = read(fd, text + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
		if (len == size)
			return -EFBIG;
	}
	text[len] = '\0';
	return (ssize_t)len;
}

static int parse_number(const char *text, uint64_t *ret)
{
	char *end;
	unsigned long long number;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || (*end && *end != '\n'))
		return -EINVAL;
	*ret = number;
	return 0;
}

int dir_read_number(int dir, const char *path, uint64_t *ret)
{
	char text[64];
	ssize_t len = dir_read(dir, path, text, sizeof(text));

	return len < 0 ? (int)len : parse_number(text, ret);
}

int dir_read_key(int dir, const char *path, const char *key, uint64_t *ret)
{
	char text[4096];
	ssize_t len = dir_read(dir, path, text, sizeof(text));
	size_t key_len = strlen(key);

	if (len < 0)
		return (int)len;
	for (char *line = text, *end; line && *line; line = end ? end + 1 : NULL) {
		end = strchr(line, '\n');
		if (strncmp(line, key, key_len) == 0 && line[key_len] == ' ')
			return parse_number(line + key_len + 1, ret);
	}
	return -ENOENT;
}

int dir_write_all(int fd, struct str bytes)
{
	while (bytes.len) {
		ssize_t n = write(fd, bytes.at, bytes.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes = (struct str){bytes.at + n, bytes.len - (size_t)n};
	}
	return 0;
}

int dir_write(int dir, const char *path, const char *text)
{
	cleanup_fd int fd = dir_open_file(dir, path, O_WRONLY, 0);

	return fd < 0 ? fd : dir_write_all(fd, str_of(text));
}

int dir_write_number(int dir, const char *path, uint64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	return dir_write(dir, path, text);
}

int dir_replace(int dir, const char *name, struct str bytes, mode_t mode)
{
	char temporary[NAME_MAX + 1];
	cleanup_fd int fd = -1;
	int r;

	/* No sandbox id has a dot, so the name is free. */
	if (snprintf(temporary, sizeof(temporary), ".%s.new", name) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	fd = dir_open_file(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, mode);
	if (fd < 0)
		return fd;
	r = dir_write_all(fd, bytes);
	if (r == 0 && fchmod(fd, mode) < 0)
		r = -errno;
	if (r == 0 && renameat(dir, temporary, dir, name) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir, temporary, 0);
	return r;
}
