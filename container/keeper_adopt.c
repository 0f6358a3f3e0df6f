/*
 * What an earlier keeper left: below <run> there is a directory per sandbox, and the monitor has
 * the exit statuses that nobody has seen off.
 *
 *	record, init runs          adopted
 *	record, init has ended     taken down, then EXITED; its status if the monitor has it
 *	no record                  it was being made, and nobody was told: taken down in silence
 *
 * A child of the monitor that is none of the adopted inits was at work for a keeper that is dead, a
 * runtime or what came of it. It is killed first, or it might still make a container behind us.
 * Under a monitor of our own age there are none; then an init without a record is found by what
 * its runtime wrote down (container/stray.h), or by its cgroup, and dies in the take-down.
 */
#include "container/keeper_adopt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process_stat.h"
#include "base/log.h"
#include "container/keeper_state.h"
#include "container/process.h"
#include "container/record.h"
#include "container/stray.h"

#define SYNC_MS  10000
#define SWEEP_MS 5000

static void close_dirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Calls for each sandbox that has a directory here, until that returns non-zero. */
static int for_each_id(int run_fd, int (*call)(void *arg, const struct sandbox_id *id), void *arg)
{
	cleanup_fd int fd = openat(run_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup(close_dirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return -errno;
	take_fd(&fd);
	while (r == 0) {
		struct sandbox_id id;

		errno = 0;
		entry = readdir(dir);
		if (!entry)
			return -errno;

		if (entry->d_type != DT_DIR || !keeper_id_is_valid(str_of(entry->d_name)))
			continue;
		memset(&id, 0, sizeof(id));
		memcpy(id.text, entry->d_name, strlen(entry->d_name));
		r = call(arg, &id);
	}
	return r;
}

/* Not there, not of this boot, ended, or never whole. Everything else may be running, unseen. */
static bool is_no_more(int error)
{
	return error == -ENOENT || error == -ESTALE || error == -ESRCH || error == -EBADMSG;
}

/* What <run>/<id>/record says. */
static int read_record(int run_fd, const struct sandbox_id *id, struct container *ret)
{
	cleanup_fd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	cleanup_fd int dir = -1;
	char boot_id[64];
	ssize_t n = fd < 0 ? -1 : read(fd, boot_id, sizeof(boot_id) - 1);

	if (n <= 0)
		return n == 0 ? -EIO : errno == ENOENT ? -EIO : -errno;
	dir = openat(run_fd, id->text, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0)
		return -errno;
	boot_id[n] = '\0';
	boot_id[strcspn(boot_id, "\n")] = '\0';
	ret->spec.id = *id;
	return record_read(dir, ret, boot_id);
}

/* --- the monitor's statuses --- */

static int take_kept(struct keeper *k, const struct monitor_record *record)
{
	struct container_spec spec = {.id = record->id, .generation = record->generation};
	struct keeper_sandbox *sb;

	if (!record->id.text[0]) {
		k->recent[k->recent_next++ % KEEPER_RECENT] = *record;
		return 0;
	}
	sb = keeper_sandbox_new(k, &spec);
	if (!sb)
		return -ENOMEM;
	sb->c.init_pid = record->pid;
	sb->c.init_start = record->start;
	sb->status = record->status;
	sb->has_status = record->is_known;
	sb->oom_kills = record->oom_kills;
	sb->is_told = true;
	return 0;
}

static int read_kept(struct keeper *k)
{
	for (;;) {
		struct pollfd ready = {.fd = k->link.fd, .events = POLLIN};
		struct monitor_record record;
		int r = monitor_link_receive(k->link.fd, &record);

		if (r == -EAGAIN) {
			r = poll(&ready, 1, SYNC_MS);
			if (r > 0 || (r < 0 && errno == EINTR))
				continue;
			return r == 0 ? -ETIMEDOUT : -errno;
		}
		if (r == 0 && record.kind == MONITOR_SYNCED)
			return 0;
		if (r == 0)
			r = take_kept(k, &record);
		if (r < 0)
			return r;
	}
}

/* --- running ones --- */

struct keeper_sandbox *keeper_sandbox_find_init(struct keeper *k, pid_t pid, uint64_t start)
{
	for (size_t i = 0; i < KEEPER_BUCKETS; i++) {
		list_for_each (node, &k->buckets[i]) {
			struct keeper_sandbox *sb = list_entry(node, struct keeper_sandbox, node);

			if (sb->c.init_pid == pid && sb->c.init_start == start)
				return sb;
		}
	}
	return NULL;
}

static bool is_child_of_monitor(const struct keeper *k, pid_t pid)
{
	struct process_stat stat;

	return process_stat(pid, &stat) == 0 && stat.parent == monitor_link_pid(k->link.fd);
}

static int adopt_one(void *arg, const struct sandbox_id *id)
{
	struct keeper *k = arg;
	struct container c = {.init_pidfd = -1};
	struct keeper_sandbox *sb;
	struct err err = {0};
	int r = container_adopt(&c, k->host, id, &err), frozen;

	if (r < 0)
		return is_no_more(r) ? 0 : r;
	sb = keeper_sandbox_find(k, str_of(id->text));
	if (!sb)
		sb = keeper_sandbox_new(k, &c.spec);
	if (!sb)
		return -ENOMEM;
	sb->c = c;
	sb->is_told = true;
	sb->is_ours = is_child_of_monitor(k, c.init_pid);
	log_info("adopted sandbox=%s generation=%llu pid=%d", id->text,
		 (unsigned long long)c.spec.generation, (int)c.init_pid);
	sb->cpus = KEEPER_CPUS_UNKNOWN;
	frozen = container_is_frozen(&sb->c, k->host);
	sb->freeze.is_wanted = frozen > 0;
	/* Half frozen, it would look like one that runs. */
	if (frozen == 0)
		container_thaw(&sb->c, k->host);
	keeper_io_check(sb);
	keeper_sandbox_run(sb);
	if (sb->c.is_pooled)
		keeper_pool_watch(k);
	return 0;
}

/* --- what remains of others --- */

static int is_adopted(void *arg, pid_t pid, uint64_t start)
{
	struct keeper *k = arg;

	return keeper_sandbox_find_init(k, pid, start) != NULL;
}

static int bury_one(void *arg, const struct sandbox_id *id)
{
	struct keeper *k = arg;
	struct keeper_sandbox *sb = keeper_sandbox_find(k, str_of(id->text));
	struct container_spec spec = {.id = *id};

	if (sb && sb->state != KEEPER_NEW)
		return 0;
	if (!sb) {
		struct container c = {.init_pidfd = -1};
		int run_fd = container_host_run_fd(k->host);
		int r = read_record(run_fd, id, &c), stray = -1;
		bool has_record = r == 0;
		pid_t pid = 0;

		if (!has_record && is_no_more(r))
			r = stray = stray_open(run_fd, id, &pid);
		if (r < 0 && !is_no_more(r))
			return r;
		sb = keeper_sandbox_new(k, has_record ? &c.spec : &spec);
		if (!sb) {
			close_fdp(&stray);
			return -ENOMEM;
		}
		if (has_record) {
			sb->c = c;
			sb->is_told = true;
		} else {
			sb->c.init_pidfd = stray;
			sb->c.init_pid = pid;
		}
	}
	log_info("taking down what is left sandbox=%s", id->text);
	keeper_sandbox_bury(sb);
	return 0;
}

/* Those that were taken down and told, but not forgotten, and statuses that belong to nobody. */
static void sort_rest(struct keeper *k)
{
	for (size_t i = 0; i < KEEPER_BUCKETS; i++) {
		list_for_each (node, &k->buckets[i]) {
			struct keeper_sandbox *sb = list_entry(node, struct keeper_sandbox, node);

			if (sb->state == KEEPER_NEW)
				keeper_sandbox_enter(sb, KEEPER_HAS_EXITED);
		}
	}
	for (unsigned i = 0; i < KEEPER_RECENT; i++) {
		const struct monitor_record *record = &k->recent[i];

		if (record->pid && !keeper_sandbox_find_init(k, record->pid, record->start))
			keeper_tell_monitor(k, &(struct monitor_record){.kind = MONITOR_SEEN,
									.pid = record->pid,
									.start = record->start});
	}
}

int keeper_adopt(struct keeper *k, struct err *err)
{
	int run_fd = container_host_run_fd(k->host);
	int r = read_kept(k);

	if (r == 0)
		r = for_each_id(run_fd, adopt_one, k);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "earlier sandboxes cannot be found: %s",
			       strerror(-r));
	r = process_kill_children(monitor_link_pid(k->link.fd), is_adopted, k, SWEEP_MS);
	if (r == -ESRCH)
		return err_set(err, r, ERR_INTERNAL, "the monitor has ended");
	if (r != 0)
		log_warn("killed what an earlier keeper was at processes=%d", r);
	r = for_each_id(run_fd, bury_one, k);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "remains cannot be taken down: %s",
			       strerror(-r));
	sort_rest(k);
	return 0;
}

