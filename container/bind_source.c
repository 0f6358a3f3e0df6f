#include "container/bind_source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "container/bind_walk.h"
#include "container/child.h"
#include "container/host_state.h"
#include "container/process.h"

#define DEPTH_MAX  PATH_MAX /* of folders in each other */
#define SYSFS_TYPE 0x62656572
#define ANSWER_MS  2000

/* --- where a folder is in its file system --- */

/* "\040" and so on, as mountinfo writes what would break its lines. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		unsigned code;

		if (*text == '\\' && sscanf(text + 1, "%3o", &code) == 1) {
			*to++ = (char)code;
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

/* The line of a mount: its device, what of the file system it shows, and where. */
static int find_mount(uint64_t id, char device[24], char root[PATH_MAX], char point[PATH_MAX])
{
	cleanup_file FILE *file = fopen("/proc/self/mountinfo", "re");
	cleanup_free char *line = NULL;
	size_t size = 0;

	_Static_assert(PATH_MAX == 4096, "as scanned below");
	while (file && getline(&line, &size, file) > 0) {
		unsigned long long seen;

		if (sscanf(line, "%llu %*u %23s %4095s %4095s", &seen, device, root, point) == 4 &&
		    seen == id) {
			unescape(root);
			unescape(point);
			return 0;
		}
	}
	return -ENOENT;
}

static int place_of(int fd, struct bind_place *ret)
{
	char root[PATH_MAX], point[PATH_MAX], path[PATH_MAX], link[32], device[24];
	struct str above, rest;
	struct statx st;
	ssize_t len;
	int r;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path) - 1);
	if (len < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) < 0)
		return -errno;
	path[len] = '\0';
	r = find_mount(st.stx_mnt_id, device, root, point);
	if (r < 0)
		return r;
	if (!mounts_is_below(str_of(path), str_of(point)))
		return -ESTALE;
	above = str_of(root[1] ? root : "");
	rest = str_of(path + (point[1] ? strlen(point) : 0));
	if (asprintf(&ret->path, "%.*s%.*s%s", STR_ARGS(above), STR_ARGS(rest),
		     above.len || rest.len ? "" : "/") < 0) {
		ret->path = NULL;
		return -ENOMEM;
	}
	memcpy(ret->device, device, sizeof(device));
	return 0;
}

static void place_close(struct bind_place *place)
{
	free(take(place->path));
}

static bool is_place_in(const struct bind_place *inner, const struct bind_place *outer)
{
	return strcmp(inner->device, outer->device) == 0 &&
	       mounts_is_below(str_of(inner->path), str_of(outer->path));
}

/* One holds the other, or is it. */
static bool do_overlap(const struct bind_place *a, const struct bind_place *b)
{
	return is_place_in(a, b) || is_place_in(b, a);
}

/* --- the list --- */

/* Why there is no way to it. */
static const char *words_of(int error)
{
	return error == -ELOOP
		       ? "a symbolic link in its path can have been made by others than root, and "
			 "is not followed; allow it by where it really is"
	       : error == -EPERM ? "its path leads from a folder of one user into that of another, "
				   "which is not followed; allow one whose way is root's or its "
				   "owner's"
				 : strerror(-error);
}

/* Its fd, and what it is now. */
static int open_folder(struct str path, struct bind_walk *walk, struct bind_folder *ret)
{
	cleanup_fd int fd = bind_walk_allowed(walk, path);
	struct statx st;

	if (fd < 0)
		return take_fd(&fd);
	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) < 0)
		return -errno;
	*ret = (struct bind_folder){
		.device = makedev(st.stx_dev_major, st.stx_dev_minor),
		.inode = st.stx_ino,
		.born_ns = (uint64_t)st.stx_btime.tv_sec * 1000000000 + st.stx_btime.tv_nsec,
	};
	return take_fd(&fd);
}

/* From now on it is this one and no other. */
static int pin(struct bind_folder *folder, const struct bind_folder *now, int fd)
{
	struct bind_folder found = *now;
	int r = place_of(fd, &found.place);

	if (r < 0)
		return r;
	found.is_known = true;
	*folder = found;
	return 0;
}

/*
 * A child looks first: what hangs must not keep us from beginning. If it does not even die, it is
 * left alone, as in keeper_binds.c.
 */
