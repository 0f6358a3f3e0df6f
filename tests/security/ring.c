/*
 * Loaded before berthd's libraries (LD_PRELOAD), it lets any libuv act as those since 1.45 do: a
 * loop comes with an io_uring if one can be made, and a ring that then cannot be entered ends the
 * program.
 */
#include <dlfcn.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INSTEAD_OF(name) __asm__(name) __attribute__((visibility("default")))

#define RING_SIZE 256

static int ring = -1;

int ring_loop_init(void *loop) INSTEAD_OF("uv_loop_init");
int ring_loop_init(void *loop)
{
	struct io_uring_params params = {0};

	ring = (int)syscall(SYS_io_uring_setup, RING_SIZE, &params);
	return ((int (*)(void *))dlsym(RTLD_NEXT, "uv_loop_init"))(loop);
}

int ring_run(void *loop, int mode) INSTEAD_OF("uv_run");
int ring_run(void *loop, int mode)
{
	if (ring >= 0 &&
	    syscall(SYS_io_uring_enter, ring, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0) < 0) {
		perror("io_uring_enter");
		abort();
	}
	return ((int (*)(void *, int))dlsym(RTLD_NEXT, "uv_run"))(loop, mode);
}
