#include "container/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "container/cgroup_cpus.h"
#include "container/cgroup_io.h"
#include "container/cgroup_pass.h"
#include "container/dir.h"
#include "container/freezer.h"
#include "container/mountinfo.h"

#define PATH_SIZE 160 /* "berth-<hash>/<id>/exec-<n>/<file>" */
#define LEAF      "berth-leaf"
#define MOVES_MAX 1000

static int open_root(const char *mount)
{
	return *mount ? open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

/* Every v1 hierarchy, also those without a controller: the runtime makes a cgroup in each. */
static void open_all_v1(struct cgroup_host *cg, struct str mountinfo)
{
	while (mountinfo.len && cg->all_v1_count < CGROUP_HIERARCHIES_MAX) {
		struct str line = str_cut(&mountinfo, '\n'), mount = {"", 0};
		bool is_v1 = memmem(line.at, line.len, " - cgroup ", 10);
		char path[PATH_MAX];
		int fd;

		for (int field = 0; field < 5; field++)
			mount = str_cut(&line, ' ');
		if (!is_v1 || mount.len >= sizeof(path))
			continue;
		snprintf(path, sizeof(path), "%.*s", STR_ARGS(mount));
		fd = open_root(path);
		if (fd >= 0)
			cg->all_v1_fds[cg->all_v1_count++] = fd;
	}
}

static bool has_file(int dir, const char *name)
{
	return dir >= 0 && faccessat(dir, name, F_OK, 0) == 0;
}

static void find_abilities(struct cgroup_host *cg)
{
	const int *v1 = cg->v1_fds;

	if (cg->is_v2) {
		cg->can_limit_memory = cgroup_pass_down(cg->v2_fd, "memory");
		cg->can_limit_swap = cg->can_limit_memory && access("/proc/swaps", F_OK) == 0;
		cg->can_limit_cpu = cgroup_pass_down(cg->v2_fd, "cpu");
		cg->can_limit_pids = cgroup_pass_down(cg->v2_fd, "pids");
		cgroup_pass_down(cg->v2_fd, "io");
	} else {
		cg->can_limit_memory = has_file(v1[CGROUPS_MEMORY], "memory.limit_in_bytes");
		cg->can_limit_swap = has_file(v1[CGROUPS_MEMORY], "memory.memsw.limit_in_bytes");
		cg->can_limit_cpu = has_file(v1[CGROUPS_CPU], "cpu.cfs_quota_us");
		cg->can_limit_pids = v1[CGROUPS_PIDS] >= 0;
	}
	cg->can_limit_io = cgroup_io_works(cg);
	cgroup_cpus_find(cg);
	cg->can_freeze = freezer_works(cg);
}

/* Only a cgroup without processes passes controllers down: who is in it goes to one below it. */
static int clear_out(int base)
{
	char text[4096];

	if (mkdirat(base, LEAF, 0755) < 0 && errno != EEXIST)
		return -errno;
	for (int moved = 0; moved < MOVES_MAX; moved++) {
		ssize_t len = dir_read(base, "cgroup.procs", text, sizeof(text));
		int r;

		if (len <= 0)
			return (int)len;
		text[strcspn(text, "\n")] = '\0';
		r = dir_write(base, LEAF "/cgroup.procs", text);
		if (r < 0 && r != -ESRCH)
			return r;
	}
	return -EBUSY;
}

/*
 * A hierarchy that is not mounted in our namespace (hybrid: it is hidden from the runtime) cannot
 * be cloned, and ends at its own root as it is.
 */
static int open_whole(int root)
{
	cleanup_fd int tree = open_tree(
		root, "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	return tree < 0 && errno != EINVAL ? -errno : dir_open(tree < 0 ? root : tree, ".");
}

/* From here on it is what others call the root. */
static int enter_base(struct cgroup_host *cg, const char *path, struct err *err)
{
	cleanup_fd int base = -1;
	int r;

	if (!cg->is_v2)
		return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			       "--cgroup needs a host that has cgroup v2 and no other");
	base = dir_open(cg->v2_fd, path + 1);
	r = base < 0 ? base : clear_out(base);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL,
			       "the cgroup \"%s\" cannot be used: %s; it must be there, and be "
			       "delegated to us (Delegate=yes)",
			       path, strerror(-r));
	snprintf(cg->base, sizeof(cg->base), "%s", path);
	close_fdp(&cg->v2_fd);
	cg->v2_fd = take_fd(&base);
	return 0;
}

