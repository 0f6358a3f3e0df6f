#include "daemon/exec_stranger.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/exec.h"
#include "daemon/registry.h"

/* One that is being ended: its group by the keeper, or without one its tree by init. */
struct stranger {
	struct list link; /* sandbox's strangers */
	struct sandbox *sb;
	struct keeper_call call;
	uint64_t number;
	uint32_t pid;
	bool is_over; /* its main process; init forgets it when its tree is ended, too */
};

#define WORKER     (UINT64_C(1) << 63)
#define KEPT       (UINT64_C(1) << 62)
#define COMMAND    (UINT64_C(1) << 61)
#define TERMINAL   (UINT64_C(1) << 60)
#define OWNED      (UINT64_C(1) << 59)
#define HELD       (UINT64_C(1) << 58)
#define SERIAL_MAX AGENT_SERIAL_MAX

/*
 * The upper half is the serial, the lower half one more than the group; 0: it is in none. That of
 * a command is its shell's: whoever ends it ends all of it.
 */
uint64_t exec_stranger_number(uint32_t serial, const struct exec_request *request,
			      const struct sandbox_group *group)
{
	if (request->shell)
		return COMMAND | (uint64_t)(serial & SERIAL_MAX) << 32 |
		       (uint32_t)request->shell->number;
	return (request->is_worker ? WORKER : 0) | (request->is_kept ? KEPT : 0) |
	       (request->is_terminal ? TERMINAL : 0) | (request->is_owned ? OWNED : 0) |
	       (request->is_kept && request->detach ? HELD : 0) |
	       (uint64_t)(serial & SERIAL_MAX) << 32 | (group->fd < 0 ? 0 : group->number + 1);
}

bool exec_stranger_is_kept(uint64_t number)
{
	return number & KEPT;
}

bool exec_stranger_is_terminal(uint64_t number)
{
	return number & TERMINAL;
}

bool exec_stranger_is_owned(uint64_t number)
{
	return number & OWNED;
}

bool exec_stranger_is_held(uint64_t number)
{
	return number & HELD;
}

bool exec_stranger_group(uint64_t number, uint32_t *ret_group)
{
	*ret_group = (uint32_t)number - 1;
	return (uint32_t)number != 0;
}

/* Init may lie: the upper half of them all stays out of its reach. */
void exec_stranger_seen(struct sandbox *sb, uint32_t serial)
{
	if (serial > sb->last_exec && serial < SERIAL_MAX / 2)
		sb->last_exec = serial;
}

static void condemn(struct sandbox *sb, const char *sentence)
{
	struct err err;

	err_set(&err, -ETIMEDOUT, ERR_TIMEOUT, "%s", sentence);
	sandbox_condemn(sb, &err);
}

static void say(struct sandbox *sb, enum agent_type type, const struct frame_field *fields,
		const void *value)
{
	if (sb->agent)
		agent_send(sb->agent, &(struct channel_message){
					      .head = {(uint16_t)type, FRAME_VERSION, 0},
					      .fields = fields,
					      .value = value,
				      });
}

static void send_forget(struct sandbox *sb, uint64_t number)
{
	say(sb, AGENT_FORGET, agent_exec_ref_fields, &(struct agent_exec_ref){number});
}

static void stranger_free(struct stranger *s)
{
	keeper_cancel(registry_keeper(s->sb->registry), &s->call);
	list_remove(&s->link);
	free(s);
}

static struct stranger *find(struct sandbox *sb, uint64_t number)
{
	list_for_each (node, &sb->strangers) {
		struct stranger *s = list_entry(node, struct stranger, link);

		if (s->number == number)
			return s;
	}
	return NULL;
}

static void on_ended(struct stranger *s, bool is_proven)
{
	struct sandbox *sb = s->sb;

	if (s->is_over)
		send_forget(sb, s->number);
	stranger_free(s);
	if (!is_proven)
		condemn(sb, "a command of an earlier berthd could not be ended in time, so the "
			    "whole sandbox was stopped");
}

static void on_group_ended(struct keeper_call *call, struct keeper_answer *answer)
{
	struct stranger *s = container_of(call, struct stranger, call);
	bool is_missing = answer->result < 0 && answer->err.code == ERR_NOT_FOUND;

	/* A group that is not there was ended before, or init lied about its own. */
	if (is_missing)
		say(s->sb, AGENT_SIGNAL, agent_signal_fields,
		    &(struct agent_signal){s->number, SIGKILL});
	on_ended(s, answer->result == 0 || is_missing);
}

static void on_live(struct sandbox *sb, uint64_t number, uint32_t pid)
{
	struct keeper_group_ref ref = {str_of(sb->id.text), sb->generation, (uint32_t)number - 1};
	struct stranger *s = find(sb, number) ? NULL : calloc(1, sizeof(*s));

	if (!s || ++sb->strangers_told > AGENT_EXECS_MAX) {
		free(s);
		condemn(sb, "the sandbox's init tells of more commands than it can have");
		return;
	}
	s->sb = sb;
	s->number = number;
	s->pid = pid;
	s->call.done = on_group_ended;
	list_init(&s->call.link);
	list_append(&sb->strangers, &s->link);
	if ((uint32_t)number)
		keeper_group_end(registry_keeper(sb->registry), &s->call, &ref);
	else
		say(sb, AGENT_END, agent_end_fields, &(struct agent_end){number});
}

void exec_stranger_event(struct sandbox *sb, const struct agent_event *event)
{
	struct stranger *s = find(sb, event->exec);

	exec_stranger_seen(sb, agent_serial(event->exec));
	switch (event->type) {
	case AGENT_LIVE:
		if (!(event->exec & WORKER))
			on_live(sb, event->exec, event->pid);
		break;
	case AGENT_EXITED:
	case AGENT_LOST:
		if (s)
			s->is_over = true;
		else
			send_forget(sb, event->exec);
		break;
	case AGENT_ENDED:
		if (s && !(uint32_t)s->number)
			on_ended(s, event->ended.is_proven);
		break;
	default:
		break;
	}
}

bool exec_stranger_is_in(const struct sandbox *sb, uint32_t pid)
{
	list_for_each (node, &sb->strangers) {
		const struct stranger *s = list_entry(node, struct stranger, link);

		if (s->number & COMMAND && s->pid == pid)
			return true;
	}
	return false;
}

void exec_stranger_forget_all(struct sandbox *sb)
{
	while (!list_is_empty(&sb->strangers))
		stranger_free(list_entry(sb->strangers.next, struct stranger, link));
	sb->strangers_told = 0;
}
