/* What berthd may ask: one handler per frame type. Every field is checked again here or below. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "container/keeper_state.h"
#include "container/limits.h"
#include "proto/capability.h"

#define HELLO_WAIT_MS 2000

union request {
	struct keeper_hello hello;
	struct keeper_start start;
	struct keeper_limit limit;
	struct keeper_ref ref;
	struct keeper_group_ref group;
	struct keeper_check check;
};

static void tell(struct keeper *k, struct keeper_asker asker, uint16_t type,
		 const struct frame_field *fields, const void *value)
{
	keeper_conn_answer(&k->conn, asker,
			   &(struct keeper_answer){.type = type, .fields = fields, .value = value});
}

/* A sandbox that runs and is of that generation, or NULL and the asker is answered. */
static struct keeper_sandbox *find_running(struct keeper *k, struct keeper_asker asker,
					   const struct keeper_ref *ref)
{
	struct keeper_sandbox *sb = keeper_sandbox_find(k, ref->id);

	if (!sb || sb->state != KEEPER_IS_RUNNING || !sb->is_told)
		keeper_refuse(k, asker, ERR_NOT_FOUND, "sandbox \"%.*s\" does not run",
			      STR_ARGS(ref->id));
	else if (sb->c.spec.generation != ref->generation)
		keeper_refuse(k, asker, ERR_SANDBOX_RESTARTED,
			      "sandbox \"%.*s\" runs in another generation", STR_ARGS(ref->id));
	else
		return sb;
	return NULL;
}

/* --- HELLO --- */

static bool is_up(const struct keeper_sandbox *sb)
{
	return sb->is_told && (sb->state == KEEPER_IS_RUNNING || sb->state == KEEPER_DYING ||
			       sb->state == KEEPER_TAKING_DOWN);
}

static bool is_frozen(const struct keeper_sandbox *sb)
{
	return sb->state == KEEPER_IS_RUNNING && container_is_frozen(&sb->c, sb->keeper->host) == 1;
}

/* One that is just ending still runs for a new berthd: it will hear of the end. */
static uint32_t tell_known(struct keeper *k, bool is_counted_only)
{
	const struct keeper_asker asker = {k->conn.serial, 0};
	uint32_t count = 0;

	for (size_t i = 0; i < KEEPER_BUCKETS; i++) {
		list_for_each (node, &k->buckets[i]) {
			struct keeper_sandbox *sb = list_entry(node, struct keeper_sandbox, node);
			struct keeper_running running = {.id = str_of(sb->c.spec.id.text),
							 .generation = sb->c.spec.generation,
							 .pid = (uint32_t)sb->c.init_pid};

			if (!is_up(sb) && sb->state != KEEPER_HAS_EXITED)
				continue;
			count++;
			if (is_counted_only)
				continue;
			running.is_frozen = is_frozen(sb);
			running.is_ephemeral = sb->c.spec.is_ephemeral;
			running.is_strict = sb->c.spec.is_strict;
			if (is_up(sb))
				tell(k, asker, KEEPER_RUNNING, keeper_running_fields, &running);
			else
				keeper_sandbox_tell_exit(sb);
		}
	}
	return count;
}

static struct keeper_defaults defaults_of(const struct container_host *host)
{
	struct container_limits limits = {0};
	struct err err;

	limits_complete(&limits, host, &err); /* whoever asks for nothing is not refused */
	return (struct keeper_defaults){limits.memory_bytes, limits.pids, limits.files};
}

void keeper_greet(struct keeper *k)
{
	struct keeper_welcome welcome = {
		.version = KEEPER_VERSION,
		.abilities = container_host_abilities(k->host),
		.known = tell_known(k, true),
		.runtime = str_of(container_host_runtime(k->host)),
		.warning = str_of(k->warning),
		.defaults = defaults_of(k->host),
	};

	cleanup_fd int groups = container_host_open_groups(k->host);

	timer_stop(&k->greeting);
	k->hello_waits = false;
	k->is_greeted = true;
	keeper_conn_answer(&k->conn, k->hello,
			   &(struct keeper_answer){.type = KEEPER_WELCOME,
						   .fields = keeper_welcome_fields,
						   .value = &welcome,
						   .fds = &groups,
						   .fd_count = groups >= 0});
	tell_known(k, false);
}

