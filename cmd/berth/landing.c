#include "cmd/berth/landing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/screen.h"

#define DIRECTORY   (O_PATH | O_DIRECTORY | O_NOFOLLOW)
#define PERMISSIONS 0777
#define TRIES       16

/* Where a name leads: the directory, and its last part; "" is the root itself. */
struct spot {
	int dir;
	unsigned depth; /* of the directory below the root */
	char last[NAME_MAX + 1];
};

static void spot_closep(struct spot *spot)
{
	if (spot->dir >= 0)
		close(spot->dir);
}

#define cleanup_spot cleanup(spot_closep)

static int refuse(struct err *err, const char *name, const char *why)
{
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "`%.200s` is not made here: %s",
		       screen_text(str_of(name)).text, why);
}

static int failed(struct err *err, const char *name, int error)
{
	if (error == -EXDEV)
		return refuse(err, name, "it leads out of the directory");
	if (error == -ENOTDIR || error == -ELOOP)
		return refuse(err, name,
			      "it leads through a link, or something else that is no "
			      "directory");
	if (error == -ENAMETOOLONG)
		return err_set(
			err, error, ERR_INVALID_REQUEST,
			"cannot make `%.200s`: the path is too long, %d bytes at most with that of "
			"DST, and %d of each name",
			screen_text(str_of(name)).text, PATH_MAX - 1, NAME_MAX);
	return err_set(err, error, ERR_INTERNAL, "cannot make `%.200s`: %s",
		       screen_text(str_of(name)).text, strerror(-error));
}

int landing_open(struct landing *landing, const char *path, struct err *err)
{
	*landing = (struct landing){.dir = -1, .fd = -1, .root_len = strlen(path)};
	landing->umask = umask(0);
	umask(landing->umask);
	landing->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (landing->root >= 0)
		return 0;
	if (errno == ENOENT)
		return err_set(err, -errno, ERR_NOT_FOUND, "there is no directory `%.300s`",
			       screen_text(str_of(path)).text);
	return err_set(err, -errno, ERR_INTERNAL, "cannot write into `%.300s`: %s",
		       screen_text(str_of(path)).text, strerror(errno));
}

static void drop_file(struct landing *landing)
{
	if (landing->dir >= 0 && landing->temp[0])
		unlinkat(landing->dir, landing->temp, 0);
	if (landing->fd >= 0)
		close(take_fd(&landing->fd));
	if (landing->dir >= 0)
		close(take_fd(&landing->dir));
	landing->temp[0] = '\0';
}

void landing_close(struct landing *landing)
{
	drop_file(landing);
	if (landing->root >= 0)
		close(take_fd(&landing->root));
}

