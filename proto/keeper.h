/*
 * The keeper channel: berthd asks, berth-keeper does. berthd has no privileges and may have gone
 * bad; the keeper can be asked only for what stands here, and checks every field again.
 *
 *	berthd                              keeper
 *	HELLO            ──────────>
 *	                 <──────────        WELCOME, then one RUNNING or EXITED per sandbox it knows
 *	START            ──────────>
 *	                 <──────────        STARTED (+ exec group fds) or FAILED, same tag
 *	                 <──────────        EXITED when its init has ended and all is taken down
 *	FORGET           ──────────>        (until then it is told again)
 *	ADOPT            ──────────>
 *	                 <──────────        ADOPTED (+ counter and usage fds) or FAILED, same tag
 *	LIMIT, FREEZE, FREEZE_OTHERS, THAW, KILL, REMOVE, STATS, USAGE, IMAGE, CHECK
 *	GROUP_NEW, GROUP_OPEN, GROUP_END
 *	                 ──────────>
 *	                 <──────────        DONE, FAILED, GROUP, STATS_ARE, USAGE_IS, same tag
 *
 * One berthd at a time; a new connection replaces the old one. Requests are answered in any order.
 */
#ifndef BERTH_PROTO_KEEPER_H
#define BERTH_PROTO_KEEPER_H

#include <stdint.h>

#include "base/str.h"
#include "proto/frame.h"
#include "proto/mounts.h"

#define KEEPER_VERSION      2
#define KEEPER_ID_MAX       63
#define KEEPER_IMAGE_MAX    63
#define KEEPER_SENTENCE_MAX 511
#define KEEPER_GROUPS_FIRST 4 /* exec groups that come with STARTED, where groups are possible */
#define KEEPER_GROUP_PATH   "%s/exec-%u" /* of a sandbox's group, in what came with WELCOME */

enum keeper_type {
	KEEPER_HELLO = 1,
	KEEPER_START,
	KEEPER_KILL,
	KEEPER_REMOVE,
	KEEPER_FORGET,
	KEEPER_GROUP_NEW,
	KEEPER_GROUP_END,
	KEEPER_STATS,
	KEEPER_USAGE,
	KEEPER_ADOPT,
	KEEPER_GROUP_OPEN,
	KEEPER_FREEZE, /* a ref: all of it, init too; DONE when nothing in it runs any more */
	KEEPER_THAW,   /* a ref; DONE also if it was not frozen */
	/* A group_ref: everything but init and this group; THAW ends it, and so does the end of the
	 * connection. ERR_CONFLICT: something runs that is in no group. */
	KEEPER_FREEZE_OTHERS,
	/* Other limits for one that runs. ERR_CONFLICT: it uses more than that. On failure all are
	 * as they were. */
	KEEPER_LIMIT,
	/* A ref whose id is an image's name: DONE if there is such an image, else ERR_NOT_FOUND. */
	KEEPER_IMAGE,
	/* DONE if one that has these could be started; else what a start would say. */
	KEEPER_CHECK,

	KEEPER_WELCOME = 64,
	KEEPER_RUNNING,
	KEEPER_STARTED,
	KEEPER_EXITED,
	KEEPER_DONE,
	KEEPER_FAILED,
	KEEPER_GROUP,
	KEEPER_STATS_ARE,
	KEEPER_USAGE_IS,
	KEEPER_ADOPTED,
};

struct keeper_hello {
	uint32_t version;
};

