/*
 * Quotas that the kernel charges twice: to the user inside, and to whoever made the user namespace,
 * which is us: queued signals, message queues and locked memory of all sandboxes together are
 * those of root (or of the user, rootless) too.
 *
 *	outside  the runtime makes the user namespace with half of our limits, and the kernel lets
 *	         nothing in there push our sum above that: the other half stays ours
 *	inside   init sets a small limit for each user of its sandbox. Not the runtime: crun sets
 *	         limits before it makes the user namespace, and then they would be the sum of all
 *
 * What is not prevented: a sandbox with many users can take all of the half that is theirs, so that
 * its neighbours queue no signals with a value, and get no message queues and no locked memory.
 */
#ifndef BERTH_CONTAINER_QUOTAS_H
#define BERTH_CONTAINER_QUOTAS_H

/* In the runtime's process, before it becomes the runtime. */
int quotas_halve(void);

#endif
