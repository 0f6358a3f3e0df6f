/*
 * What root inside a sandbox may be able to do, over what belongs to the sandbox's own user
 * namespace. There are no others, whoever asks:
 *
 *	CHOWN DAC_OVERRIDE FOWNER FSETID    to be root among its own files
 *	KILL                                to signal its own users' processes
 *	SETUID SETGID SETPCAP               to become one of its users, with less
 *	NET_BIND_SERVICE                    to listen on port 80 of its own loopback
 *
 * Nothing to mount, trace, configure the network, make devices or raise limits.
 */
#ifndef BERTH_PROTO_CAPABILITY_H
#define BERTH_PROTO_CAPABILITY_H

#include <stdint.h>

#include "base/str.h"

/* Numbers of our own. A set of them has the bit (1u << number) for each. */
enum capability {
	CAPABILITY_CHOWN,
	CAPABILITY_DAC_OVERRIDE,
	CAPABILITY_FOWNER,
	CAPABILITY_FSETID,
	CAPABILITY_KILL,
	CAPABILITY_SETUID,
	CAPABILITY_SETGID,
	CAPABILITY_SETPCAP,
	CAPABILITY_NET_BIND_SERVICE,
	CAPABILITY_COUNT,
};

#define CAPABILITY_ALL ((UINT32_C(1) << CAPABILITY_COUNT) - 1)

/* As OCI spells them: "CAP_CHOWN". */
extern const char *const capability_names[CAPABILITY_COUNT];

/* Adds one to a set; -EINVAL for any other word. */
int capability_parse(struct str name, uint32_t *set);

#endif
