/*
 * A background process: a kept exec, the journal of its output, and its durable record. It belongs
 * to its sandbox, and is kept when it has ended, also while the sandbox sleeps.
 *
 *	starting ──runs, and that is stored──> running ──nothing of its tree is left──> ending
 *	    │                                                                             │
 *	    └── could not be started: gone                    ended <──that is stored─────┘
 *
 * What is said of it was stored before. A berthd that comes later adopts what runs, by the record;
 * init tells it again of all ends whose record is not yet stored.
 */
#ifndef BERTH_DAEMON_PROCESS_H
#define BERTH_DAEMON_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "daemon/exec.h"
#include "daemon/journal.h"
#include "daemon/sandbox.h"
#include "daemon/store_process.h"
#include "proto/exec_request.h"
#include "proto/json.h"

#define PROCESS_ENDED_MAX     256                /* that are kept of a sandbox, the last */
#define PROCESS_AUTOSTART_MAX 64                 /* of a sandbox, besides those */
#define TERMINAL_OUTPUT_BYTES (1024 * 1024)      /* kept of a terminal */
#define PROCESS_OUTPUT_BYTES  (32 * 1024 * 1024) /* kept of each, unless the settings say else */

enum process_state { PROCESS_STARTING, PROCESS_RUNNING, PROCESS_ENDING, PROCESS_ENDED };

struct process;

/*
 * Somebody who waits: for it to run, or to have ended. Called once, on the loop; with `err` if that
 * will not be, or nobody will hear of it any more.
 */
struct process_wait {
	struct list link;
	void (*done)(struct process_wait *wait, struct process *p, const struct err *err);
};

/* Read by handlers; written by process*.c alone, but for what is a terminal's. */
struct process {
	struct list link;   /* sandbox's processes, as they were started */
	struct sandbox *sb; /* NULL: it is nobody's any more, but for those that hold it */
	struct sandbox_id id;
	enum process_state state;
	unsigned holders;

	uint64_t generation, number;
	uint32_t pid;
	int64_t started_at_ms, ended_at_ms;
	uint64_t timeout_ms;
	bool is_autostart, is_adopted, is_revived;
	bool is_terminal;
	bool has_exited;     /* its main process, as main_end says; what it left still runs */
	bool is_exit_stored; /* of a terminal: so that it can be told, before the rest has ended */
	struct exec_end main_end;
	struct list viewers; /* of a terminal, see daemon/terminal.h */
	bool is_throttled, is_input_full;
	bool is_over;       /* its end is stored, so that it can be told */
	struct str spec;    /* of one that is started again; else empty */
	struct str command; /* frame list, cut; and its directory: for those who look */
	char *cwd;
	struct exec_end end;
	uint64_t log_start, log_end; /* when it has ended */

	struct exec *exec;       /* NULL: not there yet, or not any more */
	struct journal *journal; /* while it runs, or is read */
	unsigned readers;
	unsigned saves;    /* of its end, under way */
	bool is_proof_due; /* its sandbox is stopped, so that nothing is left of it for sure */
	bool is_stdin_ended;
	void (*on_room)(void *arg); /* whoever writes to its stdin */
	void *writer;
	struct list starts, ends; /* who waits */
	uv_timer_t grace;
	bool has_grace;
};

struct process *process_find(struct sandbox *sb, const struct sandbox_id *id);

/* The sandbox runs. 0: `wait` is called; then the process is there, or `err` says why not. */
int process_start(struct sandbox *sb, const struct process_request *request,
		  struct process_wait *wait, struct process **ret, struct err *err);
/* 1: it runs, or has; 0: `wait` is called when it does, or cannot be started. */
int process_wait_start(struct process *p, struct process_wait *wait);
/* 1: it has ended; 0: `wait` is called when it has. */
int process_wait_end(struct process *p, struct process_wait *wait);
void process_cancel(struct process_wait *wait);

/* Ends it for sure; and it is not started again. process_wait_end() tells when. */
void process_end(struct process *p, uint64_t grace_ms);
void process_signal(struct process *p, int signal);
/* It has ended, but what it started may live on, and cannot be found: process_end() stops the
 * sandbox then. */
bool process_is_tree_lost(const struct process *p);

/* As long as somebody holds it, its memory is there. */
void process_hold(struct process *p);
void process_release(struct process *p);

/* Its journal, held open until process_read_end(). */
struct journal *process_read(struct process *p, struct err *err);
void process_read_end(struct process *p);

/* The fields of its status, into an object that the caller has opened. */
void process_write(const struct process *p, struct json_writer *w);
/* The part that says how it ended, as in an `exit` event too; nothing while it runs. */
void process_write_end(const struct process *p, struct json_writer *w);

/* For sandbox and registry. */
void process_load(struct sandbox *sb, const struct process_fact *fact);
/* The sandbox is being adopted: those of its generation. */
void process_adopt_all(struct sandbox *sb);
/* The keeper has said what runs, and this sandbox is not: what ran in it is lost. */
void process_lose_all(struct sandbox *sb);
/* Whether one with `autostart` was lost so, or is about to be: nobody asked for its end. */
bool process_autostart_ran(const struct sandbox *sb);
/* It started within the last `limit_ms`, and what may listen in it is started by itself. */
bool process_is_coming_up(const struct sandbox *sb, int64_t limit_ms);
/* The end of one of them is not stored yet. */
bool process_is_ending(const struct sandbox *sb);
/* The sandbox runs: those that did not come up in this life of it yet. */
void process_autostart_all(struct sandbox *sb);
void process_free_all(struct sandbox *sb);

#endif
