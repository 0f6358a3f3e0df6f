/*
 * What the files of a context share: context.c has its life, context_kernel.c that of its kernels,
 * context_unread.c bounds what these say, context_call.c gives calls to them, context_reason.c
 * tells how those end. Nobody else looks inside.
 */
#ifndef BERTH_DAEMON_CONTEXT_STATE_H
#define BERTH_DAEMON_CONTEXT_STATE_H

#include "daemon/activity.h"
#include "daemon/context.h"

/*
 * STARTING: its kernel has not said that it is ready, or an adopted one is not done yet with what
 * an earlier berthd had given it. ENDING: we end its kernel, and its call waits for that.
 */
enum context_state {
	CONTEXT_ABSENT,
	CONTEXT_STARTING,
	CONTEXT_READY,
	CONTEXT_BUSY,
	CONTEXT_ENDING,
};

/* One kernel, until nothing of its tree is left. */
struct kernel {
	struct list link;        /* sandbox's kernels */
	struct context *context; /* NULL: that is gone */
	struct sandbox *sb;
	struct exec *exec;
	uint64_t generation, number;
	uint32_t pid;
	struct buf line; /* a report that is not complete yet */
	size_t unread;   /* what that counts for */
	uint64_t line_since_ms;
	char said[160];  /* on stderr before it was ready: why it is not */
	uint64_t marker; /* adopted: the call of ours that says that all others are done; else 0 */
	bool is_ready;   /* it has said so */
	bool is_stored;  /* a later berthd knows whose it is */
	bool is_asked;   /* adopted: it was interrupted */
	bool is_over;    /* what it says is dropped */
	bool is_taking;  /* what it reports is being read */
	uint64_t reported; /* bytes of that */
	bool is_cleared;   /* what it has left is being ended, before another may start */
	size_t said_len;
	char tail[17]; /* the last of its stderr */
	size_t tail_len;
	bool is_heap_full; /* as it has said there since its call began */
};

struct context {
	struct list link; /* sandbox's contexts */
	struct sandbox *sb;
	struct context_fact fact; /* its texts are `texts` */
	char *texts;
	enum kernel_language language;
	enum context_state state;
	struct kernel *kernel; /* the one for calls */
	bool is_fresh;         /* it had no call yet */
	uint64_t calls;

	/* The call that runs, when BUSY or ENDING. */
	struct context_call *call; /* NULL: its client is gone, or there is none */
	bool has_call;
	uint64_t number, began_ns;
	struct buf order; /* what is not yet written of it */
	bool is_feeding;
	bool is_unsent;         /* it is too long */
	bool is_deaf;           /* nobody reads its stdin */
	bool is_error, is_done; /* as its kernel says; then its output is waited for */
	unsigned crowd_looks;   /* then, after an interrupt: how often there were too many */
	enum kernel_done done;
	uint64_t done_ns;
	bool is_timed_out, is_interrupted; /* the latter: somebody asked for it */
	unsigned signals;                  /* that were sent to it */
	bool is_signal_due;                /* ... when its sandbox is awake */
	unsigned looks_left;               /* ... when what it had reported before is read */
	bool is_paused, is_dropping;
	uint64_t reported_before; /* by its kernel, when it was paused */
	/* Why its kernel is being ended by us. */
	bool has_why;
	enum context_reason why;
	char why_text[240];
	enum err_code why_code; /* of one that could not even be asked for */

	bool is_spent; /* see context_spent() */
	struct context_end spent;

	bool is_barred; /* a signal may still be on its way to its kernel: no call begins */
	struct list queue;
	unsigned queue_len;
	struct list warms; /* who waits until it is ready */
	uv_timer_t timer;  /* of the start, then the time-out, then the grace of an interrupt */
	struct hold hold;
	bool is_quiet, is_stored, is_leaving, is_forgetting, is_dead, is_timer_closed;
	unsigned waits; /* for the store and for init: its memory stays until these are over */
	context_done_fn *deleted;
	void *deleted_arg;
};

/* --- context.c --- */

/* Whatever can go on goes on. It may be dead after it. */
void context_step(struct context *c);
/* With its kernel; kernel_stored() follows. Negative: it cannot be. */
int context_save(struct context *c);
/* Of its one timer. */
void context_on_timer(uv_timer_t *timer);
/* Tells who waits for it that it is ready, or why it cannot be. */
void context_tell_warm(struct context *c, const struct err *err);
/* Whoever waits in it is told. */
void context_fail_start(struct context *c, const struct context_end *end);
void context_fail_queue(struct context *c, const struct context_end *end);
/* Nobody was told of it, and nobody waits in it. */
void context_discard(struct context *c);
/* One of its kernels is gone. */
void context_check_leaving(struct context *c);
void context_release(struct context *c);

/* --- context_kernel.c --- */

void kernel_start(struct context *c);
/* One that an earlier berthd has started. */
void kernel_adopt(struct context *c);
/* It is there: what an earlier berthd had it do is waited for, or interrupted. */
void kernel_recover(struct kernel *k);
void kernel_free(struct kernel *k);
/* Its time is over: that of its start, or of what an earlier berthd had it do. */
void kernel_late(struct context *c);
/* That it is stored, or is not. */
void kernel_stored(struct context *c, int result, const struct err *err);
/* Ends it with its tree; what it says is dropped, and the call that runs ends with that. */
void kernel_end(struct context *c, enum context_reason why, const char *text);
void kernel_interrupt(struct kernel *k);
/* Of those it has, or had, the next behind `node` on sandbox's list. */
struct kernel *kernel_after(const struct context *c, struct list *node);

/* --- context_unread.c --- */

/* What it says is for the call that runs. */
bool kernel_is_heard(const struct kernel *k);
/* More of its line. -EMSGSIZE, -ENOMEM: not all of it is there. */
int kernel_keep_line(struct kernel *k, struct str bytes);
/* What it has of it: the caller's. */
struct buf kernel_take_line(struct kernel *k);
void kernel_drop_line(struct kernel *k);
/*
 * Whose line has to be dropped, as all together hold more than they may, now that `k` has more of
 * its own. NULL: none.
 */
struct kernel *kernel_find_greedy(const struct kernel *k);

/* --- context_call.c --- */

/* The first in the queue. */
void context_call_begin(struct context *c);
void context_call_output(struct context *c, bool is_stderr, struct str bytes);
/* Negative: it makes no sense now. */
int context_call_report(struct context *c, const struct kernel_report *report);
void context_call_drained(struct context *c);
/* Its time is over, or that which an interrupt may take. */
void context_call_late(struct context *c);
/* Its stdin has room. */
void context_call_feed(struct context *c);
/* Its sandbox is awake: what was to be signalled is. */
void context_call_signal(struct context *c);
/* What it means that a kernel has ended so. */
void context_end_of(const struct exec_end *end, struct context_end *ret);
/* Before that: whether it gets another kernel, and if not, how this one ended. */
void context_spend(struct context *c, const struct exec_end *end);
/* The call that runs, if one does, ended with its kernel. */
void context_call_lost(struct context *c, const struct exec_end *end);
void context_call_end(struct context *c, struct context_end *end);
/* After a signal that may come late: no call begins before init has sent it. */
void context_bar(struct context *c);

#endif
