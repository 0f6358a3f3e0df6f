#include "container/container.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process_stat.h"
#include "container/binds.h"
#include "container/bundle.h"
#include "container/cgroup_cpus.h"
#include "container/child.h"
#include "container/container_io.h"
#include "container/dir.h"
#include "container/disk.h"
#include "container/freezer.h"
#include "container/image.h"
#include "container/limits.h"
#include "container/process.h"
#include "container/record.h"
#include "container/runtime.h"
#include "container/stray.h"
#include "container/tree.h"

#define DEATH_TIMEOUT_MS  10000
#define CGROUP_TIMEOUT_MS 5000
#define DELETE_TRIES      20

static int check_spec(const struct container_spec *spec, struct err *err)
{
	size_t id_len = strnlen(spec->id.text, sizeof(spec->id.text));

	if (id_len == sizeof(spec->id.text) ||
	    !sandbox_id_is_valid((struct str){spec->id.text, id_len}))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "that is no sandbox id");
	/* <run>/berthd holds the API's socket. */
	if (strcmp(spec->id.text, "berthd") == 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "the id \"berthd\" is taken");
	if (strnlen(spec->image, sizeof(spec->image)) == sizeof(spec->image) ||
	    !image_name_is_valid(spec->image))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "that is no name of an image");
	return 0;
}

void container_spec_close(struct container_spec *spec)
{
	free((char *)spec->mounts.at);
	spec->mounts = (struct str){NULL, 0};
}

/*
 * Whoever has worked in a sandbox does not want an empty one under its name. The range is there
 * since before the first life, and also of a disk whose files are elsewhere.
 */
