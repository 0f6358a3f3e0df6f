/*
 * All sandboxes, by ID, and what they share: the loop, the store, the line to the keeper. Owns
 * every struct sandbox. Adopts what runs when berthd comes back.
 */
#ifndef BERTH_DAEMON_REGISTRY_H
#define BERTH_DAEMON_REGISTRY_H

#include <stdbool.h>

#include <uv.h>

#include "base/err.h"
#include "daemon/capacity.h"
#include "daemon/idempotency.h"
#include "daemon/keeper.h"
#include "daemon/port.h"
#include "daemon/sandbox.h"
#include "daemon/store.h"

struct allowance;
struct counts;
struct events;
struct logs;
struct config;
struct registry;
struct survey;
struct vigil;
struct wallclock;

struct registry_config {
	uv_loop_t *loop;
	struct store *store;
	const char *run_dir;
	struct logs *logs;
	struct capacity_limits limits;
	const struct config *daemon; /* may change at SIGHUP */
	bool autostart;              /* sandboxes that ran when the machine went down */
	unsigned init_timeout_ms;    /* how long an init may be silent that is waited for */
	struct ports_config ports;
	int keeper_fd; /* connected to <run>/keeper.sock; owned once registry_new() succeeds */
	/* The facts are loaded and the keeper has said what runs; or err says why not. Once. */
	void (*ready)(void *arg, const struct err *err);
	void *arg;
	/* Or NULL. It runs since before us: now is the time to exec_adopt() its kept execs. Init
	 * then says what became of them, and the sandbox is running when all were told. */
	void (*adopting)(void *arg, struct sandbox *sb);
};

/* Loads the facts, greets the keeper, adopts. `ready` follows on the loop. */
int registry_new(struct registry **ret, const struct registry_config *config, struct err *err);
/* Nothing is stored any more, so nothing is started. Then the store may be closed. */
void registry_stop(struct registry *registry);
bool registry_is_stopping(const struct registry *registry);
/* The keeper has said what runs. */
bool registry_is_ready(const struct registry *registry);
/* Sandboxes run on; who waits is told that we end. */
void registry_free(struct registry *registry);

struct sandbox *registry_find(struct registry *registry, const struct sandbox_id *id);
/* A cold one that is not stored yet. NULL without memory, or if one of that ID is there. */
struct sandbox *registry_add(struct registry *registry, const struct sandbox_id *id);
/* The same for whoever asks for one: ERR_CAPACITY_EXCEEDED where there are enough, ERR_CONFLICT. */
int registry_make(struct registry *registry, const struct sandbox_id *id, struct sandbox **ret,
		  struct err *err);
/* It is found no more; the sandbox is the caller's to free. */
void registry_unlink(struct registry *registry, struct sandbox *sb);

/* In order of their IDs, after `cursor` ("" for the first). NULL at the end. */
struct sandbox *registry_next(struct registry *registry, const char *cursor);
size_t registry_count(const struct registry *registry);

uv_loop_t *registry_loop(const struct registry *registry);
struct store *registry_store(const struct registry *registry);
struct wallclock *registry_clock(const struct registry *registry);
struct logs *registry_logs(const struct registry *registry);
struct events *registry_events(const struct registry *registry);
struct keeper *registry_keeper(const struct registry *registry);
const struct config *registry_daemon(const struct registry *registry);
const char *registry_run_dir(const struct registry *registry);
struct capacity *registry_capacity(const struct registry *registry);
struct idempotency *registry_keys(const struct registry *registry);
struct allowance *registry_allowance(const struct registry *registry);
struct vigil *registry_vigil(const struct registry *registry);
struct survey *registry_survey(const struct registry *registry);
struct counts *registry_counts(struct registry *registry);
struct ports *registry_ports(const struct registry *registry);
int64_t registry_now_ms(void);
/* For the sandbox. */
void registry_adopting(struct registry *registry, struct sandbox *sb);

#endif
