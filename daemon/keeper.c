#include "daemon/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"

#define TICK_MS  50
#define CALL_MAX (4096 + MOUNTS_LIST_MAX) /* bytes of a request's frame */

struct keeper {
	struct keeper_config config;
	struct channel channel;
	uv_timer_t tick;   /* while the line is down, or a call is refused */
	struct list calls; /* that wait for their answer, in the order in which they were made */
	unsigned calls_len;
	uint32_t last_tag;
	uint32_t abilities;
	int groups_fd; /* that came with the last welcome, -1: none */
	struct keeper_defaults defaults;
	uint32_t to_be_told; /* RUNNING and EXITED frames that the welcome announced */
	uint64_t down_at_ms; /* since when it is not ready */
	bool has_channel;    /* also while that closes */
	bool is_connected;
	bool is_ready; /* the keeper has told all it knows: requests are sent */
	bool was_ready;
	bool is_absent; /* that was told */
	bool is_closing;
	unsigned handles;
	uint32_t version; /* that it spoke last; 0: it has said nothing yet */
	char runtime[PATH_MAX];
	char path[PATH_MAX];
};

/* Off the list, if it is on it. */
static void drop_call(struct keeper *k, struct keeper_call *call)
{
	if (list_is_empty(&call->link))
		return;
	list_remove(&call->link);
	k->calls_len--;
	free((char *)call->frame.at);
	call->frame = (struct str){NULL, 0};
}

static void answer(struct keeper *k, struct keeper_call *call, struct keeper_answer *answer)
{
	drop_call(k, call);
	call->done(call, answer);
}

static void fail_call(struct keeper *k, struct keeper_call *call)
{
	struct keeper_answer a = {.result = -EIO};

	err_set(&a.err, -EIO, ERR_UNAVAILABLE, "%s", call->refusal);
	answer(k, call, &a);
}

/* Calls that are made meanwhile are not among them. */
static void fail_refused(struct keeper *k)
{
	struct list now;

	list_init(&now);
	list_for_each_safe (node, &k->calls) {
		if (list_entry(node, struct keeper_call, link)->refusal)
			list_move(&now, node);
	}
	while (!list_is_empty(&now))
		fail_call(k, list_entry(now.next, struct keeper_call, link));
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
	case KEEPER_ADOPTED:
		return frame_decode(frame->message, keeper_adopted_fields, &a->adopted);
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
			answer(k, call, &a);
			return 0;
		}
	}
	return 0; /* cancelled meanwhile */
}

static void ask_waiting(struct keeper *k);

static void told_all(struct keeper *k)
{
	k->is_ready = k->was_ready = true;
	k->config.ops->ready(k->config.arg);
	ask_waiting(k);
}

static void told_one(struct keeper *k)
{
	if (k->to_be_told && --k->to_be_told == 0)
		told_all(k);
}

static int on_welcome(struct keeper *k, struct channel_frame *frame)
{
	const struct str message = frame->message;
	const struct str begin = {message.at, FRAME_HEADER_SIZE + sizeof(uint32_t)};
	struct keeper_welcome welcome;
	int r;

	/* All versions begin with that, and none knows what another one has behind it. */
	if (message.len < begin.len || frame_decode(begin, keeper_version_fields, &welcome) < 0)
		return -EBADMSG;
	k->version = welcome.version;
	if (k->version != KEEPER_VERSION)
		return -EPROTO;
	r = frame_decode(message, keeper_welcome_fields, &welcome);
	if (r < 0)
		return r;
	k->abilities = welcome.abilities;
	close_fdp(&k->groups_fd);
	if (frame->fds_len == 1)
		k->groups_fd = take_fd(&frame->fds[0]);
	k->defaults = welcome.defaults;
	snprintf(k->runtime, sizeof(k->runtime), "%.*s", STR_ARGS(welcome.runtime));
	if (welcome.warning.len)
		log_warn("keeper: %.*s", STR_ARGS(welcome.warning));
	k->to_be_told = welcome.known;
	if (!k->to_be_told)
		told_all(k);
	return 0;
}

static int on_running(struct keeper *k, struct str message)
{
	struct keeper_running running;
	int r = frame_decode(message, keeper_running_fields, &running);

	if (r < 0)
		return r;
	k->config.ops->running(k->config.arg, &running);
	told_one(k);
	return 0;
}

static int on_exited(struct keeper *k, struct str message)
{
	struct keeper_exited exited;
	int r = frame_decode(message, keeper_exited_fields, &exited);

	if (r < 0)
		return r;
	k->config.ops->exited(k->config.arg, &exited);
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
		r = on_welcome(k, frame);
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
	if (r == -EPROTO && k->is_connected) {
		log_error("keeper: it speaks version %u, not %u", k->version, KEEPER_VERSION);
		reconnect(k);
	} else if (r < 0 && k->is_connected) {
		log_error("keeper: a frame of type %u makes no sense", frame->head.type);
		reconnect(k);
	}
}

static void on_failed(void *arg, int status)
{
	struct keeper *k = arg;

	log_warn("keeper: the line is broken: %s", strerror(-status));
	reconnect(k);
}

