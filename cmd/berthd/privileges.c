#include "cmd/berthd/privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int privileges_find(struct privileges *ret, const char *user, struct err *err)
{
	const char *name = user[0] ? user : PRIVILEGES_USER;
	struct passwd *entry;

	*ret = (struct privileges){.uid = geteuid(), .gid = getegid()};
	if (geteuid() != 0) {
		if (user[0])
			return err_set(
				err, -EPERM, ERR_FORBIDDEN,
				"only root can start berthd as another user: leave out --user");
		return 0;
	}
	entry = getpwnam(name);
	if (!entry)
		return err_set(err, -ENOENT, ERR_NOT_FOUND,
			       "there is no user \"%s\" for berthd to run as: scripts/setup makes "
			       "\"" PRIVILEGES_USER "\", or choose one with --user NAME",
			       name);
	if (entry->pw_uid == 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "berthd does not run as root: choose another --user");
	ret->is_root = true;
	ret->uid = entry->pw_uid;
	ret->gid = entry->pw_gid;
	snprintf(ret->user, sizeof(ret->user), "%s", name);
	return 0;
}

/* Not even a program with file capabilities could give one back. */
static int drop_bounding_set(void)
{
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return -errno;
	}
	return 0;
}

int privileges_drop(const struct privileges *p, struct err *err)
{
	if (p->is_root) {
		int r = drop_bounding_set();

		if (r < 0)
			return err_set(err, r, ERR_INTERNAL, "cannot give up capabilities: %s",
				       strerror(-r));
		if (initgroups(p->user, p->gid) < 0 || setresgid(p->gid, p->gid, p->gid) < 0 ||
		    setresuid(p->uid, p->uid, p->uid) < 0)
			return err_set(err, -errno, ERR_INTERNAL, "cannot become user \"%s\": %s",
				       p->user, strerror(errno));
		if (setuid(0) == 0 || geteuid() == 0)
			return err_set(err, -EPERM, ERR_INTERNAL,
				       "privileges could be regained: not going on");
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot give up new privileges: %s",
			       strerror(errno));
	return 0;
}
