#include "proto/event_type.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"

static const char *const types[] = {
	"created", "changed",      "started",      "slept",          "woke",
	"alarm",   "alarm_failed", "port_exposed", "port_unexposed", "memory_threshold",
	"oom",     "failed",       "exited",       "destroyed",
};

static_assert(array_len(types) == EVENT_TYPE_COUNT, "one name for each");

#define NAMES_MAX 256 /* all of them, with what stands between */
#define SHOWN_MAX 64  /* of one that nobody knows */

const char *event_type_name(size_t index)
{
	return index < array_len(types) ? types[index] : NULL;
}

size_t event_type_index(struct str name)
{
	size_t i = 0;

	while (i < array_len(types) && !str_eq(name, str_of(types[i])))
		i++;
	return i;
}

bool event_type_is_known(struct str name)
{
	return event_type_index(name) < EVENT_TYPE_COUNT;
}

static int refuse(struct str name, struct err *err)
{
	char names[NAMES_MAX] = "";
	size_t len = 0;

	for (size_t i = 0; i < array_len(types) && len < sizeof(names); i++)
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i ? ", " : "",
					types[i]);
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
		       "type: there is no kind of event \"%.*s\"; there are %s",
		       (int)(name.len < SHOWN_MAX ? name.len : SHOWN_MAX), name.at, names);
}

int event_types_check(struct str list, struct err *err)
{
	bool is_last;

	do {
		struct str name;
		size_t len = list.len;

		name = str_cut(&list, ',');
		is_last = name.len == len;
		if (!event_type_is_known(name))
			return refuse(name, err);
	} while (!is_last);
	return 0;
}
