#include "daemon/agent.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define FIRST_WAIT_MS   1
#define LONGEST_WAIT_MS 20

struct agent {
	struct agent_config config;
	char path[PATH_MAX];
	struct channel channel;
	uv_timer_t timer;
	uint64_t give_up_at;
	unsigned wait_ms;
	bool is_connected;
	bool is_welcome;
	uint32_t version, serial; /* as it said then */
	bool is_ready; /* the first PONG is there, and so all that was to be told before it */
	bool is_over;  /* lost or freed: nothing is called any more */
	unsigned handles;
};

static void release(struct agent *a)
{
	if (--a->handles == 0)
		free(a);
}

static void on_timer_closed(uv_handle_t *handle)
{
	release(container_of((uv_timer_t *)handle, struct agent, timer));
}

static void on_channel_closed(void *arg)
{
	release(arg);
}

void agent_free(struct agent *agent)
{
	agent->is_over = true;
	if (agent->is_connected) {
		agent->is_connected = false;
		agent->handles++;
		channel_close(&agent->channel, on_channel_closed);
	}
	uv_close((uv_handle_t *)&agent->timer, on_timer_closed);
}

static void lose(struct agent *a, int status, const char *what)
{
	struct err err;

	if (a->is_over)
		return;
	a->is_over = true;
	err_set(&err, -EIO, ERR_EXEC_TRANSPORT_ERROR, "%s%s%s", what, status ? ": " : "",
		status ? strerror(-status) : "");
	a->config.ops->lost(a->config.arg, &err);
}

/* --- frames from inside --- */

static int decode_event(const struct channel_frame *frame, struct agent_event *e)
{
	struct agent_started started;
	struct agent_live live;
	struct agent_exec_ref ref;
	int r;

	switch (frame->head.type) {
	case AGENT_STARTED:
		r = frame_decode(frame->message, agent_started_fields, &started);
		e->exec = started.exec;
		e->pid = started.pid;
		return r;
	case AGENT_LIVE:
		r = frame_decode(frame->message, agent_live_fields, &live);
		e->exec = live.exec;
		e->pid = live.pid;
		return r;
	case AGENT_REFUSED:
		r = frame_decode(frame->message, agent_refused_fields, &e->refused);
		e->exec = e->refused.exec;
		return r;
	case AGENT_EXITED:
		r = frame_decode(frame->message, agent_exited_fields, &e->exited);
		e->exec = e->exited.exec;
		return r;
	case AGENT_ENDED:
		r = frame_decode(frame->message, agent_ended_fields, &e->ended);
		e->exec = e->ended.exec;
		return r;
	case AGENT_LOST:
	case AGENT_SETTLED:
		r = frame_decode(frame->message, agent_exec_ref_fields, &ref);
		e->exec = ref.exec;
		return r;
	case AGENT_PONG:
		return frame_decode(frame->message, agent_ping_fields, &e->pong);
	case AGENT_USAGE_IS:
		return frame_decode(frame->message, agent_usage_fields, &e->usage);
	case AGENT_CONNECT_FAILED:
		return frame_decode(frame->message, agent_connect_failed_fields,
				    &e->connect_failed);
	case AGENT_LISTENING_IS:
		return frame_decode(frame->message, agent_listening_fields, &e->listening);
	case AGENT_QUIET:
	case AGENT_HEARTBEAT:
	case AGENT_CONNECTED:
		return frame_decode(frame->message, agent_empty_fields, NULL);
	default:
		return -EBADMSG;
	}
}

static int on_welcome(struct agent *a, struct str message)
{
	struct agent_welcome welcome;
	int r = frame_decode(message, agent_welcome_fields, &welcome);

	if (r < 0 || a->is_welcome)
		return -EBADMSG;
	if (welcome.version < FRAME_VERSION || welcome.version > AGENT_VERSION)
		return -EPROTO;
	a->is_welcome = true;
	a->version = welcome.version;
	a->serial = welcome.serial;
	return 0;
}

