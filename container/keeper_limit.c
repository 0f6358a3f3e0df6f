/*
 * Other limits of a sandbox that runs. A lower one of memory makes the kernel take memory back,
 * which takes as long as its dirty files need to be written: a child waits for that, and the other
 * sandboxes do not. All else is over at once, and done at once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/keeper_state.h"

#define LIMIT_MS    60000
#define CHANGES_MAX 4 /* of one sandbox */

/* It holds nothing of its sandbox, which may end at any time. */
struct change {
	struct list node;
	struct keeper *keeper;
	struct job job;
	struct keeper_asker asker;
	struct sandbox_id id;
	uint64_t generation;
	struct container_limits wanted;
	struct container_change change;
	struct err failure;
	int fd; /* what its child says */
};

static struct keeper_sandbox *sandbox_of(const struct change *change)
{
	struct keeper_sandbox *sb = keeper_sandbox_find(change->keeper, str_of(change->id.text));

	return sb && sb->state == KEEPER_IS_RUNNING && sb->c.spec.generation == change->generation
		       ? sb
		       : NULL;
}

static unsigned count_of(const struct keeper *k, const char *id, struct change **ret_first)
{
	unsigned count = 0;

	*ret_first = NULL;
	list_for_each (node, &k->changes) {
		struct change *change = list_entry(node, struct change, node);

		if (strcmp(change->id.text, id) == 0 && count++ == 0)
			*ret_first = change;
	}
	return count;
}

/* --- its end --- */

static void answer(struct change *change, int result)
{
	struct keeper_sandbox *sb = sandbox_of(change);
	struct keeper *k = change->keeper;

	if (!sb) {
		keeper_refuse(k, change->asker, ERR_NOT_FOUND, "sandbox \"%s\" does not run",
			      change->id.text);
		return;
	}
	result = container_limit_end(&sb->c, k->host, &change->change, result, &change->failure);
	keeper_io_note(sb);
	keeper_cpus_note(sb);
	if (result < 0) {
		keeper_io_check(sb);
		keeper_answer_failed(k, change->asker, &change->failure);
		return;
	}
	keeper_pool_watch(k); /* it may write more than before */
	keeper_answer_done(k, change->asker);
}

static void free_change(struct change *change)
{
	list_remove(&change->node);
	close_fdp(&change->fd);
	free(change);
}

static void do_next(struct keeper *k, const struct sandbox_id *id);

/* What came of the child. */
static int result_of(struct change *change, int result, int status)
{
	struct err *failure = &change->failure;
	struct keeper_sandbox *sb = sandbox_of(change);

	if (result == 0 && status == 0)
		return 0;
	if (sb && (result < 0 || WIFSIGNALED(status)))
		container_limit_undo(&sb->c, change->keeper->host, &change->change);
	if (change->job.is_late)
		return err_set(failure, -ETIMEDOUT, ERR_CONFLICT,
			       "the kernel did not take the sandbox's memory back within %d "
			       "seconds, and its limits are as they were: try again, or choose a "
			       "higher limit",
			       LIMIT_MS / 1000);
	if (result == 0 && WIFEXITED(status) &&
	    read(change->fd, failure, sizeof(*failure)) == sizeof(*failure))
		return -EIO;
	if (failure->code == ERR_NONE)
		err_set(failure, -EIO, ERR_INTERNAL, "the limits could not be changed");
	return -EIO;
}

static void on_work_end(struct job *job, int result, int status)
{
	struct change *change = container_of(job, struct change, job);
	struct sandbox_id id = change->id;
	struct keeper *k = change->keeper;

	answer(change, result_of(change, result, status));
	free_change(change);
	do_next(k, &id);
	keeper_settle(k);
}

/* --- its turn --- */

static int begin_work(struct job *job)
{
	struct change *change = container_of(job, struct change, job);
	struct keeper_sandbox *sb = sandbox_of(change);

	if (!sb)
		return -ESRCH;
	return container_limit_work(&sb->c, change->keeper->host, &change->change, &change->fd,
				    &change->failure);
}

/* True: it is over. Else its end comes later, or came and has freed it. */
static bool take_turn(struct change *change)
{
	struct keeper_sandbox *sb = sandbox_of(change);
	const struct container_host *host = change->keeper->host;

	if (!sb) {
		answer(change, -ESRCH);
		return true;
	}
	if (container_limit_begin(&sb->c, host, &change->wanted, &change->change,
				  &change->failure) < 0) {
		keeper_io_check(sb);
		keeper_answer_failed(change->keeper, change->asker, &change->failure);
		return true;
	}
	keeper_io_note(sb); /* those of io hold already, however long the rest takes */
	if (container_limit_takes_long(&sb->c, host, &change->change)) {
		job_queue(&change->job, &change->keeper->limits, true);
		return false;
	}
	answer(change, container_limit_now(&sb->c, host, &change->change, &change->failure));
	return true;
}

static void do_next(struct keeper *k, const struct sandbox_id *id)
{
	struct change *first;

	while (count_of(k, id->text, &first) > 0 && take_turn(first))
		free_change(first);
}

void keeper_limit(struct keeper_sandbox *sb, const struct container_limits *limits,
		  struct keeper_asker asker)
{
	struct keeper *k = sb->keeper;
	struct change *first, *change;
	unsigned count = count_of(k, sb->c.spec.id.text, &first);

	if (count >= CHANGES_MAX) {
		keeper_refuse(k, asker, ERR_UNAVAILABLE,
			      "the limits of sandbox \"%s\" are being changed already: try again",
			      sb->c.spec.id.text);
		return;
	}
	change = calloc(1, sizeof(*change));
	if (!change) {
		keeper_refuse(k, asker, ERR_INTERNAL, "out of memory");
		return;
	}
	change->keeper = k;
	change->asker = asker;
	change->id = sb->c.spec.id;
	change->generation = sb->c.spec.generation;
	change->wanted = *limits;
	change->fd = -1;
	job_init(&change->job);
	change->job.begin = begin_work;
	change->job.on_end = on_work_end;
	change->job.timeout_ms = LIMIT_MS;
	list_append(&k->changes, &change->node);
	if (count == 0)
		do_next(k, &sb->c.spec.id);
}
