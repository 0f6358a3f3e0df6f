/*
 * The directories of one sandbox.
 *
 *	<state>/sandboxes/<id>/{range, upper, work}     the disk; stays
 *	<run>/<id>/agent.sock                           where berthd meets init
 *	<run>/<id>/record                               for adoption
 *	<run>/<id>/bundle/{config.json, rootfs, pid}    for the runtime
 */
#ifndef BERTH_CONTAINER_BUNDLE_H
#define BERTH_CONTAINER_BUNDLE_H

#include "container/container.h"
#include "container/host_state.h"

/* The disk, made if it is not there; sets c->range. Its fd. */
int bundle_open_disk(struct container *c, const struct container_host *host, bool *ret_is_new,
		     struct err *err);

/* <run>/<id>/bundle with its root mounted and its config.json. */
int bundle_make(const struct container *c, const struct container_host *host, int disk_fd,
		struct err *err);

/* All of <run>/<id>, also half of it, or nothing. */
int bundle_remove(const struct container_host *host, const char *id);

/* A bound socket that nobody listens on yet. */
int bundle_bind_agent(const struct container *c, const struct container_host *host,
		      struct err *err);

#endif
