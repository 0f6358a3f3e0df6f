/*
 * The directories of one sandbox.
 *
 *	<state>/sandboxes/<id>/{range, upper, work}     the disk; stays
 *	<state>/sandboxes/<id>/{range, pooled}          if its size is limited: see pool.h
 *	<state>/sandboxes/<id>/range                    if it is ephemeral: see ephemeral.h
 *	<run>/<id>/agent.sock                           where berthd meets init
 *	<run>/<id>/record                               for adoption
 *	<run>/<id>/bundle/{config.json, rootfs, pid}    for the runtime
 */
#ifndef BERTH_CONTAINER_BUNDLE_H
#define BERTH_CONTAINER_BUNDLE_H

#include "container/container.h"
#include "container/host_state.h"

/*
 * The disk, made if it is not there; sets c->range and c->is_pooled. Its fd. One in the pool has no
 * limit until bundle_make() has mounted it; one in memory is attached until bundle_detach_disk(),
 * which is right whatever has failed.
 */
int bundle_open_disk(struct container *c, const struct container_host *host, bool *ret_is_new,
		     struct err *err);
/* Whether that disk can be as the spec says, as far as it can be seen without making it. */
int bundle_check_disk(const struct container_spec *spec, const struct container_host *host,
		      struct err *err);
void bundle_detach_disk(const struct container *c, const struct container_host *host);
/* One that was new, and is of no use. */
void bundle_drop_disk(const struct container *c, const struct container_host *host);

/* <run>/<id>/bundle with its root mounted and its config.json. */
int bundle_make(const struct container *c, const struct container_host *host, int disk_fd,
		struct err *err);

/* All of <run>/<id>, also half of it, or nothing. */
int bundle_remove(const struct container_host *host, const char *id);

/* A bound socket that nobody listens on yet. */
int bundle_bind_agent(const struct container *c, const struct container_host *host,
		      struct err *err);

#endif
