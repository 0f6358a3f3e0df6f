#include "daemon/registry.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/alarm.h"
#include "daemon/context.h"
#include "daemon/counts.h"
#include "daemon/events.h"
#include "daemon/autostart.h"
#include "daemon/exec.h"
#include "daemon/port.h"
#include "daemon/process.h"
#include "daemon/sandbox_expiry.h"
#include "daemon/sandbox_still.h"
#include "daemon/session.h"
#include "daemon/store_alarm.h"
#include "daemon/store_process.h"
#include "daemon/store_sandbox.h"
#include "daemon/survey.h"
#include "daemon/vigil.h"
#include "daemon/wallclock.h"

struct registry {
	struct registry_config config;
	char run_dir[PATH_MAX - 32]; /* room for a name below it */
	struct keeper *keeper;
	struct idempotency *keys;
	struct capacity *capacity;
	struct events *events;
	struct vigil *vigil;
	struct allowance *allowance;
	struct survey *survey;
	struct counts counts;
	struct ports *ports;
	struct wallclock *clock;
	struct autostart *autostart; /* NULL: that is not wanted */
	struct sandbox **sorted;     /* by ID */
	size_t count, room;
	unsigned parts_loaded; /* of what is stored beside the sandboxes */
	bool is_ready, is_stopping;
	bool is_incomplete; /* there was no memory for one that is stored */
};

uv_loop_t *registry_loop(const struct registry *registry)
{
	return registry->config.loop;
}

struct store *registry_store(const struct registry *registry)
{
	return registry->config.store;
}

struct wallclock *registry_clock(const struct registry *registry)
{
	return registry->clock;
}

struct logs *registry_logs(const struct registry *registry)
{
	return registry->config.logs;
}

struct events *registry_events(const struct registry *registry)
{
	return registry->events;
}

const struct config *registry_daemon(const struct registry *registry)
{
	return registry->config.daemon;
}

struct keeper *registry_keeper(const struct registry *registry)
{
	return registry->keeper;
}

const char *registry_run_dir(const struct registry *registry)
{
	return registry->run_dir;
}

struct capacity *registry_capacity(const struct registry *registry)
{
	return registry->capacity;
}

struct idempotency *registry_keys(const struct registry *registry)
{
	return registry->keys;
}

struct allowance *registry_allowance(const struct registry *registry)
{
	return registry->allowance;
}

struct vigil *registry_vigil(const struct registry *registry)
{
	return registry->vigil;
}

struct survey *registry_survey(const struct registry *registry)
{
	return registry->survey;
}

struct counts *registry_counts(struct registry *registry)
{
	return &registry->counts;
}

struct ports *registry_ports(const struct registry *registry)
{
	return registry->ports;
}

size_t registry_count(const struct registry *registry)
{
	return registry->count;
}

void registry_adopting(struct registry *registry, struct sandbox *sb)
{
	process_adopt_all(sb);
	session_adopt_all(sb);
	context_adopt_all(sb);
	if (registry->config.adopting)
		registry->config.adopting(registry->config.arg, sb);
}

int64_t registry_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- the table --- */