/* Starts of an earlier berthd are undone first, so that WELCOME tells all that there is. */
static void on_hello(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	log_info("berthd is here version=%u sandboxes=%u", request->hello.version, k->sandboxes);
	k->hello = asker;
	k->hello_waits = k->unwanted > 0;
	if (k->hello_waits)
		timer_start(&k->greeting, &k->loop, HELLO_WAIT_MS);
	else
		keeper_greet(k);
}

/* --- lives --- */

static int read_mounts(struct str list, struct container_spec *spec, struct err *err)
{
	unsigned which;
	int r = mounts_check(list, &which);
	char *copy;

	if (r < 0)
		return err_set(err, r, ERR_INVALID_REQUEST,
			       "mounts[%u] is nothing that can be mounted: %s", which,
			       strerror(-r));
	if (!list.len)
		return 0;
	copy = malloc(list.len);
	if (!copy)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	memcpy(copy, list.at, list.len);
	spec->mounts = (struct str){copy, list.len};
	return 0;
}

/* What it returns is to be closed. */
static int read_spec(const struct keeper_start *start, struct container_spec *ret, struct err *err)
{
	*ret = (struct container_spec){
		.generation = start->generation,
		.is_read_only = start->flags & KEEPER_START_READ_ONLY,
		.is_ephemeral = start->flags & KEEPER_START_EPHEMERAL,
		.has_disk = start->flags & KEEPER_START_HAS_DISK,
		.is_strict = start->flags & KEEPER_START_STRICT,
		.capabilities = start->capabilities,
		.limits = {.memory_bytes = start->memory_bytes,
			   .swap_bytes = start->swap_bytes,
			   .cpu_milli = start->cpu_milli,
			   .pids = start->pids,
			   .files = start->files,
			   .file_size = start->file_size,
			   .disk_bytes = start->disk_bytes,
			   .inodes = start->inodes,
			   .io = start->io},
	};
	_Static_assert(sizeof(ret->image) > KEEPER_IMAGE_MAX, "an image's name fits");
	_Static_assert(sizeof(ret->id.text) > KEEPER_ID_MAX, "an id fits");
	memcpy(ret->id.text, start->id.at, start->id.len);
	if (start->image.len)
		memcpy(ret->image, start->image.at, start->image.len);
	if (start->generation == 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "a generation is not 0");
	if (start->flags & ~(uint32_t)(KEEPER_START_READ_ONLY | KEEPER_START_EPHEMERAL |
				       KEEPER_START_HAS_DISK | KEEPER_START_STRICT))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "unknown flags %#x",
			       start->flags);
	if (start->capabilities & ~CAPABILITY_ALL)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "%#x are capabilities that no sandbox can have",
			       start->capabilities & ~CAPABILITY_ALL);
	if (start->image.len == 0 || memchr(start->image.at, '\0', start->image.len))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "the image has no name");
	return read_mounts(start->mounts, ret, err);
}

struct keeper_next {
	struct container_spec spec;
	struct keeper_asker starter;
};

/* The spec's mounts are taken. */
static void begin(struct keeper *k, struct container_spec *spec, struct keeper_asker starter)
{
	struct keeper_sandbox *sb = keeper_sandbox_new(k, spec);

	if (sb && keeper_sandbox_start(sb, starter) == 0)
		return;
	if (sb)
		keeper_sandbox_free(sb);
	else
		container_spec_close(spec);
	keeper_refuse(k, starter, ERR_CAPACITY_EXCEEDED, "too many sandboxes are being started");
}

/* What nobody waits for any more is taken down first. True: the spec's mounts are taken. */
static bool wait_for_turn(struct keeper_sandbox *sb, const struct container_spec *spec,
			  struct keeper_asker starter)
{
	if (!sb || !sb->is_unwanted || sb->next || sb->tries >= KEEPER_TAKE_DOWN_MAX)
		return false;
	sb->next = malloc(sizeof(*sb->next));
	if (sb->next)
		*sb->next = (struct keeper_next){*spec, starter};
	return sb->next;
}

void keeper_start_next(struct keeper *k, struct keeper_next *next)
{
	if (next)
		begin(k, &next->spec, next->starter);
	free(next);
}

void keeper_drop_next(struct keeper_sandbox *sb, const struct err *why)
{
	if (sb->next)
		keeper_answer_failed(sb->keeper, sb->next->starter, why);
	if (sb->next)
		container_spec_close(&sb->next->spec);
	free(take(sb->next));
}

