#include "cmd/berth-init/execs.h"

#include <sys/epoll.h>

void exec_close_fds(struct exec *exec)
{
	while (exec->fd_count)
		close(exec->fds[--exec->fd_count]);
}

void exec_close_stdin(struct exec *exec)
{
	if (!exec->has_stdin || !exec->fd_count)
		return;
	exec->has_stdin = false;
	close(exec->fds[0]);
	exec->fd_count--;
	memmove(exec->fds, exec->fds + 1, exec->fd_count * sizeof(exec->fds[0]));
}

static void close_fd(int *fd)
{
	close_fdp(fd);
	*fd = -1;
}

/* By hand: a child that is just being made may hold a copy, and then closing ours is not enough. */
void execs_drop_supervisor(struct execs *execs, struct exec *exec)
{
	if (exec->supervisor_fd >= 0)
		epoll_ctl(execs->epoll_fd, EPOLL_CTL_DEL, exec->supervisor_fd, NULL);
	close_fd(&exec->supervisor_fd);
	execs->resizes_pending -= exec->is_resize_pending;
	exec->is_resize_pending = false;
}

void execs_unkeep(struct execs *execs, struct exec *exec)
{
	execs->kept -= exec->is_kept;
	exec->is_kept = exec->has_reports = false;
	exec_close_fds(exec);
	close_fd(&exec->group_fd);
}

void execs_drop_session(struct execs *execs, struct exec *exec)
{
	if (exec->session_fd >= 0)
		epoll_ctl(execs->epoll_fd, EPOLL_CTL_DEL, exec->session_fd, NULL);
	close_fd(&exec->session_fd);
}

void execs_init(struct execs *execs)
{
	execs->epoll_fd = -1;
	for (unsigned i = 0; i < EXECS_BUCKETS; i++) {
		list_init(&execs->by_number[i]);
		list_init(&execs->by_pid[i]);
	}
	list_init(&execs->due);
	list_init(&execs->free);
}

struct exec *execs_add(struct execs *execs, uint64_t number)
{
	struct exec *exec;

	if (!list_is_empty(&execs->free)) {
		exec = list_entry(execs->free.next, struct exec, number_link);
		list_remove(&exec->number_link);
	} else if (execs->touched < AGENT_EXECS_MAX) {
		exec = &execs->all[execs->touched++];
	} else {
		return NULL;
	}
	*exec = (struct exec){.number = number,
			      .pidfd = -1,
			      .supervisor_fd = -1,
			      .group_fd = -1,
			      .session_fd = -1};
	list_init(&exec->number_link);
	list_init(&exec->pid_link);
	list_init(&exec->due_link);
	list_append(&execs->by_number[number % EXECS_BUCKETS], &exec->number_link);
	execs->count++;
	return exec;
}

void execs_remove(struct execs *execs, struct exec *exec)
{
	execs_unkeep(execs, exec);
	close_fd(&exec->pidfd);
	execs_drop_supervisor(execs, exec);
	execs_drop_session(execs, exec);
	exec->is_session = exec->is_command = false;
	execs->ends_pending -= exec->is_end_pending;
	exec->is_end_pending = false;
	list_remove(&exec->pid_link);
	list_remove(&exec->due_link);
	list_move(&execs->free, &exec->number_link);
	execs->count--;
}

struct exec *execs_find(struct execs *execs, uint64_t number)
{
	struct list *bucket = &execs->by_number[number % EXECS_BUCKETS];

	list_for_each (node, bucket) {
		struct exec *exec = list_entry(node, struct exec, number_link);

		if (exec->number == number)
			return exec;
	}
	return NULL;
}

static struct list *pid_bucket(struct execs *execs, pid_t pid)
{
	return &execs->by_pid[(unsigned)pid % EXECS_BUCKETS];
}

struct exec *execs_find_pid(struct execs *execs, pid_t our_pid)
{
	struct list *bucket = pid_bucket(execs, our_pid);

	list_for_each (node, bucket) {
		struct exec *exec = list_entry(node, struct exec, pid_link);

		if (exec->our_pid == our_pid)
			return exec;
	}
	return NULL;
}

void execs_set_pid(struct execs *execs, struct exec *exec, pid_t our_pid)
{
	list_remove(&exec->pid_link);
	exec->our_pid = our_pid;
	if (our_pid > 0)
		list_append(pid_bucket(execs, our_pid), &exec->pid_link);
}

