#include "daemon/registry.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/exec.h"
#include "daemon/store_sandbox.h"

#define BUCKETS 1024

struct registry {
	struct registry_config config;
	char run_dir[PATH_MAX - 32]; /* room for a name below it */
	struct keeper *keeper;
	struct idempotency *keys;
	struct list buckets[BUCKETS];
	uint64_t seed;
	size_t count;
	bool is_ready;
};

uv_loop_t *registry_loop(const struct registry *registry)
{
	return registry->config.loop;
}

struct store *registry_store(const struct registry *registry)
{
	return registry->config.store;
}

struct keeper *registry_keeper(const struct registry *registry)
{
	return registry->keeper;
}

const char *registry_run_dir(const struct registry *registry)
{
	return registry->run_dir;
}

struct idempotency *registry_keys(const struct registry *registry)
{
	return registry->keys;
}

size_t registry_count(const struct registry *registry)
{
	return registry->count;
}

int64_t registry_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- the table --- */

/* Seeded, so that nobody can choose IDs that share a bucket. */
static struct list *bucket_of(struct registry *r, const char *id)
{
	uint64_t hash = r->seed;

	for (; *id; id++)
		hash = (hash ^ (unsigned char)*id) * 0x9e3779b97f4a7c15u;
	return &r->buckets[(hash >> 32) % BUCKETS];
}

struct sandbox *registry_find(struct registry *registry, const struct sandbox_id *id)
{
	struct list *bucket = bucket_of(registry, id->text);

	list_for_each (node, bucket) {
		struct sandbox *sb = list_entry(node, struct sandbox, link);

		if (strcmp(sb->id.text, id->text) == 0)
			return sb;
	}
	return NULL;
}

struct sandbox *registry_add(struct registry *registry, const struct sandbox_id *id)
{
	struct sandbox *sb = sandbox_new(registry, id);

	if (!sb)
		return NULL;
	list_append(bucket_of(registry, id->text), &sb->link);
	registry->count++;
	return sb;
}

void registry_remove(struct registry *registry, struct sandbox *sb)
{
	list_remove(&sb->link);
	registry->count--;
	sandbox_free(sb);
}

struct sandbox *registry_next(struct registry *registry, const char *cursor)
{
	struct sandbox *next = NULL;

	for (size_t i = 0; i < BUCKETS; i++) {
		list_for_each (node, &registry->buckets[i]) {
			struct sandbox *sb = list_entry(node, struct sandbox, link);

			if (strcmp(sb->id.text, cursor) > 0 &&
			    (!next || strcmp(sb->id.text, next->id.text) < 0))
				next = sb;
		}
	}
	return next;
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

/* The keeper has said everything: what we believed to run and it did not name is gone. */
static void on_ready(void *arg)
{
	struct registry *r = arg;

	for (size_t i = 0; i < BUCKETS; i++) {
		list_for_each (node, &r->buckets[i]) {
			struct sandbox *sb = list_entry(node, struct sandbox, link);

			if (!sb->is_seen)
				sandbox_vanished(sb);
			sb->is_seen = false;
		}
	}
	if (!r->is_ready) {
		r->is_ready = true;
		r->config.ready(r->config.arg, NULL);
	}
}

static const struct keeper_ops keeper_ops = {on_running, on_ready, on_exited};

/* --- life --- */

static void on_fact(void *arg, const struct sandbox_fact *fact)
{
	struct registry *r = arg;
	struct arena arena;
	struct sandbox *sb;
	struct err err;

	sb = registry_add(r, &fact->id);
	if (!sb)
		return;
	sb->created_at_ms = fact->created_at_ms;
	sb->generation = fact->generation;
	arena_init(&arena, 4 * 1024 * 1024);
	if (settings_restore(&arena, fact->settings, &sb->settings, &err) < 0)
		log_error("sandbox=%s its stored settings cannot be read: %s", fact->id.text,
			  err.sentence);
	arena_close(&arena);
}

static void on_loaded(void *arg, int result, const struct err *err)
{
	struct registry *r = arg;
	char path[PATH_MAX];
	struct err failure = *err;

	if (result == 0) {
		snprintf(path, sizeof(path), "%s/keeper.sock", r->run_dir);
		result = keeper_open(&r->keeper, r->config.loop, path, &keeper_ops, r);
		if (result < 0)
			err_set(&failure, result, ERR_UNAVAILABLE,
				"no berth-keeper answers on %s: %s", path, strerror(-result));
	}
	if (result < 0)
		r->config.ready(r->config.arg, &failure);
}

int registry_new(struct registry **ret, const struct registry_config *config, struct err *err)
{
	struct registry *r = calloc(1, sizeof(*r));

	if (r)
		r->keys = idempotency_new();
	if (!r || !r->keys || getrandom(&r->seed, sizeof(r->seed), 0) != sizeof(r->seed)) {
		if (r)
			idempotency_free(r->keys);
		free(r);
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	}
	r->config = *config;
	snprintf(r->run_dir, sizeof(r->run_dir), "%s", config->run_dir);
	for (size_t i = 0; i < BUCKETS; i++)
		list_init(&r->buckets[i]);
	if (store_sandbox_load(config->store, on_fact, on_loaded, r) < 0) {
		idempotency_free(r->keys);
		free(r);
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	}
	*ret = r;
	return 0;
}

void registry_free(struct registry *registry)
{
	/* Also those that have ended: they watch what their commands left running. */
	for (size_t i = 0; i < BUCKETS; i++) {
		list_for_each (node, &registry->buckets[i])
			exec_lose_all(list_entry(node, struct sandbox, link), "berthd is stopping");
	}
	if (registry->keeper)
		keeper_close(registry->keeper);
	for (size_t i = 0; i < BUCKETS; i++) {
		list_for_each_safe (node, &registry->buckets[i])
			registry_remove(registry, list_entry(node, struct sandbox, link));
	}
	idempotency_free(registry->keys);
	free(registry);
}
