/* Why a sandbox is awake, when it will sleep, and how it slept and woke: in words for people. */
#ifndef BERTH_CMD_AWAKE_H
#define BERTH_CMD_AWAKE_H

#include <stdint.h>

#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"

/* By this machine's clock, in milliseconds since 1970. */
int64_t awake_now_ms(void);

/* In a few words: "awake: exec +2", "sleeps in 4m", "frozen", "stopped"; "-" if that is not told.
 */
struct screen_text awake_in_short(const struct sandbox_info *info, int64_t now_ms);

/* Rows, as far as it was told: what holds it, when it sleeps, its last sleep and wake. */
void awake_print(const struct sandbox_info *info, int64_t now_ms);

/* "frozen", "stopped" */
const char *awake_mode_word(struct str mode);

/* "; it kept its disk, memory and processes", or "" if nothing is said to be kept. */
struct screen_text awake_kept(const struct json_strings *kept);

#endif
