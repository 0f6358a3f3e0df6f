#include "proto/agent.h"

#include "proto/frame_table.h"

/* clang-format off */
const struct frame_field agent_hello_fields[] = {
	U32(agent_hello, version),
	END,
};

const struct frame_field agent_welcome_fields[] = {
	U32(agent_welcome, version),
	U32(agent_welcome, known),
	U32(agent_welcome, serial),
	END,
};

const struct frame_field agent_exec_fields[] = {
	U64(agent_exec, exec),
	U32(agent_exec, flags),
	U32(agent_exec, argv_size),
	BYTES(agent_exec, argv, FRAME_MAX),
	BYTES(agent_exec, env, FRAME_MAX),
	BYTES(agent_exec, cwd, AGENT_CWD_MAX),
	BYTES(agent_exec, user, AGENT_USER_MAX),
	U64(agent_exec, session),
	UP_TO(agent_exec, cols, AGENT_CELLS_MAX),
	UP_TO(agent_exec, rows, AGENT_CELLS_MAX),
	END,
};

const struct frame_field agent_started_fields[] = {
	U64(agent_started, exec),
	U32(agent_started, pid),
	END,
};

const struct frame_field agent_refused_fields[] = {
	U64(agent_refused, exec),
	UP_TO(agent_refused, stage, AGENT_STAGE_COUNT - 1),
	UP_TO(agent_refused, error, ERRNO_MAX),
	END,
};

const struct frame_field agent_live_fields[] = {
	U64(agent_live, exec),
	U32(agent_live, pid),
	END,
};

const struct frame_field agent_exited_fields[] = {
	U64(agent_exited, exec),
	UP_TO(agent_exited, status, 0xffff),
	U64(agent_exited, user_us),
	U64(agent_exited, system_us),
	U64(agent_exited, max_rss_bytes),
	END,
};

const struct frame_field agent_exec_ref_fields[] = {
	U64(agent_exec_ref, exec),
	END,
};

const struct frame_field agent_signal_fields[] = {
	U64(agent_signal, exec),
	UP_TO(agent_signal, signal, 64),
	END,
};

const struct frame_field agent_end_fields[] = {
	U64(agent_end, exec),
	END,
};

const struct frame_field agent_ended_fields[] = {
	U64(agent_ended, exec),
	UP_TO(agent_ended, is_proven, 1),
	END,
};

const struct frame_field agent_resize_fields[] = {
	U64(agent_resize, exec),
	UP_TO(agent_resize, cols, AGENT_CELLS_MAX),
	UP_TO(agent_resize, rows, AGENT_CELLS_MAX),
	END,
};

const struct frame_field agent_ping_fields[] = {
	U64(agent_ping, nonce),
	END,
};

const struct frame_field agent_usage_fields[] = {
	U64(agent_usage, cpu_us),
	END,
};

const struct frame_field agent_empty_fields[] = {
	END,
};

const struct frame_field agent_connect_fields[] = {
	UP_TO(agent_connect, port, UINT16_MAX),
	END,
};

const struct frame_field agent_connect_failed_fields[] = {
	UP_TO(agent_connect_failed, error, ERRNO_MAX),
	END,
};

const struct frame_field agent_listening_fields[] = {
	BYTES(agent_listening, ports, AGENT_PORTS_MAX * 2),
	END,
};
/* clang-format on */
