/* What can happen to a sandbox, by the names that events have. */
#ifndef BERTH_PROTO_EVENT_TYPE_H
#define BERTH_PROTO_EVENT_TYPE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

#define EVENT_TYPE_COUNT 14

/* In the order of a life; NULL behind the last. */
const char *event_type_name(size_t index);
/* The way back; EVENT_TYPE_COUNT for a name that no type has. */
size_t event_type_index(struct str name);
bool event_type_is_known(struct str name);

/* Names with commas between them. -EINVAL, and a sentence that lists those that there are. */
int event_types_check(struct str list, struct err *err);

#endif
