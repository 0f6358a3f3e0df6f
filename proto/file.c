#include "proto/file.h"

#include "proto/frame_table.h"

/* Of a struct with a member `stat`. */
#define STAT(owner)                                                                                \
	UP_TO(owner, stat.type, FILE_TYPE_COUNT - 1), UP_TO(owner, stat.mode, 07777),              \
		U32(owner, stat.uid), U32(owner, stat.gid), U32(owner, stat.links),                \
		U64(owner, stat.size), U64(owner, stat.mtime),                                     \
		UP_TO(owner, stat.mtime_nsec, 999999999), U64(owner, stat.ctime_ns),               \
		U64(owner, stat.dev), U64(owner, stat.ino)

/* clang-format off */
const struct frame_field file_request_fields[] = {
	UP_TO(file_request, op, FILE_OP_COUNT - 1),
	U32(file_request, flags),
	UP_TO(file_request, mode, 07777),
	UP_TO(file_request, limit, FILE_LIST_MAX),
	BYTES(file_request, path, FILE_PATH_MAX),
	BYTES(file_request, other, FILE_PATH_MAX),
	BYTES(file_request, cursor, FILE_PATH_MAX),
	BYTES(file_request, patterns, FILE_PATTERNS_MAX),
	END,
};

const struct frame_field file_go_fields[] = {
	U64(file_go, offset),
	U64(file_go, length),
	END,
};

const struct frame_field file_result_fields[] = {
	UP_TO(file_result, error, ERRNO_MAX),
	UP_TO(file_result, stage, FILE_STAGE_COUNT - 1),
	UP_TO(file_result, is_new, 1),
	STAT(file_result),
	U64(file_result, count),
	U64(file_result, bytes),
	UP_TO(file_result, has_more, 1),
	BYTES(file_result, where, FILE_PATH_MAX),
	END,
};

const struct frame_field file_entry_fields[] = {
	BYTES(file_entry, name, FILE_PATH_MAX),
	STAT(file_entry),
	BYTES(file_entry, link, FILE_PATH_MAX),
	BYTES(file_entry, original, FILE_PATH_MAX),
	BYTES(file_entry, xattrs, FILE_XATTRS_MAX),
	BYTES(file_entry, map, FILE_MAP_MAX),
	END,
};

const struct frame_field file_data_fields[] = {
	U64(file_data, size),
	END,
};

const struct frame_field file_end_fields[] = {
	UP_TO(file_end, zero, 1),
	END,
};
/* clang-format on */
