/*
 * Contexts of a sandbox: each a live interpreter (a kernel, see images/kernels) to which pieces of
 * code are given one by one, in the order in which they came. It is a kept exec: it outlives
 * berthd, and ends with its container; the next call then gets a fresh one, and is told so.
 *
 *	absent ──a call waits──> starting ──"ready"──> ready <──> busy
 *	   ^                        │                    │         │ timeout, client gone
 *	   │                        │                    │     interrupting ──"done"──> ready
 *	   │                        │                    │         │
 *	   └── its kernel ended, or makes no sense, or does not heed the interrupt
 *
 * Orders go to its stdin, reports come by a pipe of their own (EXEC_REPORTS), what the code prints
 * by the two that every exec has. What it says belongs to the call that runs; what is printed
 * between two calls is dropped.
 */
#ifndef BERTH_DAEMON_CONTEXT_H
#define BERTH_DAEMON_CONTEXT_H

#include "daemon/exec.h"
#include "daemon/sandbox.h"
#include "daemon/store_context.h"
#include "proto/kernel.h"

#define CONTEXTS_MAX      32 /* of a sandbox */
#define CONTEXT_QUEUE_MAX 64 /* calls that wait in one */

#define CONTEXT_HEAP_FULL                                                                          \
	"the heap of JavaScript is full: it may hold a part of limits.memory, or of the machine's"

struct context;
struct context_call;

enum context_reason {
	CONTEXT_COMPLETED, /* also with an error of the code's: `is_error` */
	CONTEXT_INTERRUPTED,
	CONTEXT_TIMEOUT,
	CONTEXT_OOM, /* by SIGKILL; else it is the code's own word: CONTEXT_HEAP_FULL */
	CONTEXT_CPU_LIMIT,
	CONTEXT_VIOLATION,   /* a system call that is forbidden here; see daemon/trust.h */
	CONTEXT_EXITED,      /* the code ended its kernel: exit_code or signal */
	CONTEXT_BAD_REPORT,  /* the code made its kernel say what makes no sense */
	CONTEXT_KILLED,      /* the context or the sandbox was deleted or stopped meanwhile */
	CONTEXT_NOT_STARTED, /* no kernel could be started: `message` says why */
	CONTEXT_LOST,
};

/* "completed", "interrupted", ... */
const char *context_reason_name(enum context_reason reason);

struct context_end {
	enum context_reason reason;
	bool is_error;    /* of COMPLETED */
	bool is_fresh;    /* the first call of its kernel: what earlier calls left is not there */
	bool is_replaced; /* its kernel is gone: the next call gets a fresh one */
	int exit_code, signal;
	enum err_code code; /* of one that never began: why; ERR_NONE: it may be sent again */
	uint64_t duration_ms;
	char message[256]; /* "", or a sentence */
};

struct context_call_ops {
	/* Its turn has come, and its order is on its way. */
	void (*began)(struct context_call *call);
	void (*output)(struct context_call *call, bool is_stderr, struct str bytes);
	/* Not of READY and DONE. Lent for the call. */
	void (*report)(struct context_call *call, const struct kernel_report *report);
	/* The one end, also of one that never began. The call is its owner's again. */
	void (*ended)(struct context_call *call, const struct context_end *end);
};

/* Belongs to its owner, as all texts of the order do, until `ended`. */
struct context_call {
	const struct context_call_ops *ops;
	struct kernel_order order; /* but for .call, .language: context.c sets these */
	uint64_t timeout_ms;       /* from `began`; 0: none */

	/* context.c's. */
	struct list link;
	struct context *context; /* NULL: it is in none */
	uint64_t began_ns;
	bool is_timed_out, is_abandoned;
};

struct context_settings {
	struct str id; /* "": one of ours is made */
	enum kernel_language language;
	struct str cwd;  /* "": /workspace */
	struct str env;  /* a frame list */
	struct str user; /* "": the usual */
	bool is_default; /* of its language */
	bool is_quiet;   /* of a run: not listed, not stored; it stays until it is deleted */
};

struct context_view {
	struct str id;
	enum kernel_language language;
	struct str cwd, user; /* the latter "": its sandbox's */
	const char *state;    /* absent starting ready busy */
	bool is_default;
	unsigned waiting;
	int64_t created_at_ms;
	uint64_t calls;
	uint32_t pid; /* inside; 0: it does not run */
	bool is_listed;
};

struct context *context_find(struct sandbox *sb, struct str id);
/* The one that is_quiet, of a run or its pool; or NULL. */
struct context *context_quiet(struct sandbox *sb, enum kernel_language language);
/* The default one of the language: made if there is none. */
struct context *context_default(struct sandbox *sb, enum kernel_language language, struct err *err);
/*
 * ERR_CONFLICT. Its kernel starts with its first call, or context_warm(); if that cannot be
 * started and nobody has been told of it yet, it is gone again.
 */
struct context *context_new(struct sandbox *sb, const struct context_settings *settings,
			    struct err *err);
struct context *context_next(struct sandbox *sb, struct context *context);
struct context_view context_view(const struct context *context);
/*
 * Of one that is_quiet: how the kernel ended that has had its calls, also if that was between two
 * of them. It gets no other, for nothing of the code would be in there. NULL: it did not end.
 */
const struct context_end *context_spent(const struct context *context);
/* Of all that runs in it, in bytes; negative: that cannot be known. */
int64_t context_memory(const struct context *context);

/* The sandbox runs. 0: `ended` will come, after this has returned; `began` may before that. */
int context_enter(struct context *context, struct context_call *call, struct err *err);
/* Interrupts the call that runs, or takes one out that waits: `ended` comes all the same. */
void context_interrupt(struct context_call *call);
/* The same for whichever call runs; false: none does. */
bool context_interrupt_running(struct context *context);
/* The client is gone: nothing of it is called any more; what it runs is interrupted. */
void context_abandon(struct context_call *call);
/* Backpressure of whoever takes the output. */
void context_pause(struct context_call *call);
void context_resume(struct context_call *call);

/* Starts its kernel before the first call; `done` when it is ready for one, or cannot be. */
typedef void context_done_fn(void *arg, const struct err *err);
int context_warm(struct context *context, context_done_fn *done, void *arg, struct err *err);
/* Ends it with its kernel and all that was started there, and forgets it; then `done`. */
int context_delete(struct context *context, context_done_fn *done, void *arg, struct err *err);

/* For the registry and the sandbox: as session.h's. */
void context_init_all(struct sandbox *sb);
void context_restore(struct sandbox *sb, const struct context_fact *fact);
void context_adopt_all(struct sandbox *sb);
void context_adopted_all(struct sandbox *sb);
void context_step_all(struct sandbox *sb);
/* why: as exec_lose_all()'s. */
void context_lose_all(struct sandbox *sb, const struct err *why);
void context_free_all(struct sandbox *sb);

#endif
