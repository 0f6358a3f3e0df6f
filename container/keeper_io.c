/*
 * Limits of io that do not hold: they were lifted for a while, so that somebody could die or be
 * frozen, and could not be set again; or by the guard (io_guard.h), as we hung. As long as one runs
 * without them, that is tried. The guard is there while any sandbox that runs has such limits.
 */
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "container/container_io.h"
#include "container/io_guard.h"
#include "container/keeper_state.h"
#include "container/process.h"

#define RETRY_MS 1000

static void for_each(struct keeper *k, void (*each)(struct keeper_sandbox *sb))
{
	for (size_t i = 0; i < KEEPER_BUCKETS; i++)
		list_for_each (node, &k->buckets[i])
			each(list_entry(node, struct keeper_sandbox, node));
}

/* --- the guard --- */

static int begin_guard(struct job *job)
{
	struct keeper *k = container_of(job, struct keeper, guard);
	pid_t pid;

	return container_guard(k->host, k->loop.pulse, k->lifted.fd, &pid);
}

static void on_guard_end(struct job *job, int result, int status)
{
	struct keeper *k = container_of(job, struct keeper, guard);

	(void)status;
	k->is_guarded = false;
	if (result < 0)
		log_warn("nobody would lift limits of io if they held us up: %s",
			 strerror(-result));
	if (k->slowed)
		timer_start(&k->io, &k->loop, RETRY_MS);
}

/* It ends when nobody has limits any more, and by no time. */
static void want_guard(struct keeper *k)
{
	if (!k->slowed || k->is_guarded || k->lifted.fd < 0 || !k->loop.pulse)
		return;
	job_init(&k->guard);
	k->guard.begin = begin_guard;
	k->guard.on_end = on_guard_end;
	k->guard.timeout_ms = INT_MAX;
	k->is_guarded = true;
	job_queue(&k->guard, &k->guards, true);
}

void keeper_io_note(struct keeper_sandbox *sb)
{
	struct keeper *k = sb->keeper;
	bool is_slowed =
		sb->state == KEEPER_IS_RUNNING && container_io_is_any(&sb->c.spec.limits.io);

	if (is_slowed == sb->is_slowed)
		return;
	sb->is_slowed = is_slowed;
	k->slowed += is_slowed ? 1 : -1;
	if (k->slowed)
		want_guard(k);
	else if (k->is_guarded)
		process_pidfd_kill(k->guard.watch.fd, SIGKILL);
}

/* One that is being made may have them already: keeper_io_check() follows when it runs. */
static void doubt(struct keeper_sandbox *sb)
{
	if (sb->state == KEEPER_CREATING || sb->state == KEEPER_IS_RUNNING)
		sb->c.is_io_unsure |= container_io_is_any(&sb->c.spec.limits.io);
}

/* What has waited for us gets a moment to go on, or we would hang again at once. */
static void on_lifted(struct watch *watch)
{
	struct keeper *k = container_of(watch, struct keeper, lifted);
	uint64_t times;

	if (read(watch->fd, &times, sizeof(times)) < 0)
		return;
	log_warn("a disk held the keeper up for a second, so the limits of io were lifted until "
		 "now");
	for_each(k, doubt);
	timer_start(&k->io, &k->loop, RETRY_MS);
}

/* --- what does not hold --- */

static void settle(struct keeper_sandbox *sb)
{
	struct keeper *k = sb->keeper;

	if (sb->state == KEEPER_IS_RUNNING && sb->c.is_io_unsure &&
	    container_slow_down(&sb->c, k->host) < 0)
		timer_start(&k->io, &k->loop, RETRY_MS);
}

static void on_retry(struct timer *timer)
{
	struct keeper *k = container_of(timer, struct keeper, io);

	want_guard(k);
	for_each(k, settle);
}

void keeper_io_check(struct keeper_sandbox *sb)
{
	struct keeper *k = sb->keeper;

	if (!sb->c.is_io_unsure || !list_is_empty(&k->io.node))
		return;
	log_warn("sandbox=%s its limits of io cannot be set, which is tried again",
		 sb->c.spec.id.text);
	timer_start(&k->io, &k->loop, RETRY_MS);
}

/* Without a guard all goes on, as it does on hosts that cannot limit io. */
void keeper_io_init(struct keeper *k)
{
	cleanup_fd int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	timer_init(&k->io, on_retry);
	watch_init(&k->lifted, on_lifted);
	job_pool_init(&k->guards, &k->loop, 1, 1);
	k->loop.pulse = io_guard_pulse_new();
	if (fd >= 0 && watch_start(&k->lifted, &k->loop, fd, EPOLLIN) == 0)
		take_fd(&fd);
}
