#include "daemon/ping.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/registry.h"

struct ping {
	struct list link; /* sandbox's pings */
	uv_timer_t deadline;
	uint64_t nonce;
	ping_done_fn *done;
	void *arg;
};

static void on_closed(uv_handle_t *handle)
{
	free(container_of((uv_timer_t *)handle, struct ping, deadline));
}

static void finish(struct ping *p, bool has_answered)
{
	list_remove(&p->link);
	uv_close((uv_handle_t *)&p->deadline, on_closed);
	p->done(p->arg, has_answered);
}

static void on_deadline(uv_timer_t *timer)
{
	finish(container_of(timer, struct ping, deadline), false);
}

int ping_nudge(struct sandbox *sb)
{
	struct agent_ping frame = {++sb->last_ping};

	return sb->agent ? agent_send(sb->agent,
				      &(struct channel_message){
					      .head = {AGENT_PING, FRAME_VERSION, 0},
					      .fields = agent_ping_fields,
					      .value = &frame,
				      })
			 : -EPIPE;
}

int ping_send(struct sandbox *sb, ping_done_fn *done, void *arg)
{
	struct ping *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	r = ping_nudge(sb);
	if (r < 0) {
		free(p);
		return r;
	}
	p->nonce = sb->last_ping;
	p->done = done;
	p->arg = arg;
	uv_timer_init(registry_loop(sb->registry), &p->deadline);
	uv_timer_start(&p->deadline, on_deadline, PING_MS, 0);
	list_append(&sb->pings, &p->link);
	return 0;
}

void ping_answered(struct sandbox *sb, uint64_t nonce)
{
	list_for_each_safe (node, &sb->pings) {
		struct ping *p = list_entry(node, struct ping, link);

		if (p->nonce == nonce) {
			finish(p, true);
			return;
		}
	}
}

void ping_lose_all(struct sandbox *sb)
{
	while (!list_is_empty(&sb->pings))
		finish(list_entry(sb->pings.next, struct ping, link), false);
}
