/*
 * Folders of the host that sandboxes may have mounted: those that our command line allows, and what
 * is below them on the same file system. A client names them, through a berthd that may have gone
 * bad, and whoever may write below them may put links there.
 */
#ifndef BERTH_CONTAINER_BIND_SOURCE_H
#define BERTH_CONTAINER_BIND_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "proto/mounts.h"
#include "proto/mounts_allowed.h"

struct container_host;

/* Where a folder is in its file system, whatever is mounted where: its device, and the path. */
struct bind_place {
	char device[24]; /* as mountinfo writes it; "": unknown */
	char *path;
};

/*
 * One that is allowed. What it was when we first saw it is remembered, so that nobody can put
 * another in its place; by number, since whoever keeps a folder open keeps the host from unmounting
 * it. The way to it is that of container/bind_walk.h.
 */
struct bind_folder {
	struct bind_place place;
	uint64_t device, inode, born_ns;
	bool is_known; /* else it was not there yet, and is looked for at each use */
};

struct bind_sources {
	struct mounts_allowed allowed[MOUNTS_ALLOWED_MAX]; /* pointing into our command line */
	struct bind_folder *folders;                       /* as many */
	unsigned count;
	struct bind_place own[2]; /* the state and the run directory */
};

/* "DIR[:ro]" each. The host's directories are open. `ret` is zeroed, and closed also on failure. */
int bind_sources_open(struct bind_sources *ret, const char *const *texts, unsigned count,
		      const struct container_host *host, struct err *err);
void bind_sources_close(struct bind_sources *sources);

/* An O_PATH fd of the folder that is to be mounted, and what it is. ERR_FORBIDDEN if it may not. */
int bind_source_open(const struct container_host *host, const struct mount_item *item,
		     struct stat *ret, struct err *err);

#endif