static bool does_answer(struct str path, const struct container_host *host)
{
	struct bind_walk walk = {.is_rootless = host->is_rootless};
	struct bind_folder now;
	pid_t pid;
	cleanup_fd int child = child_fork(&host->run_fd, 1, &pid);
	struct pollfd end = {.fd = child, .events = POLLIN};
	int r;

	if (child < 0)
		return true; /* whoever cannot fork has other worries; it is looked at here */
	if (pid == 0) {
		process_be_look();
		open_folder(path, &walk, &now);
		_exit(0);
	}
	do
		r = poll(&end, 1, ANSWER_MS);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		process_pidfd_kill(child, SIGKILL);
	else
		waitpid(pid, NULL, 0);
	return r != 0;
}

int bind_sources_open(struct bind_sources *ret, const char *const *texts, unsigned count,
		      const struct container_host *host, struct err *err)
{
	const int own[] = {host->state_fd, host->run_fd};
	int r = 0;

	for (size_t i = 0; i < array_len(own) && r == 0 && count > 0; i++)
		r = place_of(own[i], &ret->own[i]);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL,
			       "where our own directories are cannot be found out: %s",
			       strerror(-r));
	ret->folders = calloc(MOUNTS_ALLOWED_MAX, sizeof(*ret->folders));
	if (!ret->folders)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	for (unsigned i = 0; i < count && i < MOUNTS_ALLOWED_MAX; i++) {
		struct bind_walk walk = {.is_rootless = host->is_rootless};
		struct bind_folder now;
		cleanup_fd int fd = -1;

		if (mounts_allowed_parse(str_of(texts[i]), &ret->allowed[i]) < 0)
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
				       "--allow-bind needs " MOUNTS_ALLOWED_WANT ", not \"%s\"",
				       texts[i]);
		ret->count = i + 1;
		fd = does_answer(ret->allowed[i].path, host)
			     ? open_folder(ret->allowed[i].path, &walk, &now)
			     : -ETIMEDOUT;
		r = fd < 0 ? fd : pin(&ret->folders[i], &now, fd);
		if (r < 0)
			log_warn("--allow-bind %s: %s; it is looked for again when it is needed",
				 texts[i], words_of(r));
	}
	return 0;
}

void bind_sources_close(struct bind_sources *sources)
{
	for (unsigned i = 0; i < sources->count; i++)
		place_close(&sources->folders[i].place);
	for (size_t i = 0; i < array_len(sources->own); i++)
		place_close(&sources->own[i]);
	free(take(sources->folders));
	sources->count = 0;
}

/* --- what nobody may have --- */

static bool is_same(const struct statx *a, const struct statx *b)
{
	return a->stx_ino == b->stx_ino && a->stx_dev_major == b->stx_dev_major &&
	       a->stx_dev_minor == b->stx_dev_minor;
}

static int look(int fd, const char *path, struct statx *ret)
{
	return statx(fd, path, *path ? 0 : AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, ret) < 0
		       ? -errno
		       : 0;
}

/* 1: the one is the other or in it, as it is mounted. All the way up, name by name. */
static int is_in(int fd, const struct statx *folder)
{
	cleanup_fd int at = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct statx here, above;
	int r = at < 0 ? -errno : look(at, "", &here);

	for (int i = 0; i < DEPTH_MAX && r == 0; i++) {
		int next;

		if (is_same(&here, folder))
			return 1;
		next = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (next < 0)
			return -errno;
		close(at);
		at = next;
		r = look(at, "", &above);
		/* A folder that is mounted on one in itself has itself above it, too. */
		if (r == 0 && is_same(&here, &above) && here.stx_mnt_id == above.stx_mnt_id)
			return 0;
		here = above;
	}
	return r < 0 ? r : -ELOOP;
}

/* -EPERM: it is what the kernel shows of itself. */
static int check_kernel(int fd, const struct statx *source)
{
	static const char *const folders[] = {"/proc", "/sys", "/dev"};
	static const long types[] = {PROC_SUPER_MAGIC,    SYSFS_TYPE,         CGROUP_SUPER_MAGIC,
				     CGROUP2_SUPER_MAGIC, DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC,
				     TRACEFS_MAGIC,       SECURITYFS_MAGIC,   BPF_FS_MAGIC};
	struct statx root, folder;
	struct statfs fs;
	int r = look(AT_FDCWD, "/", &root);

	if (r == 0 && fstatfs(fd, &fs) < 0)
		r = -errno;
	for (size_t i = 0; i < array_len(types) && r == 0; i++)
		r = fs.f_type == types[i] ? -EPERM : 0;
	if (r == 0 && is_same(source, &root))
		r = -EPERM;
	for (size_t i = 0; i < array_len(folders) && r == 0; i++) {
		r = look(AT_FDCWD, folders[i], &folder);
		if (r == 0)
			r = is_in(fd, &folder);
		r = r == -ENOENT ? 0 : r > 0 ? -EPERM : r;
	}
	return r;
}

