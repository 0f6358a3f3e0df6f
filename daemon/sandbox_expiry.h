/*
 * How long a sandbox sleeps before it is deleted, disk and all: its delete_after. Since when it
 * sleeps is stored by the wall's clock, so that restarts of berthd and of the host do not matter.
 *
 * It counts while the sandbox is cold, frozen or failed. Whatever needs the container ends that; a
 * change of its settings or alarms puts it off. One with an alarm that is yet to come stays.
 */
#ifndef BERTH_DAEMON_SANDBOX_EXPIRY_H
#define BERTH_DAEMON_SANDBOX_EXPIRY_H

#include "daemon/sandbox.h"
#include "proto/json.h"

/* It sleeps, and did so before if it is said again; stored, together with its last receipt. */
void sandbox_asleep(struct sandbox *sb);
/* Its stop has begun: stored, so that another berthd goes on with that. */
void sandbox_stopping(struct sandbox *sb);
/* Of a cold one: as far as is stored, its last life went on. */
bool sandbox_ended_unseen(const struct sandbox *sb);
/* It runs, and somebody needs it. */
void sandbox_awake(struct sandbox *sb);
/* If it sleeps: that begins anew. */
void sandbox_put_off(struct sandbox *sb);
/* The same, for who tells of it: `done` follows when it is stored, or could not be. False: it does
 * not, as there is nothing to wait for. */
bool sandbox_put_off_then(struct sandbox *sb, store_done_fn *done, void *arg);
/* Somebody needs it, whether they get it or not. */
void sandbox_needed(struct sandbox *sb);
/* The wall's clock was set forward by so much. */
void sandbox_clock_set(struct sandbox *sb, int64_t by_ms);
/* Its alarms are others, or over. */
void sandbox_expiry_arm(struct sandbox *sb);

/* `deletes_at`, into an object that the caller has opened. */
void sandbox_expiry_write(const struct sandbox *sb, struct json_writer *w);

/* For sandbox and registry. */
void sandbox_expiry_init(struct sandbox *sb);
void sandbox_expiry_load(struct sandbox *sb, const struct sleep_fact *fact);
/* The keeper has said what runs. */
void sandbox_expiry_begin(struct sandbox *sb);
void sandbox_expiry_close(struct sandbox *sb);

#endif