/* What this host's keeper can do for a sandbox. */
enum keeper_abilities {
	KEEPER_CAN_LIMIT_MEMORY = 1,
	KEEPER_CAN_LIMIT_CPU = 2,
	KEEPER_CAN_LIMIT_PIDS = 4,
	KEEPER_CAN_FREEZE = 8,
	KEEPER_HAS_GROUPS = 16, /* exec groups: v2 cgroups that init clones into */
	KEEPER_HAS_RANGES = 32, /* each sandbox has user ids of its own */
	KEEPER_IS_ROOTLESS = 64,
	KEEPER_CAN_LIMIT_DISK = 128,
	KEEPER_CAN_LIMIT_SWAP = 256,
	KEEPER_CAN_OWN_BINDS = 512,    /* in a bind, its owner's files are those of root inside */
	KEEPER_COUNTS_CPU = 1024,      /* by a cgroup: nobody inside can use some of it unseen */
	KEEPER_CAN_LIMIT_READS = 2048, /* io_read, io_read_ops of its disk */
	KEEPER_CAN_LIMIT_WRITES = 4096,
	KEEPER_KNOWS_CHECK = 8192,      /* the request: an older one does not */
	KEEPER_CAN_CHOOSE_CPUS = 16384, /* on which a sandbox runs */
};

/* Limits of a sandbox that has none of its own; memory 0: this host cannot limit it. */
struct keeper_defaults {
	uint64_t memory_bytes;
	uint32_t pids, files;
};

/*
 * File descriptor: the directory with the exec groups of all sandboxes, if the host has groups.
 * Rules of Landlock hold for what is below a directory that they name, as far as the walk up leads:
 * from a group's own descriptor it ends at the group. An older keeper sends none.
 */
struct keeper_welcome {
	uint32_t version;
	uint32_t abilities;
	uint32_t known;     /* RUNNING and EXITED frames that follow at once */
	struct str runtime; /* its path */
	struct str warning; /* a sentence for the log, or "" */
	struct keeper_defaults defaults;
};

enum keeper_start_flags {
	KEEPER_START_READ_ONLY =
		1, /* the root; /workspace, /tmp, /run and /dev/shm stay writable */
	KEEPER_START_EPHEMERAL = 2, /* its disk is a tmpfs, and ends with it */
	KEEPER_START_HAS_DISK = 4,  /* from an earlier start: a new one is not what it wants */
	KEEPER_START_STRICT = 8,    /* whoever tries what only an attack needs is ended by SIGSYS */
};

/*
 * What a limit may be, so that a sandbox can be started and run a command. In less memory not even
 * the runtime's own process fits; init takes one process and some twenty files itself, a command
 * with its supervisor two; the kernel's shortest quota is a millisecond in a tenth of a second; and
 * crun writes its seccomp filter, some kilobytes, into a file when the limit holds already.
 */
/* clang-format off */
#define KEEPER_MEMORY_MIN    (8ULL << 20)
#define KEEPER_MEMORY_MAX    (1ULL << 50) /* and of swap */
#define KEEPER_CPU_MILLI_MIN 10
#define KEEPER_CPU_MILLI_MAX 1000000
#define KEEPER_PIDS_MIN      8
#define KEEPER_PIDS_MAX      4194304 /* PID_MAX_LIMIT: the kernel has no more */
#define KEEPER_FILES_MIN     64
#define KEEPER_FILES_MAX     1048576
#define KEEPER_FILE_SIZE_MIN (64ULL << 10)
#define KEEPER_DISK_MIN      (1ULL << 20)
#define KEEPER_DISK_MAX      (1ULL << 50)
#define KEEPER_INODES_MIN    64
#define KEEPER_INODES_MAX    UINT32_MAX
/* In a second. Who waits for a disk may hold the journal of its file system, and all others up. */
#define KEEPER_IO_MIN        (1ULL << 20)
#define KEEPER_IO_MAX        (1ULL << 40)
#define KEEPER_IO_OPS_MIN    100
#define KEEPER_IO_OPS_MAX    1000000000
/* clang-format on */

/* Of each disk that it reaches, in a second; 0: as much as it likes. */
struct keeper_io {
	uint64_t read_bytes, write_bytes;
	uint32_t read_ops, write_ops;
};

