#include "container/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/binds.h"
#include "container/dir.h"
#include "container/kernels.h"
#include "container/mount.h"
#include "container/trash.h"

#define RUN_SIZE   "size=64m"
#define BERTH_SIZE "size=4m"
#define KERNELS    "kernels" /* of container/kernels.h */
#define LOWER      ".lower"  /* below <run>: where a lower layer is for a moment */
#define INIT_MAX   (16 * 1024 * 1024)

/* The image with its owners shifted to those of the sandbox. */
static int map_image(int image, struct id_map map, struct err *err)
{
	const struct mount_ids ids = {0, map.first, map.count};
	cleanup_fd int userns = mount_make_userns(ids, ids);
	cleanup_fd int tree = -1;
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY};

	if (userns < 0)
		return err_set(err, userns, ERR_START_FAILED, "cannot make a user namespace: %s",
			       strerror(-userns));
	tree = open_tree(image, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return err_set(err, -errno, ERR_START_FAILED, "cannot clone the image's mount: %s",
			       strerror(errno));
	attr.userns_fd = (uint64_t)userns;
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_set(
			err, -errno, ERR_START_FAILED,
			"cannot map the image's owners (its file system may not know how): %s",
			strerror(errno));
	return take_fd(&tree);
}

static int overlay(const struct container_host *host, int image, int disk_fd, struct err *err)
{
	cleanup_fd int upper = dir_open(disk_fd, "upper"), work = dir_open(disk_fd, "work");
	char paths[3][32];
	struct mount_option options[] = {
		{"source", "berth"},
		{"lowerdir", paths[0]},
		{"upperdir", paths[1]},
		{"workdir", paths[2]},
		/* Uppers are moved and forked; no handles into them are wanted. */
		{"index", "off"},
		{host->is_rootless ? "userxattr" : NULL, NULL},
		{NULL, NULL},
	};
	const int fds[] = {image, upper, work};

	if (upper < 0 || work < 0)
		return err_set(err, -EINVAL, ERR_START_FAILED,
			       "the sandbox's disk is not whole: %s",
			       strerror(upper < 0 ? -upper : -work));
	for (int i = 0; i < 3; i++)
		snprintf(paths[i], sizeof(paths[i]), "/proc/self/fd/%d", fds[i]);
	return mount_make("overlay", options, MOUNT_SAFE, err);
}

/* The runtime's own mount points, and ours: there must be folders there and nothing else. */
static const char *const points[] = {"proc", "dev", "sys", "run"};
static const char *const writable[] = {"workspace", "tmp"};

struct clearing {
	const struct container_host *host;
	const struct rootfs_plan *plan;
	int disk, upper, trash;
};