static int check_disk(const struct container_spec *spec, const struct container_host *host,
		      struct err *err)
{
	char path[SANDBOX_ID_MAX + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s/range", spec->id.text);
	if (!spec->has_disk || fstatat(host->sandboxes_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
	    (errno != ENOENT && errno != ENOTDIR))
		return 0;
	return err_set(
		err, -ENOENT, ERR_START_FAILED,
		"its disk is missing: it was in %s/sandboxes/%s. Put it back there, or delete "
		"the sandbox (`berth rm %s`) and make it anew",
		host->state_dir, spec->id.text, spec->id.text);
}

int container_check(const struct container_spec *spec, const struct container_host *host,
		    struct err *err)
{
	struct container_spec whole = *spec;
	int r = limits_complete(&whole.limits, host, err);

	if (r == 0)
		r = limits_complete_disk(&whole, host, err);
	return r < 0 ? r : bundle_check_disk(spec, host, err);
}

int container_prepare(struct container *c, const struct container_host *host,
		      const struct container_spec *spec, struct err *err)
{
	cleanup_fd int disk = -1, group = -1;
	bool is_new = false;
	int r = check_spec(spec, err);

	*c = (struct container){.spec = *spec, .init_pidfd = -1};
	if (r == 0)
		r = limits_complete(&c->spec.limits, host, err);
	if (r == 0)
		r = limits_complete_disk(&c->spec, host, err);
	if (r == 0)
		r = check_disk(spec, host, err);
	if (r < 0)
		return r;
	disk = bundle_open_disk(c, host, &is_new, err);
	r = disk < 0 ? disk : container_io_check(c, host, &c->spec.limits.io, err);
	if (r == 0)
		r = bundle_make(c, host, disk, err);
	c->spec.mounts = (struct str){NULL, 0};
	bundle_detach_disk(c, host);
	if (r == 0) {
		r = cgroup_prepare(&host->cgroup, c->spec.id.text, &group);
		if (r < 0) {
			err_set(err, r, ERR_START_FAILED, "cannot make its cgroup: %s",
				strerror(-r));
			bundle_remove(host, c->spec.id.text);
		}
	}
	if (r < 0 && is_new)
		bundle_drop_disk(c, host);
	return r;
}

int container_look(const struct container_host *host, struct str mounts, int told_fd,
		   pid_t *ret_pid)
{
	const int keep[] = {host->state_fd, host->run_fd, told_fd};
	int r = child_fork(keep, array_len(keep), ret_pid);

	if (r < 0 || *ret_pid != 0)
		return r;
	process_be_look();
	binds_look(host, mounts, told_fd);
	_exit(0);
}

int container_create(struct container *c, const struct container_host *host, pid_t *ret_pid,
		     int *ret_log_fd, struct err *err)
{
	const char *id = c->spec.id.text;
	cleanup_fd int log = memfd_create("berth-runtime-log", MFD_CLOEXEC);
	cleanup_fd int run = dir_open(host->run_fd, id);
	cleanup_fd int bundle = run < 0 ? run : dir_open(run, "bundle");
	cleanup_fd int agent = -1, group = -1;
	struct process_stat stat;
	int r, pidfd;

	if (log < 0 || bundle < 0)
		return err_set(err, log < 0 ? -errno : bundle, ERR_START_FAILED,
			       "its bundle is not there: %s", strerror(log < 0 ? errno : -bundle));
	agent = bundle_bind_agent(c, host, err);
	if (agent < 0)
		return agent;
	r = cgroup_prepare(&host->cgroup, id, &group);
	if (r < 0)
		return err_set(err, r, ERR_START_FAILED, "cannot make its cgroup: %s",
			       strerror(-r));
	pidfd = runtime_start(host,
			      &(struct runtime_run){.id = id,
						    .bundle_fd = bundle,
						    .agent_fd = agent,
						    .log_fd = log,
						    .cgroup_fd = group},
			      ret_pid);
	if (pidfd < 0)
		return err_set(err, pidfd, ERR_START_FAILED, "cannot start the runtime: %s",
			       strerror(-pidfd));
	/* The start time of a young process is that of now or later. */
	if (process_stat(*ret_pid, &stat) == 0)
		c->create_start = stat.start;
	*ret_log_fd = take_fd(&log);
	return pidfd;
}

int container_sync(const struct container *c, const struct container_host *host, pid_t *ret_pid)
{
	bool is_new_in_pool = c->is_pooled && !c->spec.has_disk;
	cleanup_fd int disk = dir_open(host->sandboxes_fd, c->spec.id.text);
	cleanup_fd int range = disk < 0 ? disk : dir_open_file(disk, "range", O_RDONLY, 0);
	cleanup_fd int mark =
		!is_new_in_pool || disk < 0 ? -1 : dir_open_file(disk, POOL_MARK, O_RDONLY, 0);
	const int keep[] = {disk, range, mark, pool_fd(host->pool)};
	int r;

	if (disk < 0 || range < 0 || (is_new_in_pool && mark < 0))
		return disk < 0 ? disk : range < 0 ? range : mark;
	r = child_fork(keep, is_new_in_pool ? 4 : 2, ret_pid);
	if (r >= 0 && *ret_pid == 0)
		_exit((is_new_in_pool && (fsync(mark) < 0 || pool_commit(keep[3]) < 0)) ||
		      fsync(range) < 0 || fsync(disk) < 0);
	return r;
}

static int open_pid(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

static bool has_ended(int pidfd, int timeout_ms)
{
	struct pollfd end = {.fd = pidfd, .events = POLLIN};
	int r;

	do
		r = poll(&end, 1, timeout_ms);
	while (r < 0 && errno == EINTR);
	return r > 0;
}

bool container_is_dead(const struct container *c)
{
	return has_ended(c->init_pidfd, 0);
}

static int runtime_failed(const struct container_host *host, int status, int log_fd,
			  struct err *err)
{
	char words[400];

	runtime_words(log_fd, words, sizeof(words));
	if (words[0])
		return err_set(err, -EIO, ERR_START_FAILED, "%s", words);
	if (WIFSIGNALED(status))
		return err_set(err, -EIO, ERR_START_FAILED, "%s was killed by signal %d",
			       host->runtime, WTERMSIG(status));
	return err_set(err, -EIO, ERR_START_FAILED, "%s ended with status %d and no word",
		       host->runtime, WEXITSTATUS(status));
}

/*
 * What the runtime says is killed in the end, so it must be what it started: our monitor's child
 * (when the runtime has ended), younger than the runtime, in the sandbox's cgroup.
 */
static bool is_its_init(const struct container *c, const struct container_host *host, pid_t pid)
{
	struct process_stat stat;
	char path[64], text[8192], group[CGROUP_NAME_MAX + SANDBOX_ID_MAX + 8];
	cleanup_fd int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (process_stat(pid, &stat) < 0 || stat.parent != host->init_parent ||
	    stat.start < c->create_start)
		return false;
	snprintf(path, sizeof(path), "%d/cgroup", pid);
	snprintf(group, sizeof(group), "/%s/%s\n", host->cgroup.name, c->spec.id.text);
	return !host->cgroup.is_used ||
	       (dir_read(proc, path, text, sizeof(text)) > 0 && strstr(text, group));
}

int container_created(struct container *c, const struct container_host *host, int status,
		      int log_fd, struct err *err)
{
	const char *id = c->spec.id.text;
	cleanup_fd int run = dir_open(host->run_fd, id), pidfd = -1;
	struct process_stat stat;
	uint64_t pid;
	int r;

	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return runtime_failed(host, status, log_fd, err);
	r = run < 0 ? run : dir_read_number(run, "bundle/pid", &pid);
	if (r < 0 || pid <= 1 || pid > INT32_MAX)
		return err_set(err, r < 0 ? r : -EBADMSG, ERR_START_FAILED,
			       "the runtime did not say which process it started");
	pidfd = open_pid((pid_t)pid);
	if (pidfd < 0 || process_stat((pid_t)pid, &stat) < 0 || has_ended(pidfd, 0))
		return err_set(err, -ECHILD, ERR_START_FAILED, "its first process ended at once");
	c->init_start = stat.start;
	if (!is_its_init(c, host, (pid_t)pid))
		return err_set(err, -ECHILD, ERR_START_FAILED,
			       "the runtime named process %d, which it has not started", (int)pid);
	c->init_pid = (pid_t)pid;
	c->init_pidfd = take_fd(&pidfd);
	r = cgroup_delegate(&host->cgroup, id, ids_map(host->ids, c->range).first);
	if (r < 0)
		return err_set(err, r, ERR_START_FAILED, "cannot hand its cgroup over: %s",
			       strerror(-r));
	/* Not by the runtime: which disks they are shows what it has mounted. */
	return container_io_is_any(&c->spec.limits.io)
		       ? container_io_set(c, host, &c->spec.limits.io, err)
		       : 0;
}

int container_record(const struct container *c, const struct container_host *host, struct err *err)
{
	cleanup_fd int run = dir_open(host->run_fd, c->spec.id.text);
	int r = run < 0 ? run : record_write(run, c, host->boot_id);

	return r < 0 ? err_set(err, r, ERR_START_FAILED, "cannot record it: %s", strerror(-r)) : 0;
}

int container_kill(struct container *c, const struct container_host *host)
{
	int r = c->init_pidfd < 0 ? -ESRCH : 0;

	c->is_ending = true;
	container_hurry(c, host);
	if (r == 0 && syscall(SYS_pidfd_send_signal, c->init_pidfd, SIGKILL, NULL, 0) < 0 &&
	    errno != ESRCH)
		r = -errno;
	container_thaw(c, host);
	return r;
}

int container_freeze(const struct container *c, const struct container_host *host)
{
	container_hurry(c, host);
	return freezer_freeze(&host->cgroup, c->spec.id.text);
}

int container_freeze_others(const struct container *c, const struct container_host *host,
			    uint32_t group)
{
	container_hurry(c, host);
	return freezer_freeze_others(&host->cgroup, c->spec.id.text, group);
}

int container_thaw(struct container *c, const struct container_host *host)
{
	container_slow_down(c, host);
	return freezer_thaw(&host->cgroup, c->spec.id.text);
}

int container_is_frozen(const struct container *c, const struct container_host *host)
{
	return freezer_is_frozen(&host->cgroup, c->spec.id.text);
}

bool container_is_doomed(const struct container *c)
{
	struct process_stat stat;

	return process_stat(c->init_pid, &stat) == 0 && stat.is_killed;
}

/*
 * With its first process the whole pid namespace is dead, so "delete" needs no force. Of a
 * half-made container only the runtime knows that process, and nobody tells when it has died.
 */
static void delete_state(const struct container *c, const struct container_host *host)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	const char *id = c->spec.id.text;
	int tries = c->init_pidfd < 0 ? DELETE_TRIES : 1;
	cleanup_fd int state = -1;
	struct stat st;

	if (fstatat(host->runtime_fd, id, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	do {
		if (c->init_pidfd < 0)
			runtime_kill(host, id);
		if (runtime_delete(host, id) == 0)
			break;
		nanosleep(&pause, NULL);
	} while (--tries > 0);
	state = dir_open(host->runtime_fd, id);
	if (state >= 0)
		runtime_unmount_copies(state);
	tree_remove(host->runtime_fd, id);
}

/*
 * The first process of a half-made one, where no cgroup leads to it: by what the runtime wrote
 * down, as the runtime itself may be killed again before it has done it.
 */
static void kill_stray(const struct container *c, const struct container_host *host)
{
	pid_t pid;
	cleanup_fd int stray = -1;

	if (c->init_pidfd >= 0 || host->cgroup.is_used)
		return;
	stray = stray_open(host->run_fd, &c->spec.id, &pid);
	if (stray >= 0 && syscall(SYS_pidfd_send_signal, stray, SIGKILL, NULL, 0) == 0)
		has_ended(stray, DEATH_TIMEOUT_MS);
}

/* In the worker: 0, or 1 if something stayed. */
static int take_down(struct container *c, const struct container_host *host)
{
	const char *id = c->spec.id.text;
	int r = 0;

	if (container_kill(c, host) == 0 && !has_ended(c->init_pidfd, DEATH_TIMEOUT_MS))
		return 1;
	kill_stray(c, host);
	delete_state(c, host);
	if (cgroup_remove(&host->cgroup, id, CGROUP_TIMEOUT_MS) < 0)
		r = 1;
	if (bundle_remove(host, id) < 0)
		r = 1;
	return r;
}

int container_take_down(struct container *c, const struct container_host *host, pid_t *ret_pid,
			struct err *err)
{
	int fds[CGROUP_HIERARCHIES_MAX + 8], r;
	unsigned count = cgroup_fds(&host->cgroup, fds, CGROUP_HIERARCHIES_MAX + 1);

	fds[count++] = host->run_fd;
	fds[count++] = host->runtime_fd;
	if (host->cgroup.v1_fds[CGROUPS_FREEZER] >= 0)
		fds[count++] = host->cgroup.v1_fds[CGROUPS_FREEZER];
	if (host->cgroup.v1_fds[CGROUPS_BLKIO] >= 0)
		fds[count++] = host->cgroup.v1_fds[CGROUPS_BLKIO];
	if (c->init_pidfd >= 0)
		fds[count++] = c->init_pidfd;
	r = child_fork(fds, count, ret_pid);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot fork: %s", strerror(-r));
	if (*ret_pid == 0)
		_exit(take_down(c, host));
	return r;
}

int container_adopt(struct container *c, const struct container_host *host,
		    const struct sandbox_id *id, struct err *err)
{
	cleanup_fd int run = -1, pidfd = -1;
	struct process_stat stat;
	int r;

	*c = (struct container){.spec.id = *id, .init_pidfd = -1};
	run = dir_open(host->run_fd, id->text);
	r = run < 0 ? run : record_read(run, c, host->boot_id);
	if (r < 0)
		return err_set(err, r, ERR_NOT_FOUND, "no record of a running sandbox: %s",
			       strerror(-r));
	pidfd = open_pid(c->init_pid);
	r = pidfd < 0 ? pidfd : process_stat(c->init_pid, &stat);
	if (r < 0 && r != -ESRCH)
		return err_set(err, r, ERR_INTERNAL, "whether it runs cannot be seen: %s",
			       strerror(-r));
	if (r < 0 || stat.start != c->init_start || has_ended(pidfd, 0))
		return err_set(err, -ESRCH, ERR_NOT_FOUND, "its first process has ended");
	c->init_pidfd = take_fd(&pidfd);
	c->groups_made = cgroup_groups_made(&host->cgroup, id->text);
	ids_take(host->ids, c->range);
	disk_adopt(c, host);
	/* The keeper before us may have died while it was in a hurry. */
	container_slow_down(c, host);
	return 0;
}

/* What survives in a group keeps it; it is looked at again when the next one is made. */
static void sweep_groups(struct container *c, const struct container_host *host)
{
	if (c->groups_retired &&
	    cgroup_groups_sweep(&host->cgroup, c->spec.id.text, c->groups_retired) == 0)
		c->groups_retired = 0;
}

void container_groups_retire(struct container *c, const struct container_host *host)
{
	c->groups_retired = c->groups_made;
	sweep_groups(c, host);
}

int container_group_new(struct container *c, const struct container_host *host, uint32_t *ret_group,
			int *ret_dir_fd, struct err *err)
{
	int r;

	if (!cgroup_has_groups(&host->cgroup))
		return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED, "this host has no exec groups");
	sweep_groups(c, host);
	if (!c->groups_made)
		c->groups_made = 1; /* none is called 0 */
	r = cgroup_group_make(&host->cgroup, c->spec.id.text, c->groups_made,
			      ids_map(host->ids, c->range).first, ret_dir_fd);
	if (r == -ENOSPC)
		return err_set(err, r, ERR_CAPACITY_EXCEEDED, "the sandbox has %d exec groups",
			       CGROUP_GROUPS_MAX);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot make an exec group: %s", strerror(-r));
	*ret_group = c->groups_made++;
	return 0;
}

int container_group_open(const struct container *c, const struct container_host *host,
			 uint32_t group, int *ret_dir_fd)
{
	if (!cgroup_has_groups(&host->cgroup) || group >= c->groups_made)
		return -ENOENT;
	return cgroup_group_open(&host->cgroup, c->spec.id.text, group, ret_dir_fd);
}

int container_group_kill(const struct container *c, const struct container_host *host,
			 uint32_t group)
{
	if (!cgroup_has_groups(&host->cgroup) || group >= c->groups_made)
		return -ENOENT;
	return cgroup_group_kill(&host->cgroup, c->spec.id.text, group);
}

int container_group_is_empty(const struct container *c, const struct container_host *host,
			     uint32_t group)
{
	if (!cgroup_has_groups(&host->cgroup) || group >= c->groups_made)
		return -ENOENT;
	return cgroup_group_is_empty(&host->cgroup, c->spec.id.text, group);
}

int container_group_remove(const struct container *c, const struct container_host *host,
			   uint32_t group)
{
	if (!cgroup_has_groups(&host->cgroup) || group >= c->groups_made)
		return -ENOENT;
	return cgroup_group_remove(&host->cgroup, c->spec.id.text, group);
}

int container_stats(const struct container *c, const struct container_host *host,
		    struct container_stats *ret)
{
	struct cgroup_stats stats;
	int r;

	if (!host->cgroup.is_used)
		return -EOPNOTSUPP;
	r = cgroup_read(&host->cgroup, c->spec.id.text, &stats);
	if (r < 0)
		return r;
	*ret = (struct container_stats){stats.cpu_us, stats.memory_bytes, stats.memory_peak_bytes,
					stats.pids,   stats.oom_kills,    stats.held_bytes};
	return 0;
}

int container_open_counter(const struct container *c, const struct container_host *host)
{
	return cgroup_open_counter(&host->cgroup, c->spec.id.text);
}

int container_open_usage(const struct container *c, const struct container_host *host)
{
	return cgroup_open_usage(&host->cgroup, c->spec.id.text);
}

int container_choose_cpus(const struct container *c, const struct container_host *host, bool is_all)
{
	return cgroup_cpus_set(&host->cgroup, c->spec.id.text, is_all);
}