/* --- the line --- */

static const struct channel_ops channel_ops = {on_frame, on_failed};

static void on_tick(uv_timer_t *timer);

static void tick_now(struct keeper *k)
{
	uv_timer_start(&k->tick, on_tick, 0, 0);
}

/* Owns the fd. A line that breaks at once is found broken by reading it. */
static int line_up(struct keeper *k, int fd)
{
	struct keeper_hello hello = {.version = KEEPER_VERSION};
	int r = channel_open(&k->channel, k->config.loop, fd, &channel_ops, k);

	if (r < 0)
		return r;
	k->has_channel = k->is_connected = true;
	k->to_be_told = 0;
	channel_send(&k->channel, &(struct channel_message){
					  .head = {KEEPER_HELLO, FRAME_VERSION, 0},
					  .fields = keeper_hello_fields,
					  .value = &hello,
				  });
	return 0;
}

static const char gone_for_good[] =
	"berth-keeper has ended and does not come back: restart Berth (`berth down`, then `berth "
	"up`)";

static bool is_late(const struct keeper *k)
{
	return !k->is_ready && uv_now(k->config.loop) - k->down_at_ms >= KEEPER_WAIT_MS;
}

/* It has been gone for so long that nobody needs to wait for it any more. */
static void refuse_late(struct keeper *k)
{
	if (!is_late(k))
		return;
	list_for_each (node, &k->calls)
		list_entry(node, struct keeper_call, link)->refusal = gone_for_good;
	if (!k->was_ready && !k->is_absent) {
		k->is_absent = true;
		k->config.ops->absent(k->config.arg);
	}
}

static void on_tick(uv_timer_t *timer)
{
	struct keeper *k = container_of(timer, struct keeper, tick);
	int fd;

	if (!k->is_ready)
		refuse_late(k);
	fail_refused(k);
	if (k->is_ready || k->is_closing)
		return;
	if (!k->has_channel) {
		fd = channel_connect(k->path);
		if (fd >= 0)
			line_up(k, fd);
	}
	uv_timer_start(&k->tick, on_tick, TICK_MS, 0);
}

static void release(struct keeper *k)
{
	if (--k->handles > 0)
		return;
	close_fdp(&k->groups_fd);
	free(k);
}

static void on_timer_closed(uv_handle_t *handle)
{
	release(container_of((uv_timer_t *)handle, struct keeper, tick));
}

static void on_channel_closed(void *arg)
{
	struct keeper *k = arg;

	k->has_channel = false;
	if (k->is_closing)
		release(k);
	else
		tick_now(k);
}

static void reconnect(struct keeper *k)
{
	k->config.ops->broken(k->config.arg);
	if (k->is_ready)
		k->down_at_ms = uv_now(k->config.loop);
	k->is_connected = k->is_ready = false;
	channel_close(&k->channel, on_channel_closed);
}

int keeper_open(struct keeper **ret, const struct keeper_config *config)
{
	struct keeper *k = calloc(1, sizeof(*k));
	int r;

	if (!k) {
		close(config->fd);
		return -ENOMEM;
	}
	k->config = *config;
	k->groups_fd = -1;
	snprintf(k->path, sizeof(k->path), "%s", config->path);
	list_init(&k->calls);
	k->down_at_ms = uv_now(config->loop);
	r = line_up(k, config->fd);
	if (r < 0) {
		free(k);
		return r;
	}
	uv_timer_init(config->loop, &k->tick);
	uv_timer_start(&k->tick, on_tick, TICK_MS, 0);
	k->handles = 1;
	*ret = k;
	return 0;
}

void keeper_close(struct keeper *keeper)
{
	keeper->is_closing = true;
	if (keeper->has_channel)
		keeper->handles++;
	if (keeper->is_connected)
		channel_close(&keeper->channel, on_channel_closed);
	keeper->is_connected = keeper->is_ready = false;
	uv_close((uv_handle_t *)&keeper->tick, on_timer_closed);
	list_for_each (node, &keeper->calls)
		list_entry(node, struct keeper_call, link)->refusal = "berthd is stopping";
	fail_refused(keeper);
}

uint32_t keeper_abilities(const struct keeper *keeper)
{
	return keeper->abilities;
}

struct keeper_defaults keeper_defaults(const struct keeper *keeper)
{
	return keeper->defaults;
}

bool keeper_is_ready(const struct keeper *keeper)
{
	return keeper->is_ready;
}

int keeper_check(const struct keeper *keeper, struct err *err)
{
	return is_late(keeper) ? err_set(err, -EIO, ERR_UNAVAILABLE, "%s", gone_for_good) : 0;
}

void keeper_say_absent(const struct keeper *keeper, struct err *ret)
{
	if (keeper->version && keeper->version != KEEPER_VERSION)
		err_set(ret, -EPROTO, ERR_UNAVAILABLE,
			"the berth-keeper of %s speaks version %u, and this berthd %u: start a "
			"berthd of its release and stop all sandboxes there, or stop its service; "
			"then start this one again",
			keeper->path, keeper->version, KEEPER_VERSION);
	else
		err_set(ret, -ETIMEDOUT, ERR_UNAVAILABLE, "no berth-keeper answers on %s",
			keeper->path);
}

