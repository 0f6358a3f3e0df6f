#include "container/caps.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <sys/capability.h>

#include "base/cleanup.h"

static const cap_value_t wanted[] = {
	CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,  CAP_FSETID,           CAP_KILL,
	CAP_SETUID, CAP_SETGID,       CAP_SETPCAP, CAP_NET_BIND_SERVICE,
};

_Static_assert(array_len(wanted) <= CAPS_MAX, "all of them fit");

int caps_of_sandbox(struct caps *ret)
{
	ret->count = 0;
	for (size_t i = 0; i < array_len(wanted); i++) {
		char *name, *to = ret->names[ret->count];

		/* Asking for one that our bounding set lacks would make the runtime fail. */
		if (cap_get_bound(wanted[i]) != 1)
			continue;
		name = cap_to_name(wanted[i]);
		if (!name)
			return -ENOMEM;
		snprintf(to, sizeof(ret->names[0]), "%s", name);
		cap_free(name);
		for (; *to; to++)
			*to = (char)toupper((unsigned char)*to);
		ret->count++;
	}
	return 0;
}
