#include "container/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <pwd.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/subids.h"

#define RANGES_MAX   16
#define SUBIDS_BYTES (256 * 1024)
#define DEPTH_MAX    32 /* the kernel's own limit of nested user namespaces */

struct id_map {
	struct subids_range ranges[RANGES_MAX];
	unsigned count;
};

static void read_ranges(struct id_map *ret, const char *path)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	cleanup_free char *text = malloc(SUBIDS_BYTES);
	struct passwd pwd, *found = NULL;
	char names[4096];
	ssize_t n;

	ret->count = 0;
	if (fd < 0 || !text)
		return;
	n = read(fd, text, SUBIDS_BYTES);
	if (n <= 0)
		return;
	if (getpwuid_r(geteuid(), &pwd, names, sizeof(names), &found) != 0)
		found = NULL;
	ret->count = subids_ranges((struct str){text, (size_t)n}, found ? pwd.pw_name : NULL,
				   geteuid(), ret->ranges, RANGES_MAX);
}

/* Cuts the map to so many ids, so that users and groups have the same. */
static uint32_t limit_map(struct id_map *map, uint32_t limit)
{
	uint32_t total = 0;

	for (unsigned i = 0; i < map->count; i++) {
		struct subids_range *range = &map->ranges[i];

		if (range->count > limit - total)
			range->count = limit - total;
		if (range->count == 0) {
			map->count = i;
			break;
		}
		total += range->count;
	}
	return total;
}

/* In the helper: becomes newuidmap or newgidmap. */
static void exec_mapper(const char *program, pid_t target, uint32_t own, const struct id_map *map)
{
	char numbers[3 * (RANGES_MAX + 1) + 1][24];
	char *argv[array_len(numbers) + 2];
	uint32_t inside = 1;
	unsigned n = 0;

	snprintf(numbers[n++], sizeof(numbers[0]), "%ld", (long)target);
	snprintf(numbers[n++], sizeof(numbers[0]), "0");
	snprintf(numbers[n++], sizeof(numbers[0]), "%u", own);
	snprintf(numbers[n++], sizeof(numbers[0]), "1");
	for (unsigned i = 0; i < map->count; i++) {
		snprintf(numbers[n++], sizeof(numbers[0]), "%u", inside);
		snprintf(numbers[n++], sizeof(numbers[0]), "%u", map->ranges[i].first);
		snprintf(numbers[n++], sizeof(numbers[0]), "%u", map->ranges[i].count);
		inside += map->ranges[i].count;
	}
	argv[0] = (char *)(uintptr_t)program;
	for (unsigned i = 0; i < n; i++)
		argv[i + 1] = numbers[i];
	argv[n + 1] = NULL;
	dup2(STDERR_FILENO, STDOUT_FILENO);
	execvp(program, argv);
	_exit(127);
}

static bool has_succeeded(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/*
 * The helper stays outside of the new namespace: newuidmap and newgidmap write the maps of a
 * process from the namespace above it. It begins when `go_fd` gives a byte, and ends with 0 when
 * both maps are written.
 */
static void help(int go_fd, pid_t target, const struct id_map *users, const struct id_map *groups)
{
	uint32_t uid = geteuid(), gid = getegid();
	pid_t child;
	char go;

	if (read(go_fd, &go, 1) != 1)
		_exit(1);
	child = fork();
	if (child == 0)
		exec_mapper("newgidmap", target, gid, groups);
	if (child < 0 || !has_succeeded(child))
		_exit(1);
	exec_mapper("newuidmap", target, uid, users);
}

static int write_text(const char *path, const char *text)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

static bool has_map(const char *path)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	char byte;

	return fd >= 0 && read(fd, &byte, 1) == 1;
}

/* What everybody may do: one id, one's own. The helper may have written one of the maps. */
static int map_one(uid_t uid, gid_t gid, struct err *err)
{
	char text[32];
	int r = 0;

	if (!has_map("/proc/self/gid_map")) {
		r = write_text("/proc/self/setgroups", "deny");
		snprintf(text, sizeof(text), "0 %u 1\n", (unsigned)gid);
		if (r == 0)
			r = write_text("/proc/self/gid_map", text);
	}
	snprintf(text, sizeof(text), "0 %u 1\n", (unsigned)uid);
	if (r == 0 && !has_map("/proc/self/uid_map"))
		r = write_text("/proc/self/uid_map", text);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL,
			       "the ids of the user namespace cannot be mapped: %s", strerror(-r));
	return 0;
}