const char *keeper_runtime(const struct keeper *keeper)
{
	return keeper->runtime;
}

int keeper_group_read(const struct keeper *keeper, const char *id, uint32_t group, const char *file)
{
	char path[KEEPER_ID_MAX + 64];
	int fd;

	snprintf(path, sizeof(path), KEEPER_GROUP_PATH "/%s", id, group, file);
	fd = keeper->groups_fd < 0 ? -1 : openat(keeper->groups_fd, path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd : keeper->groups_fd < 0 ? -EOPNOTSUPP : -errno;
}

/* --- calls --- */

static void refuse(struct keeper *k, struct keeper_call *c, const char *why)
{
	c->refusal = why;
	if (!k->is_closing)
		tick_now(k);
}

static void ask(struct keeper *k, struct keeper_call *c)
{
	if (c->tries++ >= KEEPER_TRIES)
		refuse(k, c, "berth-keeper ended each time it worked on this");
	else if (channel_send_frame(&k->channel, c->frame) == -ENOBUFS)
		refuse(k, c, "berth-keeper does not read what it is asked: try again");
}

/* Ends of groups first: a number that the old keeper was rid of may be given anew. */
static void ask_waiting(struct keeper *k)
{
	for (int pass = 0; pass < 2; pass++) {
		list_for_each (node, &k->calls) {
			struct keeper_call *c = list_entry(node, struct keeper_call, link);

			if (!c->refusal && (c->type == KEEPER_GROUP_END) == (pass == 0))
				ask(k, c);
		}
	}
}

/* The frame is kept until the answer is there. */
static bool keep_frame(struct keeper_call *c, const struct channel_message *message)
{
	char bytes[CALL_MAX], *copy;
	int n = frame_encode(bytes, sizeof(bytes), &message->head, message->fields, message->value);

	copy = n < 0 ? NULL : malloc((size_t)n);
	if (!copy)
		return false;
	memcpy(copy, bytes, (size_t)n);
	c->frame = (struct str){copy, (size_t)n};
	return true;
}

/* An answer never comes before the call returns: what cannot be asked fails on the next turn. */
static void call(struct keeper *k, struct keeper_call *c, struct channel_message *message)
{
	bool has_room = k->calls_len < KEEPER_CALLS_MAX;

	c->tag = ++k->last_tag ? k->last_tag : ++k->last_tag;
	c->type = message->head.type;
	c->tries = 0;
	c->refusal = NULL;
	c->frame = (struct str){NULL, 0};
	c->asked_at_ms = uv_now(k->config.loop);
	message->head = (struct frame_head){c->type, FRAME_VERSION, c->tag};
	list_append(&k->calls, &c->link);
	k->calls_len++;
	if (!has_room || !keep_frame(c, message))
		refuse(k, c, "too much is being asked of berth-keeper: try again");
	else if (k->is_ready)
		ask(k, c);
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

void keeper_group_open(struct keeper *keeper, struct keeper_call *c,
		       const struct keeper_group_ref *group)
{
	call(keeper, c,
	     &(struct channel_message){
		     .head = {.type = KEEPER_GROUP_OPEN},
		     .fields = keeper_group_ref_fields,
		     .value = group,
	     });
}

void keeper_freeze_others(struct keeper *keeper, struct keeper_call *c,
			  const struct keeper_group_ref *group)
{
	call(keeper, c,
	     &(struct channel_message){
		     .head = {.type = KEEPER_FREEZE_OTHERS},
		     .fields = keeper_group_ref_fields,
		     .value = group,
	     });
}

void keeper_limit(struct keeper *keeper, struct keeper_call *c, const struct keeper_limit *limit)
{
	call(keeper, c,
	     &(struct channel_message){
		     .head = {.type = KEEPER_LIMIT},
		     .fields = keeper_limit_fields,
		     .value = limit,
	     });
}

void keeper_ask_check(struct keeper *keeper, struct keeper_call *c,
		      const struct keeper_check *check)
{
	call(keeper, c,
	     &(struct channel_message){
		     .head = {.type = KEEPER_CHECK},
		     .fields = keeper_check_fields,
		     .value = check,
	     });
}

void keeper_cancel(struct keeper *keeper, struct keeper_call *c)
{
	drop_call(keeper, c);
}

static void tell(struct keeper *k, struct channel_message *message)
{
	message->head = (struct frame_head){message->head.type, FRAME_VERSION, 0};
	if (k->is_connected)
		channel_send(&k->channel, message);
}

void keeper_forget(struct keeper *keeper, const struct keeper_ref *ref)
{
	tell(keeper, &(struct channel_message){
			     .head = {.type = KEEPER_FORGET},
			     .fields = keeper_ref_fields,
			     .value = ref,
		     });
}

void keeper_group_drop(struct keeper *keeper, const struct keeper_group_ref *group)
{
	tell(keeper, &(struct channel_message){
			     .head = {.type = KEEPER_GROUP_END},
			     .fields = keeper_group_ref_fields,
			     .value = group,
		     });
}
