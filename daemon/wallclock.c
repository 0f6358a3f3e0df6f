#include "daemon/wallclock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

#define SET_MIN_MS 1000 /* less is only a clock that is kept right */

struct wallclock {
	uv_poll_t poll;
	int fd;
	struct wall_timer *first; /* the root of the heap */
	int64_t ahead_ms;         /* of the clock that nobody sets */
	wallclock_set_fn *was_set;
	void *arg;
};

static int64_t time_of(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t find_ahead_ms(void)
{
	return time_of(CLOCK_REALTIME) - time_of(CLOCK_BOOTTIME);
}

/* --- the heap --- */

static void hang(struct wall_timer **from, struct wall_timer *timer)
{
	*from = timer;
	if (timer)
		timer->from = from;
}

/* Of two roots the earlier; the other becomes its first child. */
static struct wall_timer *meld(struct wall_timer *a, struct wall_timer *b)
{
	if (!a || !b)
		return a ? a : b;
	if (b->at_ms < a->at_ms)
		return meld(b, a);
	hang(&b->next, a->child);
	hang(&a->child, b);
	return a;
}

/* All siblings become one heap: in pairs from the left, then these from the right. */
static struct wall_timer *meld_all(struct wall_timer *first)
{
	struct wall_timer *pairs = NULL, *root = NULL;

	while (first) {
		struct wall_timer *a = first, *b = a->next, *pair;

		first = b ? b->next : NULL;
		a->next = NULL;
		if (b)
			b->next = NULL;
		pair = meld(a, b);
		pair->next = pairs;
		pairs = pair;
	}
	while (pairs) {
		struct wall_timer *pair = pairs;

		pairs = pair->next;
		pair->next = NULL;
		root = meld(root, pair);
	}
	return root;
}

static void add(struct wallclock *clock, struct wall_timer *timer)
{
	timer->child = timer->next = NULL;
	hang(&clock->first, meld(clock->first, timer));
}

static void take_out(struct wallclock *clock, struct wall_timer *timer)
{
	struct wall_timer *children = meld_all(timer->child);

	hang(timer->from, timer->next);
	timer->child = timer->next = NULL;
	timer->from = NULL;
	hang(&clock->first, meld(clock->first, children));
}

/* --- the kernel's timer --- */

static void arm(struct wallclock *clock)
{
	/* Zero would stop it. */
	int64_t at = !clock->first ? 0 : clock->first->at_ms > 0 ? clock->first->at_ms : 1;
	struct itimerspec when = {
		.it_value = {.tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000},
	};

	/* It was set even if the clock was, too. All other failures are of our making. */
	if (timerfd_settime(clock->fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &when, NULL) <
		    0 &&
	    errno != ECANCELED)
		log_error("the timer of the wall's clock cannot be set: errno=%d", errno);
}

/* By our own reckoning: that it was set may also have been told to whoever set the timer. */
static void look_whether_set(struct wallclock *clock)
{
	int64_t ahead_ms = find_ahead_ms(), by_ms = ahead_ms - clock->ahead_ms;

	if (by_ms > -SET_MIN_MS && by_ms < SET_MIN_MS)
		return;
	clock->ahead_ms = ahead_ms;
	log_info("the clock was set by_ms=%lld", (long long)by_ms);
	if (clock->was_set)
		clock->was_set(clock->arg, by_ms);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct wallclock *clock = container_of(poll, struct wallclock, poll);
	uint64_t times;
	int64_t now;

	if (read(clock->fd, &times, sizeof(times)) < 0 && errno != ECANCELED && errno != EAGAIN)
		log_error("the timer of the wall's clock cannot be read: errno=%d", errno);
	look_whether_set(clock);
	now = time_of(CLOCK_REALTIME);
	while (clock->first && clock->first->at_ms <= now) {
		struct wall_timer *timer = clock->first;

		take_out(clock, timer);
		timer->due(timer);
	}
	arm(clock);
}

/* --- life --- */

int wallclock_new(struct wallclock **ret, uv_loop_t *loop, wallclock_set_fn *was_set, void *arg)
{
	cleanup_free struct wallclock *clock = calloc(1, sizeof(*clock));
	cleanup_fd int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	int r;

	if (!clock || fd < 0)
		return clock ? -errno : -ENOMEM;
	r = uv_poll_init(loop, &clock->poll, fd);
	if (r < 0)
		return r;
	clock->fd = take_fd(&fd);
	clock->ahead_ms = find_ahead_ms();
	clock->was_set = was_set;
	clock->arg = arg;
	uv_poll_start(&clock->poll, UV_READABLE, on_readable);
	*ret = take(clock);
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	struct wallclock *clock = container_of((uv_poll_t *)handle, struct wallclock, poll);

	close(clock->fd);
	free(clock);
}

void wallclock_free(struct wallclock *clock)
{
	uv_close((uv_handle_t *)&clock->poll, on_closed);
}

void wallclock_set(struct wallclock *clock, struct wall_timer *timer, int64_t at_ms)
{
	struct wall_timer *first = clock->first;

	if (timer->from)
		take_out(clock, timer);
	timer->at_ms = at_ms;
	add(clock, timer);
	if (clock->first != first || timer == first)
		arm(clock);
}

void wallclock_clear(struct wallclock *clock, struct wall_timer *timer)
{
	/* The kernel's may be too early by that, which does no harm. */
	if (timer->from)
		take_out(clock, timer);
}
