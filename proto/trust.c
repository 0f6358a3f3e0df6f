#include "proto/trust.h"

#include <assert.h>
#include <errno.h>

#include "base/cleanup.h"

/* clang-format off */
static const char *const names[TRUST_COUNT] = {
	[TRUST_HIGH]      = "high",
	[TRUST_MEDIUM]    = "medium",
	[TRUST_LOW]       = "low",
	[TRUST_UNTRUSTED] = "untrusted",
};
/* clang-format on */

const char *trust_name(enum trust trust)
{
	assert((size_t)trust < array_len(names));
	return names[trust];
}

int trust_parse(struct str name, enum trust *ret)
{
	for (enum trust i = TRUST_HIGH; i < TRUST_COUNT; i++) {
		if (str_eq(name, str_of(names[i]))) {
			*ret = i;
			return 0;
		}
	}
	return -EINVAL;
}
