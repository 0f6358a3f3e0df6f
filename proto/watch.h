/*
 * What berthd and a watcher say to each other, behind the REQUEST and RESULT of FILE_OP_WATCH
 * (proto/file.h). A watcher is the file worker that stays: one for a sandbox, as long as somebody
 * watches something in it, with one inotify instance for all of them.
 *
 *	berthd                            watcher
 *	ADD                  ──────────>
 *	                     <──────────  READY: from here on nothing is missed (or why not)
 *	                     <──────────  EVENT, OVERFLOW ...
 *	                     <──────────  GONE: it cannot go on, and this watch is over
 *	REMOVE               ──────────>                 what was said before may still arrive
 *	the end of stdin     ──────────>                 and it exits
 *
 * OVERFLOW: events were lost before it, and none since. What a watcher says is hostile to berthd.
 */
#ifndef BERTH_PROTO_WATCH_H
#define BERTH_PROTO_WATCH_H

#include <stdint.h>

#include "base/str.h"
#include "proto/file.h"

#define WATCH_SUBS_MAX  64           /* of one sandbox, at a time */
#define WATCH_NODES_MAX (256 * 1024) /* directories, of all of them together */

/* In one stream with enum file_frame. */
enum watch_frame {
	WATCH_ADD = 32,
	WATCH_REMOVE,
	WATCH_READY,
	WATCH_EVENT,
	WATCH_OVERFLOW,
	WATCH_GONE,
};

/*
 * `path` is followed as in other requests; below it links are not. A directory is watched with what
 * is directly in it, or with FILE_RECURSIVE all the way down. What is no directory is watched by
 * its name: another file may take that.
 */
struct watch_add {
	uint32_t watch; /* a number of berthd's choice that is not in use */
	uint32_t flags;
	struct str path;
	struct str include, exclude; /* frame lists of patterns, as a pack's; relative to `path` */
};

/* REMOVE, OVERFLOW */
struct watch_number {
	uint32_t watch;
};

struct watch_ready {
	uint32_t watch;
	uint32_t error;       /* an errno */
	uint32_t directories; /* that are watched */
};

enum watch_kind {
	WATCH_CREATE = 1,
	WATCH_MODIFY,
	WATCH_DELETE,
	WATCH_MOVE,
	WATCH_KIND_COUNT,
};

struct watch_event {
	uint32_t watch;
	uint32_t kind;
	uint32_t is_directory;
	struct str path; /* relative; "" is what is watched itself */
	struct str from; /* move: the old path */
};

enum watch_why {
	WATCH_REMOVED = 1,
	WATCH_MOVED,
	WATCH_UNMOUNTED,
	WATCH_FAILED,
	WATCH_WHY_COUNT,
};

struct watch_gone {
	uint32_t watch;
	uint32_t why;
	uint32_t error; /* WATCH_FAILED: an errno */
};

extern const struct frame_field watch_add_fields[], watch_number_fields[], watch_ready_fields[],
	watch_event_fields[], watch_gone_fields[];

#endif
