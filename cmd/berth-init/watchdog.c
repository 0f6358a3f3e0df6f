#include "cmd/berth-init/watchdog.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <time.h>

#include "cmd/berth-init/raw.h"

#define ALARM_EVERY_MS 100
#define ALARMS_MAX     50 /* then the child is killed */

/* Shares errno with init's thread, so it may touch no C library. */
static int watch(void *data)
{
	struct watchdog *w = data;
	uint64_t passed;

	while (raw_call(SYS_read, w->timer_fd, (long)&passed, sizeof(passed), 0) > 0) {
		int pidfd = atomic_load(&w->pidfd);
		int signal = atomic_fetch_add(&w->alarms, 1) < ALARMS_MAX ? SIGCONT : SIGKILL;

		if (pidfd >= 0)
			raw_call(SYS_pidfd_send_signal, pidfd, signal, 0, 0);
	}
	return 0;
}

int watchdog_init(struct watchdog *w)
{
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			 CLONE_SYSVSEM,
		.stack = (uintptr_t)w->stack,
		.stack_size = sizeof(w->stack),
	};
	sigset_t all, old;
	long ret;

	atomic_store(&w->pidfd, -1);
	w->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (w->timer_fd < 0)
		return -errno;
	/* It must take none of the signals that the loop waits for. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	ret = raw_clone(&args, watch, w);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return ret < 0 ? (int)ret : 0;
}

static void set_timer(const struct watchdog *w, long ms)
{
	struct itimerspec every = {{0, ms * 1000000}, {0, ms * 1000000}};

	if (w->timer_fd >= 0)
		timerfd_settime(w->timer_fd, 0, &every, NULL);
}

void watchdog_arm(struct watchdog *w)
{
	atomic_store(&w->pidfd, -1);
	atomic_store(&w->alarms, 0);
	set_timer(w, ALARM_EVERY_MS);
}

void watchdog_disarm(struct watchdog *w)
{
	atomic_store(&w->pidfd, -1);
	set_timer(w, 0);
}