static void on_event(struct agent *a, const struct agent_event *event)
{
	if (a->is_ready || event->type != AGENT_PONG) {
		a->config.ops->event(a->config.arg, event);
		return;
	}
	a->is_ready = true;
	uv_timer_stop(&a->timer);
	a->config.ops->ready(a->config.arg);
}

static void on_frame(void *arg, struct channel_frame *frame)
{
	struct agent *a = arg;
	struct agent_event event = {.type = (enum agent_type)frame->head.type, .frame = frame};
	int r;

	if (a->is_over)
		return;
	if (frame->head.type == AGENT_WELCOME) {
		r = on_welcome(a, frame->message);
	} else {
		r = a->is_welcome ? decode_event(frame, &event) : -EBADMSG;
		if (r == 0)
			on_event(a, &event);
	}
	if (r < 0)
		lose(a, r, "the sandbox's init sent a frame that makes no sense");
}

static void on_failed(void *arg, int status)
{
	lose(arg, status, "the line to the sandbox's init broke");
}

/* --- the line --- */

static const struct channel_ops channel_ops = {on_frame, on_failed};

static int line_up(struct agent *a)
{
	struct agent_hello hello = {.version = AGENT_VERSION};
	struct agent_ping ping = {0};
	int fd = channel_connect(a->path), r;

	if (fd < 0)
		return fd;
	r = channel_open(&a->channel, a->config.loop, fd, &channel_ops, a);
	if (r < 0)
		return r;
	a->is_connected = true;
	if (channel_peer(&a->channel) != a->config.pid)
		return -EPERM;
	r = channel_send(&a->channel, &(struct channel_message){
					      .head = {AGENT_HELLO, FRAME_VERSION, 0},
					      .fields = agent_hello_fields,
					      .value = &hello,
				      });
	if (r < 0)
		return r;
	/* Init reads no request before it has sent what the last one made due. */
	return channel_send(&a->channel, &(struct channel_message){
						 .head = {AGENT_PING, FRAME_VERSION, 0},
						 .fields = agent_ping_fields,
						 .value = &ping,
					 });
}

/* Init listens a moment after it was started, and must answer a moment after that. */
static void on_timer(uv_timer_t *timer)
{
	struct agent *a = container_of(timer, struct agent, timer);
	uint64_t now = uv_now(a->config.loop);
	int r;

	if (a->is_over)
		return;
	if (a->is_connected || now >= a->give_up_at) {
		lose(a, 0, "the sandbox's init does not answer");
		return;
	}
	r = line_up(a);
	if (r == 0) {
		uv_timer_start(&a->timer, on_timer, a->give_up_at - now, 0);
	} else if (r == -ECONNREFUSED || r == -EAGAIN || r == -ENOENT) {
		uv_timer_start(&a->timer, on_timer, a->wait_ms, 0);
		a->wait_ms = a->wait_ms * 2 < LONGEST_WAIT_MS ? a->wait_ms * 2 : LONGEST_WAIT_MS;
	} else {
		lose(a, r, "cannot connect to the sandbox's init");
	}
}

struct agent *agent_new(const struct agent_config *config)
{
	struct agent *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->config = *config;
	a->handles = 1;
	a->wait_ms = FIRST_WAIT_MS;
	snprintf(a->path, sizeof(a->path), "%s", config->path);
	uv_timer_init(config->loop, &a->timer);
	uv_update_time(config->loop);
	a->give_up_at = uv_now(config->loop) + AGENT_HANDSHAKE_MS;
	uv_timer_start(&a->timer, on_timer, 0, 0);
	return a;
}

uint32_t agent_serial_seen(const struct agent *agent)
{
	return agent->serial;
}

uint32_t agent_version(const struct agent *agent)
{
	return agent->version;
}

bool agent_is_gone(const struct agent *agent)
{
	return agent->is_over || !agent->is_connected || channel_is_gone(&agent->channel);
}

int agent_send(struct agent *agent, const struct channel_message *message)
{
	if (agent->is_over || !agent->is_connected)
		return -EPIPE;
	return channel_send(&agent->channel, message);
}
