/* The settings of sleep as they stand in a body, and back: a part of proto/settings.c. */
#ifndef BERTH_PROTO_SETTINGS_TIMES_H
#define BERTH_PROTO_SETTINGS_TIMES_H

#include "proto/settings.h"

/* The words as they were sent; an `at` of NULL: that one was not given. */
struct settings_times_words {
	struct str sleep_after, max_awake, stop_after, delete_after, stop_grace;
	struct str sleep_mode;
};

void settings_times_init(struct settings_times *times);

/*
 * Over `times` and `mode`, where what was not given stays. On failure, which names the field, they
 * are as they were.
 */
int settings_times_read(const struct settings_times_words *words, struct settings_times *times,
			enum sleep_mode *mode, struct err *err);

/* The fields, `keep_alive` too, into an open object. */
void settings_times_write(const struct settings *settings, struct json_writer *w);

#endif
