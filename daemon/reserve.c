#include "daemon/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <uv.h>

#include "base/cleanup.h"

#define PLENTY_BYTES (16 * RESERVE_BYTES)
#define AGAIN_NS     (10 * UINT64_C(1000000000))

void reserve_init(struct reserve *reserve, const char *database)
{
	*reserve = (struct reserve){.is_there = false};
	if (snprintf(reserve->path, PATH_MAX, "%s-reserve", database) >= PATH_MAX)
		reserve->path[0] = '\0';
}

/* Whoever has just made a little room needs it more than we do. */
static bool has_plenty(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize > PLENTY_BYTES;
}

static bool is_whole(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_size >= RESERVE_BYTES;
}

/* Written, since a hole in a file takes no room. */
static int fill(int fd)
{
	static const char zeros[16 * 1024];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	for (off_t at = st.st_size; at < RESERVE_BYTES;) {
		ssize_t n = pwrite(fd, zeros, sizeof(zeros), at);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
	}
	return fdatasync(fd) < 0 ? -errno : 0;
}

void reserve_keep(struct reserve *reserve)
{
	cleanup_fd int fd = -1;
	uint64_t now = uv_hrtime();

	if (reserve->is_there || !reserve->path[0] ||
	    (reserve->tried_at_ns && now - reserve->tried_at_ns < AGAIN_NS))
		return;
	reserve->tried_at_ns = now;
	fd = open(reserve->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	/* One that is whole stays, above all when there is nothing else left. */
	reserve->is_there = is_whole(fd) || (has_plenty(fd) && fill(fd) == 0);
	if (!reserve->is_there)
		unlink(reserve->path);
}

bool reserve_spend(struct reserve *reserve)
{
	if (!reserve->is_there)
		return false;
	reserve->is_there = false;
	reserve->tried_at_ns = uv_hrtime();
	return unlink(reserve->path) == 0;
}
