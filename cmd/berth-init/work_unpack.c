#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/work.h"
#include "cmd/berth-init/work_path.h"

#define NS_PER_S   1000000000ULL
#define DEPTH_MAX  (FILE_PATH_MAX / 2 + 1)
#define DIRECTORY  (O_PATH | O_DIRECTORY)
#define PARENTS    0755
#define UNFINISHED 0700

/* A directory gets its own mode and time when the archive has left it; until then we work in it. */
struct pending {
	size_t len; /* of its path, the beginning of `at` */
	struct file_stat stat;
	bool is_new;
};

struct unpack {
	struct work *w;
	int root_fd;
	char name[FILE_PATH_MAX + 1];   /* the entry's; its frame is gone once data comes */
	char parent[FILE_PATH_MAX + 1]; /* of parent_fd, the directory of the last entry */
	int parent_fd;
	const char *last; /* of `name`, in parent_fd */
	char at[FILE_PATH_MAX + 1];
	size_t pending_count;
	struct pending pending[DEPTH_MAX];
};

/* Relative, and no way around: no "..", no ".", no empty name. */
static int copy_name(char ret[FILE_PATH_MAX + 1], struct str name)
{
	struct str rest = name;

	if (name.len >= FILE_PATH_MAX)
		return -ENAMETOOLONG;
	if (memchr(name.at, '\0', name.len) || (name.len && name.at[name.len - 1] == '/'))
		return -EINVAL;
	while (rest.len) {
		struct str part = str_cut(&rest, '/');

		if (!part.len || str_eq(part, STR(".")) || str_eq(part, STR("..")))
			return -EINVAL;
	}
	memcpy(ret, name.at, name.len);
	ret[name.len] = '\0';
	return 0;
}

static int open_beneath(const struct unpack *u, const char *path, int flags)
{
	return path_open(u->root_fd, *path ? path : ".", flags, RESOLVE_BENEATH);
}

/* All of `path`, which lacks at least its end. Each time from the root, so that none gets out. */
static int make_beneath(const struct unpack *u, char *path)
{
	cleanup_fd int fd = open_beneath(u, "", DIRECTORY);
	char *name = path;

	while (fd >= 0 && name) {
		char *slash = strchr(name, '/');
		int next;

		if (slash)
			*slash = '\0';
		next = open_beneath(u, path, DIRECTORY);
		if (next == -ENOENT) {
			if (mkdirat(fd, name, PARENTS) < 0 && errno != EEXIST)
				next = -errno;
			else
				next = open_beneath(u, path, DIRECTORY);
		}
		if (slash)
			*slash = '/';
		close(fd);
		fd = next;
		name = slash ? slash + 1 : NULL;
	}
	return take_fd(&fd);
}

/* The directory that has u->name. */
static int find_parent(struct unpack *u)
{
	char *slash = strrchr(u->name, '/');
	size_t len = slash ? (size_t)(slash - u->name) : 0;

	u->last = slash ? slash + 1 : u->name;
	if (u->parent_fd >= 0 && strlen(u->parent) == len && memcmp(u->parent, u->name, len) == 0)
		return 0;
	close_fdp(&u->parent_fd);
	memcpy(u->parent, u->name, len);
	u->parent[len] = '\0';
	u->parent_fd = open_beneath(u, u->parent, DIRECTORY);
	if (u->parent_fd == -ENOENT)
		u->parent_fd = make_beneath(u, u->parent);
	return u->parent_fd < 0 ? u->parent_fd : 0;
}

static void times_of(const struct file_stat *stat, struct timespec ret[2])
{
	ret[0].tv_sec = 0;
	ret[0].tv_nsec = UTIME_NOW;
	ret[1].tv_sec = stat->mtime;
	ret[1].tv_nsec = stat->mtime_nsec;
}

static bool has_owners(const struct unpack *u)
{
	return u->w->request.flags & FILE_OWNERS;
}

