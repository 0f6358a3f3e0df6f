#include "container/binds.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/bind_source.h"
#include "container/dir.h"
#include "container/mount.h"
#include "container/owners.h"
#include "proto/mounts.h"

#define INODES_MIN   1024
#define INODES_MAX   (1U << 20)
#define INODE_EVERY  4096 /* bytes */
#define POINT_FLAGS  (O_PATH | O_DIRECTORY | O_NOFOLLOW)
#define POINT_MODE   0755
#define LOCKED_WORDS "something is mounted below it, which only root can leave out"

/* --- where --- */

/* What is there already, in words: it stands in the way. */
static const char *word_of(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return "nothing that can be looked at";
	return S_ISLNK(st.st_mode)   ? "a symbolic link"
	       : S_ISREG(st.st_mode) ? "a file"
				     : "no folder";
}

static int make_point(int dir, const char *name, uid_t owner)
{
	/* Whatever the umask was. Nothing of the sandbox runs: it is still ours. */
	if (mkdirat(dir, name, POINT_MODE) < 0 || fchmodat(dir, name, POINT_MODE, 0) < 0 ||
	    fchownat(dir, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return dir_open_file(dir, name, POINT_FLAGS, 0);
}

/* One folder further, on the sandbox's own file system, whose number is `device`. */
static int step_into(int dir, const char *name, dev_t device, uid_t owner)
{
	cleanup_fd int fd = dir_open_file(dir, name, POINT_FLAGS, 0);
	struct stat st;

	if (fd == -ENOENT)
		fd = make_point(dir, name, owner);
	if (fd < 0)
		return take_fd(&fd);
	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_dev == device ? take_fd(&fd) : -EXDEV;
}

static int step_failed(int error, int dir, const char *name, const char *target, struct err *err)
{
	if (error == -ELOOP || error == -ENOTDIR)
		return err_set(err, error, ERR_START_FAILED,
			       "nothing can be mounted on %s: \"%s\" in its path is %s inside; "
			       "start the sandbox without this mount, remove it, and try again",
			       target, name, word_of(dir, name));
	if (error == -EXDEV)
		return err_set(err, error, ERR_START_FAILED,
			       "nothing can be mounted on %s: \"%s\" in its path is a mount of its "
			       "own",
			       target, name);
	return err_set(err, error, ERR_START_FAILED, "the folder %s cannot be made inside: %s",
		       target, strerror(-error));
}

/* What is on the sandbox's disk was written by whoever wants to be led elsewhere. */
static int open_target(int root, const char *target, uid_t owner, struct err *err)
{
	cleanup_fd int fd = dir_open_file(root, ".", POINT_FLAGS, 0);
	struct str rest = str_of(target + 1);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -EIO, ERR_START_FAILED, "the root cannot be opened");
	while (rest.len) {
		struct str part = str_cut(&rest, '/');
		char name[NAME_MAX + 1];
		int next;

		if (part.len >= sizeof(name))
			return step_failed(-ENAMETOOLONG, fd, "", target, err);
		memcpy(name, part.at, part.len);
		name[part.len] = '\0';
		next = step_into(fd, name, st.st_dev, owner);
		if (next < 0)
			return step_failed(next, fd, name, target, err);
		close(fd);
		fd = next;
	}
	return take_fd(&fd);
}

/* --- what --- */

static int make_tmpfs(const struct mount_item *item, uid_t owner, struct err *err)
{
	uint64_t count = item->size / INODE_EVERY;
	char size[24], inodes[16], ids[16];
	const struct mount_option options[] = {
		{"source", "tmpfs"}, {"mode", "1777"}, {"size", size}, {"nr_inodes", inodes},
		{"uid", ids},        {"gid", ids},     {NULL, NULL},
	};

	count = count < INODES_MIN ? INODES_MIN : count > INODES_MAX ? INODES_MAX : count;
	snprintf(size, sizeof(size), "%" PRIu64, item->size);
	snprintf(inodes, sizeof(inodes), "%" PRIu64, count);
	snprintf(ids, sizeof(ids), "%u", owner);
	return mount_make("tmpfs", options,
			  MOUNT_SAFE | (item->is_read_only ? MOUNT_ATTR_RDONLY : 0), err);
}

/* Of the host's root. Rootless the numbers are those of our namespace, and nothing is mapped. */
static bool is_roots(const struct stat *st)
{
	return st->st_uid == 0 || st->st_gid == 0;
}

static int set_attributes(const struct mount_item *item, int tree, int userns, struct err *err)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_SAFE | (item->is_read_only ? MOUNT_ATTR_RDONLY : 0),
		/* What the host mounts below it later must not come after it. */
		.propagation = MS_PRIVATE,
	};

	if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_set(err, -errno, ERR_START_FAILED, "cannot restrict the mount of %s: %s",
			       item->source, strerror(errno));
	if (userns < 0)
		return 0;
	attr = (struct mount_attr){.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns};
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_set(err, -errno, ERR_UNSUPPORTED,
			       "the folder %s cannot be mounted: its file system cannot give its "
			       "files another owner (idmapped mounts): %s; use one that can, such "
			       "as ext4, xfs or btrfs",
			       item->source, strerror(errno));
	return 0;
}

