#include "base/directory.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *path, const char *part, struct err *err)
{
	int error = errno;

	if (strcmp(path, part) == 0)
		return err_set(err, -error, ERR_INTERNAL, "the directory \"%s\" cannot be made: %s",
			       path, strerror(error));
	return err_set(err, -error, ERR_INTERNAL,
		       "the directory \"%s\" cannot be made, because of \"%s\": %s", path, part,
		       strerror(error));
}

/* 1 when it was made, 0 when something of that name is there already. */
static int make_one(const char *path, const char *part, mode_t mode, struct err *err)
{
	struct stat st;

	if (stat(part, &st) == 0) {
		errno = ENOTDIR;
		return S_ISDIR(st.st_mode) ? 0 : fail(path, part, err);
	}
	if (errno != ENOENT)
		return fail(path, part, err);
	if (mkdir(part, mode) == 0)
		/* Past the umask; nobody but us could have put another thing there. */
		return chmod(part, mode) == 0 ? 1 : fail(path, part, err);
	if (errno == EEXIST && stat(part, &st) == 0 && S_ISDIR(st.st_mode))
		return 0; /* somebody was faster */
	return fail(path, part, err);
}

static int check_owner(const char *path, struct err *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return fail(path, path, err);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(err, -EPERM, ERR_INTERNAL,
			       "the directory \"%s\" belongs to user %u, not to us", path,
			       (unsigned)st.st_uid);
	if (st.st_mode & S_IWOTH)
		return err_set(err, -EPERM, ERR_INTERNAL,
			       "everybody can write to the directory \"%s\"; run: chmod o-w %s",
			       path, path);
	if (access(path, W_OK | X_OK) < 0)
		return err_set(err, -errno, ERR_INTERNAL,
			       "we cannot write to the directory \"%s\": %s", path,
			       strerror(errno));
	return 0;
}

int directory_make(const char *path, mode_t mode, struct err *err)
{
	char part[PATH_MAX];
	size_t len = strlen(path);
	int r = 0;

	if (len == 0 || len >= sizeof(part)) {
		errno = len ? ENAMETOOLONG : ENOENT;
		return fail(path, path, err);
	}
	for (size_t i = 1; i <= len && r >= 0; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		r = make_one(path, part, mode, err);
	}
	return r < 0 ? r : check_owner(path, err);
}
