#include "daemon/sandbox_group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/registry.h"
#include "daemon/sandbox_still.h"

static void drop(struct sandbox *sb, struct sandbox_group group)
{
	close_fdp(&group.fd);
	keeper_group_drop(
		registry_keeper(sb->registry),
		&(struct keeper_group_ref){str_of(sb->id.text), sb->generation, group.number});
}

/* Nothing has ever been in it, or nothing is any more. */
static void keep(struct sandbox *sb, struct sandbox_group group)
{
	if ((sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_FROZEN) &&
	    sb->groups_len < SANDBOX_GROUPS_MAX)
		sb->groups[sb->groups_len++] = group;
	else
		drop(sb, group);
}

static void on_group(struct keeper_call *call, struct keeper_answer *answer)
{
	struct sandbox *sb = container_of(call, struct sandbox, group_call);
	struct channel_frame *frame = answer->frame;

	sb->is_group_asked = false;
	if (answer->result == 0 && (!frame || frame->fds_len != 1)) {
		/* We may have no descriptor left for it: the next command asks again, not we. */
		drop(sb, (struct sandbox_group){-1, answer->group.group});
	} else if (answer->result == 0) {
		keep(sb, (struct sandbox_group){take_fd(&frame->fds[0]), answer->group.group});
		sandbox_groups_refill(sb);
		sandbox_still_step(sb);
	} else if (!sb->groups_len) {
		sandbox_still_spoil(sb, "no group can be made for the command that reads");
	}
}

void sandbox_groups_refill(struct sandbox *sb)
{
	struct keeper_ref ref = {str_of(sb->id.text), sb->generation};

	/* Whoever is on the way to sleep needs no more, and would drop them. */
	if (sb->state != SANDBOX_RUNNING || sb->is_group_asked ||
	    sb->groups_len >= KEEPER_GROUPS_FIRST ||
	    !(keeper_abilities(registry_keeper(sb->registry)) & KEEPER_HAS_GROUPS))
		return;
	sb->is_group_asked = true;
	sb->group_call.done = on_group;
	keeper_ask(registry_keeper(sb->registry), &sb->group_call, KEEPER_GROUP_NEW, &ref);
}

struct sandbox_group sandbox_group_take(struct sandbox *sb)
{
	struct sandbox_group group = {-1, 0};

	if (sb->groups_len)
		group = sb->groups[--sb->groups_len];
	sandbox_groups_refill(sb);
	return group;
}

/*
 * Not by its own descriptor: there Landlock finds no rule (see keeper_welcome), unless the host has
 * cgroups of both versions. With a keeper from before the other way it is the only one.
 */
int sandbox_group_open(const struct sandbox *sb, struct sandbox_group group, const char *file)
{
	int fd = keeper_group_read(registry_keeper(sb->registry), sb->id.text, group.number, file);

	if (fd != -EOPNOTSUPP)
		return fd;
	fd = openat(group.fd, file, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

void sandbox_group_give(struct sandbox *sb, struct sandbox_group group)
{
	if (group.fd < 0)
		return;
	/* One that was just left may have been frozen with the others: init would hang in it. */
	if (sb->still)
		drop(sb, group);
	else
		keep(sb, group);
}

/* The last ones of an answer: the counter, then the usage. How many there are before them. */
static unsigned keep_files(struct sandbox *sb, struct channel_frame *frame,
			   struct keeper_adopted has)
{
	unsigned files = has.has_counter + has.has_usage, before;

	if (!frame || frame->fds_len < files)
		return 0;
	before = frame->fds_len - files;
	if (has.has_counter)
		sb->oom_fd = take_fd(&frame->fds[before]);
	if (has.has_usage)
		sb->usage_fd = take_fd(&frame->fds[before + has.has_counter]);
	return before;
}

void sandbox_adopted_keep(struct sandbox *sb, struct keeper_answer *answer)
{
	keep_files(sb, answer->frame, answer->adopted);
}

void sandbox_groups_keep(struct sandbox *sb, struct keeper_answer *answer)
{
	struct channel_frame *frame = answer->frame;
	unsigned groups_len = keep_files(
		sb, frame,
		(struct keeper_adopted){answer->started.has_counter, answer->started.has_usage});

	for (unsigned i = 0; i < groups_len && sb->groups_len < SANDBOX_GROUPS_MAX; i++)
		sb->groups[sb->groups_len++] =
			(struct sandbox_group){take_fd(&frame->fds[i]), answer->started.groups + i};
}

void sandbox_groups_drop(struct sandbox *sb)
{
	keeper_cancel(registry_keeper(sb->registry), &sb->group_call);
	sb->is_group_asked = false;
	while (sb->groups_len)
		close(sb->groups[--sb->groups_len].fd);
	close_fdp(&sb->oom_fd);
	close_fdp(&sb->usage_fd);
	sb->oom_fd = sb->usage_fd = -1;
}

int64_t sandbox_oom_kills(const struct sandbox *sb)
{
	char text[512], *line = text;
	ssize_t n = sb->oom_fd < 0 ? -1 : pread(sb->oom_fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	while (line && strncmp(line, "oom_kill ", 9) != 0) {
		char *end = strchr(line, '\n');

		line = end ? end + 1 : NULL;
	}
	return line ? strtoll(line + 9, NULL, 10) : -1;
}