static int clear_point(const struct clearing *c, const char *name)
{
	struct stat st;

	if (fstatat(c->upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return 0;
	/* The trash is on another file system. */
	if (c->plan->is_pooled)
		return pool_throw_away(c->host->pool, c->disk, c->upper, name);
	return trash_move(c->trash, c->upper, name, c->plan->id);
}

/*
 * Root inside may have left a symlink or a file in the place of a mount point; that was never to be
 * seen behind the mount, and goes. Into the trash, since to unlink a large file can take seconds,
 * and all others would wait for them; and before the overlay is made, under which nothing may
 * change.
 */
static int clear_points(const struct container_host *host, const struct rootfs_plan *plan,
			int disk_fd, struct err *err)
{
	cleanup_fd int upper = dir_open(disk_fd, "upper"), trash = trash_open(host);
	unsigned shared_count = plan->shares_host ? host->image.shared_count : 0;
	const struct clearing clearing = {host, plan, disk_fd, upper, trash};
	int r = upper < 0 ? upper : trash < 0 ? trash : 0;

	for (size_t i = 0; i < array_len(points) && r == 0; i++)
		r = clear_point(&clearing, points[i]);
	for (size_t i = 0; plan->is_read_only && i < array_len(writable) && r == 0; i++)
		r = clear_point(&clearing, writable[i]);
	for (unsigned i = 0; i < shared_count && r == 0; i++)
		r = clear_point(&clearing, host->image.shared[i]);
	if (r < 0)
		return err_set(err, r, ERR_START_FAILED,
			       "the mount points on the sandbox's disk cannot be cleared: %s",
			       strerror(-r));
	return 0;
}

/* A mount point in the overlay, which must be a plain folder. What the image has instead goes. */
static int open_point(int root, const char *name, uid_t owner, struct err *err)
{
	int fd = dir_open_file(root, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0), r = 0;

	if (fd >= 0)
		return fd;
	if ((fd == -ENOTDIR || fd == -ELOOP) && unlinkat(root, name, 0) < 0)
		r = -errno;
	if (r == 0 && mkdirat(root, name, 0755) < 0)
		r = -errno;
	if (r == 0 && fchownat(root, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	fd = r < 0 ? r : dir_open_file(root, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0)
		return err_set(err, fd, ERR_START_FAILED,
			       "/%s on the sandbox's disk is no folder to mount on: %s", name,
			       strerror(-fd));
	return fd;
}

/* One of the machine's folders. Recursive: what is mounted below it cannot be left out. */
static int share(int root, const char *name, uid_t owner, struct err *err)
{
	struct mount_attr attr = {.attr_set = MOUNT_SAFE | MOUNT_ATTR_RDONLY};
	cleanup_fd int target = open_point(root, name, owner, err);
	cleanup_fd int tree = -1;
	char path[32];

	if (target < 0)
		return target;
	snprintf(path, sizeof(path), "/%s", name);
	tree = open_tree(AT_FDCWD, path,
			 AT_SYMLINK_NOFOLLOW | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0 ||
	    mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return err_set(err, -errno, ERR_START_FAILED, "cannot share %s: %s", path,
			       strerror(errno));
	return mount_attach(tree, target, path, err);
}

/* A folder of the root mounted on itself, so that it stays writable when the root is not. */
static int keep_writable(int root, const char *name, uid_t owner, struct err *err)
{
	cleanup_fd int target = open_point(root, name, owner, err);
	cleanup_fd int tree = -1;

	if (target < 0)
		return target;
	tree = open_tree(target, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return err_set(err, -errno, ERR_START_FAILED, "cannot keep /%s writable: %s", name,
			       strerror(errno));
	return mount_attach(tree, target, name, err);
}

static int make_tmpfs(const char *mode, const char *size, uid_t owner, struct err *err)
{
	char ids[16];
	struct mount_option options[] = {
		{"source", "tmpfs"}, {"mode", mode}, {"size", strchr(size, '=') + 1},
		{"uid", ids},        {"gid", ids},   {NULL, NULL},
	};

	snprintf(ids, sizeof(ids), "%u", owner);
	return mount_make("tmpfs", options, MOUNT_SAFE, err);
}

/* A copy of what is in the guest's tmpfs, on a file or folder of /run/berth. */
static int mount_of_guest(const struct container_host *host, int point, const char *name,
			  struct err *err)
{
	cleanup_fd int tree = open_tree(host->guest_fd, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (tree < 0 || point < 0)
		return err_set(err, -EIO, ERR_START_FAILED, "cannot make a place for /run/berth/%s",
			       name);
	return mount_attach(tree, point, name, err);
}

/* /run, /run/berth, and what is in it: init and the kernels. */
static int mount_run(const struct container_host *host, int root, uid_t owner, struct err *err)
{
	cleanup_fd int target = open_point(root, "run", owner, err);
	cleanup_fd int run = target < 0 ? -1 : make_tmpfs("0755", RUN_SIZE, owner, err);
	/* Everybody inside may come by: init's fifo is there. */
	cleanup_fd int berth = run < 0 ? -1 : make_tmpfs("0711", BERTH_SIZE, owner, err);
	cleanup_fd int point = -1, file = -1, folder = -1;

	if (berth < 0)
		return -EIO;
	if (mkdirat(run, "berth", 0700) < 0 || fchownat(run, "berth", owner, owner, 0) < 0)
		return err_set(err, -errno, ERR_START_FAILED, "cannot fill /run: %s",
			       strerror(errno));
	point = dir_open_file(run, "berth", O_PATH | O_DIRECTORY, 0);
	file = dir_open_file(berth, "init", O_RDONLY | O_CREAT | O_EXCL, 0555);
	folder = dir_make(berth, KERNELS, 0755);
	if (point < 0)
		return err_set(err, point, ERR_START_FAILED, "cannot open /run/berth: %s",
			       strerror(-point));
	/* From the outside in: a detached mount takes no others on older kernels. */
	if (mount_attach(run, target, "/run", err) < 0 ||
	    mount_attach(berth, point, "/run/berth", err) < 0 ||
	    mount_of_guest(host, file, "init", err) < 0 ||
	    mount_of_guest(host, folder, KERNELS, err) < 0)
		return -EIO;
	return 0;
}

/*
 * Where commands run by default. Root inside may remove it, and after that no command could be
 * started; what stands in its place otherwise is root's own will. No link is followed.
 */
static int make_workspace(int root, uid_t owner, struct err *err)
{
	if (mkdirat(root, "workspace", 0755) < 0)
		return errno == EEXIST ? 0
				       : err_set(err, -errno, ERR_START_FAILED,
						 "cannot make /workspace: %s", strerror(errno));
	if (fchownat(root, "workspace", owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, -errno, ERR_START_FAILED, "cannot make /workspace: %s",
			       strerror(errno));
	return 0;
}

static int add_mounts(const struct container_host *host, const struct rootfs_plan *plan, int root,
		      struct err *err)
{
	uid_t owner = plan->map.first;
	int r = 0;

	for (size_t i = 0; i < array_len(points) && r == 0; i++) {
		cleanup_fd int fd = open_point(root, points[i], owner, err);

		r = fd < 0 ? fd : 0;
	}
	for (unsigned i = 0; plan->shares_host && i < host->image.shared_count && r == 0; i++)
		r = share(root, host->image.shared[i], owner, err);
	for (size_t i = 0; plan->is_read_only && i < array_len(writable) && r == 0; i++)
		r = keep_writable(root, writable[i], owner, err);
	if (r == 0 && !plan->is_read_only)
		r = make_workspace(root, owner, err);
	if (r == 0)
		r = mount_run(host, root, owner, err);
	/* Last: nothing of the above may be found behind one of them. */
	return r < 0 ? r : binds_mount(host, plan->mounts, plan->map, root, err);
}

/*
 * The overlay's lower layer must be attached somewhere while the overlay is made (before Linux 6.13
 * it cannot be given by fd); afterwards the overlay holds its own copy of that mount.
 */
static int mount_overlay(const struct container_host *host, const struct rootfs_plan *plan,
			 int disk_fd, struct err *err)
{
	cleanup_fd int image = plan->shares_host ? dir_open(host->images_fd, plan->image)
						 : image_open(host->images_fd, plan->image, err);
	cleanup_fd int lower = -1;
	int root;

	if (image < 0 && plan->shares_host)
		err_set(err, image, ERR_START_FAILED, "the image of the host is missing: %s",
			strerror(-image));
	if (image < 0)
		return image;
	if (host->is_rootless)
		return overlay(host, image, disk_fd, err);
	lower = map_image(image, plan->map, err);
	if (lower < 0)
		return lower;
	if (mount_attach_below(lower, host->run_fd, LOWER, err) < 0)
		return -EIO;
	root = overlay(host, lower, disk_fd, err);
	mount_detach_below(host->run_fd, LOWER);
	return root;
}

int rootfs_mount(const struct container_host *host, const struct rootfs_plan *plan, int disk_fd,
		 int bundle_fd, struct err *err)
{
	cleanup_fd int root = -1, target = -1;
	int r = clear_points(host, plan, disk_fd, err);

	root = r < 0 ? r : mount_overlay(host, plan, disk_fd, err);
	if (root < 0)
		return root;
	target = dir_make(bundle_fd, "rootfs", 0700);
	if (target < 0)
		return err_set(err, target, ERR_START_FAILED, "cannot make the bundle: %s",
			       strerror(-target));
	r = mount_attach(root, target, "the root", err);
	if (r == 0)
		r = add_mounts(host, plan, root, err);
	if (r < 0)
		rootfs_unmount(bundle_fd);
	return r;
}

int rootfs_unmount(int bundle_fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/rootfs", bundle_fd);
	/* EINVAL: it is no mount point. */
	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 && errno != EINVAL && errno != ENOENT)
		return -errno;
	return 0;
}

static int copy_init(const char *init_path, int guest)
{
	cleanup_fd int from = open(init_path, O_RDONLY | O_CLOEXEC);
	cleanup_fd int to = -1;
	struct stat st;

	if (from < 0 || fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > INIT_MAX)
		return -EINVAL;
	to = dir_open_file(guest, "init", O_WRONLY | O_CREAT | O_EXCL, 0555);
	if (to < 0)
		return to;
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(to, from, NULL, (size_t)left);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		left -= n;
	}
	return fchmod(to, 0555) < 0 ? -errno : 0;
}

int rootfs_mount_guest(const char *init_path, int run_fd, const char *name, struct err *err)
{
	cleanup_fd int target = dir_make(run_fd, name, 0711);
	cleanup_fd int guest = target < 0 ? -1 : make_tmpfs("0755", "size=16m", 0, err);
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	char path[64];
	int r;

	if (guest < 0)
		return target < 0 ? err_set(err, target, ERR_INTERNAL, "cannot make <run>/%s: %s",
					    name, strerror(-target))
				  : guest;
	r = copy_init(init_path, guest);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot copy %s: %s", init_path, strerror(-r));
	r = kernels_write(guest, KERNELS);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot write the kernels: %s", strerror(-r));
	if (mount_setattr(guest, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot seal the copy of berth-init: %s",
			       strerror(errno));
	/* An earlier keeper's, in the same namespace; containers have their own copies. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", run_fd, name);
	while (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		continue;
	close(take_fd(&target));
	target = dir_open(run_fd, name);
	if (target < 0 || mount_attach(guest, target, "the copy of berth-init", err) < 0)
		return -EIO;
	return take_fd(&guest);
}
