#include "cmd/berth-keeper/places.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define LOCK_WAIT_MS 20000 /* the keeper ends a while after a monitor that was killed */
#define LOCK_STEP_MS 20

static int make_parents(const char *path, mode_t mode, struct err *err)
{
	char part[PATH_MAX];
	size_t len = strlen(path);

	memcpy(part, path, len + 1);
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		part[i] = '\0';
		if (mkdir(part, mode) < 0 && errno != EEXIST)
			return err_set(err, -errno, ERR_INTERNAL,
				       "the directory \"%s\" cannot be made: %s", part,
				       strerror(errno));
		part[i] = path[i];
	}
	return 0;
}

/* In a child that is berthd's user, so that the kernel decides. */
static bool can_daemon_enter(const char *path, const struct options *options)
{
	pid_t pid;
	int status;

	if (options->daemon_uid == geteuid())
		return true;
	pid = fork();
	if (pid == 0) {
		struct passwd *user = getpwuid(options->daemon_uid);
		bool is_user = (user ? initgroups(user->pw_name, options->daemon_gid)
				     : setgroups(0, NULL)) == 0 &&
			       setresgid(options->daemon_gid, options->daemon_gid,
					 options->daemon_gid) == 0 &&
			       setresuid(options->daemon_uid, options->daemon_uid,
					 options->daemon_uid) == 0;

		_exit(is_user && chdir(path) == 0 ? 0 : 1);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/*
 * Others must be able to pass: berthd's user, and a sandbox's root on its way to its own rootfs.
 * That is why what is there already gets an x for all.
 */
static int make_one(const char *path, const struct options *options, struct err *err)
{
	cleanup_fd int fd = -1;
	struct stat st;
	int r = make_parents(path, 0711, err);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, ERR_INTERNAL,
			       "the directory \"%s\" cannot be opened: %s", path, strerror(errno));
	if (st.st_uid != geteuid())
		return err_set(err, -EPERM, ERR_INTERNAL,
			       "the directory \"%s\" belongs to user %u, not to us", path,
			       (unsigned)st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, -EPERM, ERR_INTERNAL,
			       "others can write to the directory \"%s\"; run: chmod go-w %s", path,
			       path);
	if (fchmod(fd, (st.st_mode & 07777) | 0011) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "the mode of \"%s\" cannot be set: %s",
			       path, strerror(errno));
	if (!can_daemon_enter(path, options))
		return err_set(err, -EACCES, ERR_INTERNAL,
			       "berthd's user %u cannot enter the directory \"%s\": each directory "
			       "above it needs x for others",
			       (unsigned)options->daemon_uid, path);
	return 0;
}

int places_make(const struct options *options, struct err *err)
{
	int r;

	umask(0022);
	r = make_one(options->state_dir, options, err);
	return r < 0 ? r : make_one(options->run_dir, options, err);
}

/* What the holder wrote into the lock; 0 if that is nothing. */
static long read_holder(int fd)
{
	char text[24] = {0};
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	char *end;
	long pid;

	if (n <= 0)
		return 0;
	pid = strtol(text, &end, 10);
	return *end == '\n' && pid > 0 && pid <= INT_MAX ? pid : 0;
}

static int take_lock(int fd, const struct options *options, struct err *err)
{
	const struct timespec step = {.tv_nsec = LOCK_STEP_MS * 1000000L};

	for (unsigned waited = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited += LOCK_STEP_MS) {
		long pid = read_holder(fd);
		bool is_dead = pid && kill((pid_t)pid, 0) < 0 && errno == ESRCH;

		if (!is_dead || waited >= LOCK_WAIT_MS)
			return err_set(
				err, -EBUSY, ERR_CONFLICT,
				"another berth-keeper (pid %ld) uses the state directory \"%s\"",
				pid, options->state_dir);
		nanosleep(&step, NULL);
	}
	return 0;
}

int places_lock(const struct options *options, int *ret_fd, struct err *err)
{
	cleanup_fd int fd = -1;
	char path[PATH_MAX + 8], text[24];
	int n, r;

	snprintf(path, sizeof(path), "%s/lock", options->state_dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(err, -errno, ERR_INTERNAL, "the lock \"%s\" cannot be opened: %s",
			       path, strerror(errno));
	r = take_lock(fd, options, err);
	if (r < 0)
		return r;
	n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
		return err_set(err, -EIO, ERR_INTERNAL, "the lock \"%s\" cannot be written: %s",
			       path, strerror(errno));
	*ret_fd = take_fd(&fd);
	return 0;
}

static int put_link(const struct options *options, const char *name, const char *text,
		    struct err *err)
{
	char path[PATH_MAX + 32], fresh[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/%s", options->run_dir, name);
	snprintf(fresh, sizeof(fresh), "%s/%s.new", options->run_dir, name);
	unlink(fresh); /* of one that was killed here */
	if (symlink(text, fresh) < 0 || rename(fresh, path) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "the link \"%s\" cannot be made: %s",
			       path, strerror(errno));
	return 0;
}

int places_tell(const struct options *options, struct err *err)
{
	char binds[MOUNTS_DIGEST_SIZE];
	int r = put_link(options, ".state", options->state_dir, err);

	mounts_allowed_digest(options->allow_bind, options->allow_bind_count, binds);
	return r < 0 ? r : put_link(options, ".allow-bind", binds, err);
}
