/*
 * Files that come from a sandbox, landing in a local directory. Their names were chosen by whoever
 * is inside: nothing is ever made outside of the directory. No name leads up or through a symbolic
 * link, a hard link leads to a file that is inside, and a symbolic link that leads out is refused
 * unless it is wanted. What is there is replaced at once and as a whole; set-id bits do not come
 * along, and the umask holds.
 */
#ifndef BERTH_CMD_LANDING_H
#define BERTH_CMD_LANDING_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/err.h"
#include "base/str.h"

#define LANDING_TEMP_SIZE 40
#define LANDING_DEPTH_MAX (PATH_MAX / 2 + 1)

/* A directory that we have made gets its mode and time when the archive has left it. */
struct landing_dir {
	size_t len; /* of its path, the beginning of `at` */
	mode_t mode;
	struct timespec mtime;
};

struct landing {
	int root;
	size_t root_len;  /* of its path: longer names could be reached by nobody */
	bool is_new;      /* the directory itself may get the mode that it has inside */
	bool keeps_links; /* also those that lead out */
	mode_t umask;
	uint64_t left_out; /* pipes and the like: how many were not made */
	/* A file that is being written. */
	int dir, fd;
	char last[NAME_MAX + 1], temp[LANDING_TEMP_SIZE];
	char name[PATH_MAX]; /* its path below the root, for sentences */
	/* Directories that wait, each inside of the one before. */
	char at[PATH_MAX];
	unsigned waiting;
	struct landing_dir dirs[LANDING_DEPTH_MAX];
};

/* -errno with a sentence. */
int landing_open(struct landing *landing, const char *path, struct err *err);

/* A file that was not finished is removed. */
void landing_close(struct landing *landing);

/* Mode and time hold from when something comes that is not in it, or landing_finish(). */
int landing_make_directory(struct landing *landing, const char *name, mode_t mode,
			   struct timespec mtime, struct err *err);
int landing_make_symlink(struct landing *landing, const char *name, const char *target,
			 struct err *err);
int landing_make_hardlink(struct landing *landing, const char *name, const char *original,
			  struct err *err);

/* A file: begin, write at will, finish. */
int landing_begin_file(struct landing *landing, const char *name, struct err *err);
int landing_write(struct landing *landing, struct str bytes, uint64_t at, struct err *err);
int landing_finish_file(struct landing *landing, mode_t mode, uint64_t size,
			const struct timespec *mtime, struct err *err);

/* Nothing more comes. */
int landing_finish(struct landing *landing, struct err *err);

#endif
