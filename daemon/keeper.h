/*
 * berthd's line to berth-keeper. A broken line is made anew by itself; the keeper says again what
 * it knows. Calls wait meanwhile, and those whose answer was lost are asked again: every request
 * can be asked twice. A START that had succeeded is told as `running` before; whoever waits for it
 * cancels it then. Each call is answered exactly once; with ERR_UNAVAILABLE when the keeper stays
 * away for KEEPER_WAIT_MS, when it has ended KEEPER_TRIES times over the call, or when
 * KEEPER_CALLS_MAX others wait.
 */
#ifndef BERTH_DAEMON_KEEPER_H
#define BERTH_DAEMON_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "daemon/channel.h"
#include "proto/keeper.h"

#define KEEPER_WAIT_MS   10000
#define KEEPER_TRIES     5
#define KEEPER_CALLS_MAX 16384

struct keeper;

struct keeper_ops {
	/* At each new line, for each sandbox that runs; then ready(), when all were told. */
	void (*running)(void *arg, const struct keeper_running *running);
	void (*ready)(void *arg);
	/* Its init has ended and all is taken down. keeper_forget() it when the fact is stored. */
	void (*exited)(void *arg, const struct keeper_exited *exited);
	/* The line broke; `running` and `ready` come when there is another. */
	void (*broken)(void *arg);
	/* Nobody has answered for KEEPER_WAIT_MS since keeper_open(), not even once. */
	void (*absent)(void *arg);
};

/* Lent for the call; fds are closed after it unless taken. */
struct keeper_answer {
	int result; /* 0, or a negative errno and err */
	struct err err;
	struct keeper_started started;
	struct keeper_adopted adopted;
	struct keeper_group group;
	struct keeper_stats stats;
	struct keeper_usage usage;
	struct channel_frame *frame; /* its fds; NULL without a frame */
};

struct keeper_call {
	struct list link;
	void (*done)(struct keeper_call *call, struct keeper_answer *answer);
	/* The line's own. */
	uint32_t tag;
	uint16_t type;
	unsigned tries;
	uint64_t asked_at_ms;
	const char *refusal; /* why it is answered on the next turn; NULL: it waits */
	struct str frame;    /* as it is asked again; its bytes are malloc'd */
};

struct keeper_config {
	uv_loop_t *loop;
	const char *path; /* of the socket, for when the line breaks */
	int fd;           /* connected; owned from here on, also on failure */
	const struct keeper_ops *ops;
	void *arg;
};

int keeper_open(struct keeper **ret, const struct keeper_config *config);
/* Open calls are answered with ERR_UNAVAILABLE; then it is closed and freed on the loop. */
void keeper_close(struct keeper *keeper);

/* enum keeper_abilities; 0 until the first ready(). */
uint32_t keeper_abilities(const struct keeper *keeper);
/* 0 until then. */
struct keeper_defaults keeper_defaults(const struct keeper *keeper);
/* Whether it is there, and has told all it knows. */
bool keeper_is_ready(const struct keeper *keeper);
/* 0; -EIO: it has been away for so long that what is asked of it now fails at once. */
int keeper_check(const struct keeper *keeper, struct err *err);
/* Why absent() was called: nobody answers, or one that speaks another version. */
void keeper_say_absent(const struct keeper *keeper, struct err *ret);
const char *keeper_runtime(const struct keeper *keeper);
/* Opens a file of a group to be read; a negative errno. */
int keeper_group_read(const struct keeper *keeper, const char *id, uint32_t group,
		      const char *file);

void keeper_start(struct keeper *keeper, struct keeper_call *call,
		  const struct keeper_start *start);
/* KEEPER_KILL, _REMOVE, _ADOPT, _GROUP_NEW, _STATS, _USAGE or _IMAGE. */
void keeper_ask(struct keeper *keeper, struct keeper_call *call, enum keeper_type type,
		const struct keeper_ref *ref);
void keeper_group_end(struct keeper *keeper, struct keeper_call *call,
		      const struct keeper_group_ref *group);
/* ERR_NOT_FOUND: nothing is in it, so it was removed. */
void keeper_group_open(struct keeper *keeper, struct keeper_call *call,
		       const struct keeper_group_ref *group);
/* All but that group and init; the end of the line thaws it, too. */
void keeper_freeze_others(struct keeper *keeper, struct keeper_call *call,
			  const struct keeper_group_ref *group);
/* What a start would say to these; only where abilities have KEEPER_KNOWS_CHECK. */
void keeper_ask_check(struct keeper *keeper, struct keeper_call *call,
		      const struct keeper_check *check);
/* ERR_CONFLICT: it holds more than that. On failure all are as they were. */
void keeper_limit(struct keeper *keeper, struct keeper_call *call,
		  const struct keeper_limit *limit);
/* The answer will find nobody; fds that come with it are closed. */
void keeper_cancel(struct keeper *keeper, struct keeper_call *call);
void keeper_forget(struct keeper *keeper, const struct keeper_ref *ref);
/* As keeper_group_end(), for an empty group that is not needed; nobody waits for it. */
void keeper_group_drop(struct keeper *keeper, const struct keeper_group_ref *group);

#endif