/* Limits: 0 for the default. */
struct keeper_start {
	struct str id;
	uint64_t generation;
	uint32_t flags;
	uint32_t capabilities; /* of root inside: a set of proto/capability.h */
	struct str image;      /* a name below <state>/images, or "host" */
	uint64_t memory_bytes;
	uint64_t swap_bytes;
	uint32_t cpu_milli; /* 1500: one and a half */
	uint32_t pids;
	uint32_t files;     /* RLIMIT_NOFILE */
	uint64_t file_size; /* RLIMIT_FSIZE */
	uint64_t disk_bytes;
	uint64_t inodes;
	struct keeper_io io;
	struct str mounts; /* a list of proto/mounts.h */
};

/* 0 for the default, as in START. */
struct keeper_limit {
	struct str id;
	uint64_t generation;
	uint64_t memory_bytes, swap_bytes;
	uint32_t cpu_milli, pids;
	uint64_t disk_bytes;
	struct keeper_io io;
};

/* Of a start, what depends on the disk that the sandbox has already, and on this host. */
struct keeper_check {
	struct str id;
	uint32_t flags; /* KEEPER_START_EPHEMERAL */
	uint32_t files;
	uint64_t disk_bytes, inodes;
};

/* A sandbox that runs: what adoption needs. The agent socket is <run>/<id>/agent.sock. */
struct keeper_running {
	struct str id;
	uint64_t generation;
	uint32_t pid; /* of init, as the host sees it */
	uint32_t is_frozen, is_ephemeral, is_strict;
};

/*
 * File descriptors: KEEPER_GROUPS_FIRST directories of exec groups, if the host has groups; then
 * the file with the sandbox's `oom_kill` counter, to be read, if there is one; then the one with
 * its processor time: "usage_usec <n>" in its first line, or a bare number of nanoseconds.
 */
struct keeper_started {
	uint32_t pid;
	uint32_t groups; /* the first group's number; the others follow it */
	uint32_t has_counter, has_usage;
};

/*
 * The answer to ADOPT: whoever asks has none of the exec groups that were made before. Those that
 * are empty are removed, the others as they become so; until then GROUP_OPEN gives their
 * directories again. File descriptors: the counter and the usage, as above.
 */
struct keeper_adopted {
	uint32_t has_counter, has_usage;
};

struct keeper_exited {
	struct str id;
	uint64_t generation;
	uint32_t status;   /* init's, as wait() gives it */
	uint32_t is_known; /* 0: the status was lost with an earlier keeper */
	uint64_t oom_kills;
};

struct keeper_ref {
	struct str id;
	uint64_t generation; /* 0 for REMOVE and USAGE, which need no running sandbox */
};

struct keeper_group_ref {
	struct str id;
	uint64_t generation;
	uint32_t group;
};

/* File descriptor: the group's directory. */
struct keeper_group {
	uint32_t group;
};

struct keeper_failed {
	uint32_t code; /* enum err_code */
	struct str sentence;
};

struct keeper_stats {
	uint64_t cpu_us;
	uint64_t memory_bytes, memory_peak_bytes;
	uint64_t held_bytes;  /* of memory_bytes: all but what the kernel keeps of files on disks */
	uint64_t limit_bytes; /* of its memory, as it holds now; 0: there is none */
	uint64_t pids;
	uint64_t oom_kills;
};

struct keeper_usage {
	uint64_t disk_bytes;
	uint64_t files;
};

extern const struct frame_field keeper_hello_fields[], keeper_version_fields[],
	keeper_welcome_fields[], keeper_start_fields[], keeper_limit_fields[],
	keeper_check_fields[], keeper_running_fields[], keeper_started_fields[],
	keeper_exited_fields[], keeper_ref_fields[], keeper_group_ref_fields[],
	keeper_group_fields[], keeper_failed_fields[], keeper_stats_fields[], keeper_usage_fields[],
	keeper_adopted_fields[], keeper_done_fields[];

#endif