static int finish_directory(const struct unpack *u, const struct pending *p)
{
	cleanup_fd int fd = open_beneath(u, u->at, DIRECTORY | O_NOFOLLOW);
	struct timespec times[2];
	char path[PATH_FD_SIZE];

	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? 0 : fd;
	times_of(&p->stat, times);
	path_of_fd(path, fd);
	if ((has_owners(u) && chown(path, p->stat.uid, p->stat.gid) < 0) ||
	    chmod(path, p->stat.mode) < 0 || utimensat(AT_FDCWD, path, times, 0) < 0)
		/* What was there before may be another user's. */
		return p->is_new || (errno != EPERM && errno != EROFS) ? -errno : 0;
	return 0;
}

/* All directories that `name` does not lie in; of NULL: all. */
static int leave_directories(struct unpack *u, const char *name)
{
	int first = 0;

	while (u->pending_count) {
		const struct pending *p = &u->pending[u->pending_count - 1];
		int error;

		if (name && (!p->len || (strncmp(name, u->at, p->len) == 0 && name[p->len] == '/')))
			break;
		u->at[p->len] = '\0';
		error = finish_directory(u, p);
		if (error < 0 && first == 0) {
			memcpy(u->name, u->at, p->len + 1);
			first = error;
		}
		u->pending_count--;
	}
	return first;
}

/* One name of the list, and its value; only the user's own are taken. */
static int set_xattrs(int fd, struct str list)
{
	while (list.len) {
		const char *name = list.at, *end = memchr(list.at, '\0', list.len);
		uint32_t size = 0;

		if (!end || (size_t)(list.at + list.len - end) < 1 + sizeof(size))
			return -EINVAL;
		for (unsigned i = 0; i < sizeof(size); i++)
			size |= (uint32_t)(uint8_t)end[1 + i] << (8 * i);
		list.len -= (size_t)(end + 1 + sizeof(size) - list.at);
		list.at = end + 1 + sizeof(size);
		if (size > list.len)
			return -EINVAL;
		if (str_starts_with(str_of(name), STR("user.")) &&
		    !str_starts_with(str_of(name), STR("user.overlay.")) &&
		    fsetxattr(fd, name, list.at, size, 0) < 0 && errno != EOPNOTSUPP)
			return -errno;
		list = (struct str){list.at + size, list.len - size};
	}
	return 0;
}

