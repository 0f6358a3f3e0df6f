/*
 * The watcher (proto/watch.h): what changes below some paths, by one inotify instance. In one
 * thread, in blocking calls but for the wait of its loop; all memory is one mapping, of which only
 * the used pages exist.
 *
 *	work_watch.c        the loop, what berthd asks for, and the way back from an overflow
 *	work_watch_tree.c   the directories that are watched, by name and by inotify's number
 *	work_watch_scan.c   setting watches: at the beginning, and when directories come
 *	work_watch_queue.c  inotify's events, moves paired
 *	work_watch_event.c  what they mean to each watch
 *	work_watch_calm.c   of many writes one report
 *
 * A sub is one ADD: it has a tree of nodes of its own, one for each directory. inotify has one
 * number (wd) for a directory, however many nodes stand for it.
 *
 * A watch is set before its directory is read. So what is in a new directory is found in one of the
 * two ways, or in both: then the event that tells of it is older than the end of the reading, and
 * is dropped (struct watch_seen). Positions are counted in bytes of events since the beginning.
 */
#ifndef BERTH_INIT_WORK_WATCH_H
#define BERTH_INIT_WORK_WATCH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/inotify.h>

#include "cmd/berth-init/work.h"
#include "proto/watch.h"

#define WATCH_BUCKETS    65536 /* a power of two, as SEEN_SLOTS */
#define WATCH_NAMES_SIZE (64 * 1024 * 1024)
#define WATCH_CLASSES    4 /* of sizes of names */
#define WATCH_QUEUE_SIZE (64 * 1024)
#define WATCH_SEEN_SLOTS 65536
#define WATCH_CALM_MAX   512
#define WATCH_SAME_MAX   256 /* nodes that stand for one directory */

/* Indices of nodes; 0 is none. */
struct watch_node {
	int wd;                             /* -1: none */
	uint32_t parent, child, next, prev; /* a free one: only `next` */
	uint32_t same_wd, same_name;        /* the next in its bucket */
	uint32_t name;                      /* in `names` */
	uint32_t stamp;                     /* when it was last seen to be there */
	uint32_t sub;                       /* its index and 1; 0: a free node */
};

struct watch_sub {
	bool is_used, is_recursive;
	bool has_target; /* `only` is there now */
	uint32_t number;
	uint32_t root; /* its node */
	uint32_t count;
	uint64_t since; /* the position before which nothing is of interest */
	dev_t dev;
	ino_t ino;
	char path[FILE_PATH_MAX + 1];
	char only[NAME_MAX + 1]; /* the one name of the root that is watched; "": a directory */
	struct str include, exclude;
	char patterns[2][FILE_PATTERNS_MAX];
};

/* A name that was told when its directory was read. */
struct watch_seen {
	uint64_t hash, until;
};

/* A file that is being written, or was a moment ago. */
struct watch_calm {
	int wd;          /* -1: free */
	bool is_pending; /* a change is to be told, at `due_ms` */
	bool is_told;    /* one was, at `since_ms`; else it was made then */
	uint64_t since_ms, due_ms;
	char name[NAME_MAX + 1];
};

struct watcher {
	struct work *work;
	int fd;            /* inotify's */
	bool is_broken;    /* berthd is gone */
	bool is_lost;      /* events are missing: everything must be looked at again */
	uint64_t again_ms; /* when, or not before */
	uint32_t stamp;

	struct watch_sub subs[WATCH_SUBS_MAX];

	uint32_t nodes_used, nodes_free;
	struct watch_node nodes[WATCH_NODES_MAX + 1];
	uint32_t by_wd[WATCH_BUCKETS], by_name[WATCH_BUCKETS];
	uint32_t names_used, names_free[WATCH_CLASSES];
	char names[WATCH_NAMES_SIZE];

	uint64_t position; /* of the event that is being looked at */
	uint64_t read;     /* the position behind all that was read */
	size_t queue_at, queue_len;
	uint32_t wait_cookie; /* of a move whose other half may come until then */
	uint64_t wait_ms;
	_Alignas(8) char queue[WATCH_QUEUE_SIZE];

	uint64_t seed;
	struct watch_seen seen[WATCH_SEEN_SLOTS];
	struct watch_calm calm[WATCH_CALM_MAX];
	uint64_t calm_due_ms; /* of the first that is pending; 0: none is */
};

static inline struct watch_sub *sub_of(struct watcher *w, uint32_t node)
{
	return &w->subs[w->nodes[node].sub - 1];
}

/* --- work_watch_tree.c --- */