/* One directory further down, never through a link; made if `make`. */
static int enter(struct spot *spot, bool make)
{
	int fd = openat(spot->dir, spot->last, DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && make) {
		if (mkdirat(spot->dir, spot->last, PERMISSIONS) < 0 && errno != EEXIST)
			return -errno;
		fd = openat(spot->dir, spot->last, DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
		return -errno;
	close(spot->dir);
	spot->dir = fd;
	spot->depth++;
	return 0;
}

/* -EXDEV: it leads out. */
static int find(const struct landing *landing, const char *name, bool make, struct spot *ret)
{
	struct str rest = str_of(name);

	*ret = (struct spot){.dir = -1};
	if (name[0] == '/')
		return -EXDEV;
	if (landing->root_len + rest.len + 2 > PATH_MAX)
		return -ENAMETOOLONG;
	ret->dir = fcntl(landing->root, F_DUPFD_CLOEXEC, 3);
	if (ret->dir < 0)
		return -errno;
	while (rest.len) {
		struct str part = str_cut(&rest, '/');
		int r;

		if (!part.len || str_eq(part, STR(".")))
			continue;
		if (str_eq(part, STR("..")))
			return -EXDEV;
		if (part.len > NAME_MAX)
			return -ENAMETOOLONG;
		r = ret->last[0] ? enter(ret, make) : 0;
		if (r < 0)
			return r;
		memcpy(ret->last, part.at, part.len);
		ret->last[part.len] = '\0';
	}
	return 0;
}

static void name_temp(char ret[LANDING_TEMP_SIZE])
{
	unsigned long long number = 0;

	if (getrandom(&number, sizeof(number), 0) < 0)
		number = (unsigned long long)getpid();
	snprintf(ret, LANDING_TEMP_SIZE, ".berth-%016llx", number);
}

static int finish_directory(struct landing *landing, const struct landing_dir *dir, struct err *err)
{
	const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, dir->mtime};
	cleanup_spot struct spot spot = {.dir = -1};
	cleanup_fd int fd = -1;
	int r = find(landing, landing->at, false, &spot);

	if (r == 0) {
		fd = openat(spot.dir, spot.last[0] ? spot.last : ".",
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || futimens(fd, times) < 0 || fchmod(fd, dir->mode) < 0)
			r = -errno;
	}
	return r < 0 ? failed(err, *landing->at ? landing->at : ".", r) : 0;
}

/* All directories that `name` does not lie in; of NULL: all. */
static int leave(struct landing *landing, const char *name, struct err *err)
{
	int r = 0;

	while (r == 0 && landing->waiting) {
		const struct landing_dir *dir = &landing->dirs[landing->waiting - 1];

		if (name && (!dir->len ||
			     (strncmp(name, landing->at, dir->len) == 0 && name[dir->len] == '/')))
			break;
		landing->at[dir->len] = '\0';
		r = finish_directory(landing, dir, err);
		landing->waiting--;
	}
	return r;
}

int landing_finish(struct landing *landing, struct err *err)
{
	return leave(landing, NULL, err);
}

/* "./a/b/" is "a/b", as landing->at has it. */
static struct str plain(const char *name)
{
	struct str s = str_of(name);

	while (s.len >= 2 && s.at[0] == '.' && s.at[1] == '/')
		s = (struct str){s.at + 2, s.len - 2};
	if (str_eq(s, STR(".")))
		s.len = 0;
	while (s.len && s.at[s.len - 1] == '/')
		s.len--;
	return s;
}

static void wait_for_leaving(struct landing *landing, const char *name, mode_t mode,
			     struct timespec mtime)
{
	struct str path = plain(name);

	/* Each is inside of the one before, and longer by two bytes at least: there is room. */
	memcpy(landing->at, path.at, path.len);
	landing->at[path.len] = '\0';
	landing->dirs[landing->waiting++] = (struct landing_dir){path.len, mode, mtime};
}

/* Where something comes to lie; the directories that it is not in are done. */
static int arrive(struct landing *landing, const char *name, struct spot *ret, struct err *err)
{
	int r = leave(landing, plain(name).at, err);

	if (r < 0)
		return r;
	r = find(landing, name, true, ret);
	return r < 0 ? failed(err, name, r) : 0;
}

int landing_make_directory(struct landing *landing, const char *name, mode_t mode,
			   struct timespec mtime, struct err *err)
{
	cleanup_spot struct spot spot = {.dir = -1};
	int r = arrive(landing, name, &spot, err);

	mode &= PERMISSIONS & ~landing->umask;
	if (r < 0)
		return r;
	if (!spot.last[0]) {
		if (landing->is_new && !landing->waiting)
			wait_for_leaving(landing, name, mode, mtime);
		return 0;
	}
	/* We have to get into it yet. */
	if (mkdirat(spot.dir, spot.last, S_IRWXU) == 0) {
		wait_for_leaving(landing, name, mode, mtime);
		return 0;
	}
	r = errno == EEXIST ? enter(&spot, false) : -errno;
	return r < 0 ? failed(err, name, r) : 0;
}

/*
 * Does the target of a link stay inside? Ups may only stand first: behind a name, which may be a
 * link itself, nobody knows where they lead.
 */
static bool stays_inside(const char *target, unsigned depth)
{
	struct str rest = str_of(target);
	bool is_down = false;

	if (target[0] == '/')
		return false;
	while (rest.len) {
		struct str part = str_cut(&rest, '/');

		if (!part.len || str_eq(part, STR(".")))
			continue;
		if (!str_eq(part, STR("..")))
			is_down = true;
		else if (is_down || depth-- == 0)
			return false;
	}
	return true;
}

/* Under its own name at last, in the place of whatever is there. */
static int settle(const struct spot *spot, const char *temp)
{
	int r = renameat(spot->dir, temp, spot->dir, spot->last) < 0 ? -errno : 0;

	/* Of two names of one file rename() leaves both. */
	unlinkat(spot->dir, temp, 0);
	return r;
}

int landing_make_symlink(struct landing *landing, const char *name, const char *target,
			 struct err *err)
{
	cleanup_spot struct spot spot = {.dir = -1};
	char temp[LANDING_TEMP_SIZE];
	int r = arrive(landing, name, &spot, err);

	if (r < 0 || !spot.last[0])
		return r < 0 ? r : failed(err, name, -EEXIST);
	if (!landing->keeps_links && !stays_inside(target, spot.depth))
		return err_set(err, -EXDEV, ERR_INVALID_REQUEST,
			       "`%.150s` is a link that leads out of the directory, to `%.150s`: "
			       "--links makes such links too",
			       screen_text(str_of(name)).text, screen_text(str_of(target)).text);
	name_temp(temp);
	r = symlinkat(target, spot.dir, temp) < 0 ? -errno : settle(&spot, temp);
	return r < 0 ? failed(err, name, r) : 0;
}

int landing_make_hardlink(struct landing *landing, const char *name, const char *original,
			  struct err *err)
{
	cleanup_spot struct spot spot = {.dir = -1}, from = {.dir = -1};
	char temp[LANDING_TEMP_SIZE];
	struct stat st;
	int r = find(landing, original, false, &from);

	if (r < 0)
		return failed(err, name, r);
	r = arrive(landing, name, &spot, err);
	if (r < 0 || !spot.last[0])
		return r < 0 ? r : failed(err, name, -EEXIST);
	/* A link to a symbolic link would lead elsewhere than the one that was checked. */
	if (fstatat(from.dir, from.last, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return refuse(err, name, "it is a hard link to something that is no file");
	name_temp(temp);
	r = linkat(from.dir, from.last, spot.dir, temp, 0) < 0 ? -errno : settle(&spot, temp);
	return r < 0 ? failed(err, name, r) : 0;
}

int landing_begin_file(struct landing *landing, const char *name, struct err *err)
{
	cleanup_spot struct spot spot = {.dir = -1};
	int r = arrive(landing, name, &spot, err);

	if (r < 0 || !spot.last[0])
		return r < 0 ? r : failed(err, name, -EISDIR);
	for (int i = 0; i < TRIES && landing->fd < 0; i++) {
		name_temp(landing->temp);
		landing->fd = openat(spot.dir, landing->temp,
				     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (landing->fd < 0 && errno != EEXIST)
			break;
	}
	if (landing->fd < 0) {
		landing->temp[0] = '\0';
		return failed(err, name, -errno);
	}
	landing->dir = take_fd(&spot.dir);
	memcpy(landing->last, spot.last, sizeof(landing->last));
	snprintf(landing->name, sizeof(landing->name), "%.*s", STR_ARGS(plain(name)));
	return 0;
}

int landing_write(struct landing *landing, struct str bytes, uint64_t at, struct err *err)
{
	while (bytes.len) {
		ssize_t n = pwrite(landing->fd, bytes.at, bytes.len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, -errno, ERR_INTERNAL, "cannot write `%.200s`: %s",
				       screen_text(str_of(landing->name)).text, strerror(errno));
		bytes = (struct str){bytes.at + n, bytes.len - (size_t)n};
		at += (uint64_t)n;
	}
	return 0;
}

int landing_finish_file(struct landing *landing, mode_t mode, uint64_t size,
			const struct timespec *mtime, struct err *err)
{
	const struct timespec times[] = {{.tv_nsec = UTIME_OMIT},
					 mtime ? *mtime : (struct timespec){.tv_nsec = UTIME_NOW}};
	int r = 0;

	/* It may end with a hole. */
	if (ftruncate(landing->fd, (off_t)size) < 0 ||
	    fchmod(landing->fd, mode & PERMISSIONS & ~landing->umask) < 0 ||
	    futimens(landing->fd, times) < 0 ||
	    renameat(landing->dir, landing->temp, landing->dir, landing->last) < 0)
		r = failed(err, landing->name, -errno);
	else
		landing->temp[0] = '\0';
	drop_file(landing);
	return r;
}