int cgroup_host_init(struct cgroup_host *cg, const struct cgroup_place *place, struct err *err)
{
	cleanup_free struct cgroups *found = malloc(sizeof(*found));
	cleanup(buf_close) struct buf text;
	int r;

	buf_init(&text, MOUNTINFO_MAX);
	*cg = (struct cgroup_host){.v2_fd = -1, .whole_fd = -1};
	for (int kind = 0; kind < CGROUPS_KINDS; kind++)
		cg->v1_fds[kind] = -1;
	snprintf(cg->name, sizeof(cg->name), "berth-%016llx", (unsigned long long)place->hash);
	if (place->is_rootless && !place->base)
		return 0;
	r = found ? mountinfo_read("/proc/self/mountinfo", &text) : -ENOMEM;
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot read the list of mounts: %s",
			       strerror(-r));
	cgroups_parse(found, (struct str){buf_at(&text), buf_len(&text)});
	/* The one in our own namespace can be cloned, see open_alone(); a hidden one is not there.
	 */
	cg->v2_fd = open_root(found->of[CGROUPS_UNIFIED].mount);
	if (cg->v2_fd < 0 && place->cgroup2_fd >= 0)
		cg->v2_fd = fcntl(place->cgroup2_fd, F_DUPFD_CLOEXEC, 3);
	cg->is_v2 = !found->v1 && cg->v2_fd >= 0;
	if (cg->v2_fd >= 0)
		cg->whole_fd = open_whole(cg->v2_fd);
	r = place->base ? enter_base(cg, place->base, err) : 0;
	if (r < 0)
		return r;
	cg->is_used = found->v1 || cg->v2_fd >= 0;
	for (int kind = CGROUPS_MEMORY; kind < CGROUPS_KINDS; kind++)
		cg->v1_fds[kind] = open_root(found->of[kind].mount);
	open_all_v1(cg, (struct str){buf_at(&text), buf_len(&text)});
	find_abilities(cg);
	return 0;
}

void cgroup_host_close(struct cgroup_host *cg)
{
	/* Fails while a sandbox is in there, as it should. */
	for (unsigned i = 0; i < cg->all_v1_count; i++) {
		unlinkat(cg->all_v1_fds[i], cg->name, AT_REMOVEDIR);
		close(cg->all_v1_fds[i]);
	}
	if (cg->v2_fd >= 0)
		unlinkat(cg->v2_fd, cg->name, AT_REMOVEDIR);
	close_fdp(&cg->v2_fd);
	close_fdp(&cg->whole_fd);
	for (int kind = 0; kind < CGROUPS_KINDS; kind++)
		close_fdp(&cg->v1_fds[kind]);
}

unsigned cgroup_fds(const struct cgroup_host *cg, int *fds, unsigned max)
{
	unsigned count = 0;

	for (unsigned i = 0; i < cg->all_v1_count && count < max; i++)
		fds[count++] = cg->all_v1_fds[i];
	if (cg->v2_fd >= 0 && count < max)
		fds[count++] = cg->v2_fd;
	return count;
}

static const char *path_of(char path[PATH_SIZE], const struct cgroup_host *cg, const char *id,
			   const char *file)
{
	snprintf(path, PATH_SIZE, "%s/%s%s%s", cg->name, id, *file ? "/" : "", file);
	return path;
}

int cgroup_open(const struct cgroup_host *cg, int root, const char *id)
{
	char path[PATH_SIZE];

	return root < 0 ? -ENOENT : dir_open(root, path_of(path, cg, id, ""));
}

