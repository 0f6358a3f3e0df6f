/*
 * What the checks of `berth selftest` share. Each tries something through the ordinary API, in
 * sandboxes that are made for it and removed at its end, and says how that ended:
 *
 *	selftest.c ──> checks ──> selftest_kernel.c, _files.c, _exec.c, _reach.c
 *	                              │ selftest_exec(), selftest_ask(): one request each
 *	                              v
 *	                          selftest_box.c ──HTTP──> berthd ──> berth-probe in a sandbox
 *
 * A function of a check returns 0 when it came to a judgement, which is in the outcome, or a
 * negative errno when it did not; then the haul says why. -EINTR ends it all.
 */
#ifndef BERTH_CMD_SELFTEST_H
#define BERTH_CMD_SELFTEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/buf.h"
#include "cmd/berth/haul.h"
#include "cmd/berth/upgrade.h"

#define SELFTEST_PROBE    "/workspace/berth-probe"
#define SELFTEST_WAIT_MS  120000 /* what takes longer than this hangs, also on a busy machine */
#define SELFTEST_PAUSE_MS 50

/* The program that the sandboxes get: its bytes are part of `berth`. */
extern const struct str selftest_probe_file;

enum verdict {
	VERDICT_OK,
	VERDICT_HOLE,
	VERDICT_UNTRIED, /* this host has nothing to try it on */
	VERDICT_FAILED,  /* it should have been possible */
};

struct outcome {
	enum verdict verdict;
	size_t holes;
	char sentence[512]; /* about the first hole, if there is one */
	char note[128];     /* what should be known though it held; "": nothing */
};

__attribute__((format(printf, 2, 3))) void outcome_ok(struct outcome *o, const char *format, ...);
__attribute__((format(printf, 2, 3))) void outcome_hole(struct outcome *o, const char *format, ...);
/* Unless there is a hole already. */
__attribute__((format(printf, 2, 3))) void outcome_untried(struct outcome *o, const char *format,
							   ...);

/* The sandboxes, each made when it is first needed. The last two have limits. */
enum box { BOX_FIRST, BOX_SECOND, BOX_PIDS, BOX_MEMORY, BOX_COUNT };

struct selftest_box {
	char id[64];
	bool is_made; /* it is to be removed */
	bool is_ready;
};

struct selftest {
	struct haul haul;
	const char *image; /* NULL: the default */
	char word[33];    /* random: in the sandboxes' names, and in command lines to be found by */
	char outside[80]; /* a directory of this host's with a canary; "": not made yet */
	bool is_rootless;
	struct selftest_box boxes[BOX_COUNT];
	struct arena arena; /* of one check */
};

struct check {
	const char *number; /* in SECURITY-CHECKS.md */
	const char *title;
	int (*run)(struct selftest *t, struct outcome *ret);
};

/* --- selftest_box.c --- */

/* Sends a request to a path below the sandbox's own, with the haul's `body` if there is one. Status
 * and answer are the haul's: -EREMOTEIO for one that tells of a failure. */
int selftest_ask(struct selftest *t, enum box box, const char *method, const char *suffix);
/* The same to any path; `timeout_ms`: then -ETIMEDOUT. */
int selftest_send(struct selftest *t, const char *method, const char *path, unsigned timeout_ms);
/* Bytes as a body. */
int selftest_upload(struct selftest *t, enum box box, const char *method, const char *suffix,
		    struct str bytes);
/* Did that fail because there was no proper answer? What was refused is an answer. */
bool selftest_is_lost(int r);
struct str selftest_answer(const struct selftest *t);

/* Is there, runs, and has the probe. -EOPNOTSUPP: this host cannot hold it to its limits. */
int selftest_make(struct selftest *t, enum box box);
/* All that were made, also after Ctrl-C. False: one of them could not be, which was said. */
bool selftest_remove_all(struct selftest *t);