static void on_start(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	struct keeper_sandbox *sb = keeper_sandbox_find(k, request->start.id);
	struct container_spec spec;
	struct err err;

	if (read_spec(&request->start, &spec, &err) < 0) {
		keeper_answer_failed(k, asker, &err);
		return;
	}
	if (wait_for_turn(sb, &spec, asker))
		return;
	if (sb && sb->state != KEEPER_HAS_EXITED) {
		keeper_refuse(k, asker, ERR_CONFLICT,
			      sb->state == KEEPER_IS_RUNNING
				      ? "sandbox \"%s\" runs already"
				      : "sandbox \"%s\" is being started or taken down",
			      spec.id.text);
		container_spec_close(&spec);
		return;
	}
	if (sb)
		keeper_sandbox_free(sb); /* whoever starts it anew knows that it ended */
	begin(k, &spec, asker);
}

static void on_kill(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	struct keeper_sandbox *sb = keeper_sandbox_find(k, request->ref.id);
	struct err err;

	err_set(&err, -ECANCELED, ERR_CONFLICT, "it was to end before it could be started");
	if (sb && sb->next && sb->next->spec.generation == request->ref.generation)
		keeper_drop_next(sb, &err);
	if (!sb || sb->state == KEEPER_REMOVING)
		keeper_refuse(k, asker, ERR_NOT_FOUND, "sandbox \"%.*s\" does not run",
			      STR_ARGS(request->ref.id));
	else if (sb->c.spec.generation != request->ref.generation)
		keeper_refuse(k, asker, ERR_SANDBOX_RESTARTED,
			      "sandbox \"%.*s\" runs in another generation",
			      STR_ARGS(request->ref.id));
	else if (sb->state == KEEPER_HAS_EXITED)
		keeper_answer_done(k, asker);
	else if (keeper_sandbox_wait(sb, asker) < 0)
		keeper_refuse(k, asker, ERR_CAPACITY_EXCEEDED, "too many wait for its end already");
	else
		keeper_sandbox_kill(sb);
}

static void on_freeze(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	struct keeper_sandbox *sb = find_running(k, asker, &request->ref);

	if (sb)
		keeper_freeze(sb, true, asker);
}

static void on_thaw(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	struct keeper_sandbox *sb = find_running(k, asker, &request->ref);

	if (sb)
		keeper_freeze(sb, false, asker);
}

static void on_limit(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	const struct keeper_limit *limit = &request->limit;
	struct keeper_ref ref = {limit->id, limit->generation};
	struct keeper_sandbox *sb = find_running(k, asker, &ref);
	struct container_limits limits = {
		.memory_bytes = limit->memory_bytes,
		.swap_bytes = limit->swap_bytes,
		.cpu_milli = limit->cpu_milli,
		.pids = limit->pids,
		.disk_bytes = limit->disk_bytes,
		.io = limit->io,
	};

	if (sb)
		keeper_limit(sb, &limits, asker);
}

static void on_forget(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	struct keeper_sandbox *sb = keeper_sandbox_find(k, request->ref.id);

	if (sb && sb->state == KEEPER_HAS_EXITED &&
	    sb->c.spec.generation == request->ref.generation)
		keeper_sandbox_free(sb);
	keeper_answer_done(k, asker); /* also a second time */
}

/* --- groups and numbers --- */

static void on_adopt(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	struct keeper_sandbox *sb = find_running(k, asker, &request->ref);
	struct keeper_adopted adopted;
	cleanup_fd int counter = -1, usage = -1;
	int fds[2];
	unsigned count = 0;

	if (!sb)
		return;
	container_groups_retire(&sb->c, k->host);
	counter = container_open_counter(&sb->c, k->host);
	usage = container_open_usage(&sb->c, k->host);
	adopted = (struct keeper_adopted){counter >= 0, usage >= 0};
	if (counter >= 0)
		fds[count++] = counter;
	if (usage >= 0)
		fds[count++] = usage;
	keeper_conn_answer(&k->conn, asker,
			   &(struct keeper_answer){.type = KEEPER_ADOPTED,
						   .fields = keeper_adopted_fields,
						   .value = &adopted,
						   .fds = fds,
						   .fd_count = count});
}

static void answer_group(struct keeper *k, struct keeper_asker asker, struct keeper_group group,
			 int fd)
{
	keeper_conn_answer(&k->conn, asker,
			   &(struct keeper_answer){.type = KEEPER_GROUP,
						   .fields = keeper_group_fields,
						   .value = &group,
						   .fds = &fd,
						   .fd_count = 1});
}

