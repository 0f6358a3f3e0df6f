#include "proto/keeper.h"

#include "base/err.h"
#include "proto/frame_table.h"

/* clang-format off */
const struct frame_field keeper_hello_fields[] = {
	U32(keeper_hello, version),
	END,
};

const struct frame_field keeper_welcome_fields[] = {
	U32(keeper_welcome, version),
	U32(keeper_welcome, abilities),
	U32(keeper_welcome, known),
	BYTES(keeper_welcome, runtime, 4095),
	BYTES(keeper_welcome, warning, KEEPER_SENTENCE_MAX),
	U64(keeper_welcome, defaults.memory_bytes),
	U32(keeper_welcome, defaults.pids),
	U32(keeper_welcome, defaults.files),
	END,
};

const struct frame_field keeper_version_fields[] = {
	U32(keeper_welcome, version),
	END,
};

const struct frame_field keeper_start_fields[] = {
	BYTES(keeper_start, id, KEEPER_ID_MAX),
	U64(keeper_start, generation),
	U32(keeper_start, flags),
	U32(keeper_start, capabilities),
	BYTES(keeper_start, image, KEEPER_IMAGE_MAX),
	U64(keeper_start, memory_bytes),
	U64(keeper_start, swap_bytes),
	U32(keeper_start, cpu_milli),
	U32(keeper_start, pids),
	U32(keeper_start, files),
	U64(keeper_start, file_size),
	U64(keeper_start, disk_bytes),
	U64(keeper_start, inodes),
	U64(keeper_start, io.read_bytes),
	U64(keeper_start, io.write_bytes),
	U32(keeper_start, io.read_ops),
	U32(keeper_start, io.write_ops),
	BYTES(keeper_start, mounts, MOUNTS_LIST_MAX),
	END,
};

const struct frame_field keeper_limit_fields[] = {
	BYTES(keeper_limit, id, KEEPER_ID_MAX),
	U64(keeper_limit, generation),
	U64(keeper_limit, memory_bytes),
	U64(keeper_limit, swap_bytes),
	U32(keeper_limit, cpu_milli),
	U32(keeper_limit, pids),
	U64(keeper_limit, disk_bytes),
	U64(keeper_limit, io.read_bytes),
	U64(keeper_limit, io.write_bytes),
	U32(keeper_limit, io.read_ops),
	U32(keeper_limit, io.write_ops),
	END,
};

const struct frame_field keeper_check_fields[] = {
	BYTES(keeper_check, id, KEEPER_ID_MAX),
	U32(keeper_check, flags),
	U32(keeper_check, files),
	U64(keeper_check, disk_bytes),
	U64(keeper_check, inodes),
	END,
};

const struct frame_field keeper_running_fields[] = {
	BYTES(keeper_running, id, KEEPER_ID_MAX),
	U64(keeper_running, generation),
	U32(keeper_running, pid),
	UP_TO(keeper_running, is_frozen, 1),
	UP_TO(keeper_running, is_ephemeral, 1),
	UP_TO(keeper_running, is_strict, 1),
	END,
};

const struct frame_field keeper_started_fields[] = {
	U32(keeper_started, pid),
	U32(keeper_started, groups),
	UP_TO(keeper_started, has_counter, 1),
	UP_TO(keeper_started, has_usage, 1),
	END,
};

const struct frame_field keeper_adopted_fields[] = {
	UP_TO(keeper_adopted, has_counter, 1),
	UP_TO(keeper_adopted, has_usage, 1),
	END,
};

const struct frame_field keeper_exited_fields[] = {
	BYTES(keeper_exited, id, KEEPER_ID_MAX),
	U64(keeper_exited, generation),
	UP_TO(keeper_exited, status, 0xffff),
	UP_TO(keeper_exited, is_known, 1),
	U64(keeper_exited, oom_kills),
	END,
};

const struct frame_field keeper_ref_fields[] = {
	BYTES(keeper_ref, id, KEEPER_ID_MAX),
	U64(keeper_ref, generation),
	END,
};

const struct frame_field keeper_group_ref_fields[] = {
	BYTES(keeper_group_ref, id, KEEPER_ID_MAX),
	U64(keeper_group_ref, generation),
	U32(keeper_group_ref, group),
	END,
};

const struct frame_field keeper_group_fields[] = {
	U32(keeper_group, group),
	END,
};

const struct frame_field keeper_failed_fields[] = {
	UP_TO(keeper_failed, code, ERR_CODE_COUNT - 1),
	BYTES(keeper_failed, sentence, KEEPER_SENTENCE_MAX),
	END,
};

const struct frame_field keeper_stats_fields[] = {
	U64(keeper_stats, cpu_us),
	U64(keeper_stats, memory_bytes),
	U64(keeper_stats, memory_peak_bytes),
	U64(keeper_stats, held_bytes),
	U64(keeper_stats, limit_bytes),
	U64(keeper_stats, pids),
	U64(keeper_stats, oom_kills),
	END,
};

const struct frame_field keeper_usage_fields[] = {
	U64(keeper_usage, disk_bytes),
	U64(keeper_usage, files),
	END,
};

const struct frame_field keeper_done_fields[] = {
	END,
};
/* clang-format on */
