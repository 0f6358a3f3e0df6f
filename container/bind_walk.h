/*
 * The way to a folder of the host, name by name. Whoever may write to a folder on the way may put
 * another thing there, so that:
 *
 *	links      are followed only on the way to a folder that our command line allows, and only
 *	           where root alone can have made them: the link and the folder it stands in are
 *	           root's, nobody else may write there, and so is all above it ("/home" that is
 *	           "/var/home"). Rootless, root's and others' files look the same: there they are
 *	           followed in "/" and in folders of our own user.
 *	owners     from a folder of root the way may lead to anybody's; from one of an ordinary user
 *	           not to one of another, whose files would be in the first one's hands
 */
#ifndef BERTH_CONTAINER_BIND_WALK_H
#define BERTH_CONTAINER_BIND_WALK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"

struct bind_walk {
	bool is_rootless;
	uid_t owner; /* the ordinary user in whose folders we are; 0: in nobody's yet */
};

/* An O_PATH fd. -ELOOP: a link that is not followed. -EPERM: from one user's to another's. */
int bind_walk_allowed(struct bind_walk *walk, struct str path);
/* Further from there, on the same file system and through no link; "" is the folder itself. */
int bind_walk_below(struct bind_walk *walk, int folder, const char *path);

#endif
