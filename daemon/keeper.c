#include "daemon/keeper.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"

#define RETRY_MS 50

struct keeper {
	uv_loop_t *loop;
	struct channel channel;
	uv_timer_t retry;
	const struct keeper_ops *ops;
	void *arg;
	struct list calls; /* that wait for their answer */
	uint32_t last_tag;
	uint32_t abilities;
	uint32_t to_be_told; /* RUNNING and EXITED frames that the welcome announced */
	bool is_connected;
	bool is_welcome;
	bool is_closing;
	unsigned handles;
	char runtime[PATH_MAX];
	char path[PATH_MAX];
};

static void answer(struct keeper_call *call, struct keeper_answer *answer)
{
	list_remove(&call->link);
	call->done(call, answer);
}

static void fail_call(struct keeper_call *call, enum err_code code, const char *sentence)
{
	struct keeper_answer a = {.result = -EIO};

	err_set(&a.err, -EIO, code, "%s", sentence);
	answer(call, &a);
}

static void fail_all(struct keeper *k)
{
	while (!list_is_empty(&k->calls))
		fail_call(list_entry(k->calls.next, struct keeper_call, link), ERR_UNAVAILABLE,
			  "berth-keeper was restarted while it worked on this: try again");
}

/* --- frames from the keeper --- */

static int decode_answer(const struct channel_frame *frame, struct keeper_answer *a)
{
	struct keeper_failed failed;
	int r;

	switch (frame->head.type) {
	case KEEPER_DONE:
		return frame_decode(frame->message, keeper_done_fields, NULL);
	case KEEPER_STARTED:
		return frame_decode(frame->message, keeper_started_fields, &a->started);
	case KEEPER_GROUP:
		return frame_decode(frame->message, keeper_group_fields, &a->group);
	case KEEPER_STATS_ARE:
		return frame_decode(frame->message, keeper_stats_fields, &a->stats);
	case KEEPER_USAGE_IS:
		return frame_decode(frame->message, keeper_usage_fields, &a->usage);
	case KEEPER_FAILED:
		r = frame_decode(frame->message, keeper_failed_fields, &failed);
		if (r == 0)
			a->result = err_set(&a->err, -EIO, (enum err_code)failed.code, "%.*s",
					    STR_ARGS(failed.sentence));
		return r;
	default:
		return -EBADMSG;
	}
}

static int on_answer(struct keeper *k, struct channel_frame *frame)
{
	struct keeper_answer a = {.frame = frame};
	int r = decode_answer(frame, &a);

	if (r < 0)
		return r;
	list_for_each (node, &k->calls) {
		struct keeper_call *call = list_entry(node, struct keeper_call, link);

		if (call->tag == frame->head.tag) {
			answer(call, &a);
			return 0;
		}
	}
	return 0; /* cancelled meanwhile */
}

static void told_one(struct keeper *k)
{
	if (k->to_be_told && --k->to_be_told == 0)
		k->ops->ready(k->arg);
}

static int on_welcome(struct keeper *k, struct str message)
{
	struct keeper_welcome welcome;
	int r = frame_decode(message, keeper_welcome_fields, &welcome);

	if (r < 0)
		return r;
	if (welcome.version != FRAME_VERSION)
		return -EPROTO;
	k->abilities = welcome.abilities;
	snprintf(k->runtime, sizeof(k->runtime), "%.*s", STR_ARGS(welcome.runtime));
	if (welcome.warning.len)
		log_warn("keeper: %.*s", STR_ARGS(welcome.warning));
	k->is_welcome = true;
	k->to_be_told = welcome.known;
	if (!k->to_be_told)
		k->ops->ready(k->arg);
	return 0;
}

static int on_running(struct keeper *k, struct str message)
{
	struct keeper_running running;
	int r = frame_decode(message, keeper_running_fields, &running);

	if (r < 0)
		return r;
	k->ops->running(k->arg, &running);
	told_one(k);
	return 0;
}

static int on_exited(struct keeper *k, struct str message)
{
	struct keeper_exited exited;
	int r = frame_decode(message, keeper_exited_fields, &exited);

	if (r < 0)
		return r;
	k->ops->exited(k->arg, &exited);
	told_one(k);
	return 0;
}

static void reconnect(struct keeper *k);

static void on_frame(void *arg, struct channel_frame *frame)
{
	struct keeper *k = arg;
	int r;

	switch (frame->head.type) {
	case KEEPER_WELCOME:
		r = on_welcome(k, frame->message);
		break;
	case KEEPER_RUNNING:
		r = on_running(k, frame->message);
		break;
	case KEEPER_EXITED:
		r = on_exited(k, frame->message);
		break;
	default:
		r = on_answer(k, frame);
	}
	if (r < 0 && k->is_connected) {
		log_error("keeper: a frame of type %u makes no sense", frame->head.type);
		reconnect(k);
	}
}

