/*
 * A tree, depth first and in the order of its names, of any width and nearly any depth: of each
 * directory on the way some names are kept, as many as there is room for, and only the uppermost
 * stay open. The way back goes through "..", and must lead to where it came from.
 *
 * Symbolic links are not followed, and the file systems that the kernel makes up (proc, sysfs,
 * cgroups, ...) are seen from above only. Other mounts belong to the tree, unless is_one_mount.
 */
#ifndef BERTH_INIT_WORK_WALK_H
#define BERTH_INIT_WORK_WALK_H

#include <sys/stat.h>

#include "base/str.h"
#include "cmd/berth-init/work_scan.h"

#define WALK_LEVELS_MAX 65536
#define WALK_FDS_MAX    64
#define WALK_NAME_SIZE  (NAME_MAX + 1)
#define WALK_NAMES_SIZE (WALK_LEVELS_MAX * WALK_NAME_SIZE + 16 * 1024 * 1024)

/* A directory deep down, and the way back. */
struct descent {
	int fd;
	size_t depth;
	int fds[WALK_FDS_MAX]; /* of the levels above, if they are that high */
	struct {
		dev_t dev;
		ino_t ino;
	} ids[WALK_LEVELS_MAX];
};

/* Both take the fd, whatever comes of it. */
int descent_init(struct descent *d, int fd);
int descent_enter(struct descent *d, int fd);
int descent_leave(struct descent *d);
void descent_close(struct descent *d);

enum walk_event {
	WALK_END,
	WALK_ENTRY, /* all but the root; a directory before what is in it */
	WALK_LEAVE, /* a directory after what is in it; its stat is that of now */
};

struct walk_level {
	uint32_t start, next, end, current; /* in `names` */
	bool has_more;
};

struct walk {
	/* Set between walk_init() and the first walk_next(). */
	struct str cursor; /* the last path that is known already */
	bool is_one_mount; /* -EXDEV at another */
	bool no_hidden;
	bool is_flat;      /* the root's own names only */
	bool is_any_order; /* for who removes what is found: a directory is read on only then */
	size_t max;        /* names of one directory that are wanted; 0: all */
	/* What was found: at.fd is the directory that has it. */
	const char *name;
	struct stat st;

	struct descent at;
	bool is_entering, is_lost;
	struct walk_level levels[WALK_LEVELS_MAX];
	struct scan scan;
	char names[WALK_NAMES_SIZE];
};

/* Takes the fd of a directory that can be read. */
int walk_init(struct walk *walk, int fd);
/* An event, or a negative errno: `name` is what it is about. Unless is_lost the walk can go on
 * behind it. */
int walk_next(struct walk *walk);
/* Not into the directory that was just found; there will be no WALK_LEAVE of it. */
void walk_skip(struct walk *walk);
void walk_close(struct walk *walk);

/* Is it of a file system that the kernel makes up? */
bool walk_is_made_up(int fd);

/* The path of what was found, with a NUL. -ENAMETOOLONG: cut. */
int walk_path(const struct walk *walk, char *ret, size_t size);

#endif