struct selftest_exec {
	const char *user, *cwd;           /* NULL: the default */
	const char *env_name, *env_value; /* NULL: none */
	const char *input;                /* NULL: none */
	const char *name;                 /* of a background process */
	unsigned timeout_ms;              /* 0: none */
	struct str out, reason;           /* how it went; in the arena */
	int64_t code;
};

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Appends the request's JSON to `out`. */
int selftest_exec_body(const char *const *argv, const struct selftest_exec *exec, struct buf *out);
/* Runs a program to its end. */
int selftest_exec(struct selftest *t, enum box box, const char *const *argv,
		  struct selftest_exec *exec);
/* Runs the probe as somebody (NULL: root), and adds the holes that it found to the outcome. */
int selftest_probe(struct selftest *t, enum box box, const char *user, const char *const *words,
		   struct outcome *ret);
/* The same of what it has said. */
int selftest_judge(struct selftest *t, struct str said, struct outcome *ret);

/* Waits a moment before it is looked again: 1; 0 when it was too long. -EINTR. */
struct selftest_patience {
	unsigned left_ms;
};
int selftest_pause(struct selftest *t, struct selftest_patience *patience);

/* Starts the probe in the background, until it has said `line`. */
int selftest_start(struct selftest *t, enum box box, const char *name, const char *const *words,
		   const char *line);
int selftest_await(struct selftest *t, enum box box, const char *name);
int selftest_end(struct selftest *t, enum box box, const char *name);
/* A file of the sandbox, in the arena. */
int selftest_read(struct selftest *t, enum box box, const char *name, struct str *ret);

/* --- selftest_host.c --- */

/* Whose command line on this host holds the word; 0: nobody's that we can see. */
pid_t selftest_find(const char *word);
/* A directory in which anybody may write, with a file `canary`. */
int selftest_make_outside(struct selftest *t);
/* Is it as it was made? Else the outcome says what was done to it. */
bool selftest_is_outside_same(struct selftest *t, const char *what, struct outcome *ret);
bool selftest_has_canary(const struct selftest *t, struct str text);
void selftest_remove_outside(struct selftest *t);

/* --- selftest_raw.c: connections on which anything can be said --- */

int selftest_connect(struct selftest *t, struct upgrade *ret);
int selftest_say(struct selftest *t, struct upgrade *u, struct str bytes);
/* Waits until `word` was said, or for the end: 1 if it was, 0 if not. -ETIMEDOUT. */
int selftest_hear(struct selftest *t, struct upgrade *u, const char *word, struct buf *ret);
/* Begins an exec of the probe as a stream of events. */
int selftest_begin(struct selftest *t, enum box box, const char *const *words, struct upgrade *ret);

/* --- the checks --- */

int verify_exe(struct selftest *t, struct outcome *ret);
int verify_fds(struct selftest *t, struct outcome *ret);
int verify_inherited(struct selftest *t, struct outcome *ret);
int verify_surfaces(struct selftest *t, struct outcome *ret);
int verify_writes(struct selftest *t, struct outcome *ret);
int verify_privileges(struct selftest *t, struct outcome *ret);
int verify_ids(struct selftest *t, struct outcome *ret);
int verify_calls(struct selftest *t, struct outcome *ret);
int verify_namespaces(struct selftest *t, struct outcome *ret);
int verify_devices(struct selftest *t, struct outcome *ret);
int verify_sockets(struct selftest *t, struct outcome *ret);

int verify_paths(struct selftest *t, struct outcome *ret);
int verify_archives(struct selftest *t, struct outcome *ret);
int verify_special(struct selftest *t, struct outcome *ret);

int verify_ends(struct selftest *t, struct outcome *ret);
int verify_output(struct selftest *t, struct outcome *ret);
int verify_bomb(struct selftest *t, struct outcome *ret);
int verify_identity(struct selftest *t, struct outcome *ret);
int verify_tty(struct selftest *t, struct outcome *ret);
int verify_memory(struct selftest *t, struct outcome *ret);

int verify_network(struct selftest *t, struct outcome *ret);
int verify_routes(struct selftest *t, struct outcome *ret);
int verify_access(struct selftest *t, struct outcome *ret);
int verify_malformed(struct selftest *t, struct outcome *ret);
int verify_names(struct selftest *t, struct outcome *ret);

#endif
