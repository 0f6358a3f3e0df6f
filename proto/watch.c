#include "proto/watch.h"

#include "proto/frame_table.h"

/* clang-format off */
const struct frame_field watch_add_fields[] = {
	U32(watch_add, watch),
	U32(watch_add, flags),
	BYTES(watch_add, path, FILE_PATH_MAX),
	BYTES(watch_add, include, FILE_PATTERNS_MAX),
	BYTES(watch_add, exclude, FILE_PATTERNS_MAX),
	END,
};

const struct frame_field watch_number_fields[] = {
	U32(watch_number, watch),
	END,
};

const struct frame_field watch_ready_fields[] = {
	U32(watch_ready, watch),
	UP_TO(watch_ready, error, ERRNO_MAX),
	U32(watch_ready, directories),
	END,
};

const struct frame_field watch_event_fields[] = {
	U32(watch_event, watch),
	UP_TO(watch_event, kind, WATCH_KIND_COUNT - 1),
	UP_TO(watch_event, is_directory, 1),
	BYTES(watch_event, path, FILE_PATH_MAX),
	BYTES(watch_event, from, FILE_PATH_MAX),
	END,
};

const struct frame_field watch_gone_fields[] = {
	U32(watch_gone, watch),
	UP_TO(watch_gone, why, WATCH_WHY_COUNT - 1),
	UP_TO(watch_gone, error, ERRNO_MAX),
	END,
};
/* clang-format on */
