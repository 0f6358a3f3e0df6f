#include "base/host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cgroups.h"
#include "base/cleanup.h"
#include "base/subids.h"

#define FILE_MAX (1024 * 1024)

const char *host_cgroups_name(enum host_cgroups cgroups)
{
	static const char *const names[] = {
		[HOST_CGROUPS_NONE] = "none",
		[HOST_CGROUPS_V1] = "v1",
		[HOST_CGROUPS_HYBRID] = "hybrid",
		[HOST_CGROUPS_V2] = "v2",
	};

	return names[cgroups];
}

/* The whole of a small file; an unreadable one is empty. */
static struct str read_text(struct buf *buf, const char *path)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 1;

	buf_init(buf, FILE_MAX);
	while (fd >= 0 && n != 0) {
		char *room = buf_room(buf, 4096);

		if (!room)
			break;
		n = read(fd, room, 4096);
		if (n < 0 && errno != EINTR)
			break;
		if (n > 0)
			buf_added(buf, (size_t)n);
	}
	return (struct str){buf_len(buf) ? buf_at(buf) : "", buf_len(buf)};
}

static uint64_t read_number(const char *path)
{
	char text[32] = "";
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	return n > 0 ? strtoull(text, NULL, 10) : 0;
}

/* Does a line or a list of the file hold the word, set off by blanks? */
static bool file_has_word(const char *path, const char *word)
{
	struct buf buf;
	struct str text = read_text(&buf, path);
	size_t len = strlen(word);
	bool found = false;

	for (size_t i = 0; !found && i + len <= text.len; i++)
		found = memcmp(text.at + i, word, len) == 0 &&
			(i == 0 || strchr(" \t\n", text.at[i - 1])) &&
			(i + len == text.len || strchr(" \t\n", text.at[i + len]));
	buf_close(&buf);
	return found;
}

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	       faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

static bool find_in(const char *dirs, const char *name, char ret[PATH_MAX])
{
	for (const char *at = dirs, *end; *at; at = *end ? end + 1 : end) {
		end = strchrnul(at, ':');
		/* An entry such as "." would run whatever lies where we happen to stand. */
		if (*at != '/')
			continue;
		if (snprintf(ret, PATH_MAX, "%.*s/%s", (int)(end - at), at, name) < PATH_MAX &&
		    is_program(ret))
			return true;
	}
	ret[0] = '\0';
	return false;
}

bool host_find_program(const char *name, char ret[PATH_MAX])
{
	const char *path = getenv("PATH");

	/* Users' PATHs often lack the sbin folders, where Debian puts runc. */
	return (path && find_in(path, name, ret)) ||
	       find_in("/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", name, ret);
}

static void probe_runtime(struct host_facts *ret, const char *runtime)
{
	const char *base;

	_Static_assert(sizeof(ret->runtime) >= PATH_MAX, "a path fits");
	if (!runtime) {
		if (!host_find_program("crun", ret->runtime))
			host_find_program("runc", ret->runtime);
	} else if (!strchr(runtime, '/')) {
		host_find_program(runtime, ret->runtime);
	} else if (strlen(runtime) < sizeof(ret->runtime) && is_program(runtime)) {
		snprintf(ret->runtime, sizeof(ret->runtime), "%s", runtime);
	}
	base = strrchr(ret->runtime, '/');
	if (base)
		snprintf(ret->runtime_name, sizeof(ret->runtime_name), "%.15s", base + 1);
}

/*
 * A child tries and reports by its exit code. The second unshare needs the capabilities that a new
 * user namespace should give: some systems allow the namespace but withhold those.
 */
static bool probe_user_namespaces(void)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return false;
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) == 0 && unshare(CLONE_NEWNS) == 0 ? 0 : 1);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void probe_subids(struct host_facts *ret)
{
	struct passwd pwd, *found = NULL;
	char names[4096], path[PATH_MAX];
	struct str text;
	struct buf buf;

	ret->newuidmap =
		host_find_program("newuidmap", path) && host_find_program("newgidmap", path);
	if (ret->is_root)
		return;
	if (getpwuid_r(geteuid(), &pwd, names, sizeof(names), &found) != 0)
		found = NULL;
	text = read_text(&buf, "/etc/subuid");
	ret->subuid_count = subids_count(text, found ? pwd.pw_name : NULL, geteuid());
	buf_close(&buf);
	text = read_text(&buf, "/etc/subgid");
	ret->subgid_count = subids_count(text, found ? pwd.pw_name : NULL, geteuid());
	buf_close(&buf);
}

static bool is_writable(const char *dir)
{
	return *dir && faccessat(AT_FDCWD, dir, W_OK, AT_EACCESS) == 0;
}

/*
 * A controller can be had by the cgroups below if it is there and, unless this is the root of the
 * whole hierarchy (it alone has no cgroup.type), no process is in this one.
 */
static bool can_pass_down(const char *dir, const char *controller)
{
	char file[PATH_MAX + 32];
	struct buf buf;
	bool is_inner, is_empty;

	snprintf(file, sizeof(file), "%s/cgroup.subtree_control", dir);
	if (file_has_word(file, controller))
		return true;
	snprintf(file, sizeof(file), "%s/cgroup.type", dir);
	is_inner = access(file, F_OK) == 0;
	snprintf(file, sizeof(file), "%s/cgroup.procs", dir);
	is_empty = read_text(&buf, file).len == 0;
	buf_close(&buf);
	snprintf(file, sizeof(file), "%s/cgroup.controllers", dir);
	return file_has_word(file, controller) && (!is_inner || is_empty);
}

