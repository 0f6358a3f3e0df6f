/*
 * What the handlers of file routes share: one request, from its path to a worker in a running
 * sandbox. It lives in the exchange's arena, so it is gone once the exchange has been answered.
 */
#ifndef BERTH_DAEMON_FILE_CALL_H
#define BERTH_DAEMON_FILE_CALL_H

#include "daemon/exchange.h"
#include "daemon/file_worker.h"
#include "daemon/sandbox.h"

/* The first member of each handler's own struct. */
struct file_call {
	struct exchange *x;
	struct sandbox *sb;
	struct sandbox_wait wait;
	struct file_request request;
	const char *const *query;          /* what its route takes, up to a NULL; NULL: nothing */
	const struct file_worker_ops *ops; /* called with the struct file_call */
	struct file_worker *worker;        /* NULL: not started, or ended */
	bool is_left;                      /* outlives its client */
	/* Instead of a worker that is asked at once: the sandbox runs. May be NULL. */
	void (*begin)(struct file_call *c);
	/* Frees what is not in the arena; before any answer of file_call_fail(). May be NULL. */
	void (*close)(struct file_call *c);
};

/* Zeroed, of `size` bytes. NULL: there was no memory, and that was answered. */
void *file_call_new(struct exchange *x, size_t size, enum file_op op,
		    const struct file_worker_ops *ops);

/* The path behind the sandbox's ID, absolute and decoded, becomes the request's. */
int file_call_take_path(struct file_call *c, struct err *err);
/* Any path: absolute, without NUL, as long as the kernel takes. `what` names it in the error. */
int file_call_check_path(struct str path, const char *what, struct err *err);

/* ?name, ?name=1, ?name=true; 0 and false are no. */
int file_call_is(struct file_call *c, const char *name, bool *ret, struct err *err);
int file_call_flag(struct file_call *c, const char *name, uint32_t flag, struct err *err);
/* ?mode=0644 */
int file_call_take_mode(struct file_call *c, struct err *err);
int file_call_parse_mode(struct str text, uint32_t *ret, struct err *err);

/* ?name=a,b: relative paths or patterns, as a frame list in the arena. */
int file_call_patterns(struct file_call *c, const char *name, struct str *ret, struct err *err);

/* Starts the sandbox if need be, then the worker; its ops come next, or a failure is answered. */
void file_call_start(struct file_call *c);

/* For `begin`: 1: its worker is there, and not asked yet; 0: it begins again; else it has failed.
 */
int file_call_hire(struct file_call *c);

/*
 * Of a body that flows: a client that is gone may only have sent all that it has, and wait. So the
 * call goes on, as long as its worker does.
 */
void file_call_outlive(struct file_call *c);

/* Drops the worker, and answers. Nothing of the call may be touched after it. */
void file_call_fail(struct file_call *c, const struct err *err);

/* Answers with what the file is, and its tag if it is a regular one. */
void file_call_reply_stat(struct file_call *c, int status, const struct file_result *result);

#endif
