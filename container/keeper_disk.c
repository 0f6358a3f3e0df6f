/* A sandbox's disk: removing it, and counting what is on it. Both are children, few at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/keeper_state.h"

#define REMOVE_MS      3600000 /* a slow disk may take its time; a berthd that waits is not hindered */
#define USAGE_MS       600000
#define SWEEP_PAUSE_MS 60000 /* after a sweep that could not remove all */

/* --- removing --- */

static int begin_remove(struct job *job)
{
	struct keeper_sandbox *sb = container_of(job, struct keeper_sandbox, job);
	pid_t pid;

	return container_remove_disk(sb->keeper->host, &sb->c.spec.id, &pid, &sb->failure);
}

static void on_remove_end(struct job *job, int result, int status)
{
	struct keeper_sandbox *sb = container_of(job, struct keeper_sandbox, job);

	if (result == 0 && status != 0)
		err_set(&sb->failure, -EIO, ERR_INTERNAL,
			"the files of sandbox \"%s\" could not all be removed", sb->c.spec.id.text);
	if (result < 0 && sb->failure.code == ERR_NONE)
		err_set(&sb->failure, result, ERR_INTERNAL, "the removal cannot be started: %s",
			strerror(-result));
	if (sb->failure.code != ERR_NONE)
		keeper_sandbox_answer_waiters(sb, &sb->failure);
	if (result == -EBUSY)
		keeper_sandbox_take_down(sb); /* what is in the way; the next REMOVE will do */
	else
		keeper_sandbox_free(sb);
}

void keeper_disk_remove(struct keeper_sandbox *sb)
{
	sb->job.begin = begin_remove;
	sb->job.on_end = on_remove_end;
	sb->job.timeout_ms = REMOVE_MS;
	sb->failure = (struct err){0};
	keeper_sandbox_enter(sb, KEEPER_REMOVING);
	if (job_queue(&sb->job, &sb->keeper->errands, false) < 0) {
		err_set(&sb->failure, -EBUSY, ERR_CAPACITY_EXCEEDED,
			"too many removals wait already");
		keeper_sandbox_answer_waiters(sb, &sb->failure);
		keeper_sandbox_free(sb);
	}
}

/* --- the trash --- */

static int begin_sweep(struct job *job)
{
	struct keeper *k = container_of(job, struct keeper, sweep);
	struct err err;
	pid_t pid;

	return container_empty_trash(k->host, &pid, &err);
}

static void on_sweep_end(struct job *job, int result, int status)
{
	struct keeper *k = container_of(job, struct keeper, sweep);

	k->is_sweeping = false;
	if (result < 0 || status != 0) {
		container_keep_trash(k->host);
		k->sweep_after_ms = loop_now_ms() + SWEEP_PAUSE_MS;
	}
	keeper_settle(k);
}

void keeper_disk_sweep(struct keeper *k)
{
	if (k->is_sweeping || loop_now_ms() < k->sweep_after_ms || !container_has_trash(k->host))
		return;
	job_init(&k->sweep);
	k->sweep.begin = begin_sweep;
	k->sweep.on_end = on_sweep_end;
	k->sweep.timeout_ms = REMOVE_MS;
	k->is_sweeping = true;
	if (job_queue(&k->sweep, &k->errands, false) < 0)
		k->is_sweeping = false;
}

/* --- counting --- */

struct usage {
	struct list node;
	struct keeper *keeper;
	struct job job;
	struct keeper_asker asker;
	struct sandbox_id id;
	struct err failure;
	int fd;
};

static void free_usage(struct usage *usage)
{
	struct keeper *k = usage->keeper;

	list_remove(&usage->node);
	close_fdp(&usage->fd);
	free(usage);
	keeper_settle(k);
}

static int begin_usage(struct job *job)
{
	struct usage *usage = container_of(job, struct usage, job);
	struct keeper *k = usage->keeper;
	const struct keeper_sandbox *sb = keeper_sandbox_find(k, str_of(usage->id.text));
	const struct container cold = {.spec.id = usage->id, .init_pidfd = -1};
	pid_t pid;

	return container_disk_usage(k->host, sb && sb->state == KEEPER_IS_RUNNING ? &sb->c : &cold,
				    &pid, &usage->fd, &usage->failure);
}

static void on_usage_end(struct job *job, int result, int status)
{
	struct usage *usage = container_of(job, struct usage, job);
	uint64_t counted[2];

	if (result < 0 || status != 0 ||
	    read(usage->fd, counted, sizeof(counted)) != sizeof(counted)) {
		if (usage->failure.code == ERR_NONE)
			err_set(&usage->failure, -EIO, ERR_INTERNAL,
				"the disk usage of sandbox \"%s\" could not be counted",
				usage->id.text);
		keeper_answer_failed(usage->keeper, usage->asker, &usage->failure);
	} else {
		struct keeper_usage answer = {.disk_bytes = counted[0], .files = counted[1]};

		keeper_conn_answer(&usage->keeper->conn, usage->asker,
				   &(struct keeper_answer){.type = KEEPER_USAGE_IS,
							   .fields = keeper_usage_fields,
							   .value = &answer});
	}
	free_usage(usage);
}

void keeper_disk_usage(struct keeper *k, const struct sandbox_id *id, struct keeper_asker asker)
{
	struct usage *usage = calloc(1, sizeof(*usage));

	if (!usage) {
		keeper_refuse(k, asker, ERR_INTERNAL, "out of memory");
		return;
	}
	usage->keeper = k;
	usage->asker = asker;
	usage->id = *id;
	usage->fd = -1;
	job_init(&usage->job);
	usage->job.begin = begin_usage;
	usage->job.on_end = on_usage_end;
	usage->job.timeout_ms = USAGE_MS;
	list_append(&k->usages, &usage->node);
	if (job_queue(&usage->job, &k->counts, false) < 0) {
		keeper_refuse(k, asker, ERR_CAPACITY_EXCEEDED, "too many counts wait already");
		free_usage(usage);
	}
}