static void on_failed(void *arg, int status)
{
	struct keeper *k = arg;

	log_warn("keeper: the line is broken: %s", uv_strerror(status));
	reconnect(k);
}

/* --- the line --- */

static const struct channel_ops channel_ops = {on_frame, on_failed};

static int say_hello(struct keeper *k)
{
	struct keeper_hello hello = {.version = FRAME_VERSION};

	return channel_send(&k->channel, &(struct channel_message){
						 .head = {KEEPER_HELLO, FRAME_VERSION, 0},
						 .fields = keeper_hello_fields,
						 .value = &hello,
					 });
}

static int line_up(struct keeper *k)
{
	int fd = channel_connect(k->path), r;

	if (fd < 0)
		return fd;
	r = channel_open(&k->channel, k->loop, fd, &channel_ops, k);
	if (r < 0)
		return r;
	k->is_connected = true;
	k->is_welcome = false;
	return say_hello(k);
}

static void on_retry(uv_timer_t *timer)
{
	struct keeper *k = container_of(timer, struct keeper, retry);

	fail_all(k); /* nothing of theirs has reached a keeper that will answer */
	if (k->is_connected)
		reconnect(k);
	else if (!k->is_closing && line_up(k) < 0)
		uv_timer_start(&k->retry, on_retry, RETRY_MS, 0);
}

static void release(struct keeper *k)
{
	if (--k->handles == 0)
		free(k);
}

static void on_timer_closed(uv_handle_t *handle)
{
	release(container_of((uv_timer_t *)handle, struct keeper, retry));
}

static void on_channel_closed(void *arg)
{
	struct keeper *k = arg;

	if (k->is_closing)
		release(k);
	else
		uv_timer_start(&k->retry, on_retry, 0, 0);
}

static void reconnect(struct keeper *k)
{
	k->is_connected = false;
	channel_close(&k->channel, on_channel_closed);
	fail_all(k);
}

int keeper_open(struct keeper **ret, uv_loop_t *loop, const char *path,
		const struct keeper_ops *ops, void *arg)
{
	struct keeper *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return -ENOMEM;
	k->loop = loop;
	k->ops = ops;
	k->arg = arg;
	snprintf(k->path, sizeof(k->path), "%s", path);
	list_init(&k->calls);
	r = line_up(k);
	if (r < 0) {
		/* A channel that was opened is closed by the process's end: this is start-up. */
		free(k);
		return r;
	}
	uv_timer_init(loop, &k->retry);
	k->handles = 1;
	*ret = k;
	return 0;
}

void keeper_close(struct keeper *keeper)
{
	keeper->is_closing = true;
	if (keeper->is_connected) {
		keeper->handles++;
		keeper->is_connected = false;
		channel_close(&keeper->channel, on_channel_closed);
	}
	uv_close((uv_handle_t *)&keeper->retry, on_timer_closed);
	fail_all(keeper);
}

uint32_t keeper_abilities(const struct keeper *keeper)
{
	return keeper->abilities;
}

const char *keeper_runtime(const struct keeper *keeper)
{
	return keeper->runtime;
}

/* --- calls --- */

/* An answer never comes before the call returns: what cannot be sent fails on the next turn. */
static void call(struct keeper *k, struct keeper_call *c, struct channel_message *message)
{
	c->tag = ++k->last_tag ? k->last_tag : ++k->last_tag;
	message->head = (struct frame_head){message->head.type, FRAME_VERSION, c->tag};
	list_append(&k->calls, &c->link);
	if (!k->is_connected || channel_send(&k->channel, message) < 0)
		uv_timer_start(&k->retry, on_retry, 0, 0);
}

void keeper_start(struct keeper *keeper, struct keeper_call *c, const struct keeper_start *start)
{
	call(keeper, c,
	     &(struct channel_message){
		     .head = {.type = KEEPER_START},
		     .fields = keeper_start_fields,
		     .value = start,
	     });
}

void keeper_ask(struct keeper *keeper, struct keeper_call *c, enum keeper_type type,
		const struct keeper_ref *ref)
{
	call(keeper, c,
	     &(struct channel_message){
		     .head = {.type = (uint16_t)type},
		     .fields = keeper_ref_fields,
		     .value = ref,
	     });
}

void keeper_group_end(struct keeper *keeper, struct keeper_call *c,
		      const struct keeper_group_ref *group)
{
	call(keeper, c,
	     &(struct channel_message){
		     .head = {.type = KEEPER_GROUP_END},
		     .fields = keeper_group_ref_fields,
		     .value = group,
	     });
}

void keeper_cancel(struct keeper *keeper, struct keeper_call *c)
{
	list_remove(&c->link);
}

void keeper_forget(struct keeper *keeper, const struct keeper_ref *ref)
{
	if (keeper->is_connected)
		channel_send(&keeper->channel, &(struct channel_message){
						       .head = {KEEPER_FORGET, FRAME_VERSION, 0},
						       .fields = keeper_ref_fields,
						       .value = ref,
					       });
}
