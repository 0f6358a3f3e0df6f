#include "cmd/berth-init/init.h"

#include <errno.h>

/* Of what is due, the bit that stands first in enum exec_due. */
static enum exec_due first_due(const struct exec *exec)
{
	return exec->due & -exec->due;
}

static int send_streams(struct init *init, const struct exec *exec, struct notice *notice)
{
	struct agent_started started = {exec->number, (uint32_t)exec->pid};
	struct agent_live live = {exec->number, (uint32_t)exec->pid};
	bool is_start = notice->type == AGENT_STARTED;

	notice->fields = is_start ? agent_started_fields : agent_live_fields;
	notice->value = is_start ? (const void *)&started : (const void *)&live;
	notice->fds = exec->fds;
	notice->fd_count = exec->fd_count;
	return channel_send(&init->channel, notice);
}

static int send_due(struct init *init, const struct exec *exec)
{
	struct agent_exec_ref ref = {exec->number};
	struct agent_ended ended = {exec->number, exec->is_end_proven};
	struct notice notice = {0};

	switch (first_due(exec)) {
	case DUE_STARTED:
		notice.type = AGENT_STARTED;
		notice.tag = exec->start_tag;
		return send_streams(init, exec, &notice);
	case DUE_LIVE:
		notice.type = AGENT_LIVE;
		return send_streams(init, exec, &notice);
	case DUE_REFUSED:
		notice = (struct notice){AGENT_REFUSED, exec->start_tag, agent_refused_fields,
					 &exec->refused};
		break;
	case DUE_EXITED:
		notice = (struct notice){AGENT_EXITED, 0, agent_exited_fields, &exec->exited};
		break;
	case DUE_LOST:
		/* Before it started, this is the answer. */
		notice = (struct notice){AGENT_LOST, exec->is_start_awaited ? exec->start_tag : 0,
					 agent_exec_ref_fields, &ref};
		break;
	case DUE_SETTLED:
		notice = (struct notice){AGENT_SETTLED, 0, agent_exec_ref_fields, &ref};
		break;
	case DUE_ENDED:
		notice = (struct notice){AGENT_ENDED, exec->end_tag, agent_ended_fields, &ended};
		break;
	}
	return channel_send(&init->channel, &notice);
}

static void mark_told(struct init *init, struct exec *exec)
{
	enum exec_due told = first_due(exec);

	exec->due &= ~told;
	if (told == DUE_REFUSED) {
		execs_remove(&init->execs, exec);
		return;
	}
	if (told == DUE_STARTED || told == DUE_LIVE) {
		exec->is_start_awaited = false;
		if (!exec->is_kept)
			exec_close_fds(exec); /* the peer has them now */
	}
	if (!exec->due)
		list_remove(&exec->due_link);
}

/* What is of no exec: behind all that is, so that nobody is quiet whose end was not told. */
static int send_other(struct init *init)
{
	bool is_quiet = init->quiets_due && !init->has_children;
	struct notice notice = {is_quiet ? AGENT_QUIET : AGENT_HEARTBEAT, 0, agent_empty_fields};
	int error;

	if (!is_quiet && heartbeat_wait_ms(&init->heartbeat) != 0)
		return 1;
	error = channel_send(&init->channel, &notice);
	if (error == 0 && is_quiet)
		init->quiets_due--;
	else if (error == 0)
		heartbeat_told(&init->heartbeat);
	return error;
}

static int send_next(struct init *init)
{
	const struct answer *answer = &init->answer;
	struct exec *exec;
	int error;

	if (answer->type) {
		error = channel_send(&init->channel,
				     &(struct notice){answer->type, answer->tag, answer->fields,
						      &answer->value, &answer->fd, answer->has_fd});
		if (error == 0)
			loop_drop_answer(init);
		return error;
	}
	if (list_is_empty(&init->execs.due))
		return send_other(init);
	exec = list_entry(init->execs.due.next, struct exec, due_link);
	error = send_due(init, exec);
	if (error == 0)
		mark_told(init, exec);
	return error;
}

void notices_flush(struct init *init)
{
	int error = 0;

	/* Before HELLO a peer is told nothing. */
	if (init->channel.fd < 0 || !init->channel.version)
		return;
	init->output = OUTPUT_OPEN;
	while (error == 0)
		error = send_next(init);
	if (error == -EAGAIN)
		init->output = OUTPUT_FULL;
	else if (error == -ENOBUFS)
		init->output = OUTPUT_LATER;
	else if (error < 0)
		loop_drop_connection(init);
}
