/*
 * The agent channel: berthd on one side, berth-init (PID 1 of a sandbox) on the other. Everything
 * that init says is hostile to berthd; what berthd says, init still checks.
 *
 *	berthd                              init
 *	HELLO            ──────────>
 *	                 <──────────        WELCOME, then LIVE, EXITED, LOST, SETTLED of each exec
 *	EXEC (+ fds)     ──────────>
 *	                 <──────────        STARTED (+ fds) or REFUSED, same tag
 *	                 <──────────        EXITED or LOST, until FORGET
 *	FORGET           ──────────>
 *	SIGNAL, END      ──────────>
 *	                 <──────────        ENDED, same tag
 *	PING             ──────────>
 *	                 <──────────        PONG, same tag
 *	USAGE            ──────────>
 *	                 <──────────        USAGE_IS, same tag
 *	TERMINATE        ──────────>        (SIGTERM to everything but init, terminals are hung up)
 *	                 <──────────        QUIET when nothing but init is left
 *	                 <──────────        HEARTBEAT, at most one a second
 *	CONNECT          ──────────>        (from version 2 on)
 *	                 <──────────        CONNECTED (+ fd) or CONNECT_FAILED, same tag
 *	LISTENING        ──────────>        (from version 2 on)
 *	                 <──────────        LISTENING_IS, same tag
 *
 * Each frame bears a version in which it is known, and none is newer than what WELCOME says: so a
 * berthd can go on with sandboxes of an older one, whose init does not know all of it, or of a
 * newer one.
 *
 * An exec's number is berthd's choice and unique within a generation. Init keeps what is known of
 * an exec until FORGET, also while nobody is connected; a new connection replaces the old one.
 */
#ifndef BERTH_PROTO_AGENT_H
#define BERTH_PROTO_AGENT_H

#include <stdint.h>

#include "base/str.h"
#include "proto/frame.h"

#define AGENT_VERSION 3 /* the newest; what is not said to be newer is of FRAME_VERSION */

#define AGENT_ARGS_MAX   (2 * 1024 * 1024) /* argv and env together; past a frame in a memfd */
#define AGENT_EXECS_MAX  4096              /* that init keeps track of */
#define AGENT_KEPT_MAX   1024              /* of them, AGENT_EXEC_KEPT; fewer with few files */
#define AGENT_CWD_MAX    4096
#define AGENT_USER_MAX   256
#define AGENT_CELLS_MAX  65535
#define AGENT_STRING_MAX 131072          /* one of them with its NUL, as the kernel has it */
#define AGENT_SESSION    "berth-session" /* argv[0] of a session; the others: shells to try */
#define AGENT_PORTS_MAX  64              /* that are told of those that somebody listens on */

enum agent_type {
	AGENT_HELLO = 1,
	AGENT_EXEC,
	AGENT_FORGET,
	AGENT_SIGNAL,
	AGENT_END,
	AGENT_PING,
	AGENT_RESIZE,
	AGENT_STDIN_END, /* an exec_ref: a kept exec's stdin gets no more, init drops its end of it
			  */
	AGENT_USAGE,     /* no fields */
	AGENT_TERMINATE, /* no fields */
	AGENT_CONNECT,   /* version 2 */
	AGENT_LISTENING, /* version 2; no fields */

	AGENT_WELCOME = 64,
	AGENT_LIVE,
	AGENT_STARTED,
	AGENT_REFUSED,
	AGENT_EXITED,
	AGENT_ENDED,
	AGENT_PONG,
	/* An exec_ref: it may have ended, and its status cannot be known any more. Of a kept exec
	 * that has EXITED: whether anything of its tree is left cannot be known any more. */
	AGENT_LOST,
	AGENT_SETTLED, /* an exec_ref: kept and supervised, and nothing of its tree is left */
	AGENT_USAGE_IS,
	AGENT_QUIET,     /* no fields */
	AGENT_HEARTBEAT, /* no fields */
	AGENT_CONNECTED, /* no fields; the socket comes along, and may still be on its way */
	AGENT_CONNECT_FAILED,
	AGENT_LISTENING_IS,
};

struct agent_hello {
	uint32_t version; /* the newest that berthd speaks */
};

/* The part of an exec's number that grows from one to the next. */
#define AGENT_SERIAL_MAX UINT32_C(0x03ffffff)

static inline uint32_t agent_serial(uint64_t exec)
{
	return (uint32_t)(exec >> 32) & AGENT_SERIAL_MAX;
}

struct agent_welcome {
	uint32_t version; /* the one to be spoken */
	uint32_t known;   /* LIVE, EXITED, LOST and SETTLED frames that follow at once */
	uint32_t serial;  /* the highest of all that were asked for, also if they are not told */
};