/* -EBUSY: it is, holds or lies in what is Berth's own. */
static int check_own(const struct container_host *host, int fd, const struct statx *source,
		     const struct bind_place *place)
{
	const int own[] = {host->state_fd, host->run_fd};
	struct statx st;
	int r = 0;

	for (size_t i = 0; i < array_len(own) && r == 0; i++) {
		r = look(own[i], "", &st);
		if (r == 0)
			r = is_in(fd, &st);
		if (r == 0)
			r = is_in(own[i], source);
		/* Mounted twice, it is found only by its place in the file system. */
		if (r == 0)
			r = do_overlap(place, &host->sources.own[i]);
		r = r > 0 ? -EBUSY : r;
	}
	return r;
}

static int refuse(int error, const char *source, struct err *err)
{
	if (error == -EPERM)
		return err_set(err, error, ERR_FORBIDDEN,
			       "%s cannot be mounted: neither \"/\" nor anything in /proc, /sys "
			       "and /dev can",
			       source);
	if (error == -EBUSY)
		return err_set(err, error, ERR_FORBIDDEN,
			       "%s cannot be mounted: it is, holds, or lies in a directory that "
			       "is Berth's own (its state or run directory); name another folder",
			       source);
	return err_set(err, error, ERR_START_FAILED, "the folder %s cannot be looked at: %s",
		       source, strerror(-error));
}

static int check(const struct container_host *host, int fd, const char *source,
		 const struct bind_place *place, struct err *err)
{
	struct statx st;
	int r = look(fd, "", &st);

	if (r == 0)
		r = check_kernel(fd, &st);
	if (r == 0)
		r = check_own(host, fd, &st, place);
	return r < 0 ? refuse(r, source, err) : 0;
}

/* --- one of them --- */

static int open_failed(int error, const char *source, struct str allowed, struct err *err)
{
	switch (error) {
	case -ELOOP:
		return err_set(err, error, ERR_FORBIDDEN,
			       "%s cannot be mounted: a symbolic link stands in its path; name the "
			       "folder where it really is",
			       source);
	case -EPERM:
		return err_set(err, error, ERR_FORBIDDEN,
			       "%s cannot be mounted: its path leads from a folder of one user "
			       "into that of another; mount the outer one",
			       source);
	case -EXDEV:
		return err_set(err, error, ERR_FORBIDDEN,
			       "%s cannot be mounted: it is on another file system than %.*s, "
			       "which is allowed; allow_bind must allow it by its own name",
			       source, STR_ARGS(allowed));
	case -ENOTDIR:
		return err_set(err, error, ERR_START_FAILED,
			       "%s cannot be mounted: it is no folder, and only folders can be",
			       source);
	case -ENOENT:
		return err_set(err, error, ERR_START_FAILED,
			       "there is no folder %s on the host to be mounted", source);
	default:
		return err_set(err, error, ERR_START_FAILED, "the folder %s cannot be opened: %s",
			       source, strerror(-error));
	}
}

static const struct mounts_allowed *find(const struct bind_sources *sources,
					 const struct mount_item *item, unsigned *ret_which,
					 struct err *err)
{
	int i = mounts_allowed_find(sources->allowed, sources->count, str_of(item->source));

	if (i < 0) {
		err_set(err, -EPERM, ERR_FORBIDDEN,
			"the folder %s of the host may not be mounted: allow_bind does not allow "
			"it (`berth up --allow-bind DIR`, or berth-keeper's --allow-bind where a "
			"service starts it; a keeper that runs keeps the list that it was started "
			"with)",
			item->source);
		return NULL;
	}
	if (sources->allowed[i].is_read_only && !item->is_read_only) {
		err_set(err, -EPERM, ERR_FORBIDDEN,
			"the folder %s may be mounted with \"read_only\": true alone: allow_bind "
			"allows %.*s for reading",
			item->source, STR_ARGS(sources->allowed[i].path));
		return NULL;
	}
	*ret_which = (unsigned)i;
	return &sources->allowed[i];
}

/* The folder that is allowed, and its place. */
static int open_allowed(const struct bind_sources *sources, unsigned which, struct bind_walk *walk,
			struct bind_place *ret, struct err *err)
{
	struct bind_folder *folder = &sources->folders[which];
	struct str path = sources->allowed[which].path;
	struct bind_folder now;
	cleanup_fd int fd = open_folder(path, walk, &now);
	int r = fd < 0 ? fd : 0;