static void on_group_new(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	struct keeper_sandbox *sb = find_running(k, asker, &request->ref);
	struct keeper_group group;
	struct err err = {0};
	cleanup_fd int fd = -1;

	if (!sb)
		return;
	if (container_group_new(&sb->c, k->host, &group.group, &fd, &err) < 0)
		keeper_answer_failed(k, asker, &err);
	else
		answer_group(k, asker, group, fd);
}

/* A number that is none of this sandbox, in this generation, is nothing that can be opened. */
static void on_group_open(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	struct keeper_ref ref = {request->group.id, request->group.generation};
	struct keeper_sandbox *sb = find_running(k, asker, &ref);
	uint32_t group = request->group.group;
	cleanup_fd int fd = -1;
	int r;

	if (!sb)
		return;
	r = container_group_open(&sb->c, k->host, group, &fd);
	if (r < 0)
		keeper_refuse(k, asker, r == -ENOENT ? ERR_NOT_FOUND : ERR_INTERNAL,
			      "the exec group %u cannot be opened: %s", group, strerror(-r));
	else
		answer_group(k, asker, (struct keeper_group){group}, fd);
}

static void on_group_end(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	struct keeper_ref ref = {request->group.id, request->group.generation};
	struct keeper_sandbox *sb = find_running(k, asker, &ref);

	if (sb)
		keeper_group_end(sb, request->group.group, asker);
}

static void on_freeze_others(struct keeper *k, struct keeper_asker asker,
			     const union request *request)
{
	struct keeper_ref ref = {request->group.id, request->group.generation};
	struct keeper_sandbox *sb = find_running(k, asker, &ref);

	if (sb)
		keeper_freeze_others(sb, request->group.group, asker);
}

static void on_stats(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	struct keeper_sandbox *sb = find_running(k, asker, &request->ref);
	struct container_stats stats = {0};
	int r;

	if (!sb)
		return;
	r = container_stats(&sb->c, k->host, &stats);
	if (r < 0)
		keeper_refuse(k, asker, r == -EOPNOTSUPP ? ERR_UNSUPPORTED : ERR_INTERNAL,
			      "the numbers of sandbox \"%.*s\" cannot be read: %s",
			      STR_ARGS(request->ref.id), strerror(-r));
	else
		tell(k, asker, KEEPER_STATS_ARE, keeper_stats_fields,
		     &(struct keeper_stats){.cpu_us = stats.cpu_us,
					    .memory_bytes = stats.memory_bytes,
					    .memory_peak_bytes = stats.memory_peak_bytes,
					    .held_bytes = stats.held_bytes,
					    .limit_bytes = sb->c.spec.limits.memory_bytes,
					    .pids = stats.pids,
					    .oom_kills = stats.oom_kills});
}

/* --- disks --- */

static void on_remove(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	struct keeper_sandbox *sb = keeper_sandbox_find(k, request->ref.id);
	struct container_spec spec = {0};
	bool is_removing = sb && sb->state == KEEPER_REMOVING;

	if (sb && !is_removing && sb->state != KEEPER_HAS_EXITED) {
		keeper_refuse(k, asker, ERR_CONFLICT, "sandbox \"%.*s\" is still there",
			      STR_ARGS(request->ref.id));
		return;
	}
	if (!sb) {
		memcpy(spec.id.text, request->ref.id.at, request->ref.id.len);
		sb = keeper_sandbox_new(k, &spec);
	}
	if (!sb || keeper_sandbox_wait(sb, asker) < 0) {
		keeper_refuse(k, asker, ERR_CAPACITY_EXCEEDED, "too many sandboxes");
		if (sb && sb->state == KEEPER_NEW)
			keeper_sandbox_free(sb);
		return;
	}
	if (!is_removing)
		keeper_disk_remove(sb);
}

static void on_check(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	const struct keeper_check *check = &request->check;
	struct container_spec spec = {
		.is_ephemeral = check->flags & KEEPER_START_EPHEMERAL,
		.limits = {.files = check->files,
			   .disk_bytes = check->disk_bytes,
			   .inodes = check->inodes},
	};
	struct err err;

	memcpy(spec.id.text, check->id.at, check->id.len);
	if (container_check(&spec, k->host, &err) < 0)
		keeper_answer_failed(k, asker, &err);
	else
		keeper_answer_done(k, asker);
}

