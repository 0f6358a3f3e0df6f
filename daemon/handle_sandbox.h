/* What the handlers of sandbox routes share. */
#ifndef BERTH_DAEMON_HANDLE_SANDBOX_H
#define BERTH_DAEMON_HANDLE_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "daemon/exchange.h"
#include "daemon/sandbox.h"
#include "proto/exec_request.h"

/*
 * The sandbox that the path names. With `is_made`, one that does not exist yet is made with the
 * default settings; else ERR_NOT_FOUND. An If-Generation header that does not fit is
 * ERR_SANDBOX_RESTARTED.
 */
int handle_find(struct exchange *x, bool is_made, struct sandbox **ret, struct err *err);

/* One for a client: ERR_CONFLICT for an ID that only a run can have. As registry_make(). */
int handle_make(struct registry *registry, const struct sandbox_id *id, struct sandbox **ret,
		struct err *err);

/* ERR_CONFLICT for one that belongs to a run: what others do in it would be in the run's result. */
int handle_check_free(const struct sandbox *sb, struct err *err);

/* The ID that the path names, folded. */
int handle_path_id(struct exchange *x, struct sandbox_id *ret, struct err *err);

/* The port that the path names behind it. */
int handle_port_number(struct exchange *x, uint16_t *ret, struct err *err);

/* The Idempotency-Key, empty without one; -EINVAL if it is too long. */
int handle_key(struct exchange *x, struct str *ret, struct err *err);

/* One that nobody has. */
int handle_make_id(struct sandbox_id *ret);

/* ERR_SANDBOX_RESTARTED when an If-Generation header names another one. */
int handle_check_generation(struct exchange *x, const struct sandbox *sb, struct err *err);

void handle_write_sandbox(struct json_writer *w, const struct sandbox *sb);
void handle_reply_sandbox(struct exchange *x, int status, const struct sandbox *sb);

/* What `write` says of the sandbox that the path names, which is not started for it. */
void handle_show(struct exchange *x, void (*write)(struct json_writer *w, struct sandbox *sb));

/* As sandbox_use_again(), unless the request is meant for one generation. */
bool handle_again(struct exchange *x, struct sandbox *sb, struct sandbox_wait *wait);

/* Adds the Berth-Generation header. */
void handle_generation(struct exchange *x, const struct sandbox *sb);

/* Puts the base environment and the sandbox's own in front of the request's. */
int handle_env(struct arena *arena, const struct sandbox *sb, struct exec_request *request,
	       struct err *err);

#endif
