/* "mounts" as it stands in a body, and back: a part of proto/settings.c. */
#ifndef BERTH_PROTO_SETTINGS_MOUNTS_H
#define BERTH_PROTO_SETTINGS_MOUNTS_H

#include "proto/settings.h"

/* One, as it is read. */
struct settings_mount {
	struct str type, source, target;
	bool source_given, is_read_only, size_given;
	uint64_t size;
};

extern const struct json_field settings_mount_fields[];

/* A heap copy as a list of proto/mounts.h. */
int settings_mounts_take(const struct json_objects *mounts, struct str *ret, struct err *err);
void settings_mounts_write(struct str list, struct json_writer *w);

#endif
