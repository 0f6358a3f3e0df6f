#include "container/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cgroups.h"
#include "base/cleanup.h"
#include "container/mountinfo.h"

static int read_cgroups(struct cgroups *ret, struct err *err)
{
	cleanup(buf_close) struct buf buf;
	int r;

	buf_init(&buf, MOUNTINFO_MAX);
	r = mountinfo_read("/proc/self/mountinfo", &buf);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "/proc/self/mountinfo cannot be read: %s",
			       strerror(-r));
	cgroups_parse(ret, (struct str){buf_at(&buf), buf_len(&buf)});
	return 0;
}

static int hide(const char *path, bool is_rootless, struct err *err)
{
	int r;

	/* A mount that came with the user namespace is locked: it can only be covered. */
	if (is_rootless)
		r = mount("berth", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
			  "size=4k,nr_inodes=2,mode=0555");
	else
		r = umount2(path, MNT_DETACH);
	if (r < 0)
		return err_set(err, -errno, ERR_INTERNAL,
			       "the cgroup v2 mount \"%s\" cannot be hidden: %s", path,
			       strerror(errno));
	return 0;
}

/*
 * Inside a user namespace the runtime cannot make devices and binds the host's own; and crun gives
 * what it has as stdin, our /dev/null, to the sandbox's root, who could then chmod it for
 * everybody. On a read-only mount neither works, while reading and writing go on.
 */
static int seal_devices(struct err *err)
{
	static const char *const paths[] = {"/dev/null",   "/dev/zero",    "/dev/full",
					    "/dev/random", "/dev/urandom", "/dev/tty"};

	for (size_t i = 0; i < array_len(paths); i++) {
		if (mount(paths[i], paths[i], NULL, MS_BIND, NULL) == 0 &&
		    mount(NULL, paths[i], NULL,
			  MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL) == 0)
			continue;
		if (errno != ENOENT)
			return err_set(err, -errno, ERR_INTERNAL, "%s cannot be sealed: %s",
				       paths[i], strerror(errno));
	}
	return 0;
}

int namespaces_copy_mounts(struct err *err)
{
	if (unshare(CLONE_NEWNS) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "no mount namespace: %s",
			       strerror(errno));
	if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "mounts cannot be made slaves: %s",
			       strerror(errno));
	return 0;
}

int namespaces_enter_mounts(bool is_rootless, int *ret_cgroup2_fd, struct err *err)
{
	cleanup_free struct cgroups *cgroups = malloc(sizeof(*cgroups));
	cleanup_fd int fd = -1;
	const char *v2;
	int r;

	if (!cgroups)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	r = namespaces_copy_mounts(err);
	/* Without root the host's devices are nobody's to give away. */
	if (r == 0 && !is_rootless)
		r = seal_devices(err);
	if (r == 0)
		r = read_cgroups(cgroups, err);
	if (r < 0)
		return r;
	v2 = cgroups->of[CGROUPS_UNIFIED].mount;
	if (*v2)
		fd = open(v2, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*v2 && cgroups_mode(cgroups) == HOST_CGROUPS_HYBRID) {
		r = hide(v2, is_rootless, err);
		if (r < 0)
			return r;
	}
	*ret_cgroup2_fd = take_fd(&fd);
	return 0;
}
