#include "base/arena.h"

#include <stdint.h>

#include "tests/unit/tap.h"

static void test_alignment(void)
{
	struct arena a;

	arena_init(&a, 1 << 20);
	for (size_t size = 1; size < 200; size += 7) {
		char *p = arena_alloc(&a, size);

		check(p && (uintptr_t)p % 16 == 0);
		memset(p, 0xaa, size);
	}
	arena_close(&a);
	tap_ok("allocations are aligned and writable");
}

static void test_limit(void)
{
	struct arena a;

	arena_init(&a, 8192);
	check(arena_alloc(&a, 4000));
	check(!arena_alloc(&a, 8000));
	check(arena_alloc(&a, 1000));
	check(!arena_alloc(&a, SIZE_MAX));
	check(!arena_alloc(&a, SIZE_MAX - 8));
	arena_close(&a);
	check(a.used == 0 && arena_alloc(&a, 8000));
	arena_close(&a);
	tap_ok("the limit holds and a closed arena starts anew");
}

static void test_strings(void)
{
	struct arena a;

	arena_init(&a, 1 << 20);
	check_str(arena_strndup(&a, "hello world", 5), "hello");
	check_str(arena_strndup(&a, NULL, 0), "");
	check_str(arena_printf(&a, "%d-%s", 42, "x"), "42-x");
	arena_close(&a);
	tap_ok("strings are copied and terminated");
}

int main(void)
{
	test_alignment();
	test_limit();
	test_strings();
	return tap_done();
}
