/*
 * The keeper's loop: descriptors and timers of one thread. One event is taken at a time, so that a
 * callback may end any watch or timer, its own too, and free what holds it.
 */
#ifndef BERTH_CONTAINER_LOOP_H
#define BERTH_CONTAINER_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct loop {
	int epoll_fd;
	struct list timers;
	bool is_stopping;
	_Atomic uint64_t *pulse; /* since when it is busy, 0: it waits; NULL: nobody looks */
};

struct watch {
	int fd; /* -1: not watched. The watch does not own it. */
	void (*on_ready)(struct watch *watch);
};

struct timer {
	struct list node;
	uint64_t at_ms;
	void (*on_time)(struct timer *timer);
};

int loop_init(struct loop *loop);
void loop_close(struct loop *loop);

/* Until loop_stop(). Negative errno when the kernel fails us. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

uint64_t loop_now_ms(void); /* monotonic */

void watch_init(struct watch *watch, void (*on_ready)(struct watch *watch));
/* `events` as epoll has them; again with others changes them. */
int watch_start(struct watch *watch, struct loop *loop, int fd, uint32_t events);
void watch_stop(struct watch *watch, struct loop *loop);

void timer_init(struct timer *timer, void (*on_time)(struct timer *timer));
/* Starting one that runs moves it. */
void timer_start(struct timer *timer, struct loop *loop, uint64_t delay_ms);
void timer_stop(struct timer *timer);

#endif
