/*
 * The name of a sandbox: [a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?, as a path segment and a DNS label.
 * "berthd" is taken, and names such as runs have are theirs alone.
 */
#ifndef BERTH_PROTO_SANDBOX_ID_H
#define BERTH_PROTO_SANDBOX_ID_H

#include <stdbool.h>

#include "base/str.h"

#define SANDBOX_ID_MAX 63

struct sandbox_id {
	char text[SANDBOX_ID_MAX + 1];
};

/* Upper case is folded here, once, on entry. -EINVAL for anything else. */
int sandbox_id_parse(struct str text, struct sandbox_id *ret);

/* Exactly the canonical form? For those who get it from berthd and trust nothing. */
bool sandbox_id_is_valid(struct str text);

/* "run-" and 26 characters of base32: a run's, or of one that is kept warm for runs. */
bool sandbox_id_is_of_run(const struct sandbox_id *id);

/* Labels of such sandboxes. Anybody can give one, and there may be an old sandbox of such a name;
 * both has none but theirs. */
#define SANDBOX_LABEL_RUN  "berth.run"
#define SANDBOX_LABEL_POOL "berth.pool"

#endif
