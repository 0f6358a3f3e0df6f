/*
 * Loaded before berthd's libraries (LD_PRELOAD), it lets the timer of whoever tries to connect
 * again be late by seconds, as on a machine that is busy: whatever it is about may have gone by
 * then.
 */
#include <dlfcn.h>
#include <stdint.h>

#define INSTEAD_OF(name) __asm__(name) __attribute__((visibility("default")))

#define AGAIN_MS 50 /* of daemon/handle_connect.c */
#define LATE_MS  3000

int late_timer_start(void *timer, void *callback, uint64_t timeout_ms, uint64_t repeat_ms)
	INSTEAD_OF("uv_timer_start");
int late_timer_start(void *timer, void *callback, uint64_t timeout_ms, uint64_t repeat_ms)
{
	int (*start)(void *, void *, uint64_t, uint64_t) =
		(int (*)(void *, void *, uint64_t, uint64_t))dlsym(RTLD_NEXT, "uv_timer_start");

	return start(timer, callback, timeout_ms == AGAIN_MS && !repeat_ms ? LATE_MS : timeout_ms,
		     repeat_ms);
}
