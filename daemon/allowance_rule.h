/* The arithmetic of daemon/allowance.h: numbers in, decisions out. */
#ifndef BERTH_DAEMON_ALLOWANCE_RULE_H
#define BERTH_DAEMON_ALLOWANCE_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* A look is never nearer than that to the last, so a busy processor may use so much too much. */
#define ALLOWANCE_LOOK_MIN_MS 20
/* Nor farther: processors may have been added. */
#define ALLOWANCE_LOOK_MAX_MS 10000

/* When so much processor time can be used up at the earliest, by so many thousandths of one. */
uint64_t allowance_look_ms(uint64_t left_us, uint64_t cpu_milli);

/*
 * Whether what is held has just reached that part of the limit. `is_above` is what is known of it:
 * it is told once, and again only after less than nine tenths of that were held.
 */
bool allowance_crosses(bool *is_above, uint64_t held, uint64_t limit, uint32_t threshold_milli);

#endif
