#include "proto/capability.h"

#include <errno.h>

/* clang-format off */
const char *const capability_names[CAPABILITY_COUNT] = {
	[CAPABILITY_CHOWN]            = "CAP_CHOWN",
	[CAPABILITY_DAC_OVERRIDE]     = "CAP_DAC_OVERRIDE",
	[CAPABILITY_FOWNER]           = "CAP_FOWNER",
	[CAPABILITY_FSETID]           = "CAP_FSETID",
	[CAPABILITY_KILL]             = "CAP_KILL",
	[CAPABILITY_SETUID]           = "CAP_SETUID",
	[CAPABILITY_SETGID]           = "CAP_SETGID",
	[CAPABILITY_SETPCAP]          = "CAP_SETPCAP",
	[CAPABILITY_NET_BIND_SERVICE] = "CAP_NET_BIND_SERVICE",
};
/* clang-format on */

int capability_parse(struct str name, uint32_t *set)
{
	for (unsigned i = 0; i < CAPABILITY_COUNT; i++) {
		if (str_eq(name, str_of(capability_names[i]))) {
			*set |= UINT32_C(1) << i;
			return 0;
		}
	}
	return -EINVAL;
}
