/*
 * The file worker: berth-init under another name, started inside the sandbox as any exec is. It
 * does one request of proto/file.h for berthd, as the sandbox's user, in blocking calls, and exits.
 * Its memory has one size, whatever it meets: a mapping of which only the used pages exist.
 *
 *	work.c          the request, and its result
 *	work_stream.c   frames and raw bytes over stdin and stdout
 *	work_path.c     looking up, making parents, temporary names
 *	work_file.c     read, write
 *	work_scan.c     the names of a directory, in order
 *	work_walk.c     a tree, in order
 *	work_list.c     stat, list
 *	work_tree.c     mkdir, move, remove, chmod
 *	work_copy.c     copy
 *	work_pack.c     pack; work_match.c its patterns, work_links.c its hard links
 *	work_unpack.c   unpack
 *	work_watch.c    watch, which stays: work_watch.h tells of its parts
 *	work_probe.c    probe: no file, but a port
 *
 * An operation returns 0, or a negative errno after work_at() has said where; -EPIPE means that
 * berthd is gone, and that there is nobody left to tell.
 */
#ifndef BERTH_INIT_WORK_H
#define BERTH_INIT_WORK_H

#include <sys/stat.h>

#include "cmd/berth-init/work_links.h"
#include "cmd/berth-init/work_stream.h"
#include "cmd/berth-init/work_walk.h"
#include "proto/file.h"

#define WORK_TEXT_MAX (1024 * 1024) /* of a file of proc, which has no size */

struct work {
	struct file_request request; /* its paths: also in `path` and `other`, with a NUL */
	struct file_result result;
	char path[FILE_PATH_MAX + 1], other[FILE_PATH_MAX + 1];
	char where[FILE_PATH_MAX + 1]; /* what result.where points to */
	char frame[FRAME_MAX];         /* the request's own */
	char text[WORK_TEXT_MAX + 1];
	struct stream stream;
	struct walk walk;
	struct descent target; /* copy: where the walk's directory goes */
	struct links links;    /* pack */
};

/* The exit code. */
int work_run(void);

/* Says where the next failure lies; returns `error` for the caller to pass on. */
int work_at(struct work *w, enum file_stage stage, int error);

/* Sends w->result as it is. */
int work_tell(struct work *w);

void work_set_stat(struct file_stat *ret, const struct stat *st);

/* The next frame, which must be of this type: 1, 0 at the end of stdin, -EPIPE for another one. */
int work_expect(struct work *w, enum file_frame type, const struct frame_field *fields, void *ret);

int work_read(struct work *w);
int work_write(struct work *w);
int work_stat(struct work *w);
int work_list(struct work *w);
int work_mkdir(struct work *w);
int work_move(struct work *w);
int work_remove(struct work *w);
int work_chmod(struct work *w);
int work_copy(struct work *w);
int work_pack(struct work *w);
int work_unpack(struct work *w);
int work_watch(struct work *w);
int work_probe(struct work *w);

/* Says that the failure lies at what the walk has found last, below `path`. */
int work_at_entry(struct work *w, int error);
/* A tree or a file, with all that is in it: -EBUSY at another mount. */
int work_remove_tree(struct work *w, int dir_fd, const char *name);

#endif
