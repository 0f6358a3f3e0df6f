/*
 * Loaded before a program's libraries (LD_PRELOAD), it is a wall's clock that a test can set, while
 * that of the machine stays as it is. By how much, says a file that BERTH_CLOCK names and that test
 * and program map: see jump.py, whose picture of struct control must be the same. The kernel's
 * timer is told machine's time; that the clock was set, the test tells by letting it expire.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "tests/preload.h"

struct control {
	_Atomic int64_t ahead_s;
	_Atomic int32_t timer_fd; /* of the program; 0: it has none */
};

static struct control *control;
static int wall_fd = -1;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("BERTH_CLOCK");
	int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
	void *map;

	if (fd < 0)
		return;
	map = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		control = map;
}

static int64_t ahead(void)
{
	return control ? control->ahead_s : 0;
}

typedef int gettime_fn(clockid_t id, struct timespec *ret);
typedef int gettimeofday_fn(struct timeval *ret, void *zone);
typedef time_t time_fn(time_t *ret);
typedef int create_fn(int id, int flags);
typedef int settime_fn(int fd, int flags, const struct itimerspec *when, struct itimerspec *old);

int gettime(clockid_t id, struct timespec *ret) INSTEAD_OF("clock_gettime");
int gettime(clockid_t id, struct timespec *ret)
{
	int r = ((gettime_fn *)NEXT("clock_gettime"))(id, ret);

	if (r == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		ret->tv_sec += ahead();
	return r;
}

int time_of_day(struct timeval *ret, void *zone) INSTEAD_OF("gettimeofday");
int time_of_day(struct timeval *ret, void *zone)
{
	int r = ((gettimeofday_fn *)NEXT("gettimeofday"))(ret, zone);

	if (r == 0 && ret)
		ret->tv_sec += ahead();
	return r;
}

time_t seconds(time_t *ret) INSTEAD_OF("time");
time_t seconds(time_t *ret)
{
	time_t now = ((time_fn *)NEXT("time"))(NULL) + ahead();

	if (ret)
		*ret = now;
	return now;
}

int timer_create_fd(int id, int flags) INSTEAD_OF("timerfd_create");
int timer_create_fd(int id, int flags)
{
	int fd = ((create_fn *)NEXT("timerfd_create"))(id, flags);

	if (id == CLOCK_REALTIME && control)
		control->timer_fd = wall_fd = fd;
	return fd;
}

int timer_set(int fd, int flags, const struct itimerspec *when, struct itimerspec *old)
	INSTEAD_OF("timerfd_settime");
int timer_set(int fd, int flags, const struct itimerspec *when, struct itimerspec *old)
{
	struct itimerspec moved = *when;

	if (fd == wall_fd && flags & TFD_TIMER_ABSTIME &&
	    (when->it_value.tv_sec || when->it_value.tv_nsec)) {
		moved.it_value.tv_sec -= ahead();
		if (moved.it_value.tv_sec < 1)
			moved.it_value.tv_sec = 1;
	}
	return ((settime_fn *)NEXT("timerfd_settime"))(fd, flags, &moved, old);
}
