#include "container/caps.h"

#include <sys/capability.h>

#include "proto/capability.h"

/* clang-format off */
static const cap_value_t numbers[CAPABILITY_COUNT] = {
	[CAPABILITY_CHOWN]            = CAP_CHOWN,
	[CAPABILITY_DAC_OVERRIDE]     = CAP_DAC_OVERRIDE,
	[CAPABILITY_FOWNER]           = CAP_FOWNER,
	[CAPABILITY_FSETID]           = CAP_FSETID,
	[CAPABILITY_KILL]             = CAP_KILL,
	[CAPABILITY_SETUID]           = CAP_SETUID,
	[CAPABILITY_SETGID]           = CAP_SETGID,
	[CAPABILITY_SETPCAP]          = CAP_SETPCAP,
	[CAPABILITY_NET_BIND_SERVICE] = CAP_NET_BIND_SERVICE,
};
/* clang-format on */

uint32_t caps_of_sandbox(void)
{
	uint32_t set = 0;

	/* Asking for one that our bounding set lacks would make the runtime fail. */
	for (unsigned i = 0; i < CAPABILITY_COUNT; i++)
		set |= cap_get_bound(numbers[i]) == 1 ? UINT32_C(1) << i : 0;
	return set;
}
