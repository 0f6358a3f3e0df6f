#include "daemon/wallclock.h"

#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

#define MANY 500

static uv_loop_t loop;
static struct wallclock *wall;
static int64_t last_ms;
static size_t fired;

struct one {
	struct wall_timer timer;
	unsigned times;
};

static struct one ones[MANY];

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void on_due(struct wall_timer *timer)
{
	check(timer->at_ms <= now_ms());
	check(timer->at_ms >= last_ms);
	last_ms = timer->at_ms;
	container_of(timer, struct one, timer)->times++;
	fired++;
}

static void turn_until(size_t wanted)
{
	for (int64_t end = now_ms() + 30000; fired < wanted && now_ms() < end;)
		uv_run(&loop, UV_RUN_ONCE);
	check(fired == wanted);
}

static void set_all(int64_t base)
{
	fired = 0;
	last_ms = 0;
	for (size_t i = 0; i < MANY; i++) {
		ones[i].timer.due = on_due;
		ones[i].times = 0;
		wallclock_set(wall, &ones[i].timer, base + rand() % 200);
	}
}

static void test_order(void)
{
	set_all(now_ms() + 20);
	turn_until(MANY);
	for (size_t i = 0; i < MANY; i++)
		check(ones[i].times == 1);
	tap_ok("each is due once, in order, and never early");
	set_all(-100);
	last_ms = INT64_MIN;
	turn_until(MANY);
	tap_ok("what is past is due at once, also what is before 1970");
}

static void test_changes(void)
{
	size_t left = 0;

	set_all(now_ms() + 100);
	for (size_t i = 0; i < MANY; i++) {
		if (i % 3 == 0)
			wallclock_clear(wall, &ones[i].timer);
		if (i % 3 == 1)
			wallclock_set(wall, &ones[i].timer, now_ms() + 50 + rand() % 200);
		if (i % 9 == 0)
			wallclock_set(wall, &ones[i].timer, now_ms() + 300);
		left += i % 3 != 0 || i % 9 == 0;
	}
	wallclock_clear(wall, &ones[3].timer); /* which is not set */
	turn_until(left);
	for (size_t i = 0; i < MANY; i++)
		check(ones[i].times == (i % 3 != 0 || i % 9 == 0));
	tap_ok("one that was cleared is not due, one that was set anew is so once");
}

static void on_again(struct wall_timer *timer)
{
	if (++fired < 3)
		wallclock_set(wall, timer, now_ms() + 10);
}

static void test_again(void)
{
	ones[0].timer.due = on_again;
	fired = 0;
	wallclock_set(wall, &ones[0].timer, now_ms());
	turn_until(3);
	tap_ok("it may be set anew when it is due");
}

int main(void)
{
	srand(1);
	check(uv_loop_init(&loop) == 0);
	check(wallclock_new(&wall, &loop, NULL, NULL) == 0);
	test_order();
	test_changes();
	test_again();
	wallclock_free(wall);
	uv_run(&loop, UV_RUN_DEFAULT);
	check(uv_loop_close(&loop) == 0);
	return tap_done();
}
