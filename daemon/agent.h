/*
 * berthd's line to the berth-init of one running sandbox. What comes over it was written inside the
 * sandbox and may be lies: numbers are looked up, never trusted, and a broken line ends the agent.
 */
#ifndef BERTH_DAEMON_AGENT_H
#define BERTH_DAEMON_AGENT_H

#include <stdbool.h>
#include <sys/types.h>

#include <uv.h>

#include "base/err.h"
#include "daemon/channel.h"
#include "proto/agent.h"

struct agent;

struct agent_event {
	enum agent_type type;
	uint64_t exec;
	uint32_t pid; /* STARTED, LIVE: inside */
	struct agent_refused refused;
	struct agent_exited exited;
	struct agent_ended ended;
	struct agent_ping pong;
	struct agent_usage usage;
	struct agent_connect_failed connect_failed;
	struct agent_listening listening; /* lent */
	struct channel_frame *frame;      /* fds: take_fd() what is kept */
};

struct agent_ops {
	/* Init has answered the handshake, and told of all execs that it knows. */
	void (*ready)(void *arg);
	/* Of execs and connections, PONG, USAGE_IS, QUIET and HEARTBEAT: decoded but not
	 * believed. LIVE, EXITED, LOST and SETTLED of what it knows come before `ready`. */
	void (*event)(void *arg, const struct agent_event *event);
	/* No handshake in time, a broken line, or nonsense. The last call. */
	void (*lost)(void *arg, const struct err *err);
};

struct agent_config {
	uv_loop_t *loop;
	const char *path; /* of its socket */
	pid_t pid;        /* of init: nobody else may answer */
	const struct agent_ops *ops;
	void *arg;
};

#define AGENT_HANDSHAKE_MS 10000

/* Connects as soon as init listens. */
struct agent *agent_new(const struct agent_config *config);
/* Nothing is called any more. */
void agent_free(struct agent *agent);

/* The highest serial of an exec that it was asked for before we came. */
uint32_t agent_serial_seen(const struct agent *agent);

/* What is to be spoken with it: AGENT_VERSION, or less with one of an older berthd. */
uint32_t agent_version(const struct agent *agent);

/* Nobody is at the other end any more; `lost` follows, or has come. */
bool agent_is_gone(const struct agent *agent);

/* 0, -EMSGSIZE, -ENOBUFS, -EPIPE. */
int agent_send(struct agent *agent, const struct channel_message *message);

#endif
