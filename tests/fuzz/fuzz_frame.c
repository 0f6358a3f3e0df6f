/*
 * The first byte chooses a table of the agent's or the keeper's, the rest is a message. What can be
 * decoded must come back byte for byte from the encoder.
 */
#include <assert.h>

#include "base/cleanup.h"
#include "proto/agent.h"
#include "proto/file.h"
#include "proto/keeper.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Room for the largest struct that a table describes. */
union any {
	struct agent_exec exec;
	struct agent_exited exited;
	struct keeper_start start;
	struct keeper_limit limit;
	struct keeper_welcome welcome;
	struct keeper_exited keeper_exited;
	struct keeper_stats stats;
	struct file_request file_request;
	struct file_result file_result;
	struct file_entry file_entry;
};

/* clang-format off */
static const struct frame_field *const tables[] = {
	agent_hello_fields,    agent_welcome_fields,  agent_exec_fields,   agent_started_fields,
	agent_refused_fields,  agent_live_fields,     agent_exited_fields, agent_exec_ref_fields,
	agent_signal_fields,   agent_end_fields,      agent_ended_fields,  agent_ping_fields,
	keeper_hello_fields,   keeper_welcome_fields, keeper_start_fields, keeper_running_fields,
	keeper_started_fields, keeper_exited_fields,  keeper_ref_fields,   keeper_group_ref_fields,
	keeper_group_fields,   keeper_failed_fields,  keeper_stats_fields, keeper_usage_fields,
	keeper_adopted_fields, keeper_done_fields,    file_request_fields, file_go_fields,
	file_result_fields,    file_entry_fields,     file_data_fields,    file_end_fields,
	agent_resize_fields,   agent_usage_fields,    agent_empty_fields,  agent_connect_fields,
	agent_connect_failed_fields, agent_listening_fields, keeper_limit_fields,
	keeper_check_fields,
};
/* clang-format on */

static void walk_list(struct str list)
{
	int count = frame_list_count(list);

	if (count < 0)
		return;
	for (; count; count--)
		assert(frame_list_next(&list) != NULL);
	assert(list.len == 0 && !frame_list_next(&list));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct frame_field *fields;
	cleanup_free char *again = malloc(FRAME_MAX);
	struct frame_head head;
	struct str message;
	union any value;
	int len;

	if (!size || !again)
		return 0;
	fields = tables[data[0] % array_len(tables)];
	message = (struct str){(const char *)data + 1, size - 1};
	walk_list(message);
	if (frame_decode_head(message, &head) < 0 || frame_decode(message, fields, &value) < 0)
		return 0;
	len = frame_encode(again, FRAME_MAX, &head, fields, &value);
	assert(len == (int)message.len && memcmp(again, message.at, message.len) == 0);
	if (fields == agent_exec_fields) {
		walk_list(value.exec.argv);
		walk_list(value.exec.env);
	}
	return 0;
}