void execs_tell(struct execs *execs, struct exec *exec, uint32_t what)
{
	exec->due |= what;
	list_move(&execs->due, &exec->due_link);
}

/* What somebody who knows nothing must be told. */
static uint32_t all_due(const struct exec *exec)
{
	static const enum exec_due dues[] = {
		[EXEC_LIVE] = DUE_LIVE,
		[EXEC_EXITED] = DUE_EXITED,
		[EXEC_LOST] = DUE_LOST,
	};
	uint32_t due;

	if (exec->state == EXEC_STARTING || exec->is_forgotten)
		return 0;
	due = dues[exec->state];
	if (exec->is_kept)
		due |= DUE_LIVE;
	if (exec->is_kept && exec->state == EXEC_EXITED)
		due |= (exec->is_tree_empty ? DUE_SETTLED : 0) |
		       (exec->is_tree_lost ? DUE_LOST : 0);
	return due;
}

unsigned execs_tell_all(struct execs *execs)
{
	unsigned told = 0;

	for (unsigned i = 0; i < EXECS_BUCKETS; i++) {
		list_for_each_safe (node, &execs->by_number[i]) {
			struct exec *exec = list_entry(node, struct exec, number_link);
			bool is_refused = exec->due & DUE_REFUSED;
			uint32_t due = all_due(exec);

			/* Nobody waits for the answers to what an earlier peer asked. */
			exec->due = 0;
			exec->is_start_awaited = exec->is_end_awaited = false;
			list_remove(&exec->due_link);
			if (is_refused) {
				execs_remove(execs, exec);
			} else if (due) {
				execs_tell(execs, exec, due);
				told += (unsigned)__builtin_popcount(due);
			}
		}
	}
	return told;
}

void exec_started(struct execs *execs, struct exec *exec, pid_t pid, int pidfd)
{
	exec->state = EXEC_LIVE;
	exec->pid = pid;
	exec->pidfd = pidfd;
	if (!exec->is_forgotten)
		execs_tell(execs, exec, exec->is_start_awaited ? DUE_STARTED : DUE_LIVE);
}

void exec_refused(struct execs *execs, struct exec *exec, uint32_t stage, uint32_t error)
{
	exec_close_fds(exec);
	execs_drop_supervisor(execs, exec);
	execs_set_pid(execs, exec, 0);
	exec->refused = (struct agent_refused){exec->number, stage, error};
	if (exec->is_start_awaited)
		execs_tell(execs, exec, DUE_REFUSED);
	else
		execs_remove(execs, exec);
}

static uint64_t to_us(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

void exec_exited(struct execs *execs, struct exec *exec, int status, const struct rusage *usage)
{
	exec->state = EXEC_EXITED;
	exec->exited = (struct agent_exited){
		.exec = exec->number,
		.status = (uint32_t)status & 0xffff,
		.user_us = to_us(usage->ru_utime),
		.system_us = to_us(usage->ru_stime),
		.max_rss_bytes = (uint64_t)usage->ru_maxrss * 1024,
	};
	close_fd(&exec->pidfd);
	if (exec->is_forgotten)
		execs_remove(execs, exec);
	else
		execs_tell(execs, exec, DUE_EXITED | (exec->is_tree_lost ? DUE_LOST : 0));
}

void exec_lost(struct execs *execs, struct exec *exec)
{
	exec->state = EXEC_LOST;
	close_fd(&exec->pidfd);
	if (exec->is_forgotten)
		execs_remove(execs, exec);
	else
		execs_tell(execs, exec, DUE_LOST);
}

void exec_ended(struct execs *execs, struct exec *exec, bool is_proven)
{
	if (!exec->is_end_pending)
		return;
	exec->is_end_pending = false;
	exec->is_end_proven = is_proven;
	execs->ends_pending--;
	if (exec->is_end_awaited)
		execs_tell(execs, exec, DUE_ENDED);
}

void exec_unsupervised(struct execs *execs, struct exec *exec, bool is_empty)
{
	/* Where there is a cgroup, that is what knows. */
	if (exec->group_fd >= 0)
		return;
	exec->is_tree_empty = is_empty;
	exec->is_tree_lost = exec->is_kept && !is_empty;
	if (exec->is_kept && exec->state == EXEC_EXITED)
		execs_tell(execs, exec, is_empty ? DUE_SETTLED : DUE_LOST);
}
