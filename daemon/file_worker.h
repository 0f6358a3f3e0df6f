/*
 * berthd's side of a file worker (proto/file.h): an exec of init's own program that does one
 * request inside the sandbox. What it says is checked here, frame by frame, against what the
 * request lets it say; nonsense is an error like any other.
 *
 *	new ──> begun (read, write, pack, unpack) ──> go, or data and end ──> bytes, entries ──>
 *ended └───────────────── entries (list), or nothing (the others) ─────────────────────> ended
 *
 * `ended` is the operation's end, called once, unless the worker was dropped before; after either
 * the worker must not be touched. Its process may live a little longer: that is seen to here.
 */
#ifndef BERTH_DAEMON_FILE_WORKER_H
#define BERTH_DAEMON_FILE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "daemon/exec.h"
#include "daemon/sandbox.h"
#include "proto/file.h"

struct file_worker;

/* Those that an operation does not lead to may be NULL. Everything is lent for the call. */
struct file_worker_ops {
	/* Read: now file_worker_go(), or drop it. Write: now the data. Pack: entries follow.
	 * Unpack: now the entries. */
	void (*begun)(void *arg, const struct file_result *result);
	void (*entry)(void *arg, const struct file_entry *entry);
	/* Pack: so much data or nothing follows, of the last entry. */
	void (*data)(void *arg, uint64_t size, bool is_hole);
	void (*bytes)(void *arg, struct str bytes);
	/* Read: may take up to `max` bytes out of the pipe instead, and says how many. */
	size_t (*move)(void *arg, int fd, size_t max);
	/* Write, unpack: what was sent has left room for more. */
	void (*room)(void *arg);
	/* `result` is the last one, NULL after a read; `err` is NULL if all went well. */
	void (*ended)(void *arg, const struct file_result *result, const struct err *err);
};

/*
 * The sandbox runs; `request` and what it points to are lent until the end. NULL and `err` if it
 * cannot even be asked for.
 */
struct file_worker *file_worker_new(struct sandbox *sb, const struct file_request *request,
				    const struct file_worker_ops *ops, void *arg, struct err *err);

/* The same in two steps: it does nothing before it is asked. */
struct file_worker *file_worker_hire(struct sandbox *sb, const struct file_request *request,
				     const struct file_worker_ops *ops, void *arg, struct err *err);
void file_worker_ask(struct file_worker *w);
const struct exec *file_worker_exec(const struct file_worker *w);

/* Why a worker ended before it should. `is_cut`: while it sent a file. */
void file_worker_explain(const struct exec_end *end, bool is_cut, struct err *err);

/* Backpressure: no more but for what was read already. */
void file_worker_pause(struct file_worker *w);
void file_worker_resume(struct file_worker *w);

/* Read: this much of it; within the size that it told, and 1 byte or more. */
void file_worker_go(struct file_worker *w, uint64_t offset, uint64_t length);

/* Write and unpack. True: that is enough for now, wait for `room`. */
bool file_worker_entry(struct file_worker *w, const struct file_entry *entry);
bool file_worker_hole(struct file_worker *w, uint64_t size);
/* `size` bytes follow, in as many pieces as you like. */
bool file_worker_data(struct file_worker *w, uint64_t size);
bool file_worker_bytes(struct file_worker *w, struct str bytes);
/* That was all, and it is meant: what was written takes its place. */
void file_worker_end(struct file_worker *w);

/* Perhaps nobody waits any more: from now on one that does nothing for a while is ended, and fails.
 */
void file_worker_watch(struct file_worker *w);

/*
 * Nobody wants its answer: nothing is called any more. One that only reads is ended with its tree;
 * one that waits sees the end of its input, undoes what it did and exits; one that is changing
 * things brings that to its end, or is ended after a while.
 */
void file_worker_drop(struct file_worker *w);

#endif
