/*
 * Who an exec runs as, by the sandbox's own /etc/passwd and /etc/group. Both belong to the
 * sandbox: they may be huge, hostile or no files at all.
 *
 *	""          init's own ids, untouched
 *	"name"      its uid, gid and supplementary groups
 *	"uid"       the gid of its line in passwd, else the same number; no other groups
 *	"uid:gid"   just these
 */
#ifndef BERTH_INIT_USER_H
#define BERTH_INIT_USER_H

#include <stdint.h>

#include "base/str.h"

#define USER_GROUPS_MAX 1024
#define USER_HOME_MAX   1024
#define USER_FILE_MAX   (1024 * 1024)

enum user_kind { USER_OWN, USER_NAMED, USER_UID, USER_UID_GID };

struct user {
	enum user_kind kind;
	struct str name;
	uint32_t uid, gid;
	uint32_t group_count; /* the gid is the first of them */
	uint32_t groups[USER_GROUPS_MAX];
	struct str home; /* in the passwd that user_find() was given, or "/" */
};

/* -EINVAL for anything else than the four forms. */
int user_parse(struct str text, struct user *ret);

/* Completes USER_NAMED (-ENOENT: there is no such user) and USER_UID, and finds the home. */
int user_find(struct user *user, struct str passwd);

/* Adds the groups that name a USER_NAMED user. -E2BIG past USER_GROUPS_MAX. */
int user_add_groups(struct user *user, struct str group);

/*
 * The whole of a regular file, into `bytes` with room for USER_FILE_MAX. Never waits: -EINVAL for
 * what is no regular file, -EFBIG for a larger one, -ELOOP for a way through a magic link.
 */
int user_read_file(const char *path, char *bytes, struct str *ret);

#endif
