/*
 * Containers for real, on a real runtime: what SECURITY-CHECKS asks of the ground that init stands
 * on, seen from inside and from outside. usage: test_container root|rootless|one-id RUNTIME PROBE
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/dir.h"
#include "container/host_state.h"
#include "container/tree.h"
#include "proto/capability.h"
#include "proto/keeper.h"
#include "tests/container/ground.h"
#include "tests/unit/tap.h"

static const struct container_spec plain = {
	.id = {"t0"}, .generation = 7, .image = "host", .capabilities = CAPABILITY_ALL};

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int count_mounts(const char *below)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char line[4096];
	int count = 0;

	while (mounts && fgets(line, sizeof(line), mounts))
		count += strstr(line, below) != NULL;
	if (mounts)
		fclose(mounts);
	return count;
}

static void start_or_say(struct ground *ground, struct container *c,
			 const struct container_spec *spec)
{
	struct err err = {0};
	int r = ground_start(ground, c, spec, &err);

	check(r == 0);
	if (r < 0)
		printf("# %s\n", err.sentence);
}

static void test_groups(struct ground *ground, struct container *c, int peer)
{
	struct container_stats stats = {0};
	uint32_t group = 99;
	struct err err = {0};
	cleanup_fd int dir = -1;

	if (!(container_host_abilities(ground->host) & KEEPER_HAS_GROUPS)) {
		check(container_group_new(c, ground->host, &group, &dir, &err) == -EOPNOTSUPP);
		check(err.code == ERR_UNSUPPORTED);
		tap_ok("exec groups are unsupported, and said to be");
		return;
	}
	check(container_group_new(c, ground->host, &group, &dir, &err) == 0 && group == 1);
	check(container_group_is_empty(c, ground->host, group) == 1);
	check_str(ground_ask(peer, dir, "tree"), "ok");
	check(container_group_is_empty(c, ground->host, group) == 0);
	check(container_group_kill(c, ground->host, group) == 0);
	for (int i = 0; i < 120000 && container_group_is_empty(c, ground->host, group) != 1; i++)
		usleep(1000);
	check(container_group_is_empty(c, ground->host, group) == 1);
	check(container_group_kill(c, ground->host, 2) == -ENOENT);
	check(container_stats(c, ground->host, &stats) == 0);
	check(stats.cpu_us > 0 && stats.memory_bytes > 0 && stats.pids >= 1 &&
	      stats.oom_kills == 0);
	printf("# cpu %llu us, memory %llu, peak %llu, pids %llu\n",
	       (unsigned long long)stats.cpu_us, (unsigned long long)stats.memory_bytes,
	       (unsigned long long)stats.memory_peak_bytes, (unsigned long long)stats.pids);
	tap_ok("23: init clones into an exec group, which is killed whole; stats");
}

/* A v2 mount that is attached, as on a machine that has no other; here beside what is there. */
static void test_group_alone(struct ground *ground)
{
	char path[128];
	struct cgroup_host cg;
	struct err err = {0};
	struct stat group, up;
	struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
	cleanup_fd int root = -1, fd = -1, unused = -1, events = -1;
	int status = -1;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/cgroup2", ground->dir);
	check(mkdir(path, 0700) == 0 && mount("berth", path, "cgroup2", 0, NULL) == 0);
	root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	check(cgroup_host_init(
		      &cg, &(struct cgroup_place){root, false, NULL, (uint64_t)getpid() << 32 | 7},
		      &err) == 0);
	check(cgroup_prepare(&cg, "t7", &unused) == 0);
	/* Where v2 is all there is, the runtime would make it. */
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%s", cg.name);
	check(mkdir(path, 0755) == 0 || errno == EEXIST);
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/t7");
	check(mkdir(path, 0755) == 0 || errno == EEXIST);
	snprintf(path, sizeof(path), "%s/cgroup2", ground->dir);
	check(cgroup_group_make(&cg, "t7", 0, 0, &fd) == 0);
	check(fstat(fd, &group) == 0 && fstatat(fd, "../../../../..", &up, 0) == 0);
	check(group.st_ino == up.st_ino && group.st_dev == up.st_dev);
	check(openat(fd, "../../../etc/passwd", O_RDONLY | O_CLOEXEC) < 0);
	events = openat(fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	check(events >= 0);
	args.cgroup = (uint64_t)fd;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		_exit(0);
	check(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	check(cgroup_remove(&cg, "t7", 5000) == 0);
	cgroup_host_close(&cg);
	check(umount2(path, MNT_DETACH) == 0);
	tap_ok("2: nothing leads out of the folder of an exec group");
}

static void test_adoption(struct ground *ground, struct container *c)
{
	struct container again;
	struct err err = {0};
	int r = container_adopt(&again, ground->host, &c->spec.id, &err);

	check(r == 0 && again.init_pid == c->init_pid && again.spec.generation == 7 &&
	      again.range == c->range && again.groups_made == c->groups_made);
	check(strcmp(again.spec.image, "host") == 0);
	check(memcmp(&again.spec.limits, &c->spec.limits, sizeof(again.spec.limits)) == 0);
	close(again.init_pidfd);
	check(container_adopt(&again, ground->host, &(struct sandbox_id){"t9"}, &err) < 0);
	check(err.code == ERR_NOT_FOUND);
	tap_ok("a later keeper finds it by its record");
}

static bool is_frozen_in_time(struct ground *ground, struct container *c)
{
	int r = 0;

	for (int i = 0; i < 120000 && r == 0; i++) {
		r = container_freeze(c, ground->host);
		if (r == 0)
			usleep(1000);
	}
	return r == 1 && container_is_frozen(c, ground->host) == 1;
}

/* It is left frozen. */
static void test_freeze(struct ground *ground, struct container *c, int peer)
{
	if (!(container_host_abilities(ground->host) & KEEPER_CAN_FREEZE)) {
		check(ground->mode != GROUND_ROOT);
		check(container_freeze(c, ground->host) == -EOPNOTSUPP);
		check(container_is_frozen(c, ground->host) == -EOPNOTSUPP);
		check(container_thaw(c, ground->host) == -EOPNOTSUPP);
		tap_ok("freezing is unsupported, and said to be");
		return;
	}
	check(container_is_frozen(c, ground->host) == 0);
	check(is_frozen_in_time(ground, c));
	check(container_thaw(c, ground->host) == 0 && container_is_frozen(c, ground->host) == 0);
	check_str(ground_ask(peer, -1, "cat /etc/hostname"), "t0\n");
	check(is_frozen_in_time(ground, c));
	tap_ok("frozen, thawed, frozen again");
}

static bool is_clean(struct ground *ground, const char *id)
{
	struct cgroup_host *cg = &ground->host->cgroup;
	char path[160];
	struct stat st;
	int fds[CGROUP_HIERARCHIES_MAX + 1];
	unsigned count = cgroup_fds(cg, fds, array_len(fds));
	bool ok = true;

	snprintf(path, sizeof(path), "%s/%s", cg->name, id);
	for (unsigned i = 0; i < count; i++)
		ok &= fstatat(fds[i], path, &st, 0) < 0;
	ok &= fstatat(ground->host->run_fd, id, &st, 0) < 0;
	ok &= fstatat(ground->host->runtime_fd, id, &st, 0) < 0;
	snprintf(path, sizeof(path), "/run/%s/", id);
	return ok && count_mounts(path) == 0;
}

static void test_life(struct ground *ground)
{
	struct container c;
	struct err err = {0};
	cleanup_fd int peer = -1;
	char text[16];

	start_or_say(ground, &c, &plain);
	peer = ground_connect(ground, &c);
	check(peer >= 0);
	check_str(ground_ask(peer, -1, "write /workspace/a hello"), "ok");
	tap_ok("a container starts and its init answers");
	test_groups(ground, &c, peer);
	test_adoption(ground, &c);
	check(container_prepare(&(struct container){0}, ground->host, &plain, &err) == -EEXIST);
	check(err.code == ERR_CONFLICT);
	check(container_remove_disk(ground->host, &plain.id, &(pid_t){0}, &err) == -EBUSY);
	tap_ok("what runs is neither started again nor removed");
	test_freeze(ground, &c, peer);
	check(ground_stop(ground, &c) == 0);
	check(is_clean(ground, "t0"));
	check(dir_read(ground->host->sandboxes_fd, "t0/upper/workspace/a", text, sizeof(text)) ==
	      5);
	tap_ok("taken down: no mount, cgroup or folder is left, but its disk");
}

/* Root inside replaces what it can by symlinks; root outside, where it could if it got there. */
static void test_hostile_upper(struct ground *ground)
{
	static const char *const names[] = {"dev", "proc", "sys", "run",
					    "usr", "etc",  "tmp", "workspace"};
	cleanup_fd int upper = dir_open(ground->host->sandboxes_fd, "t0/upper");
	struct container_spec spec = plain;
	struct container c;
	struct err err = {0};
	int huge, pidfd;
	struct stat st;
	pid_t pid;

	for (size_t i = 0; i < array_len(names); i++) {
		check(tree_remove(upper, names[i]) == 0);
		check(symlinkat(ground->bait, upper, names[i]) == 0);
	}
	for (int read_only = 0; read_only <= 1; read_only++) {
		int peer;

		spec.is_read_only = read_only;
		/* So long a file that removing it takes a while; the start leaves that to others.
		 */
		check(tree_remove(upper, "sys") == 0);
		huge = dir_open_file(upper, "sys", O_WRONLY | O_CREAT | O_EXCL, 0600);
		check(huge >= 0 && ftruncate(huge, 1 << 20) == 0 && fstat(huge, &st) == 0);
		start_or_say(ground, &c, &spec);
		peer = ground_connect(ground, &c);
		check(ground_has_line(ground_ask(peer, -1, "ls /proc/self"), "status"));
		check(ground_has_line(ground_ask(peer, -1, "ls /dev"), "null"));
		check(strstr(ground_ask(peer, -1, "ls /usr/bin"), "python3"));
		check(!strstr(ground_ask(peer, -1, "cat /proc/self/mountinfo"), "bait"));
		check_str(ground_ask(peer, -1, "write /sys/x y"), "Read-only file system");
		check(fstat(huge, &st) == 0 && st.st_nlink == 1);
		close(huge);
		check(container_has_trash(ground->host));
		pidfd = container_empty_trash(ground->host, &pid, &err);
		check(pidfd >= 0 && ground_wait(pid, pidfd) == 0);
		check(!container_has_trash(ground->host));
		check(ground_stop(ground, &c) == 0);
		close(peer);
	}
	/* Nothing was made in it: it is still empty. */
	check(rmdir(ground->bait) == 0);
	check(is_clean(ground, "t0"));
	tap_ok("4, 5: a disk full of symlinks leads nowhere");
}

static void test_read_only(struct ground *ground)
{
	struct container_spec spec = plain;
	struct container c;
	int peer;

	snprintf(spec.id.text, sizeof(spec.id.text), "t1");
	spec.is_read_only = true;
	spec.limits.files = 64;
	spec.limits.file_size = 1 << 20;
	start_or_say(ground, &c, &spec);
	peer = ground_connect(ground, &c);
	check_str(ground_ask(peer, -1, "write /etc/x y"), "Read-only file system");
	check_str(ground_ask(peer, -1, "write /workspace/x y"), "ok");
	check_str(ground_ask(peer, -1, "write /tmp/x y"), "ok");
	check_str(ground_ask(peer, -1, "write /run/x y"), "ok");
	check_str(ground_ask(peer, -1, "write /dev/shm/x y"), "ok");
	check(strstr(ground_ask(peer, -1, "cat /proc/self/limits"),
		     "Max open files            64                   64"));
	check(strstr(ground_ask(peer, -1, "cat /proc/self/limits"),
		     "Max file size             1048576              1048576"));
	check(ground_stop(ground, &c) == 0);
	close(peer);
	tap_ok("a read-only root, with /workspace, /tmp, /run and /dev/shm writable; rlimits");
}

static void test_limits(struct ground *ground)
{
	uint32_t abilities = container_host_abilities(ground->host);
	struct container_spec spec = plain;
	struct container_stats stats = {0};
	struct err err = {0};
	struct container c;
	int peer;

	snprintf(spec.id.text, sizeof(spec.id.text), "t2");
	spec.limits =
		(struct container_limits){.memory_bytes = 64 << 20, .pids = 50, .cpu_milli = 500};
	if (!(abilities & KEEPER_CAN_LIMIT_MEMORY)) {
		check(ground_start(ground, &c, &spec, &err) == -EOPNOTSUPP);
		check(err.code == ERR_UNSUPPORTED && strstr(err.sentence, "memory"));
		tap_ok("a limit that cannot be held is refused");
		return;
	}
	start_or_say(ground, &c, &spec);
	peer = ground_connect(ground, &c);
	check_str(ground_ask(peer, -1, "eat 16"), "exit 0");
	check_str(ground_ask(peer, -1, "eat 200"), "signal 9");
	check(container_stats(&c, ground->host, &stats) == 0 && stats.oom_kills >= 1);
	check_str(ground_ask(peer, -1, "breed"), "49");
	check(ground_stop(ground, &c) == 0);
	close(peer);
	check(is_clean(ground, "t2"));
	tap_ok("memory and process limits hold, an oom kill is counted");
}

static void test_refusals(struct ground *ground)
{
	struct container c;
	struct container_spec spec = plain;
	struct err err = {0};
	struct stat st;

	snprintf(spec.id.text, sizeof(spec.id.text), "../x");
	check(container_prepare(&c, ground->host, &spec, &err) == -EINVAL);
	check(err.code == ERR_INVALID_REQUEST);
	memset(spec.id.text, 'a', sizeof(spec.id.text));
	check(container_prepare(&c, ground->host, &spec, &err) == -EINVAL);
	snprintf(spec.id.text, sizeof(spec.id.text), "berthd");
	check(container_prepare(&c, ground->host, &spec, &err) == -EINVAL);
	snprintf(spec.id.text, sizeof(spec.id.text), "t3");
	snprintf(spec.image, sizeof(spec.image), "../host");
	check(container_prepare(&c, ground->host, &spec, &err) == -EINVAL);
	snprintf(spec.image, sizeof(spec.image), "absent");
	check(container_prepare(&c, ground->host, &spec, &err) == -ENOENT);
	check(err.code == ERR_NOT_FOUND);
	/* Nothing is left of a sandbox that never was. */
	check(fstatat(ground->host->sandboxes_fd, "t3", &st, 0) < 0);
	check(is_clean(ground, "t3"));
	spec = plain;
	spec.limits.files = KEEPER_FILES_MAX;
	check(container_prepare(&c, ground->host, &spec, &err) == -EOPNOTSUPP);
	check(err.code == ERR_UNSUPPORTED);
	spec.limits = (struct container_limits){.files = KEEPER_FILES_MIN - 1};
	check(container_prepare(&c, ground->host, &spec, &err) == -EINVAL);
	check(err.code == ERR_INVALID_REQUEST && strstr(err.sentence, "files"));
	tap_ok("bad ids, images and limits are refused, and leave nothing");
}

static void spoil_config(struct ground *ground)
{
	static char text[65536];
	cleanup_fd int bundle = dir_open(ground->host->run_fd, "t4/bundle");
	ssize_t len = dir_read(bundle, "config.json", text, sizeof(text));
	char *name = len > 0 ? strstr(text, "berth/init") : NULL;

	check(name != NULL);
	if (name)
		memcpy(name, "berth/nope", 10);
	check(dir_replace(bundle, "config.json", str_of(text), 0600) == 0);
}

/* A bundle that the runtime cannot use: its own words come back, and all is taken down. */
static void test_failure(struct ground *ground)
{
	struct container c;
	struct container_spec spec = plain;
	struct err err = {0};
	cleanup_fd int log = -1;
	pid_t pid;
	int pidfd;

	snprintf(spec.id.text, sizeof(spec.id.text), "t4");
	check(container_prepare(&c, ground->host, &spec, &err) == 0);
	spoil_config(ground);
	pidfd = container_create(&c, ground->host, &pid, &log, &err);
	check(pidfd >= 0);
	check(container_created(&c, ground->host, ground_wait(pid, pidfd), log, &err) < 0);
	check(err.code == ERR_START_FAILED && strstr(err.sentence, "nope"));
	printf("# the runtime's words: %s\n", err.sentence);
	check(ground_stop(ground, &c) == 0);
	check(is_clean(ground, "t4"));
	tap_ok("a failed start has the runtime's words, and leaves nothing");
}

static void read_usage(struct ground *ground, const char *id, uint64_t ret[2])
{
	struct container c = {.init_pidfd = -1};
	struct err err = {0};
	cleanup_fd int fd = -1;
	pid_t pid;
	int pidfd;

	snprintf(c.spec.id.text, sizeof(c.spec.id.text), "%s", id);
	pidfd = container_disk_usage(ground->host, &c, &pid, &fd, &err);
	check(pidfd >= 0 && ground_wait(pid, pidfd) == 0);
	check(read(fd, ret, 16) == 16);
}

static void test_disk(struct ground *ground)
{
	static const char zeros[1 << 20];
	cleanup_fd int upper = dir_open(ground->host->sandboxes_fd, "t0/upper");
	int deep = dir_open(upper, "."), pidfd;
	uint64_t usage[2] = {0};
	cleanup_fd int stuck = -1;
	struct err err = {0};
	char path[64];
	struct stat st;
	pid_t pid;

	check(dir_replace(upper, "megabyte", (struct str){zeros, sizeof(zeros)}, 0) == 0);
	read_usage(ground, "t0", usage);
	check(usage[0] >= 1 << 20 && usage[0] < 4 << 20 && usage[1] > 5);
	read_usage(ground, "t9", usage);
	check(usage[0] == 0 && usage[1] == 0);
	tap_ok("disk usage");
	for (int i = 0; i < 300; i++) {
		int next;

		check(mkdirat(deep, "d", 0) == 0);
		next = openat(deep, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		check(fchmod(next, i % 2 ? 0 : 0700) == 0);
		close(deep);
		deep = next;
	}
	close(deep);
	/* What cannot be removed of another's disk is not this one's failure. */
	stuck = dir_make(ground->host->sandboxes_fd, ".trash", 0700);
	check(stuck >= 0 && mkdirat(stuck, "t8-0", 0700) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/t8-0", stuck);
	check(mount("tmpfs", path, "tmpfs", 0, "size=4k") == 0);
	pidfd = container_remove_disk(ground->host, &plain.id, &pid, &err);
	check(pidfd >= 0);
	check(fstatat(ground->host->sandboxes_fd, "t0", &st, 0) < 0);
	check(ground_wait(pid, pidfd) == 0);
	check(dir_open(ground->host->sandboxes_fd, ".trash/t0-0") == -ENOENT);
	check(umount2(path, MNT_DETACH) == 0);
	tap_ok("a disk of other owners, 300 folders deep, is removed");
}

/* A keeper died after the runtime had done its work: only the runtime knows the process. */
static void test_half_made(struct ground *ground)
{
	struct container_spec spec = plain;
	struct container c, known;
	struct err err = {0};
	cleanup_fd int log = -1;
	pid_t pid;
	int pidfd;

	snprintf(spec.id.text, sizeof(spec.id.text), "t5");
	check(container_prepare(&c, ground->host, &spec, &err) == 0);
	pidfd = container_create(&c, ground->host, &pid, &log, &err);
	check(pidfd >= 0 && ground_wait(pid, pidfd) == 0);
	known = c;
	check(container_created(&known, ground->host, 0, log, &err) == 0);
	check(ground_stop(ground, &c) == 0);
	check(container_kill(&known, ground->host) == 0 &&
	      waitpid(known.init_pid, NULL, WNOHANG) == known.init_pid);
	close(known.init_pidfd);
	check(is_clean(ground, "t5"));
	tap_ok("a half-made container is found by its runtime and taken down");
}

/* A keeper died while it made a disk. */
static void test_half_a_disk(struct ground *ground)
{
	struct container_spec spec = plain;
	cleanup_fd int disk = dir_make(ground->host->sandboxes_fd, "t6", 0700);
	cleanup_fd int upper = dir_make(disk, "upper.new", 0755);
	struct container c;
	int peer;

	check(upper >= 0 && mkdirat(upper, "etc", 0) == 0 && mkdirat(upper, "junk", 0) == 0);
	snprintf(spec.id.text, sizeof(spec.id.text), "t6");
	start_or_say(ground, &c, &spec);
	peer = ground_connect(ground, &c);
	check_str(ground_ask(peer, -1, "cat /etc/hostname"), "t6\n");
	check(!strstr(ground_ask(peer, -1, "ls /"), "junk"));
	check(faccessat(disk, "upper.new", F_OK, 0) < 0);
	check(ground_stop(ground, &c) == 0);
	close(peer);
	tap_ok("a disk that was half made is made anew");
}

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(struct ground *ground)
{
	double prepared[15], started[15], stopped[15];
	int runs = array_len(started);

	for (int i = 0; i < runs; i++) {
		struct container c;
		struct err err = {0};
		double begin = now_ms(), middle;
		pid_t pid;
		int log = -1, pidfd, peer;

		check(container_prepare(&c, ground->host, &plain, &err) == 0);
		prepared[i] = now_ms() - begin;
		pidfd = container_create(&c, ground->host, &pid, &log, &err);
		check(container_created(&c, ground->host, ground_wait(pid, pidfd), log, &err) == 0);
		peer = ground_connect(ground, &c);
		check(strcmp(ground_ask(peer, -1, "cat /etc/hostname"), "t0\n") == 0);
		started[i] = now_ms() - begin;
		middle = now_ms();
		check(ground_stop(ground, &c) == 0);
		stopped[i] = now_ms() - middle;
		close(peer);
		close(log);
	}
	qsort(prepared, array_len(prepared), sizeof(double), compare);
	qsort(started, array_len(started), sizeof(double), compare);
	qsort(stopped, array_len(stopped), sizeof(double), compare);
	printf("# prepare %.2f ms, start to first answer p50 %.1f max %.1f ms, stop %.1f ms\n",
	       prepared[runs / 2], started[runs / 2], started[runs - 1], stopped[runs / 2]);
	tap_ok("starts and stops, measured");
}

static int body(struct ground *ground)
{
	struct err err = {0};
	int fds;

	if (ground_open_host(ground, &err) < 0) {
		printf("Bail out! %s\n", err.sentence);
		return 1;
	}
	printf("# %s, abilities 0x%x, warning: %s\n", container_host_runtime(ground->host),
	       container_host_abilities(ground->host), container_host_warning(ground->host));
	fds = count_fds();
	test_life(ground);
	test_hostile_upper(ground);
	test_read_only(ground);
	test_limits(ground);
	test_refusals(ground);
	test_failure(ground);
	test_half_made(ground);
	test_half_a_disk(ground);
	if (ground->mode == GROUND_ROOT)
		test_group_alone(ground);
	test_disk(ground);
	measure(ground);
	check(count_fds() == fds);
	tap_ok("no fd is left open");
	container_host_free(ground->host);
	return tap_done();
}

int main(int argc, char **argv)
{
	return ground_main(argc, argv, body);
}