	if (r == 0 && !folder->is_known)
		r = pin(folder, &now, fd);
	if (r < 0)
		return err_set(err, r,
			       r == -ELOOP || r == -EPERM ? ERR_FORBIDDEN : ERR_START_FAILED,
			       "the folder %.*s, which allow_bind allows, cannot be opened: %s",
			       STR_ARGS(path), words_of(r));
	if (now.device != folder->device || now.inode != folder->inode ||
	    now.born_ns != folder->born_ns)
		return err_set(err, -ESTALE, ERR_FORBIDDEN,
			       "%.*s, which allow_bind allows, is another folder now than when "
			       "berth-keeper first saw it: if that is right, restart berth-keeper",
			       STR_ARGS(path));
	*ret = folder->place;
	ret->path = strdup(folder->place.path);
	return ret->path ? take_fd(&fd) : err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
}

/* --- what in it can only be read --- */

/* 1: who writes to the source writes to that one, too. */
static int holds(const struct container_host *host, unsigned which, int fd,
		 const struct mount_item *item, const struct bind_place *place)
{
	const struct bind_folder *folder = &host->sources.folders[which];
	struct str path = host->sources.allowed[which].path;
	cleanup(place_close) struct bind_place inner = {.path = NULL};
	struct bind_walk walk = {.is_rootless = host->is_rootless};
	struct bind_folder now;
	cleanup_fd int inner_fd = open_folder(path, &walk, &now);
	struct statx st;
	int r;

	if (folder->is_known && is_place_in(&folder->place, place))
		return 1;
	/* It is not there yet, or no longer: its name is all that there is. */
	if (inner_fd < 0)
		return mounts_is_below(path, str_of(item->source));
	r = place_of(inner_fd, &inner);
	if (r == 0 && is_place_in(&inner, place))
		return 1;
	if (r == 0)
		r = look(fd, "", &st);
	/* What is mounted below the source is not seen in it. */
	return r < 0 || strcmp(inner.device, place->device) != 0 ? r : is_in(inner_fd, &st);
}

static int check_inner(const struct container_host *host, int fd, const struct mount_item *item,
		       const struct bind_place *place, struct err *err)
{
	const struct bind_sources *sources = &host->sources;

	for (unsigned i = 0; i < sources->count && !item->is_read_only; i++) {
		int r = sources->allowed[i].is_read_only ? holds(host, i, fd, item, place) : 0;

		if (r < 0)
			return refuse(r, item->source, err);
		if (r > 0)
			return err_set(err, -EPERM, ERR_FORBIDDEN,
				       "the folder %s may be mounted with \"read_only\": true "
				       "alone: %.*s is in it, which allow_bind allows for reading",
				       item->source, STR_ARGS(sources->allowed[i].path));
	}
	return 0;
}

/* --- all together --- */

/* Its place is below that of the folder that it was opened from: no mount lies between. */
static int extend_place(struct bind_place *place, const char *rest)
{
	char *path;

	if (!*rest)
		return 0;
	if (asprintf(&path, "%s/%s", place->path[1] ? place->path : "", rest) < 0)
		return -ENOMEM;
	free(place->path);
	place->path = path;
	return 0;
}

int bind_source_open(const struct container_host *host, const struct mount_item *item,
		     struct stat *ret, struct err *err)
{
	cleanup(place_close) struct bind_place place = {.path = NULL};
	cleanup_fd int fd = -1, allowed_fd = -1;
	struct bind_walk walk = {.is_rootless = host->is_rootless};
	const struct mounts_allowed *allowed;
	const char *rest;
	unsigned which;
	int r;

	allowed = find(&host->sources, item, &which, err);
	if (!allowed)
		return -EPERM;
	allowed_fd = open_allowed(&host->sources, which, &walk, &place, err);
	if (allowed_fd < 0)
		return allowed_fd;
	rest = item->source + (allowed->path.len > 1 ? allowed->path.len : 0);
	rest += *rest == '/';
	fd = bind_walk_below(&walk, allowed_fd, rest);
	if (fd < 0)
		return open_failed(fd, item->source, allowed->path, err);
	if (extend_place(&place, rest) < 0)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	r = check(host, fd, item->source, &place, err);
	if (r == 0)
		r = check_inner(host, fd, item, &place, err);
	if (r == 0 && fstat(fd, ret) < 0)
		r = refuse(-errno, item->source, err);
	return r < 0 ? r : take_fd(&fd);
}
