/*
 * What a later keeper needs to find a running container again: <run>/<id>/record, lines of "key
 * value". A pid alone may be another process by then; with its start time and the boot id it is
 * not.
 */
#ifndef BERTH_CONTAINER_RECORD_H
#define BERTH_CONTAINER_RECORD_H

#include <stdint.h>
#include <sys/types.h>

#include "container/container.h"

int record_write(int dir, const struct container *c, const char *boot_id);

/* Fills spec, range, init_pid and init_start; -ENOENT, -EBADMSG, or -ESTALE: of an earlier boot. */
int record_read(int dir, struct container *c, const char *boot_id);

#endif