/* Where `id` is, or would be. */
static size_t place_of(const struct registry *r, const char *id)
{
	size_t low = 0, high = r->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(r->sorted[middle]->id.text, id) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_at(const struct registry *r, size_t place, const char *id)
{
	return place < r->count && strcmp(r->sorted[place]->id.text, id) == 0;
}

struct sandbox *registry_find(struct registry *registry, const struct sandbox_id *id)
{
	size_t place = place_of(registry, id->text);

	return is_at(registry, place, id->text) ? registry->sorted[place] : NULL;
}

static int make_room(struct registry *r)
{
	size_t room = r->room ? 2 * r->room : 64;
	struct sandbox **larger;

	if (r->count < r->room)
		return 0;
	larger = reallocarray(r->sorted, room, sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	r->sorted = larger;
	r->room = room;
	return 0;
}

struct sandbox *registry_add(struct registry *registry, const struct sandbox_id *id)
{
	size_t place = place_of(registry, id->text);
	struct sandbox *sb = NULL;

	if (!is_at(registry, place, id->text) && make_room(registry) == 0)
		sb = sandbox_new(registry, id);
	if (!sb)
		return NULL;
	memmove(registry->sorted + place + 1, registry->sorted + place,
		(registry->count - place) * sizeof(struct sandbox *));
	registry->sorted[place] = sb;
	registry->count++;
	return sb;
}

int registry_make(struct registry *registry, const struct sandbox_id *id, struct sandbox **ret,
		  struct err *err)
{
	int r = capacity_check_new(registry->capacity, err);

	if (r == 0 && registry_find(registry, id))
		r = err_set(err, -EEXIST, ERR_CONFLICT, "a sandbox \"%s\" is there", id->text);
	if (r < 0)
		return r;
	*ret = registry_add(registry, id);
	return *ret ? 0 : err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
}

void registry_unlink(struct registry *registry, struct sandbox *sb)
{
	size_t place = place_of(registry, sb->id.text);

	assert(place < registry->count && registry->sorted[place] == sb);
	registry->count--;
	memmove(registry->sorted + place, registry->sorted + place + 1,
		(registry->count - place) * sizeof(struct sandbox *));
}

struct sandbox *registry_next(struct registry *registry, const char *cursor)
{
	size_t place = place_of(registry, cursor);

	place += is_at(registry, place, cursor);
	return place < registry->count ? registry->sorted[place] : NULL;
}

/* --- the keeper's news --- */

static struct sandbox *find_str(struct registry *r, struct str text)
{
	struct sandbox_id id;

	return sandbox_id_parse(text, &id) < 0 ? NULL : registry_find(r, &id);
}

static void forget(struct registry *r, const struct keeper_exited *exited)
{
	keeper_forget(r->keeper, &(struct keeper_ref){exited->id, exited->generation});
}

struct stray {
	struct keeper_call call;
};

static void on_stray_killed(struct keeper_call *call, struct keeper_answer *answer)
{
	free(container_of(call, struct stray, call));
}

/* A container without a fact: its sandbox was deleted, or its database is another one. */
static void kill_stray(struct registry *r, const struct keeper_running *running)
{
	struct stray *stray = calloc(1, sizeof(*stray));

	log_warn("sandbox=%.*s runs but nobody knows it: it is ended", STR_ARGS(running->id));
	if (!stray)
		return;
	stray->call.done = on_stray_killed;
	keeper_ask(r->keeper, &stray->call, KEEPER_KILL,
		   &(struct keeper_ref){running->id, running->generation});
}

static void on_running(void *arg, const struct keeper_running *running)
{
	struct registry *r = arg;
	struct sandbox *sb = find_str(r, running->id);

	if (!sb || sb->generation != running->generation)
		kill_stray(r, running);
	else
		sandbox_adopt(sb, running);
}

static void on_exited(void *arg, const struct keeper_exited *exited)
{
	struct registry *r = arg;
	struct sandbox *sb = find_str(r, exited->id);

	if (sb && sb->generation == exited->generation)
		sandbox_exited(sb, exited);
	forget(r, exited);
}

/* What was due while no berthd was there is due now. */
static void begin_timers(struct registry *r)
{
	for (size_t i = 0; i < r->count; i++) {
		sandbox_expiry_begin(r->sorted[i]);
		alarm_begin_all(r->sorted[i]);
	}
}

/* The keeper has said everything: what we believed to run and it did not name is gone. */
static void on_ready(void *arg)
{
	struct registry *r = arg;
	struct sandbox_id at = {""};
	struct sandbox *sb;

	/* By their names: whoever is told of the end may add others. */
	while ((sb = registry_next(r, at.text))) {
		at = sb->id;
		if (sb->is_seen)
			sb->is_seen = false;
		else
			sandbox_vanished(sb);
		if (sb->state != SANDBOX_COLD)
			continue;
		if (!r->is_ready)
			sb->is_start_due = process_autostart_ran(sb);
		process_lose_all(sb);
	}
	if (!r->is_ready) {
		r->is_ready = true;
		r->config.ready(r->config.arg, NULL);
		begin_timers(r);
		if (r->config.autostart)
			r->autostart = autostart_new(r);
	}
}

static void on_absent(void *arg)
{
	struct registry *r = arg;
	struct err err;

	keeper_say_absent(r->keeper, &err);
	r->config.ready(r->config.arg, &err);
}

static void on_broken(void *arg)
{
	struct registry *r = arg;

	for (size_t i = 0; i < r->count; i++)
		sandbox_still_spoil(r->sorted[i], "berth-keeper has gone");
}

static const struct keeper_ops keeper_ops = {on_running, on_ready, on_exited, on_broken, on_absent};

/* --- life --- */

static void on_fact(void *arg, const struct sandbox_fact *fact)
{
	struct registry *r = arg;
	struct arena arena;
	struct sandbox *sb;
	struct err err;

	sb = registry_add(r, &fact->id);
	if (!sb) {
		r->is_incomplete = true;
		return;
	}
	sb->created_at_ms = fact->created_at_ms;
	sb->generation = fact->generation;
	sb->last_failure = fact->failure;
	sb->has_disk = fact->has_disk;
	vigil_load(sb, &fact->oom);
	arena_init(&arena, 4 * 1024 * 1024);
	sb->is_stored = true;
	if (settings_restore(&arena, fact->settings, &sb->settings, &err) < 0) {
		log_error("sandbox=%s its stored settings cannot be read: %s", fact->id.text,
			  err.sentence);
		sb->is_unreadable = true;
		err_set(&sb->last_failure.err, -EBADMSG, ERR_START_FAILED,
			"its stored settings cannot be read (%s): PUT new ones, or delete it",
			err.sentence);
		sb->last_failure.at_ms = registry_now_ms();
	}
	arena_close(&arena);
	sb->is_ephemeral = sb->settings.is_ephemeral;
	sandbox_expiry_load(sb, &fact->sleep);
}

static void on_process(void *arg, const struct process_fact *fact)
{
	struct sandbox *sb = registry_find(arg, &fact->sandbox);

	if (sb)
		process_load(sb, fact);
}

static void on_session(void *arg, const struct session_fact *fact)
{
	struct sandbox *sb = registry_find(arg, &fact->sandbox);

	if (sb)
		session_restore(sb, fact);
}

static void on_context(void *arg, const struct context_fact *fact)
{
	struct sandbox *sb = registry_find(arg, &fact->sandbox);

	if (sb)
		context_restore(sb, fact);
}

static void on_alarm(void *arg, const struct alarm_fact *fact)
{
	struct sandbox *sb = registry_find(arg, &fact->sandbox);

	if (sb)
		alarm_load(sb, fact);
}

static void on_port(void *arg, enum port_row row, const struct port_fact *fact)
{
	struct registry *r = arg;

	ports_load(r->ports, registry_find(r, &fact->sandbox), row, fact);
}

static void on_ports_loaded(void *arg, int result, const struct err *err)
{
	struct registry *r = arg;
	char path[PATH_MAX];
	struct err failure = *err;

	if (result == 0)
		result = events_check(r->events, &failure);
	if (result == 0) {
		snprintf(path, sizeof(path), "%s/keeper.sock", r->run_dir);
		result = keeper_open(&r->keeper,
				     &(struct keeper_config){r->config.loop, path,
							     take_fd(&r->config.keeper_fd),
							     &keeper_ops, r});
		if (result < 0)
			err_set(&failure, result, ERR_INTERNAL,
				"the line to berth-keeper cannot be watched: %s",
				strerror(-result));
	}
	if (result < 0)
		r->config.ready(r->config.arg, &failure);
}

static store_done_fn on_part_loaded;

static int load_part(struct registry *r, unsigned part)
{
	switch (part) {
	case 0:
		return store_process_load(r->config.store, on_process, on_part_loaded, r);
	case 1:
		return store_session_load(r->config.store, on_session, on_part_loaded, r);
	case 2:
		return store_context_load(r->config.store, on_context, on_part_loaded, r);
	case 3:
		return store_alarm_load(r->config.store, on_alarm, on_part_loaded, r);
	case 4:
		return idempotency_load(r->keys, on_part_loaded, r);
	default:
		return store_port_load(r->config.store, on_port, on_ports_loaded, r);
	}
}

/* One after the other. */
static void on_part_loaded(void *arg, int result, const struct err *err)
{
	struct registry *r = arg;
	struct err failure = *err;

	if (result == 0) {
		result = load_part(r, r->parts_loaded++);
		if (result < 0)
			err_set(&failure, result, ERR_INTERNAL, "out of memory");
	}
	if (result < 0)
		r->config.ready(r->config.arg, &failure);
}

static void on_loaded(void *arg, int result, const struct err *err)
{
	struct registry *r = arg;
	struct err failure = *err;

	if (result == 0 && r->is_incomplete)
		result = err_set(&failure, -ENOMEM, ERR_INTERNAL,
				 "out of memory: not all sandboxes can be loaded");
	on_part_loaded(r, result, &failure);
}

static void on_clock_set(void *arg, int64_t by_ms)
{
	const struct registry *r = arg;

	for (size_t i = 0; i < r->count; i++)
		sandbox_clock_set(r->sorted[i], by_ms);
}

int registry_new(struct registry **ret, const struct registry_config *config, struct err *err)
{
	struct registry *r = calloc(1, sizeof(*r));
	int result = -ENOMEM;

	if (r)
		r->keys = idempotency_new(config->store);
	if (r && r->keys)
		r->events = events_new(config->loop, config->store);
	if (!r || !r->events)
		goto failed;
	r->config = *config;
	r->capacity = capacity_new(r, &config->limits);
	if (!r->capacity)
		goto failed;
	snprintf(r->run_dir, sizeof(r->run_dir), "%s", config->run_dir);
	r->vigil = vigil_new(r, config->init_timeout_ms);
	r->survey = survey_new(r);
	r->allowance = allowance_new(r);
	if (r->vigil && r->survey && r->allowance)
		r->ports = ports_new(&config->ports);
	if (!r->ports)
		goto failed;
	result = wallclock_new(&r->clock, config->loop, on_clock_set, r);
	if (result < 0)
		goto failed;
	result = store_sandbox_load(config->store, on_fact, on_loaded, r);
	if (result < 0)
		goto failed;
	events_load(r->events);
	*ret = r;
	return 0;

failed:
	if (r && r->ports)
		ports_free(r->ports);
	if (r && r->survey)
		survey_free(r->survey);
	if (r && r->allowance)
		allowance_free(r->allowance);
	if (r && r->vigil)
		vigil_free(r->vigil);
	if (r && r->clock)
		wallclock_free(r->clock);
	if (r && r->capacity)
		capacity_free(r->capacity);
	if (r && r->events)
		events_free(r->events);
	if (r && r->keys)
		idempotency_free(r->keys);
	free(r);
	return err_set(err, result, ERR_INTERNAL, "the sandboxes cannot be looked after: %s",
		       strerror(-result));
}

void registry_stop(struct registry *registry)
{
	registry->is_stopping = true;
	capacity_stop(registry->capacity);
}

bool registry_is_ready(const struct registry *registry)
{
	return registry->is_ready;
}

bool registry_is_stopping(const struct registry *registry)
{
	return registry->is_stopping;
}

void registry_free(struct registry *registry)
{
	events_free(registry->events); /* nothing is told any more */
	/* Also those that have ended: they watch what their commands left running. */
	for (size_t i = 0; i < registry->count; i++)
		exec_leave_all(registry->sorted[i]);
	if (registry->autostart)
		autostart_free(registry->autostart);
	if (registry->keeper)
		keeper_close(registry->keeper);
	while (registry->count)
		sandbox_free(registry->sorted[--registry->count]);
	wallclock_free(registry->clock);
	idempotency_free(registry->keys);
	capacity_free(registry->capacity);
	vigil_free(registry->vigil);
	allowance_free(registry->allowance);
	survey_free(registry->survey);
	ports_free(registry->ports);
	free(registry->sorted);
	close_fdp(&registry->config.keeper_fd);
	free(registry);
}
