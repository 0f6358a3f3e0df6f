/* What a sandbox is made of, from its first moment to its last. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/activity.h"
#include "daemon/context.h"
#include "daemon/alarm.h"
#include "daemon/exec_stranger.h"
#include "daemon/ping.h"
#include "daemon/port.h"
#include "daemon/port_connect.h"
#include "daemon/process.h"
#include "daemon/registry.h"
#include "daemon/sandbox.h"
#include "daemon/sandbox_expiry.h"
#include "daemon/sandbox_group.h"
#include "daemon/session.h"
#include "daemon/upstream.h"
#include "daemon/usage.h"

struct sandbox *sandbox_new(struct registry *registry, const struct sandbox_id *id)
{
	struct sandbox *sb = calloc(1, sizeof(*sb));

	if (!sb)
		return NULL;
	sb->registry = registry;
	sb->id = *id;
	sb->created_at_ms = registry_now_ms();
	sb->oom_fd = sb->usage_fd = -1;
	settings_init(&sb->settings);
	list_init(&sb->uses);
	list_init(&sb->sleeps);
	list_init(&sb->stops);
	list_init(&sb->deletes);
	list_init(&sb->changes);
	list_init(&sb->place);
	list_init(&sb->execs);
	list_init(&sb->strangers);
	list_init(&sb->processes);
	list_init(&sb->alarms);
	list_init(&sb->ports);
	list_init(&sb->port_changes);
	sandbox_expiry_init(sb);
	session_init_all(sb);
	context_init_all(sb);
	list_init(&sb->connects);
	list_init(&sb->upstreams);
	list_init(&sb->pings);
	usage_init(sb);
	allowance_init(sb);
	list_init(&sb->call.link);
	list_init(&sb->group_call.link);
	list_init(&sb->thaw_call.link);
	list_init(&sb->limit_call.link);
	sb->activity = activity_new(sb);
	if (!sb->activity) {
		sandbox_free(sb);
		return NULL;
	}
	return sb;
}

void sandbox_free(struct sandbox *sb)
{
	list_remove(&sb->place);
	keeper_cancel(registry_keeper(sb->registry), &sb->limit_call);
	allowance_close(sb);
	usage_close(sb);
	sandbox_expiry_close(sb);
	alarm_free_all(sb);
	port_free_all(sb);
	ping_lose_all(sb);
	process_free_all(sb);
	exec_stranger_forget_all(sb);
	session_free_all(sb);
	context_free_all(sb);
	if (sb->agent)
		agent_free(take(sb->agent));
	upstream_lose_all(sb);
	port_connect_lose_all(sb);
	sandbox_groups_drop(sb);
	settings_close(&sb->settings);
	if (sb->activity)
		activity_free(sb->activity);
	free(sb);
}