/* Who of the host is root inside. */
struct owner {
	bool is_mapped; /* false: nobody, it is mounted as it is */
	uid_t uid;
	gid_t gid;
};

static int refuse_write(const struct mount_item *item, const struct stat *st, struct err *err)
{
	if (is_roots(st))
		return err_set(err, -EPERM, ERR_FORBIDDEN,
			       "the folder %s belongs to root's %s (user %u, group %u) and can "
			       "only be mounted with \"read_only\": true; give it to an ordinary "
			       "user and group (chown) to have it written",
			       item->source, st->st_uid ? "group" : "account", (unsigned)st->st_uid,
			       (unsigned)st->st_gid);
	return err_set(err, -EPERM, ERR_FORBIDDEN,
		       "the folder %s belongs to group %u, which is not known (by /etc/passwd) as "
		       "the primary group of its owner, user %u, and can only be mounted with "
		       "\"read_only\": true; give it to that group (chgrp) to have it written",
		       item->source, (unsigned)st->st_gid, (unsigned)st->st_uid);
}

/*
 * Root inside acts as the owner and in the group that it is mapped to, and could leave programs
 * there that act in it: that may be no group but one that the owner acts in anyway. A folder of
 * another group cannot be written to then: the kernel refuses what has an id that is not mapped.
 */
static int find_owner(const struct container_host *host, const struct mount_item *item,
		      const struct stat *st, struct owner *ret, struct err *err)
{
	*ret = (struct owner){.uid = st->st_uid};
	if (host->is_rootless)
		return 0;
	ret->is_mapped = !is_roots(st) && owners_group(st->st_uid, st->st_gid, &ret->gid) == 0 &&
			 ret->gid != 0;
	if (item->is_read_only || (ret->is_mapped && ret->gid == st->st_gid))
		return 0;
	return refuse_write(item, st, err);
}

/* The namespace by which its owner becomes root inside; -1: it is mounted as it is. */
static int map_owner(const struct owner *owner, struct id_map map, int *ret, struct err *err)
{
	*ret = -1;
	if (!owner->is_mapped)
		return 0;
	*ret = mount_make_userns((struct mount_ids){owner->uid, map.first, 1},
				 (struct mount_ids){owner->gid, map.first, 1});
	if (*ret < 0)
		return err_set(err, *ret, ERR_START_FAILED, "cannot make a user namespace: %s",
			       strerror(-*ret));
	return 0;
}

static int make_bind(const struct container_host *host, const struct mount_item *item,
		     struct id_map map, struct err *err)
{
	struct stat st;
	cleanup_fd int source = bind_source_open(host, item, &st, err);
	cleanup_fd int tree = -1, userns = -1;
	struct owner owner;
	int r;

	if (source < 0)
		return source;
	r = find_owner(host, item, &st, &owner, err);
	if (r < 0)
		return r;
	tree = open_tree(source, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return err_set(err, -errno, host->is_rootless ? ERR_UNSUPPORTED : ERR_START_FAILED,
			       "the folder %s cannot be mounted: %s", item->source,
			       host->is_rootless && errno == EINVAL ? LOCKED_WORDS
								    : strerror(errno));
	r = map_owner(&owner, map, &userns, err);
	if (r == 0)
		r = set_attributes(item, tree, userns, err);
	return r < 0 ? r : take_fd(&tree);
}

void binds_look(const struct container_host *host, struct str mounts, int told_fd)
{
	struct mount_item item;

	while (mounts_next(&mounts, &item) > 0) {
		struct stat st;
		struct err err;
		cleanup_fd int fd = -1;

		if (write(told_fd, "", 1) == 1 && item.kind == MOUNT_BIND)
			fd = bind_source_open(host, &item, &st, &err);
	}
}

int binds_mount(const struct container_host *host, struct str mounts, struct id_map map, int root,
		struct err *err)
{
	struct mount_item item;
	int r;

	while ((r = mounts_next(&mounts, &item)) > 0) {
		cleanup_fd int tree = item.kind == MOUNT_BIND ? make_bind(host, &item, map, err)
							      : make_tmpfs(&item, map.first, err);
		cleanup_fd int target = -1;

		if (tree < 0)
			return tree;
		target = open_target(root, item.target, map.first, err);
		if (target < 0)
			return target;
		r = mount_attach(tree, target, item.target, err);
		if (r < 0)
			return r;
	}
	return r < 0 ? err_set(err, r, ERR_INVALID_REQUEST, "the mounts are no list of mounts") : 0;
}
