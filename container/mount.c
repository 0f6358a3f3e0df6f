#include "container/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/dir.h"

/* The kernel's own words about a mount that failed, if there are any. */
static int fs_failed(struct err *err, int error, int fs, const char *what)
{
	char words[256];
	ssize_t n = read(fs, words, sizeof(words) - 1);

	words[n > 0 ? n : 0] = '\0';
	words[strcspn(words, "\n")] = '\0';
	/* "e overlay: ..." */
	return err_set(err, error, ERR_START_FAILED, "cannot mount %s: %s%s%s", what,
		       strerror(-error), n > 2 ? ": " : "", n > 2 ? words + 2 : "");
}

int mount_make(const char *type, const struct mount_option *options, unsigned attributes,
	       struct err *err)
{
	cleanup_fd int fs = fsopen(type, FSOPEN_CLOEXEC);
	int r = fs < 0 ? -errno : 0, mount;

	for (; r == 0 && options->key; options++) {
		r = options->value
			    ? fsconfig(fs, FSCONFIG_SET_STRING, options->key, options->value, 0)
			    : fsconfig(fs, FSCONFIG_SET_FLAG, options->key, NULL, 0);
		r = r < 0 ? -errno : 0;
	}
	if (r == 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		r = -errno;
	if (r < 0)
		return fs_failed(err, r, fs, type);
	mount = fsmount(fs, FSMOUNT_CLOEXEC, attributes);
	return mount < 0 ? fs_failed(err, -errno, fs, type) : mount;
}

int mount_attach(int mount, int target, const char *what, struct err *err)
{
	if (move_mount(mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
	    0)
		return err_set(err, -errno, ERR_START_FAILED, "cannot attach %s: %s", what,
			       strerror(errno));
	return 0;
}

static int write_map(int proc, const char *name, struct mount_ids ids)
{
	char text[64];

	snprintf(text, sizeof(text), "%u %u %u", ids.inside, ids.outside, ids.count);
	return dir_write(proc, name, text);
}

int mount_attach_below(int mount, int run_fd, const char *name, struct err *err)
{
	cleanup_fd int point = dir_make(run_fd, name, 0700);

	if (point < 0)
		return err_set(err, point, ERR_START_FAILED, "cannot make <run>/%s: %s", name,
			       strerror(-point));
	return mount_attach(mount, point, name, err);
}

void mount_detach_below(int run_fd, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", run_fd, name);
	umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
}

int mount_make_userns(struct mount_ids users, struct mount_ids groups)
{
	struct clone_args args = {.flags = CLONE_NEWUSER};
	pid_t parent = getpid();
	long pid = syscall(SYS_clone3, &args, sizeof(args));
	char path[64];
	int r = 0, fd = -1;
	cleanup_fd int proc = -1;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		/* If we are killed, it must not stay, with our lock in its hands. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
			pause();
		_exit(0);
	}
	snprintf(path, sizeof(path), "/proc/%ld", pid);
	proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		r = -errno;
	if (r == 0)
		r = write_map(proc, "uid_map", users);
	if (r == 0)
		r = write_map(proc, "gid_map", groups);
	if (r == 0) {
		fd = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
		r = fd < 0 ? -errno : 0;
	}
	kill((pid_t)pid, SIGKILL);
	/* It has no exit signal, so that no other wait() takes it. */
	waitpid((pid_t)pid, NULL, __WALL);
	return r < 0 ? r : fd;
}