/* --- before the namespaces --- */

struct search {
	int run_fd;
	pid_t found;
};

static int find_one(void *arg, const struct sandbox_id *id)
{
	struct search *search = arg;
	struct container c = {.init_pidfd = -1};
	struct process_stat stat;
	cleanup_fd int stray = -1;
	int r;

	r = read_record(search->run_fd, id, &c);
	if (r < 0 && is_no_more(r)) {
		stray = stray_open(search->run_fd, id, &search->found);
		return stray >= 0 ? 1 : is_no_more(stray) ? 0 : stray;
	}
	if (r == 0)
		r = process_stat(c.init_pid, &stat);
	if (r < 0)
		return is_no_more(r) ? 0 : r;
	if (stat.start != c.init_start || stat.state == 'Z')
		return 0;
	search->found = c.init_pid;
	return 1;
}

int keeper_adopt_find_init(const char *run_dir, pid_t *ret, struct err *err)
{
	cleanup_fd int fd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct search search = {.run_fd = fd};
	int r = fd < 0 ? -errno : for_each_id(fd, find_one, &search);

	if (r < 0 && r != -ENOENT)
		return err_set(err, r, ERR_INTERNAL, "earlier sandboxes cannot be found: %s",
			       strerror(-r));
	*ret = search.found;
	return 0;
}