static void on_usage(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	struct sandbox_id id = {0};

	memcpy(id.text, request->ref.id.at, request->ref.id.len);
	keeper_disk_usage(k, &id, asker);
}

/* --- images --- */

static void on_image(struct keeper *k, struct keeper_asker asker, const union request *request)
{
	struct err err;

	if (container_host_find_image(k->host, request->ref.id, &err) < 0)
		keeper_answer_failed(k, asker, &err);
	else
		keeper_answer_done(k, asker);
}

/* --- the table --- */

#define NO_ID UINT32_MAX

/* clang-format off */
static const struct {
	const struct frame_field *fields;
	uint32_t id_at; /* where the id is, which each handler may then take for valid */
	void (*handle)(struct keeper *k, struct keeper_asker asker, const union request *request);
} requests[] = {
	[KEEPER_HELLO]      = {keeper_hello_fields,     NO_ID,                                 on_hello},
	[KEEPER_START]      = {keeper_start_fields,     offsetof(struct keeper_start, id),     on_start},
	[KEEPER_KILL]       = {keeper_ref_fields,       offsetof(struct keeper_ref, id),       on_kill},
	[KEEPER_REMOVE]     = {keeper_ref_fields,       offsetof(struct keeper_ref, id),       on_remove},
	[KEEPER_FORGET]     = {keeper_ref_fields,       offsetof(struct keeper_ref, id),       on_forget},
	[KEEPER_GROUP_NEW]  = {keeper_ref_fields,       offsetof(struct keeper_ref, id),       on_group_new},
	[KEEPER_GROUP_END]  = {keeper_group_ref_fields, offsetof(struct keeper_group_ref, id), on_group_end},
	[KEEPER_STATS]      = {keeper_ref_fields,       offsetof(struct keeper_ref, id),       on_stats},
	[KEEPER_USAGE]      = {keeper_ref_fields,       offsetof(struct keeper_ref, id),       on_usage},
	[KEEPER_ADOPT]      = {keeper_ref_fields,       offsetof(struct keeper_ref, id),       on_adopt},
	[KEEPER_GROUP_OPEN] = {keeper_group_ref_fields, offsetof(struct keeper_group_ref, id), on_group_open},
	[KEEPER_FREEZE]     = {keeper_ref_fields,       offsetof(struct keeper_ref, id),       on_freeze},
	[KEEPER_THAW]       = {keeper_ref_fields,       offsetof(struct keeper_ref, id),       on_thaw},
	[KEEPER_LIMIT]      = {keeper_limit_fields,     offsetof(struct keeper_limit, id),     on_limit},
	[KEEPER_FREEZE_OTHERS] = {keeper_group_ref_fields, offsetof(struct keeper_group_ref, id), on_freeze_others},
	[KEEPER_IMAGE]      = {keeper_ref_fields,       NO_ID,                                 on_image},
	[KEEPER_CHECK]      = {keeper_check_fields,     offsetof(struct keeper_check, id),     on_check},
};
/* clang-format on */

bool keeper_id_is_valid(struct str id)
{
	return sandbox_id_is_valid(id) && !str_eq(id, STR("berthd"));
}

int keeper_on_frame(struct keeper_conn *conn, const struct frame_head *head, struct str bytes)
{
	struct keeper *k = container_of(conn, struct keeper, conn);
	struct keeper_asker asker = {conn->serial, head->tag};
	union request request;
	struct str id;
	int r;

	if (head->type >= array_len(requests) || !requests[head->type].handle) {
		keeper_refuse(k, asker, ERR_UNSUPPORTED, "this keeper knows no request of type %u",
			      head->type);
		return 0;
	}
	r = frame_decode(bytes, requests[head->type].fields, &request);
	if (r < 0)
		return r;
	/* HELLO first, and once. */
	if ((head->type == KEEPER_HELLO) == (k->is_greeted || k->hello_waits))
		return -EPROTO;
	if (requests[head->type].id_at != NO_ID) {
		memcpy(&id, (const char *)&request + requests[head->type].id_at, sizeof(id));
		if (!keeper_id_is_valid(id)) {
			keeper_refuse(k, asker, ERR_INVALID_REQUEST,
				      "that cannot be a sandbox's id");
			return 0;
		}
	}
	requests[head->type].handle(k, asker, &request);
	return 0;
}
