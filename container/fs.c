#include "container/fs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
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

int fs_make(const char *type, const struct fs_option *options, unsigned attributes, struct err *err)
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

int fs_attach(int mount, int target, const char *what, struct err *err)
{
	if (move_mount(mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
	    0)
		return err_set(err, -errno, ERR_START_FAILED, "cannot attach %s: %s", what,
			       strerror(errno));
	return 0;
}

int fs_attach_below(int mount, int run_fd, const char *name, struct err *err)
{
	cleanup_fd int point = dir_make(run_fd, name, 0700);

	if (point < 0)
		return err_set(err, point, ERR_START_FAILED, "cannot make <run>/%s: %s", name,
			       strerror(-point));
	return fs_attach(mount, point, name, err);
}

void fs_detach_below(int run_fd, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", run_fd, name);
	umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
}
