/* What a sandbox has by name, as its alarms and sessions: to list and to remove. */
#ifndef BERTH_CMD_NAMED_H
#define BERTH_CMD_NAMED_H

#include <stdio.h>

#include "cmd/berth/haul.h"
#include "cmd/berth/verb.h"
#include "proto/json.h"

struct named {
	/* Of one of them, into the haul; of all without a name. */
	int (*target)(struct haul *haul, const char *id, const char *name);
	const struct json_field *fields; /* of the list: into a struct json_objects */
	void (*print)(FILE *out, const struct json_objects *list);
};

/* Both give an exit code. The sandbox is the verb's second argument. */
int named_list(const struct call *call, const struct named *named);
/*
 * `code` is what those before it came to. If no daemon answered, or somebody pressed Ctrl-C, the
 * others would fare no better or are not wanted any more: then nothing is done.
 */
int named_remove(const struct call *call, const struct named *named, const char *name, int code);

#endif