static int unpack_directory(struct unpack *u, const struct file_entry *entry)
{
	cleanup_fd int fd = -1;
	bool is_new = mkdirat(u->parent_fd, u->last, UNFINISHED) == 0;
	struct stat st;

	if (!is_new) {
		if (errno != EEXIST || fstatat(u->parent_fd, u->last, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		/* Also instead of a link to a directory: whoever packed it had none here. */
		if (!S_ISDIR(st.st_mode)) {
			if (unlinkat(u->parent_fd, u->last, 0) < 0 ||
			    mkdirat(u->parent_fd, u->last, UNFINISHED) < 0)
				return -errno;
			is_new = true;
		}
	}
	u->pending[u->pending_count++] = (struct pending){strlen(u->name), entry->stat, is_new};
	memcpy(u->at, u->name, strlen(u->name) + 1);
	if (!entry->xattrs.len)
		return 0;
	fd = path_open(u->parent_fd, u->last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	return fd < 0 ? fd : set_xattrs(fd, entry->xattrs);
}

static int receive_content(struct unpack *u, int fd, uint64_t size)
{
	struct stream *s = &u->w->stream;
	uint64_t left = size;

	if (size > INT64_MAX)
		return -EFBIG;
	while (left) {
		struct frame_head head;
		struct file_data part;
		struct str message;
		int r = stream_next(s, &head, &message);

		if (r <= 0 || (head.type != FILE_DATA && head.type != FILE_HOLE) ||
		    frame_decode(message, file_data_fields, &part) < 0 || part.size > left)
			return -EPIPE;
		if (head.type == FILE_DATA)
			r = stream_read_into(s, fd, part.size);
		else
			r = lseek(fd, (off_t)part.size, SEEK_CUR) < 0 ? -errno : 0;
		if (r < 0)
			return r;
		left -= part.size;
	}
	/* It may end with a hole. */
	return ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
}

static int unpack_file(struct unpack *u, const struct file_entry *entry)
{
	cleanup_temp struct temp temp = {.fd = -1};
	struct file_stat stat = entry->stat;
	struct timespec times[2];
	int error = temp_open(&temp, u->parent_fd);

	if (error == 0)
		error = set_xattrs(temp.fd, entry->xattrs);
	if (error == 0)
		error = receive_content(u, temp.fd, stat.size);
	if (error < 0)
		return error;
	times_of(&stat, times);
	if ((has_owners(u) && fchown(temp.fd, stat.uid, stat.gid) < 0) ||
	    fchmod(temp.fd, stat.mode) < 0 || futimens(temp.fd, times) < 0)
		return -errno;
	u->w->result.bytes += stat.size;
	return temp_place(&temp, u->last);
}

static int make_symlink(const struct temp_maker *maker, const char *name)
{
	return symlinkat(maker->from, maker->dir_fd, name) < 0 ? -errno : 0;
}

static int make_fifo(const struct temp_maker *maker, const char *name)
{
	return mknodat(maker->dir_fd, name, S_IFIFO | 0600, 0) < 0 ? -errno : 0;
}

static int make_hard_link(const struct temp_maker *maker, const char *name)
{
	return linkat(maker->from_fd, maker->from, maker->dir_fd, name, 0) < 0 ? -errno : 0;
}

/* Under its name at once, also instead of what is there. */
static int make_in_place(const struct temp_maker *maker, const char *name)
{
	char temp[PLACE_TEMP_SIZE];
	int error = maker->make(maker, name);

	if (error != -EEXIST)
		return error;
	error = temp_make(maker, temp);
	if (error < 0)
		return error;
	if (renameat(maker->dir_fd, temp, maker->dir_fd, name) < 0)
		error = -errno;
	/* Two links to one file are left as they are by a rename. */
	if (unlinkat(maker->dir_fd, temp, 0) < 0 && errno != ENOENT && error == 0)
		error = -errno;
	return error;
}

static int unpack_small(struct unpack *u, const struct file_entry *entry, struct temp_maker maker)
{
	const struct file_stat *stat = &entry->stat;
	struct timespec times[2];
	int error;

	maker.dir_fd = u->parent_fd;
	error = make_in_place(&maker, u->last);
	if (error < 0)
		return error;
	times_of(stat, times);
	if (has_owners(u) &&
	    fchownat(u->parent_fd, u->last, stat->uid, stat->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (stat->type == FILE_TYPE_FIFO && fchmodat(u->parent_fd, u->last, stat->mode, 0) < 0)
		return -errno;
	if (utimensat(u->parent_fd, u->last, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int unpack_symlink(struct unpack *u, const struct file_entry *entry)
{
	char target[FILE_PATH_MAX + 1];

	if (!entry->link.len || memchr(entry->link.at, '\0', entry->link.len))
		return -EINVAL;
	memcpy(target, entry->link.at, entry->link.len);
	target[entry->link.len] = '\0';
	return unpack_small(u, entry, (struct temp_maker){.make = make_symlink, .from = target});
}

static int unpack_hard_link(struct unpack *u, const struct file_entry *entry)
{
	struct temp_maker maker = {.make = make_hard_link, .dir_fd = u->parent_fd};
	char original[FILE_PATH_MAX + 1];
	cleanup_fd int fd = -1;
	char *slash;
	int error = copy_name(original, entry->original);

	if (error < 0)
		return error;
	slash = strrchr(original, '/');
	if (slash)
		*slash = '\0';
	fd = open_beneath(u, slash ? original : "", DIRECTORY);
	if (fd < 0)
		return fd;
	maker.from = slash ? slash + 1 : original;
	maker.from_fd = fd;
	return make_in_place(&maker, u->last);
}

static int unpack_root(struct unpack *u, const struct file_entry *entry, bool is_new)
{
	if (entry->stat.type != FILE_TYPE_DIRECTORY)
		return -ENOTDIR;
	/* A directory that was there is as its owner wants it. */
	if (!is_new || u->pending_count)
		return 0;
	u->pending[u->pending_count++] = (struct pending){0, entry->stat, true};
	return 0;
}

static int unpack_entry(struct unpack *u, const struct file_entry *entry, bool is_root_new)
{
	int error = leave_directories(u, u->name);

	if (error == 0 && !u->name[0])
		return unpack_root(u, entry, is_root_new);
	if (error == 0)
		error = find_parent(u);
	if (error < 0)
		return error;
	if (entry->original.len)
		return unpack_hard_link(u, entry);
	switch (entry->stat.type) {
	case FILE_TYPE_FILE:
		return unpack_file(u, entry);
	case FILE_TYPE_DIRECTORY:
		return unpack_directory(u, entry);
	case FILE_TYPE_LINK:
		return unpack_symlink(u, entry);
	case FILE_TYPE_FIFO:
		return unpack_small(u, entry, (struct temp_maker){.make = make_fifo});
	default:
		return -EPERM;
	}
}

/* 0 at END. */
static int unpack_entries(struct unpack *u, bool is_root_new)
{
	struct work *w = u->w;

	for (;;) {
		struct file_entry entry;
		struct frame_head head;
		struct file_end end;
		struct str message;
		int error, r = stream_next(&w->stream, &head, &message);

		if (r <= 0)
			return -EPIPE;
		if (head.type == FILE_END)
			return frame_decode(message, file_end_fields, &end) < 0 ? -EPIPE : 0;
		if (head.type != FILE_ENTRY || frame_decode(message, file_entry_fields, &entry) < 0)
			return -EPIPE;
		error = copy_name(u->name, entry.name);
		if (error < 0) {
			size_t len =
				entry.name.len < FILE_PATH_MAX ? entry.name.len : FILE_PATH_MAX;

			memcpy(u->name, entry.name.at, len);
			u->name[len] = '\0';
			return error;
		}
		error = unpack_entry(u, &entry, is_root_new);
		if (error < 0)
			return error;
		w->result.count++;
	}
}

/* `path` itself, made if it is missing: 1. */
static int open_root(struct work *w, int *ret_fd)
{
	cleanup_place struct place place = {.fd = -1};
	int error, is_new = 0;

	*ret_fd = path_open(AT_FDCWD, w->path, DIRECTORY, 0);
	if (*ret_fd != -ENOENT)
		return *ret_fd < 0 ? *ret_fd : 0;
	error = place_find(w->path, true, &place);
	if (error < 0)
		return error;
	is_new = mkdirat(place.fd, place.name, PARENTS) == 0;
	if (!is_new && errno != EEXIST)
		return -errno;
	*ret_fd = path_open(AT_FDCWD, w->path, DIRECTORY, 0);
	return *ret_fd < 0 ? *ret_fd : is_new;
}

int work_unpack(struct work *w)
{
	cleanup_fd int root = -1;
	struct unpack u = {.w = w, .parent_fd = -1};
	int error, later, r = open_root(w, &root);

	if (r < 0)
		return work_at(w, FILE_AT_PATH, r);
	u.root_fd = root;
	error = work_tell(w);
	if (error == 0)
		error = unpack_entries(&u, r > 0);
	if (error < 0 && error != -EPIPE) {
		memcpy(w->where, u.name, sizeof(w->where));
		w->result.where = str_of(w->where);
	}
	/* Also after a failure: what is there shall not stay unfinished. */
	later = leave_directories(&u, NULL);
	if (error == 0 && later < 0) {
		error = later;
		memcpy(w->where, u.name, sizeof(w->where));
		w->result.where = str_of(w->where);
	}
	close_fdp(&u.parent_fd);
	return work_at(w, FILE_AT_ENTRY, error);
}
