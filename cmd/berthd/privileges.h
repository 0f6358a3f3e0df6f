/*
 * Who berthd becomes. Started as root it works as an ordinary user that owns only its own
 * directories, and cannot come back; started by anybody else it stays who it is.
 */
#ifndef BERTH_CMD_BERTHD_PRIVILEGES_H
#define BERTH_CMD_BERTHD_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

#define PRIVILEGES_USER "berth" /* made by scripts/setup */

struct privileges {
	bool is_root; /* there is something to drop */
	uid_t uid;
	gid_t gid;
	char user[64];
};

/* `user` is "" for the default. No such user → a sentence. */
int privileges_find(struct privileges *ret, const char *user, struct err *err);

/* For good: ids, groups, capabilities, and no way to gain any by execve. Checked. */
int privileges_drop(const struct privileges *p, struct err *err);

#endif
