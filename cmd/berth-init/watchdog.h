/*
 * A vfork suspends init until its child has called execve, and anyone inside with the right to
 * signal that child can stop it first. The watchdog is a thread that wakes such a child, and ends
 * it when that does not help: init waits, but never for long.
 */
#ifndef BERTH_INIT_WATCHDOG_H
#define BERTH_INIT_WATCHDOG_H

#include <stdatomic.h>

struct watchdog {
	int timer_fd; /* -1: nobody watches, as in a supervisor */
	atomic_int pidfd;
	atomic_uint alarms;
	_Alignas(16) char stack[4096];
};

/* Starts the thread. It lives as long as the process, and so does `w`. */
int watchdog_init(struct watchdog *w);

/* Around the clone; the clone itself stores the child's pidfd in w->pidfd. */
void watchdog_arm(struct watchdog *w);
void watchdog_disarm(struct watchdog *w);

#endif
