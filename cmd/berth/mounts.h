/* The flags of `run` and `create` by which something is mounted. */
#ifndef BERTH_CMD_MOUNTS_H
#define BERTH_CMD_MOUNTS_H

#include <stddef.h>

#include "base/err.h"
#include "cmd/berth/verb.h"
#include "proto/json.h"

/* Their places in the verb's table. */
struct mounts_flags {
	const struct call *call;
	size_t mount;  /* type=bind,source=DIR,target=DIR[,ro] or type=tmpfs,target=DIR,size=SIZE */
	size_t volume; /* SRC:DST[:ro] */
	size_t tmpfs;  /* DST:SIZE */
};

/* "mounts", if there are any, into an object that the caller has opened. */
int mounts_write(const struct mounts_flags *flags, struct json_writer *w, struct err *err);

#endif
