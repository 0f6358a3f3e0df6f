/*
 * Measures all sandboxes that have a container, SURVEY_SLOTS at a time, for whoever shows them all.
 * One at a time: who asks meanwhile shares it, and after SURVEY_MS all are told, measured or not.
 *
 * Disks take long to count. Who wants them gets what is known, and has the others counted for the
 * next time: SURVEY_COUNTS at a time, as long as somebody asks, and none again before it had
 * SURVEY_REST times as long a rest as its count took. One that sleeps is counted once.
 */
#ifndef BERTH_DAEMON_SURVEY_H
#define BERTH_DAEMON_SURVEY_H

#include <stdbool.h>

#include "base/list.h"

#define SURVEY_SLOTS    16
#define SURVEY_MS       2000
#define SURVEY_COUNTS   2
#define SURVEY_REST     30
#define SURVEY_DISK_MS  60000 /* and never before that */
#define SURVEY_LOOKS_MS 5000  /* who has not asked for so long does not look any more */

struct registry;
struct survey;

struct survey_wait {
	struct list link;
	void (*done)(struct survey_wait *wait);
};

struct survey *survey_new(struct registry *registry);
/* Who waits is told. The sandboxes are gone already. */
void survey_free(struct survey *survey);

/* 1: all is known; 0: `wait` is called later. */
int survey_begin(struct survey *survey, bool disks_wanted, struct survey_wait *wait);
void survey_cancel(struct survey_wait *wait);

#endif
