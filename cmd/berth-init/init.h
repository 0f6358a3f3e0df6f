/*
 * PID 1 of a sandbox: one loop that starts execs for berthd, reaps everything, and tells how each
 * ended until that is acknowledged. It waits for nothing but its next event.
 *
 *	loop.c       epoll, signals, children, supervisors
 *	requests.c   what berthd asks
 *	notices.c    what berthd is told
 *	session.c    shells that run commands one by one
 *	usage.c      what all of it has used
 *	heartbeat.c  how those inside say that they are busy
 *	ports.c      connections to those inside, for berthd
 */
#ifndef BERTH_INIT_INIT_H
#define BERTH_INIT_INIT_H

#include "cmd/berth-init/args.h"
#include "cmd/berth-init/channel.h"
#include "cmd/berth-init/execs.h"
#include "cmd/berth-init/heartbeat.h"
#include "cmd/berth-init/launch.h"

/* An answer that needs no exec. While it waits to be sent no request is read, so one is enough. */
struct answer {
	uint16_t type; /* 0: none */
	uint32_t tag;
	const struct frame_field *fields;
	union {
		struct agent_welcome welcome;
		struct agent_refused refused;
		struct agent_ended ended;
		struct agent_ping pong;
		struct agent_usage usage;
		struct agent_connect_failed connect_failed;
		struct agent_listening listening;
	} value;
	bool has_fd; /* that goes along, and is closed then */
	int fd;
};

enum output_state {
	OUTPUT_OPEN,
	OUTPUT_FULL,  /* until the socket is writable */
	OUTPUT_LATER, /* until the loop's next tick */
};

struct init {
	int epoll_fd, signal_fd;
	bool is_stopping, has_children;
	bool is_ending; /* all have had their SIGTERM: many take a second one for a harder word */
	unsigned quiets_due; /* by the peer that is connected now: once nothing runs any more */
	bool is_deaf; /* no descriptor was left for who wants to come in: not before listen_ms */
	uint64_t next_tick_ms, listen_ms;
	enum output_state output;
	uint32_t watched; /* epoll's events for the connection */
	uint32_t serial;  /* the highest of an exec that was asked for */
	struct answer answer;
	char ports[AGENT_PORTS_MAX * 2]; /* of the answer */
	struct channel channel;
	struct args args;
	struct launch launch;
	struct execs execs;
	struct heartbeat heartbeat;
	struct launcher launcher;
};

/* The parts that main() has filled: channel, launcher, execs, heartbeat. Returns when all children
 * have ended after a SIGTERM from outside, or with a negative errno. */
int loop_run(struct init *init);
void loop_drop_connection(struct init *init);
/* The answer was sent, or nobody will read it. */
void loop_drop_answer(struct init *init);
/* Asks all but init to end. */
void loop_terminate(struct init *init);
int loop_watch_supervisor(struct init *init, struct exec *exec);
int loop_watch_session(struct init *init, struct exec *exec);
/* Hands on its cols and rows, now or as soon as its supervisor takes them. */
void loop_resize(struct init *init, struct exec *exec);

/* Does what the message asks and takes its fds. Negative: no peer of ours would have sent it. */
int request_handle(struct init *init, struct message *message);

/* Sends what can be sent. */
void notices_flush(struct init *init);

#endif
