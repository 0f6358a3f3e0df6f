/*
 * The few lines of TAP that our C tests need. A failed check says where and goes on; tap_done()
 * prints the plan and gives main() its exit code.
 */
#ifndef BERTH_TESTS_TAP_H
#define BERTH_TESTS_TAP_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int tap_count, tap_failed;
static bool tap_case_failed;

/* Checks belong to the case that tap_ok() closes. */
#define check(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #condition);                   \
			tap_case_failed = true;                                                    \
		}                                                                                  \
	} while (0)

#define check_str(actual, expected)                                                                \
	do {                                                                                       \
		const char *tap_a_ = (actual), *tap_e_ = (expected);                               \
		if (!tap_a_ || strcmp(tap_a_, tap_e_) != 0) {                                      \
			printf("# %s:%d: got \"%s\", expected \"%s\"\n", __FILE__, __LINE__,       \
			       tap_a_ ? tap_a_ : "(null)", tap_e_);                                \
			tap_case_failed = true;                                                    \
		}                                                                                  \
	} while (0)

/* Closes a case: all checks since the last one count for it. */
static inline void tap_ok(const char *name)
{
	printf("%s %d - %s\n", tap_case_failed ? "not ok" : "ok", ++tap_count, name);
	tap_failed += tap_case_failed;
	tap_case_failed = false;
	fflush(stdout);
}

static inline int tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed ? 1 : 0;
}

#endif