enum agent_exec_flags {
	AGENT_EXEC_STDIN = 1,      /* make a pipe for it; else it is /dev/null */
	AGENT_EXEC_ARGS_IN_FD = 2, /* argv and env stand in a sealed memfd, argv_size bytes first */
	AGENT_EXEC_IN_CGROUP = 4,  /* clone into the cgroup directory that comes along */
	AGENT_EXEC_SUPERVISED = 8, /* without cgroups: under a supervisor that can end its tree */
	AGENT_EXEC_WORKER = 16,    /* the program is init's own file worker, see proto/file.h */
	AGENT_EXEC_KEPT = 32,      /* init keeps its streams, too, until FORGET; see LIVE */
	AGENT_EXEC_TERMINAL = 64,  /* on a pty: its input and output are the only streams */
	AGENT_EXEC_SESSION = 128,  /* a shell that runs commands one by one; it has no streams */
	AGENT_EXEC_COMMAND = 256,  /* argv's one string is run by the shell of `session` */
	AGENT_EXEC_REPORTS = 512,  /* version 3: kept, and with a third output, its descriptor 3 */
};

/* File descriptors: the cgroup's directory, then the memfd, each if its flag is set. */
struct agent_exec {
	uint64_t exec;
	uint32_t flags;
	uint32_t argv_size; /* AGENT_EXEC_ARGS_IN_FD */
	struct str argv;    /* frame lists; empty with AGENT_EXEC_ARGS_IN_FD */
	struct str env;
	struct str cwd;   /* absolute, inside */
	struct str user;  /* "name", "uid", "uid:gid" or "": the sandbox's own user */
	uint64_t session; /* AGENT_EXEC_COMMAND: the exec number of the shell */
	uint32_t cols,
		rows; /* AGENT_EXEC_TERMINAL; each at most AGENT_CELLS_MAX, 0 for the usual */
};

/* File descriptors: stdin's writing end if there is one, then the reading ends of stdout, stderr
 * and reports. */
struct agent_started {
	uint64_t exec;
	uint32_t pid; /* inside; of a command: its session's */
};

enum agent_stage {
	AGENT_STAGE_REQUEST,   /* nothing of the kind: bad number, too many, bad list */
	AGENT_STAGE_RESOURCES, /* pipes, fork, cgroup */
	AGENT_STAGE_USER,      /* no such user, or its ids cannot be taken on */
	AGENT_STAGE_CWD,
	AGENT_STAGE_PROGRAM, /* execve: ENOENT is 127, anything else 126 */
	AGENT_STAGE_COUNT,
};

struct agent_refused {
	uint64_t exec;
	uint32_t stage;
	uint32_t error; /* errno */
};

/*
 * An exec that still runs when berthd connects. A kept exec is told so as long as it is not
 * forgotten, also when EXITED or LOST and SETTLED follow, and its descriptors come along as with
 * STARTED, but for stdin's after STDIN_END: what its streams hold is not lost.
 */
struct agent_live {
	uint64_t exec;
	uint32_t pid;
};

struct agent_exited {
	uint64_t exec;
	uint32_t status; /* as wait() gives it */
	uint64_t user_us, system_us;
	uint64_t max_rss_bytes;
};

struct agent_exec_ref {
	uint64_t exec;
};

struct agent_signal {
	uint64_t exec;
	/* To the main process; of kept execs to all of the tree that can be found, but of those
	 * with reports to their process group. Unknown execs and ended ones are passed over. */
	uint32_t signal;
};

/* Kills everything that the exec started (supervised execs; with cgroups the keeper does it). */
struct agent_end {
	uint64_t exec;
};

struct agent_ended {
	uint64_t exec;
	uint32_t is_proven; /* 1: nothing of it is left; 0: could not be proven in time */
};

struct agent_resize {
	uint64_t exec; /* a terminal's */
	uint32_t cols, rows;
};

struct agent_ping {
	uint64_t nonce;
};

/* Of all processes of the sandbox, also those that have ended. */
struct agent_usage {
	uint64_t cpu_us;
};

/* To 127.0.0.1, and if nobody listens there to ::1. */
struct agent_connect {
	uint32_t port;
};

struct agent_connect_failed {
	uint32_t error; /* errno */
};

/* Those that can be reached so: in order, each once, two bytes each, little-endian. */
struct agent_listening {
	struct str ports;
};

extern const struct frame_field agent_hello_fields[], agent_welcome_fields[], agent_exec_fields[],
	agent_started_fields[], agent_refused_fields[], agent_live_fields[], agent_exited_fields[],
	agent_exec_ref_fields[], agent_signal_fields[], agent_end_fields[], agent_ended_fields[],
	agent_resize_fields[], agent_ping_fields[], agent_usage_fields[], agent_empty_fields[],
	agent_connect_fields[], agent_connect_failed_fields[], agent_listening_fields[];

#endif