static int find_maps(struct id_map *users, struct id_map *groups)
{
	uint32_t limit;

	read_ranges(users, "/etc/subuid");
	read_ranges(groups, "/etc/subgid");
	limit = limit_map(users, UINT32_MAX / 2);
	limit = limit_map(groups, limit);
	limit_map(users, limit);
	return limit;
}

int userns_create(uint32_t *ret_ids, struct err *warning, struct err *err)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	struct id_map users, groups;
	uint32_t extra = find_maps(&users, &groups);
	pid_t helper = 0, target = getpid();
	int go[2], r = 0;

	warning->sentence[0] = '\0';
	*ret_ids = 1;
	if (pipe2(go, O_CLOEXEC) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "no pipe: %s", strerror(errno));
	if (extra) {
		helper = fork();
		if (helper == 0) {
			close(go[1]);
			help(go[0], target, &users, &groups);
		}
	}
	if (unshare(CLONE_NEWUSER) < 0)
		r = err_set(err, -errno, ERR_UNSUPPORTED,
			    "this user cannot make a user namespace: %s", strerror(errno));
	if (r == 0 && helper > 0 && write(go[1], "", 1) < 0)
		r = err_set(err, -errno, ERR_INTERNAL, "no pipe: %s", strerror(errno));
	close(go[0]);
	close(go[1]);
	if (helper > 0 && has_succeeded(helper) && r == 0)
		*ret_ids = 1 + extra;
	if (r < 0 || *ret_ids > 1)
		return r;
	err_set(warning, -EPERM, ERR_UNSUPPORTED,
		extra ? "newuidmap and newgidmap would not map the ids of /etc/subuid and "
			"/etc/subgid: all sandboxes share one user id"
		      : "/etc/subuid or /etc/subgid gives this user no ids: all sandboxes share "
			"one user id");
	return map_one(uid, gid, err);
}

uint32_t userns_ids(void)
{
	cleanup_file FILE *file = fopen("/proc/self/uid_map", "re");
	unsigned long inside, outside, count;
	uint64_t total = 0;

	while (file && fscanf(file, "%lu %lu %lu", &inside, &outside, &count) == 3)
		total += count;
	return total > UINT32_MAX ? UINT32_MAX : (uint32_t)total;
}

static bool is_same(int a, int b)
{
	struct stat one, other;

	return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
	       one.st_ino == other.st_ino;
}

/* Climbs until the parent is our own namespace. */
static int open_child_of_ours(pid_t pid)
{
	cleanup_fd int own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	cleanup_fd int fd = -1;
	char path[48];

	snprintf(path, sizeof(path), "/proc/%ld/ns/user", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (own < 0 || fd < 0)
		return -errno;
	if (is_same(own, fd))
		return -EINVAL;
	for (int i = 0; i < DEPTH_MAX; i++) {
		int parent = ioctl(fd, NS_GET_PARENT);

		if (parent < 0)
			return -errno;
		if (is_same(parent, own)) {
			close(parent);
			return take_fd(&fd);
		}
		close(fd);
		fd = parent;
	}
	return -ELOOP;
}

bool userns_is_below(pid_t pid)
{
	cleanup_fd int fd = open_child_of_ours(pid);

	return fd >= 0;
}

int userns_join(pid_t pid, uint32_t *ret_ids, struct err *err)
{
	cleanup_fd int fd = open_child_of_ours(pid);

	if (fd < 0)
		return err_set(err, fd, ERR_INTERNAL,
			       "the user namespace of process %ld cannot be opened: %s", (long)pid,
			       strerror(-fd));
	if (setns(fd, CLONE_NEWUSER) < 0)
		return err_set(err, -errno, ERR_INTERNAL,
			       "the user namespace of process %ld cannot be entered: %s", (long)pid,
			       strerror(errno));
	*ret_ids = userns_ids();
	return 0;
}
