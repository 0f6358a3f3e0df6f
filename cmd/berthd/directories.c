#include "cmd/berthd/directories.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/directory.h"

#define SHARED_MODE 0711 /* to be passed through, not to be listed */
#define OWN_MODE    0700

static int give(const char *path, const struct privileges *p, struct err *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || (p->is_root && fchown(fd, p->uid, p->gid) < 0))
		return err_set(err, -errno, ERR_FORBIDDEN, "cannot give %s to user %s: %s", path,
			       p->user, strerror(errno));
	return 0;
}

/* Tried by a child that is that user: permissions, ACLs and mounts are the kernel's to judge. */
static int check_reach(const char *path, const struct privileges *p, struct err *err)
{
	int status = 0;
	pid_t pid;

	if (!p->is_root)
		return 0;
	pid = fork();
	if (pid == 0)
		_exit(privileges_drop(p, NULL) < 0 || access(path, W_OK | X_OK) < 0);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot fork: %s", strerror(errno));
	if (status != 0)
		return err_set(err, -EACCES, ERR_FORBIDDEN,
			       "user %s cannot reach %s: let it pass through the directories above "
			       "(chmod o+x)",
			       p->user, path);
	return 0;
}

static int make_pair(const char *shared, mode_t own_mode, const struct privileges *p,
		     struct err *err)
{
	char own[PATH_MAX];
	int r;

	if (snprintf(own, sizeof(own), "%s/berthd", shared) >= (int)sizeof(own))
		return err_set(err, -ENAMETOOLONG, ERR_INVALID_REQUEST, "%s is too long", shared);
	r = directory_make(shared, p->is_root ? SHARED_MODE : own_mode, err);
	/* One that an earlier version or somebody's hands made may be tighter than this needs. */
	if (r == 0 && p->is_root && chmod(shared, SHARED_MODE) < 0)
		r = err_set(err, -errno, ERR_FORBIDDEN, "cannot open %s: %s", shared,
			    strerror(errno));
	if (r == 0)
		r = mkdir(own, own_mode) < 0 && errno != EEXIST
			    ? err_set(err, -errno, ERR_FORBIDDEN, "cannot make %s: %s", own,
				      strerror(errno))
			    : 0;
	if (r == 0)
		r = give(own, p, err);
	return r < 0 ? r : check_reach(own, p, err);
}

int directories_make(const struct paths *paths, const struct privileges *p, struct err *err)
{
	int r = make_pair(paths->state_dir, OWN_MODE, p, err);

	return r < 0 ? r : make_pair(paths->run_dir, SHARED_MODE, p, err);
}
