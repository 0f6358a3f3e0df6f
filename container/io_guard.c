#include "container/io_guard.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/cgroup_io.h"
#include "container/child.h"
#include "container/dir.h"

#define LOOK_MS     250
#define PATIENCE_MS 1000 /* hardly anything that the keeper does by itself takes as long */

_Atomic uint64_t *io_guard_pulse_new(void)
{
	void *page = mmap(NULL, sizeof(_Atomic uint64_t), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return page == MAP_FAILED ? NULL : page;
}

static void close_dirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Of sandboxes that have none nothing is written. */
static void lift_all(const struct cgroup_host *cg, int root)
{
	int fd = dir_open(root, cg->name);
	cleanup(close_dirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		close_fdp(&fd);
		return;
	}
	while ((entry = readdir(dir)))
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			cgroup_io_lift(cg, entry->d_name);
}

/* As the loop's own. */
static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool hangs(const _Atomic uint64_t *pulse)
{
	uint64_t since = atomic_load(pulse);

	return since && now_ms() >= since + PATIENCE_MS;
}

static __attribute__((noreturn)) void guard(const struct cgroup_host *cg, int root,
					    const _Atomic uint64_t *pulse, int told_fd)
{
	const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
	const uint64_t one = 1;

	prctl(PR_SET_NAME, "berth-io-guard");
	for (;;) {
		nanosleep(&pause, NULL);
		if (!hangs(pulse))
			continue;
		lift_all(cg, root);
		/* It is full only if nobody has read it for ever. */
		if (write(told_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
			_exit(1);
	}
}

int io_guard_start(const struct cgroup_host *cg, const _Atomic uint64_t *pulse, int told_fd,
		   pid_t *ret_pid)
{
	const int root = cg->is_v2 ? cg->v2_fd : cg->v1_fds[CGROUPS_BLKIO];
	const int keep[] = {root, told_fd};
	int r = child_fork(keep, array_len(keep), ret_pid);

	if (r >= 0 && *ret_pid == 0)
		guard(cg, root, pulse, told_fd);
	return r;
}
