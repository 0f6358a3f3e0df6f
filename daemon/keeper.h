/*
 * berthd's line to berth-keeper. Calls are answered exactly once, also when the line breaks: then
 * with ERR_UNAVAILABLE. A broken line is made anew by itself; the keeper says again what it knows.
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

struct keeper;

struct keeper_ops {
	/* At each new line, for each sandbox that runs; then ready(), when all were told. */
	void (*running)(void *arg, const struct keeper_running *running);
	void (*ready)(void *arg);
	/* Its init has ended and all is taken down. keeper_forget() it when the fact is stored. */
	void (*exited)(void *arg, const struct keeper_exited *exited);
};

/* Lent for the call; fds are closed after it unless taken. */
struct keeper_answer {
	int result; /* 0, or a negative errno and err */
	struct err err;
	struct keeper_started started;
	struct keeper_group group;
	struct keeper_stats stats;
	struct keeper_usage usage;
	struct channel_frame *frame; /* its fds; NULL without a frame */
};

struct keeper_call {
	struct list link;
	uint32_t tag;
	void (*done)(struct keeper_call *call, struct keeper_answer *answer);
};

/* Connects now; -errno and a sentence if no keeper answers at the path. */
int keeper_open(struct keeper **ret, uv_loop_t *loop, const char *path,
		const struct keeper_ops *ops, void *arg);
/* Open calls are answered with ERR_UNAVAILABLE; then it is closed and freed on the loop. */
void keeper_close(struct keeper *keeper);

/* enum keeper_abilities; 0 until the first ready(). */
uint32_t keeper_abilities(const struct keeper *keeper);
const char *keeper_runtime(const struct keeper *keeper);

void keeper_start(struct keeper *keeper, struct keeper_call *call,
		  const struct keeper_start *start);
/* KEEPER_KILL, KEEPER_REMOVE, KEEPER_GROUP_NEW, KEEPER_STATS or KEEPER_USAGE. */
void keeper_ask(struct keeper *keeper, struct keeper_call *call, enum keeper_type type,
		const struct keeper_ref *ref);
void keeper_group_end(struct keeper *keeper, struct keeper_call *call,
		      const struct keeper_group_ref *group);
/* The answer will find nobody; fds that come with it are closed. */
void keeper_cancel(struct keeper *keeper, struct keeper_call *call);
void keeper_forget(struct keeper *keeper, const struct keeper_ref *ref);

#endif
