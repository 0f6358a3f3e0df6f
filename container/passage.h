/*
 * A way to a sandbox's bundle for a runtime whose processes inside the sandbox look it up by its
 * whole path (runc does; crun takes the relative one). Folders above <run>, such as /run/user/1000,
 * may be closed to everybody but their owner, and the sandbox's root is somebody else. In the
 * runtime's own mount namespace the closed folder is covered by an empty one that holds nothing but
 * the path to what the runtime needs.
 */
#ifndef BERTH_CONTAINER_PASSAGE_H
#define BERTH_CONTAINER_PASSAGE_H

#include <limits.h>

struct passage {
	const char *run_dir;
	const char *closed; /* see passage_find_closed() */
	const char *id;
};

/* The first folder on the way to `run_dir` that others cannot search, or "". */
void passage_find_closed(const char *run_dir, char ret[PATH_MAX]);

/* In the runtime's process, before it becomes the runtime. `data`: struct passage. */
int passage_open(const void *data);

#endif