/* 0: there is no room for more. The root of a sub has no parent, and no name. */
uint32_t tree_new(struct watcher *w, struct watch_sub *sub, uint32_t parent, const char *name);
uint32_t tree_child(const struct watcher *w, uint32_t parent, const char *name);
/* 1: it had this number before. */
int tree_set_wd(struct watcher *w, uint32_t node, int wd);
/* The kernel has dropped the watch. */
void tree_forget_wd(struct watcher *w, int wd);
/* The nodes that stand for a directory; returns how many. */
size_t tree_find(const struct watcher *w, int wd, uint32_t ret[WATCH_SAME_MAX]);
/* With all that is below it; tree_clear() only that. */
void tree_remove(struct watcher *w, uint32_t node);
void tree_clear(struct watcher *w, uint32_t node);
/* Is it `above`, or anywhere below that? 0 is nowhere. */
bool tree_is_within(const struct watcher *w, uint32_t node, uint32_t above);
/* Not into itself. -ENOSPC: no room for its name; it stays where it is. */
int tree_move(struct watcher *w, uint32_t node, uint32_t parent, const char *name);
/* Of `name` in the node's directory, relative to the sub's root. Its length, or -ENAMETOOLONG. */
int tree_path(const struct watcher *w, uint32_t node, const char *name,
	      char ret[FILE_PATH_MAX + 1]);

/* --- work_watch_scan.c --- */

/* The position behind all events that are waiting now. */
uint64_t watch_position(struct watcher *w);
/* Opens the sub's root again, if it is still the same. */
int watch_open_root(struct watch_sub *sub);
/* Sets the watch of a node's directory, and of those below it; takes the fd. What is found is told
 * as created, if `is_told`. */
int watch_cover(struct watcher *w, uint32_t node, int fd, bool is_told);
/* A directory that came, as a child of the node. */
int watch_cover_new(struct watcher *w, uint32_t node, const char *name);
/* The same, if there is one: only then is it told itself. */
int watch_cover_found(struct watcher *w, uint32_t node, const char *name);
/* A node that was moved: does it still stand for what has its name? */
int watch_check_moved(struct watcher *w, uint32_t node, const char *name);

/* --- work_watch_queue.c --- */

/* What inotify has, without waiting. */
void queue_read(struct watcher *w);
void queue_run(struct watcher *w);
/* Until when the rest of a move is waited for; 0: nothing is. */
uint64_t queue_wait(const struct watcher *w);

/* --- work_watch_event.c --- */

/* What happened in a directory, to one node that stands for it. */
void event_created(struct watcher *w, uint32_t node, const struct inotify_event *event);
void event_deleted(struct watcher *w, uint32_t node, const struct inotify_event *event);
/* `from` or `to` may be 0: it left, or it came. */
struct event_move {
	uint32_t from, to;
	const char *from_name, *to_name;
	bool is_directory;
};
void event_moved(struct watcher *w, const struct event_move *move);
void event_modified(struct watcher *w, int wd, const char *name);
/* To the directory itself. */
void event_self(struct watcher *w, uint32_t node, uint32_t mask);

bool event_is_excluded(const struct watch_sub *sub, const char *path, bool is_directory);
/* As created, if it is included; `name` was found in the node's directory. */
void event_found(struct watcher *w, uint32_t node, const char *name, bool is_directory);

/* --- work_watch_calm.c --- */

/* A file is new there: the end of its first writing is no news if nothing was written. */
void calm_created(struct watcher *w, int wd, const char *name);
void calm_modified(struct watcher *w, int wd, const char *name);
void calm_closed(struct watcher *w, int wd, const char *name);
/* It has another name now. What is owed is told. True: it was written a moment ago. */
bool calm_leave(struct watcher *w, int wd, const char *name);
/* It is gone, or another has its name. */
void calm_drop(struct watcher *w, int wd, const char *name);
void calm_run(struct watcher *w, uint64_t now_ms);

/* --- work_watch.c --- */

void watch_tell(struct watcher *w, const struct watch_event *event);
/* The watch is over: -ENOSPC, -ENOMEM. */
void watch_fail(struct watcher *w, struct watch_sub *sub, int error);
void watch_gone(struct watcher *w, struct watch_sub *sub, enum watch_why why);
/* Everything has to be looked at again, soon. */
void watch_lose(struct watcher *w);

/* FNV-1a. */
#define WATCH_HASH_START 0xcbf29ce484222325ULL
static inline uint64_t watch_hash(uint64_t hash, uint32_t number, const char *name)
{
	for (unsigned i = 0; i < sizeof(number); i++)
		hash = (hash ^ (uint8_t)(number >> (8 * i))) * 0x100000001b3ULL;
	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 0x100000001b3ULL;
	return hash;
}

#endif
