/*
 * The one user namespace of a rootless keeper. We are root in it; the ids behind 0 are those that
 * /etc/subuid and /etc/subgid give the user, and sandboxes get their ranges from them.
 */
#ifndef BERTH_CONTAINER_USERNS_H
#define BERTH_CONTAINER_USERNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Makes and enters a new one. `ret_ids`: how many ids it has; 1 when the user has no others, or
 * newuidmap and newgidmap would not give them: then `warning` is a sentence about it, else "".
 */
int userns_create(uint32_t *ret_ids, struct err *warning, struct err *err);

/*
 * Enters the one of an earlier keeper: the namespace of this process, or the one above it that is
 * a child of our own. A new namespace could neither signal nor enter what runs in the old one.
 */
int userns_join(pid_t pid, uint32_t *ret_ids, struct err *err);

/* Is the process in a user namespace below our own, at any depth? */
bool userns_is_below(pid_t pid);

/* How many ids the namespace that we are in has; UINT32_MAX in the host's. */
uint32_t userns_ids(void);

#endif
