/*
 * Whether the folders of the host that a start wants mounted can be looked at. One on a file system
 * that hangs (a network that is gone, FUSE whose program does not answer) holds whoever looks, and
 * perhaps so that not even SIGKILL ends it: a child looks first, and the keeper itself only after
 * that. Who is late is left alone, and buried if it ever ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/keeper_state.h"

#define LOOK_MS     5000
#define HANGING_MAX 16

struct look {
	struct list node; /* keeper's hanging ones */
	struct keeper *keeper;
	struct keeper_sandbox *sb; /* NULL: it was late, and hangs */
	struct job job;
	struct timer timer;
	int told_fd;       /* a byte for each mount, before it is looked at */
	struct str mounts; /* its bytes are its own */
};

static void free_look(struct look *look)
{
	list_remove(&look->node);
	timer_stop(&look->timer);
	close_fdp(&look->told_fd);
	free((char *)look->mounts.at);
	free(look);
}

static void fail(struct keeper_sandbox *sb)
{
	keeper_answer_failed(sb->keeper, sb->starter, &sb->failure);
	keeper_sandbox_free(sb);
}

/* Whether it may be mounted is not the question here; the start says that. */
static void go_on(struct keeper_sandbox *sb)
{
	if (sb->is_kill_wanted || sb->is_unwanted)
		err_set(&sb->failure, -ECANCELED, ERR_CONFLICT,
			"the sandbox was killed while it started");
	else if (keeper_pool_begin_start(sb) < 0)
		err_set(&sb->failure, -EBUSY, ERR_CAPACITY_EXCEEDED,
			"too many sandboxes are being started");
	else
		return;
	fail(sb);
}

static int begin_look(struct job *job)
{
	struct look *look = container_of(job, struct look, job);
	cleanup_fd int told = -1;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	look->told_fd = ends[0];
	told = ends[1];
	timer_start(&look->timer, &look->keeper->loop, LOOK_MS);
	return container_look(look->keeper->host, look->mounts, told, &pid);
}

static void say_late(struct err *err, const struct look *look)
{
	char told[MOUNTS_MAX];
	ssize_t which = read(look->told_fd, told, sizeof(told));
	struct str mounts = look->mounts;
	const char *source = "";
	struct mount_item item;

	for (ssize_t i = 0; i < which && mounts_next(&mounts, &item) > 0; i++)
		source = item.kind == MOUNT_BIND ? item.source : source;
	err_set(err, -ETIMEDOUT, ERR_START_FAILED,
		"the folder %s of the host does not answer: its file system hangs. Mend or unmount "
		"it on the host, or start the sandbox without this mount",
		source);
}

static void on_look_end(struct job *job, int result, int status)
{
	struct look *look = container_of(job, struct look, job);
	struct keeper_sandbox *sb = look->sb;
	struct keeper *k = look->keeper;

	if (sb && job->is_late)
		say_late(&sb->failure, look);
	free_look(look);
	if (!sb) {
		k->looks.limit--;
		k->hanging--;
	} else if (sb->failure.code != ERR_NONE) {
		fail(sb);
	} else if (result < 0) {
		err_set(&sb->failure, result, ERR_START_FAILED,
			"the folders that are to be mounted cannot be looked at: %s",
			strerror(-result));
		fail(sb);
	} else {
		go_on(sb);
	}
}

/* The job kills it now. It may be long until that has an effect: others get its place. */
static void on_late(struct timer *timer)
{
	struct look *look = container_of(timer, struct look, timer);
	struct keeper_sandbox *sb = take(look->sb);
	struct keeper *k = look->keeper;

	list_append(&k->hangs, &look->node);
	k->hanging++;
	k->looks.limit++;
	say_late(&sb->failure, look);
	fail(sb);
}

/* One that hangs is enough: the next would hang in the same place. */
static int check_hanging(struct keeper_sandbox *sb)
{
	struct keeper *k = sb->keeper;

	list_for_each (node, &k->hangs) {
		if (str_eq(sb->c.spec.mounts, list_entry(node, struct look, node)->mounts))
			return err_set(&sb->failure, -ETIMEDOUT, ERR_START_FAILED,
				       "a folder of the host that is to be mounted still does not "
				       "answer: its file system hangs. Mend or unmount it on the "
				       "host, or start the sandbox without this mount");
	}
	if (k->hanging >= HANGING_MAX)
		return err_set(&sb->failure, -EBUSY, ERR_START_FAILED,
			       "folders of the host cannot be looked at: %d that others wanted "
			       "mounted do not answer",
			       HANGING_MAX);
	return 0;
}

static int queue_look(struct keeper_sandbox *sb)
{
	struct str mounts = sb->c.spec.mounts;
	struct look *look = calloc(1, sizeof(*look));
	char *copy = malloc(mounts.len);
	int r;

	if (!look || !copy) {
		free(look);
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy, mounts.at, mounts.len);
	*look = (struct look){.keeper = sb->keeper, .sb = sb, .told_fd = -1};
	look->mounts = (struct str){copy, mounts.len};
	list_init(&look->node);
	timer_init(&look->timer, on_late);
	job_init(&look->job);
	look->job.begin = begin_look;
	look->job.on_end = on_look_end;
	look->job.timeout_ms = LOOK_MS;
	r = job_queue(&look->job, &sb->keeper->looks, false);
	if (r < 0)
		free_look(look);
	return r;
}

static bool has_binds(struct str mounts)
{
	struct mount_item item;

	while (mounts_next(&mounts, &item) > 0)
		if (item.kind == MOUNT_BIND)
			return true;
	return false;
}

int keeper_binds_begin(struct keeper_sandbox *sb)
{
	if (!has_binds(sb->c.spec.mounts))
		return keeper_pool_begin_start(sb);
	if (check_hanging(sb) == 0)
		return queue_look(sb);
	fail(sb);
	return 0;
}
