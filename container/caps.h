/*
 * What root inside a sandbox may do, over what belongs to the sandbox's own user namespace:
 *
 *	CHOWN DAC_OVERRIDE FOWNER FSETID    to be root among its own files
 *	KILL                                to signal its own users' processes
 *	SETUID SETGID SETPCAP               to become one of its users, with less
 *	NET_BIND_SERVICE                    to listen on port 80 of its own loopback
 *
 * Nothing to mount, trace, configure the network, make devices or raise limits.
 */
#ifndef BERTH_CONTAINER_CAPS_H
#define BERTH_CONTAINER_CAPS_H

#define CAPS_MAX 16

/* Their names as OCI spells them, less those that we do not have ourselves. */
struct caps {
	char names[CAPS_MAX][32];
	unsigned count;
};

int caps_of_sandbox(struct caps *ret);

#endif