int cgroup_prepare(const struct cgroup_host *cg, const char *id, int *ret_fd)
{
	char path[PATH_SIZE];
	int fd;

	*ret_fd = -1;
	if (!cgroup_has_groups(cg) || cg->is_v2)
		return 0;
	if ((mkdirat(cg->v2_fd, cg->name, 0755) < 0 && errno != EEXIST) ||
	    (mkdirat(cg->v2_fd, path_of(path, cg, id, ""), 0755) < 0 && errno != EEXIST))
		return -errno;
	fd = cgroup_open(cg, cg->v2_fd, id);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

int cgroup_delegate(const struct cgroup_host *cg, const char *id, uid_t uid)
{
	char path[PATH_SIZE];

	if (!cgroup_has_groups(cg))
		return 0;
	/* To move a process from one cgroup to another is to write to their common ancestor too. */
	if (fchownat(cg->v2_fd, path_of(path, cg, id, "cgroup.procs"), uid, (gid_t)-1,
		     AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/* A folder has a link from each one in it, besides "." and its name. */
static bool is_full(int sandbox)
{
	struct stat st;

	return fstat(sandbox, &st) < 0 || st.st_nlink >= 2 + CGROUP_GROUPS_MAX;
}

void cgroup_group_name(char name[CGROUP_GROUP_NAME], uint32_t group)
{
	snprintf(name, CGROUP_GROUP_NAME, "exec-%u", group); /* as KEEPER_GROUP_PATH has it */
}

int cgroup_groups_open(const struct cgroup_host *cg)
{
	char path[PATH_MAX + CGROUP_NAME_MAX + 1];

	if (cg->whole_fd < 0)
		return -ENOENT;
	/* It comes with the first sandbox at the latest, and stays as long as we do. */
	if (mkdirat(cg->v2_fd, cg->name, 0755) < 0 && errno != EEXIST)
		return -errno;
	snprintf(path, sizeof(path), "%s/%s", cg->base, cg->name);
	return dir_open(cg->whole_fd, path + 1);
}

/*
 * For others' hands: from a mount of its own, so that ".." ends at the group itself. On a mount
 * that is attached, it would lead out of the hierarchy and into the machine's files. One that is
 * not (hybrid: it is hidden from the runtime) cannot be cloned, and ends at its own root.
 */
static int open_alone(const struct cgroup_host *cg, int group)
{
	cleanup_fd int tree =
		open_tree(group, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (tree < 0 && (errno != EINVAL || cg->is_v2))
		return -errno;
	return dir_open(tree < 0 ? group : tree, ".");
}

int cgroup_group_make(const struct cgroup_host *cg, const char *id, uint32_t group, uid_t uid,
		      int *ret_fd)
{
	char name[CGROUP_GROUP_NAME];
	cleanup_fd int sandbox = cgroup_open(cg, cg->v2_fd, id);
	cleanup_fd int dir = -1, fd = -1;

	if (sandbox < 0)
		return sandbox;
	if (is_full(sandbox))
		return -ENOSPC;
	cgroup_group_name(name, group);
	if (mkdirat(sandbox, name, 0755) < 0)
		return -errno;
	dir = dir_open(sandbox, name);
	fd = dir < 0 ? dir : open_alone(cg, dir);
	if (fd < 0 || fchownat(fd, "cgroup.procs", uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0) {
		int error = fd < 0 ? fd : -errno;

		unlinkat(sandbox, name, AT_REMOVEDIR);
		return error;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

int cgroup_group_open(const struct cgroup_host *cg, const char *id, uint32_t group, int *ret_fd)
{
	char name[CGROUP_GROUP_NAME];
	cleanup_fd int sandbox = cgroup_open(cg, cg->v2_fd, id);
	cleanup_fd int dir = -1;
	int fd;

	if (sandbox < 0)
		return sandbox;
	cgroup_group_name(name, group);
	dir = dir_open(sandbox, name);
	fd = dir < 0 ? dir : open_alone(cg, dir);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

int cgroup_group_kill(const struct cgroup_host *cg, const char *id, uint32_t group)
{
	char name[CGROUP_GROUP_NAME], file[64], path[PATH_SIZE];

	cgroup_group_name(name, group);
	snprintf(file, sizeof(file), "%s/cgroup.kill", name);
	return dir_write(cg->v2_fd, path_of(path, cg, id, file), "1");
}

int cgroup_group_is_empty(const struct cgroup_host *cg, const char *id, uint32_t group)
{
	char name[CGROUP_GROUP_NAME], file[64], path[PATH_SIZE];
	uint64_t populated;
	int r;

	cgroup_group_name(name, group);
	snprintf(file, sizeof(file), "%s/cgroup.events", name);
	r = dir_read_key(cg->v2_fd, path_of(path, cg, id, file), "populated", &populated);
	return r < 0 ? r : populated == 0;
}

int cgroup_group_remove(const struct cgroup_host *cg, const char *id, uint32_t group)
{
	char name[CGROUP_GROUP_NAME], path[PATH_SIZE];

	cgroup_group_name(name, group);
	return unlinkat(cg->v2_fd, path_of(path, cg, id, name), AT_REMOVEDIR) < 0 ? -errno : 0;
}

static uint32_t group_number(const char *name)
{
	return strncmp(name, "exec-", 5) == 0 ? (uint32_t)strtoul(name + 5, NULL, 10) : 0;
}

void cgroup_for_groups(int sandbox, void (*each)(int sandbox, const char *name, void *data),
		       void *data)
{
	int fd = dir_open(sandbox, ".");
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		close_fdp(&fd);
		return;
	}
	while ((entry = readdir(dir)))
		if (strncmp(entry->d_name, "exec-", 5) == 0)
			each(sandbox, entry->d_name, data);
	closedir(dir);
}

static void count_group(int sandbox, const char *name, void *data)
{
	uint32_t *made = data, number = group_number(name);

	if (number >= *made)
		*made = number + 1;
}

uint32_t cgroup_groups_made(const struct cgroup_host *cg, const char *id)
{
	cleanup_fd int sandbox = cgroup_open(cg, cg->v2_fd, id);
	uint32_t made = 0;

	if (sandbox >= 0)
		cgroup_for_groups(sandbox, count_group, &made);
	return made;
}

struct sweep {
	uint32_t below, left;
};

static void sweep_group(int sandbox, const char *name, void *data)
{
	struct sweep *sweep = data;

	if (group_number(name) < sweep->below && unlinkat(sandbox, name, AT_REMOVEDIR) < 0)
		sweep->left++;
}

uint32_t cgroup_groups_sweep(const struct cgroup_host *cg, const char *id, uint32_t below)
{
	cleanup_fd int sandbox = cgroup_open(cg, cg->v2_fd, id);
	struct sweep sweep = {.below = below};

	if (sandbox >= 0)
		cgroup_for_groups(sandbox, sweep_group, &sweep);
	return sweep.left;
}

static void remove_group(int sandbox, const char *name, void *data)
{
	unlinkat(sandbox, name, AT_REMOVEDIR);
}

/* v1 has no cgroup.kill. Whatever a runtime left in there is of this sandbox. */
static void kill_listed(int root, const char *path)
{
	cleanup_fd int sandbox = dir_open(root, path);
	char text[4096];
	cleanup_fd int procs =
		sandbox < 0 ? -1 : dir_open_file(sandbox, "cgroup.procs", O_RDONLY, 0);
	ssize_t n = procs < 0 ? 0 : read(procs, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	for (char *at = text, *line; (line = strsep(&at, "\n"));) {
		long pid = strtol(line, NULL, 10);

		if (pid > 1)
			kill((pid_t)pid, SIGKILL);
	}
}

/* 0: it is gone. */
static int remove_from(const struct cgroup_host *cg, int root, const char *id)
{
	char path[PATH_SIZE];

	path_of(path, cg, id, "");
	if (root == cg->v2_fd) {
		cleanup_fd int sandbox = dir_open(root, path);

		if (sandbox < 0)
			return sandbox == -ENOENT ? 0 : sandbox;
		dir_write(sandbox, "cgroup.kill", "1");
		cgroup_for_groups(sandbox, remove_group, NULL);
	}
	if (unlinkat(root, path, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (errno == EBUSY && root != cg->v2_fd) {
		kill_listed(root, path);
		return -EBUSY;
	}
	return -errno;
}

int cgroup_remove(const struct cgroup_host *cg, const char *id, int timeout_ms)
{
	const struct timespec pause = {.tv_nsec = 1000 * 1000};
	int fds[CGROUP_HIERARCHIES_MAX + 1], r = 0;
	unsigned count = cgroup_fds(cg, fds, CGROUP_HIERARCHIES_MAX + 1);

	/* The kernel tells nobody when the last dying process has left a cgroup. */
	for (int waited = 0;; waited++) {
		r = 0;
		for (unsigned i = 0; i < count; i++) {
			int one = remove_from(cg, fds[i], id);

			r = one < 0 ? one : r;
		}
		if (r != -EBUSY || waited >= timeout_ms)
			return r;
		nanosleep(&pause, NULL);
	}
}

/* What a host does not have is 0; what it has and does not give fails all. */
static void note(int *result, int r)
{
	if (r < 0 && r != -ENOENT && *result == 0)
		*result = r;
}

/* The kernel counts what a tmpfs holds as a cache of files, but cannot forget it. */
static int read_held(int memory, bool is_v2, uint64_t used, uint64_t *ret)
{
	uint64_t files = 0, shared = 0, cache;
	int r = dir_read_key(memory, "memory.stat", is_v2 ? "file" : "total_cache", &files);

	if (r == 0)
		r = dir_read_key(memory, "memory.stat", is_v2 ? "shmem" : "total_shmem", &shared);
	cache = files > shared ? files - shared : 0;
	*ret = used > cache ? used - cache : 0;
	return r;
}

int cgroup_read_held(const struct cgroup_host *cg, int memory, uint64_t *ret)
{
	const char *file = cg->is_v2 ? "memory.current" : "memory.usage_in_bytes";
	uint64_t used;
	int r = dir_read_number(memory, file, &used);

	return r < 0 ? r : read_held(memory, cg->is_v2, used, ret);
}

int cgroup_read(const struct cgroup_host *cg, const char *id, struct cgroup_stats *ret)
{
	cleanup_fd int v2 = cgroup_open(cg, cg->v2_fd, id);
	cleanup_fd int memory = cgroup_open(cg, cg->v1_fds[CGROUPS_MEMORY], id);
	cleanup_fd int pids = cgroup_open(cg, cg->v1_fds[CGROUPS_PIDS], id);
	cleanup_fd int cpu = cgroup_open(cg, cg->v1_fds[CGROUPS_CPUACCT], id);
	int r = v2 < 0 && memory < 0 && pids < 0 ? -ENODEV : 0;

	note(&r, v2);
	note(&r, memory);
	note(&r, pids);
	note(&r, cpu);
	*ret = (struct cgroup_stats){0};
	if (r < 0)
		return r;
	if (v2 >= 0) {
		note(&r, dir_read_key(v2, "cpu.stat", "usage_usec", &ret->cpu_us));
	} else if (cpu >= 0) {
		note(&r, dir_read_number(cpu, "cpuacct.usage", &ret->cpu_us));
		ret->cpu_us /= 1000;
	}
	if (memory >= 0) {
		note(&r, dir_read_number(memory, "memory.usage_in_bytes", &ret->memory_bytes));
		note(&r,
		     dir_read_number(memory, "memory.max_usage_in_bytes", &ret->memory_peak_bytes));
		note(&r, dir_read_key(memory, "memory.oom_control", "oom_kill", &ret->oom_kills));
		note(&r, read_held(memory, false, ret->memory_bytes, &ret->held_bytes));
	} else if (v2 >= 0) {
		note(&r, dir_read_number(v2, "memory.current", &ret->memory_bytes));
		note(&r, dir_read_number(v2, "memory.peak", &ret->memory_peak_bytes));
		note(&r, dir_read_key(v2, "memory.events", "oom_kill", &ret->oom_kills));
		note(&r, read_held(v2, true, ret->memory_bytes, &ret->held_bytes));
	}
	if (pids >= 0 || v2 >= 0)
		note(&r, dir_read_number(pids >= 0 ? pids : v2, "pids.current", &ret->pids));
	return r;
}

int cgroup_open_counter(const struct cgroup_host *cg, const char *id)
{
	cleanup_fd int v2 = cgroup_open(cg, cg->v2_fd, id);
	cleanup_fd int memory = cgroup_open(cg, cg->v1_fds[CGROUPS_MEMORY], id);

	if (!cg->can_limit_memory)
		return -ENOENT;
	if (memory >= 0)
		return dir_open_file(memory, "memory.oom_control", O_RDONLY, 0);
	return v2 < 0 ? v2 : dir_open_file(v2, "memory.events", O_RDONLY, 0);
}

int cgroup_open_usage(const struct cgroup_host *cg, const char *id)
{
	cleanup_fd int v2 = cgroup_open(cg, cg->v2_fd, id);
	cleanup_fd int cpu = cgroup_open(cg, cg->v1_fds[CGROUPS_CPUACCT], id);

	/* v2 counts it also where it has no controller for it. */
	if (v2 >= 0)
		return dir_open_file(v2, "cpu.stat", O_RDONLY, 0);
	return cpu < 0 ? cpu : dir_open_file(cpu, "cpuacct.usage", O_RDONLY, 0);
}