/* Root makes cgroups below the root of a hierarchy. */
static void probe_root_cgroups(struct host_facts *ret, const struct cgroups *cgroups)
{
	const char *v2 = cgroups->of[CGROUPS_UNIFIED].mount;

	ret->cgroup_memory = is_writable(cgroups->of[CGROUPS_MEMORY].mount);
	ret->cgroup_cpu = is_writable(cgroups->of[CGROUPS_CPU].mount);
	ret->cgroup_pids = is_writable(cgroups->of[CGROUPS_PIDS].mount);
	ret->cgroup_freezer = is_writable(cgroups->of[CGROUPS_FREEZER].mount);
	if (!is_writable(v2))
		return;
	ret->cgroup_memory |= can_pass_down(v2, "memory");
	ret->cgroup_cpu |= can_pass_down(v2, "cpu");
	ret->cgroup_pids |= can_pass_down(v2, "pids");
	/* Every v2 cgroup has cgroup.freeze, whatever its controllers. */
	ret->cgroup_freezer = true;
}

/* Others make them below the one that is delegated to them, if the units of scripts/systemd run. */
static void probe_delegation(struct host_facts *ret, const struct cgroups *cgroups)
{
	char dir[PATH_MAX];
	int n = snprintf(dir, sizeof(dir),
			 "%s/user.slice/user-%u.slice/user@%u.service/app.slice/"
			 "berth-sandboxes.service",
			 cgroups->of[CGROUPS_UNIFIED].mount, geteuid(), geteuid());

	if (ret->cgroups != HOST_CGROUPS_V2 || n >= (int)sizeof(dir) || !is_writable(dir))
		return;
	ret->cgroup_memory = can_pass_down(dir, "memory");
	ret->cgroup_cpu = can_pass_down(dir, "cpu");
	ret->cgroup_pids = can_pass_down(dir, "pids");
	ret->cgroup_freezer = true;
}

static void probe_cgroups(struct host_facts *ret, struct cgroups *cgroups)
{
	struct buf buf;

	cgroups_parse(cgroups, read_text(&buf, "/proc/self/mountinfo"));
	buf_close(&buf);
	ret->cgroups = cgroups_mode(cgroups);
	if (ret->is_root)
		probe_root_cgroups(ret, cgroups);
	else
		probe_delegation(ret, cgroups);
}

static void probe_machine(struct host_facts *ret)
{
	struct utsname name;
	struct sysinfo memory;
	struct rlimit files;
	cpu_set_t cpus;

	if (uname(&name) == 0) {
		memcpy(ret->kernel, name.release, sizeof(ret->kernel));
		memcpy(ret->machine, name.machine, sizeof(ret->machine));
	}
	if (sysinfo(&memory) == 0)
		ret->memory_bytes = (uint64_t)memory.totalram * memory.mem_unit;
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		ret->cpus = (unsigned)CPU_COUNT(&cpus);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		ret->nofile_hard = files.rlim_max;
	ret->inotify_instances = read_number("/proc/sys/fs/inotify/max_user_instances");
	ret->inotify_watches = read_number("/proc/sys/fs/inotify/max_user_watches");
}

/* What is no module is listed when the kernel starts. */
static bool has_module(const char *kernel, const char *file)
{
	char path[PATH_MAX];
	struct buf buf;
	struct str text;
	bool found;

	snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", kernel);
	text = read_text(&buf, path);
	found = memmem(text.at, text.len, file, strlen(file));
	buf_close(&buf);
	return found;
}

static void probe_disks(struct host_facts *ret)
{
	char path[PATH_MAX];

	ret->btrfs =
		file_has_word("/proc/filesystems", "btrfs") || has_module(ret->kernel, "/btrfs.ko");
	ret->loop_control = access("/dev/loop-control", F_OK) == 0;
	ret->mkfs_btrfs = host_find_program("mkfs.btrfs", path);
}

const char *host_lacks_for_disks(const struct host_facts *facts, bool is_made)
{
	if (!facts->btrfs)
		return "the kernel has no btrfs";
	if (!facts->loop_control)
		return "there is no /dev/loop-control";
	return facts->mkfs_btrfs || is_made ? NULL : "btrfs-progs is not installed";
}

uint64_t host_memory_available(void)
{
	static const char word[] = "MemAvailable:";
	cleanup_fd int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	char text[512];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *at;

	if (n <= 0)
		return UINT64_MAX;
	text[n] = '\0';
	at = strstr(text, word);
	return at ? strtoull(at + sizeof(word) - 1, NULL, 10) * 1024 : UINT64_MAX;
}

void host_probe(struct host_facts *ret, const char *runtime)
{
	cleanup_free struct cgroups *cgroups = malloc(sizeof(*cgroups)); /* too big for a stack */
	uint32_t action = SECCOMP_RET_ERRNO;

	memset(ret, 0, sizeof(*ret));
	ret->is_root = geteuid() == 0;
	probe_machine(ret);
	probe_runtime(ret, runtime);
	probe_subids(ret);
	if (cgroups)
		probe_cgroups(ret, cgroups);
	ret->user_namespaces = probe_user_namespaces();
	ret->overlay = file_has_word("/proc/filesystems", "overlay");
	probe_disks(ret);
	ret->seccomp = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}
