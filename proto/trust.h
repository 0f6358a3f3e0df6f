/* How far the code in a sandbox is trusted: the names. What each means is in proto/trust_table.h.
 */
#ifndef BERTH_PROTO_TRUST_H
#define BERTH_PROTO_TRUST_H

#include "base/str.h"

enum trust {
	TRUST_UNSAID, /* nobody named one: the host's defaults, and nothing is capped */
	TRUST_HIGH,
	TRUST_MEDIUM,
	TRUST_LOW,
	TRUST_UNTRUSTED,
	TRUST_COUNT,
};

#define TRUST_NAMES "\"high\", \"medium\", \"low\" or \"untrusted\""

/* NULL of TRUST_UNSAID. */
const char *trust_name(enum trust trust);
/* -EINVAL for any other word. */
int trust_parse(struct str name, enum trust *ret);

#endif
