#include "container/loop.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

int loop_init(struct loop *loop)
{
	list_init(&loop->timers);
	loop->is_stopping = false;
	loop->pulse = NULL;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return loop->epoll_fd < 0 ? -errno : 0;
}

void loop_close(struct loop *loop)
{
	close(loop->epoll_fd);
	loop->epoll_fd = -1;
}

void loop_stop(struct loop *loop)
{
	loop->is_stopping = true;
}

uint64_t loop_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Few timers run at a time, so they stand in no order. */
static int next_timeout(const struct loop *loop)
{
	uint64_t first = UINT64_MAX, now;

	list_for_each (node, &loop->timers) {
		const struct timer *timer = list_entry(node, struct timer, node);

		if (timer->at_ms < first)
			first = timer->at_ms;
	}
	if (first == UINT64_MAX)
		return -1;
	now = loop_now_ms();
	if (first <= now)
		return 0;
	return first - now > INT_MAX ? INT_MAX : (int)(first - now);
}

/* Timers that a callback starts wait for the next turn; one that it stops leaves `due`. */
static void run_timers(struct loop *loop)
{
	uint64_t now = loop_now_ms();
	struct list due;

	list_init(&due);
	list_for_each_safe (node, &loop->timers) {
		if (list_entry(node, struct timer, node)->at_ms <= now)
			list_move(&due, node);
	}
	while (!list_is_empty(&due)) {
		struct timer *timer = list_entry(due.next, struct timer, node);

		list_remove(&timer->node);
		timer->on_time(timer);
	}
}

static void beat(struct loop *loop, uint64_t since)
{
	if (loop->pulse)
		atomic_store(loop->pulse, since);
}

int loop_run(struct loop *loop)
{
	while (!loop->is_stopping) {
		struct epoll_event event;
		int n = epoll_wait(loop->epoll_fd, &event, 1, next_timeout(loop));

		if (n < 0 && errno != EINTR)
			return -errno;
		beat(loop, loop_now_ms());
		if (n > 0) {
			struct watch *watch = event.data.ptr;

			watch->on_ready(watch);
		}
		run_timers(loop);
		beat(loop, 0);
	}
	return 0;
}

void watch_init(struct watch *watch, void (*on_ready)(struct watch *watch))
{
	watch->fd = -1;
	watch->on_ready = on_ready;
}

int watch_start(struct watch *watch, struct loop *loop, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};
	bool is_new = watch->fd < 0;

	assert(is_new || watch->fd == fd);
	if (epoll_ctl(loop->epoll_fd, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) < 0)
		return -errno;
	watch->fd = fd;
	return 0;
}

void watch_stop(struct watch *watch, struct loop *loop)
{
	/* By hand: a forked child may hold a copy of the fd, and then closing ours is not enough.
	 */
	if (watch->fd >= 0)
		epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	watch->fd = -1;
}

void timer_init(struct timer *timer, void (*on_time)(struct timer *timer))
{
	list_init(&timer->node);
	timer->on_time = on_time;
}

void timer_start(struct timer *timer, struct loop *loop, uint64_t delay_ms)
{
	timer->at_ms = loop_now_ms() + delay_ms;
	list_move(&loop->timers, &timer->node);
}

void timer_stop(struct timer *timer)
{
	list_remove(&timer->node);
}
