/* The body of PUT .../alarm/{name}: when, and what is run. */
#ifndef BERTH_PROTO_ALARM_REQUEST_H
#define BERTH_PROTO_ALARM_REQUEST_H

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define ALARM_ARGV_MAX     (64 * 1024) /* it is kept in memory and in the database */
#define ALARM_EVERY_MIN_MS 1000

struct alarm_request {
	int64_t at_ms;       /* 0: none was given; then it is first due after `every_ms` */
	uint64_t every_ms;   /* 0: once */
	uint64_t timeout_ms; /* 0: none */
	struct str argv;     /* frame list */
};

/* Every error names the field. Results live in the arena. */
int alarm_request_parse(struct arena *arena, struct str body, struct alarm_request *ret,
			struct err *err);

#endif
