#include "container/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "container/dir.h"
#include "container/tree.h"

#define LAYOUT_VERSION 1
#define DEPTH_MAX      12
#define FILE_MAX       (4 * 1024 * 1024)

/* What of the machine's /etc is of use inside and tells nothing about the machine's users. */
static const char *const etc_names[] = {
	"alternatives",
	"bash.bashrc",
	"ca-certificates*",
	"crypto-policies",
	"debian_version",
	"fonts",
	"gai.conf",
	"host.conf",
	"inputrc",
	"issue",
	"java*",
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"locale.alias",
	"locale.conf",
	"localtime",
	"login.defs",
	"magic",
	"magic.mime",
	"matplotlibrc",
	"mime.types",
	"nsswitch.conf",
	"os-release",
	"perl",
	"php",
	"pki",
	"profile",
	"protocols",
	"python3*",
	"rpc",
	"services",
	"shells",
	"skel",
	"ssl",
	"terminfo",
	"timezone",
	"vim",
	"xattr.conf",
};

struct made_file {
	const char *path, *text;
};

static const struct made_file made_files[] = {
	{"etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"
		       "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
		       "user:x:1000:1000:user:/home/user:/bin/sh\n"
		       "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	{"etc/group", "root:x:0:\ndaemon:x:1:\ntty:x:5:\nusers:x:100:\nuser:x:1000:\n"
		      "nogroup:x:65534:\n"},
	{"etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"},
	{"etc/hostname", "sandbox\n"},
	/* Without a network a lookup shall fail at once. */
	{"etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"},
};

struct made_dir {
	const char *path;
	mode_t mode;
	uid_t user; /* inside */
};

static const struct made_dir made_dirs[] = {
	{"etc", 0755, 0},          {"workspace", 0755, 0}, {"tmp", 01777, 0},
	{"var", 0755, 0},          {"var/tmp", 01777, 0},  {"var/lib", 0755, 0},
	{"var/cache", 0755, 0},    {"var/log", 0755, 0},   {"home", 0755, 0},
	{"home/user", 0755, 1000}, {"root", 0700, 0},      {"opt", 0755, 0},
	{"srv", 0755, 0},          {"mnt", 0755, 0},       {"run", 0755, 0},
	{"dev", 0755, 0},          {"proc", 0555, 0},      {"sys", 0555, 0},
	{"usr", 0755, 0},
};

static const char *const usr_links[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

/* One walk through the sources, to sum them up (to_fd < 0) or to copy them. */
struct walk {
	uint64_t hash;
	uid_t owner;
};

static void mix(struct walk *walk, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		walk->hash = (walk->hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3ULL;
}

static void mix_stat(struct walk *walk, const char *name, const struct stat *st)
{
	mix(walk, name, strlen(name) + 1);
	mix(walk, &st->st_mode, sizeof(st->st_mode));
	mix(walk, &st->st_size, sizeof(st->st_size));
	mix(walk, &st->st_mtim, sizeof(st->st_mtim));
}

static int copy_file(const struct walk *walk, int from_dir, const char *name, int to_dir)
{
	cleanup_fd int from =
		openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	cleanup_fd int to = -1;
	struct stat st;

	if (from < 0 || fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return 0;
	to = dir_open_file(to_dir, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (to < 0)
		return to;
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(to, from, NULL, (size_t)left);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		left -= n;
	}
	if (fchown(to, walk->owner, walk->owner) < 0 || fchmod(to, st.st_mode & 0755) < 0)
		return -errno;
	return 0;
}

static int copy_link(const struct walk *walk, int from_dir, const char *name, int to_dir)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(from_dir, name, target, sizeof(target) - 1);

	if (len < 0)
		return -errno;
	target[len] = '\0';
	if (symlinkat(target, to_dir, name) < 0 ||
	    fchownat(to_dir, name, walk->owner, walk->owner, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int make_dir(const struct walk *walk, int to_dir, const char *name)
{
	cleanup_fd int fd = dir_make(to_dir, name, 0755);

	if (fd < 0)
		return fd;
	if (fchown(fd, walk->owner, walk->owner) < 0)
		return -errno;
	return take_fd(&fd);
}

static int walk_dir(struct walk *walk, int from_dir, const char *name, int to_dir, int depth);

/* The machine's administrator wrote this tree, so its depth is only limited for good measure. */
static int walk_entry(struct walk *walk, int from_dir, const char *name, int to_dir, int depth)
{
	struct stat st;

	if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode) && (st.st_mode & 05) == 05 && depth < DEPTH_MAX) {
		cleanup_fd int to = to_dir < 0 ? -1 : make_dir(walk, to_dir, name);

		mix(walk, name, strlen(name) + 1);
		return to_dir >= 0 && to < 0 ? to : walk_dir(walk, from_dir, name, to, depth + 1);
	}
	if (!S_ISLNK(st.st_mode) && !(S_ISREG(st.st_mode) && st.st_mode & 04))
		return 0;
	mix_stat(walk, name, &st);
	if (to_dir < 0)
		return 0;
	return S_ISLNK(st.st_mode) ? copy_link(walk, from_dir, name, to_dir)
				   : copy_file(walk, from_dir, name, to_dir);
}

static bool is_wanted(const char *name)
{
	for (size_t i = 0; i < array_len(etc_names); i++)
		if (fnmatch(etc_names[i], name, 0) == 0)
			return true;
	return false;
}

static int walk_dir(struct walk *walk, int from_dir, const char *name, int to_dir, int depth)
{
	int fd = openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent **entries;
	int count, r = 0;

	if (fd < 0)
		return errno == ENOENT || errno == EACCES ? 0 : -errno;
	/* Sorted: the hash must not depend on the order on disk. */
	count = scandirat(fd, ".", &entries, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		const char *entry = entries[i]->d_name;

		if (r == 0 && strcmp(entry, ".") != 0 && strcmp(entry, "..") != 0 &&
		    (depth > 0 || is_wanted(entry)))
			r = walk_entry(walk, fd, entry, to_dir, depth);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	else
		r = -errno;
	close(fd);
	return r;
}

static int make_dirs(const struct walk *walk, int root)
{
	for (size_t i = 0; i < array_len(made_dirs); i++) {
		const struct made_dir *made = &made_dirs[i];
		cleanup_fd int fd = dir_make(root, made->path, made->mode);
		uid_t user = walk->owner + made->user;

		if (fd < 0)
			return fd;
		/* In a namespace of one id there is nobody else to give it to. */
		if (fchown(fd, user, user) < 0 && fchown(fd, walk->owner, walk->owner) < 0)
			return -errno;
	}
	return 0;
}

static int make_files(const struct walk *walk, int root)
{
	for (size_t i = 0; i < array_len(made_files); i++) {
		const struct made_file *made = &made_files[i];
		cleanup_fd int fd =
			dir_open_file(root, made->path, O_WRONLY | O_CREAT | O_EXCL, 0644);
		int r = fd < 0 ? fd : dir_write_all(fd, str_of(made->text));

		if (r < 0)
			return r;
		if (fchmod(fd, 0644) < 0 || fchown(fd, walk->owner, walk->owner) < 0)
			return -errno;
	}
	return 0;
}

/* Links such as /bin -> usr/bin as the machine has them; real folders are shared like /usr. */
static int make_links(const struct walk *walk, int slash, int root)
{
	for (size_t i = 0; i < array_len(usr_links); i++) {
		struct stat st;
		int r = 0;

		if (fstatat(slash, usr_links[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISLNK(st.st_mode)) {
			r = copy_link(walk, slash, usr_links[i], root);
		} else if (S_ISDIR(st.st_mode)) {
			cleanup_fd int fd = make_dir(walk, root, usr_links[i]);

			r = fd < 0 ? fd : 0;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int populate(struct walk *walk, int slash, int root)
{
	cleanup_fd int etc = -1;
	int r;

	if (fchmod(root, 0755) < 0 || fchown(root, walk->owner, walk->owner) < 0)
		return -errno;
	r = make_dirs(walk, root);
	if (r == 0)
		r = make_files(walk, root);
	if (r == 0)
		r = make_links(walk, slash, root);
	etc = r < 0 ? -1 : dir_open(root, "etc");
	return r < 0 ? r : walk_dir(walk, slash, "etc", etc, 0);
}

static void find_shared(struct image_host *ret, int slash)
{
	ret->shared_count = 0;
	ret->shared[ret->shared_count++] = "usr";
	for (size_t i = 0; i < array_len(usr_links); i++) {
		struct stat st;

		if (fstatat(slash, usr_links[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode))
			ret->shared[ret->shared_count++] = usr_links[i];
	}
}

/* Whoever changes the table above changes the version with it. */
static uint64_t sum_layout(struct walk *walk, int slash)
{
	uint32_t version = LAYOUT_VERSION;

	walk->hash = 0xcbf29ce484222325ULL;
	mix(walk, &version, sizeof(version));
	mix(walk, &walk->owner, sizeof(walk->owner));
	for (size_t i = 0; i < array_len(made_files); i++)
		mix(walk, made_files[i].text, strlen(made_files[i].text));
	for (size_t i = 0; i < array_len(usr_links); i++) {
		struct stat st;

		if (fstatat(slash, usr_links[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			mix_stat(walk, usr_links[i], &(struct stat){.st_mode = st.st_mode});
	}
	return walk->hash;
}

static int remove_others(int dir, const char *kept)
{
	struct dirent **entries;
	int count = scandirat(dir, ".", &entries, NULL, NULL), r = 0;

	if (count < 0)
		return -errno;
	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;

		if (r == 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
		    strcmp(name, kept) != 0)
			r = tree_remove(dir, name);
		free(entries[i]);
	}
	free(entries);
	return r;
}

/* In a place of its own, then renamed: there is no such thing as half an image. */
static int build(struct walk *walk, int slash, int dir, const char *name)
{
	cleanup_fd int root = -1;
	char temporary[32];
	int r;

	snprintf(temporary, sizeof(temporary), ".new-%d", getpid());
	r = tree_remove(dir, temporary);
	if (r < 0)
		return r;
	root = dir_make(dir, temporary, 0700);
	r = root < 0 ? root : populate(walk, slash, root);
	if (r == 0 && renameat(dir, temporary, dir, name) < 0 && errno != EEXIST &&
	    errno != ENOTEMPTY)
		r = -errno;
	if (root >= 0)
		tree_remove(dir, temporary);
	return r;
}

int image_make_host(struct image_host *ret, int images_fd, uid_t owner, bool may_clean,
		    struct err *err)
{
	cleanup_fd int slash = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int dir = dir_make(images_fd, IMAGE_HOST, 0711);
	struct walk walk = {.owner = owner};
	char name[48];
	struct stat st;
	int r = slash < 0 ? -errno : dir < 0 ? dir : 0;

	if (r == 0) {
		sum_layout(&walk, slash);
		r = walk_dir(&walk, slash, "etc", -1, 0);
	}
	snprintf(name, sizeof(name), "rootfs-%016llx", (unsigned long long)walk.hash);
	if (r == 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = build(&walk, slash, dir, name);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot make the image \"host\": %s",
			       strerror(-r));
	find_shared(ret, slash);
	snprintf(ret->path, sizeof(ret->path), IMAGE_HOST "/%s", name);
	if (may_clean)
		remove_others(dir, name);
	return 0;
}

static int is_name(const struct dirent *entry)
{
	return image_name_is_valid(entry->d_name);
}

/* "host" has a version in the name of its root. */
static bool is_image(int images_fd, const char *name)
{
	char path[IMAGE_NAME_MAX + sizeof("/rootfs")];
	struct stat st;

	snprintf(path, sizeof(path), "%.*s/rootfs", IMAGE_NAME_MAX, name);
	return strcmp(name, IMAGE_HOST) == 0 ||
	       (fstatat(images_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode));
}

static void list_names(int images_fd, char *ret, size_t size)
{
	struct dirent **entries;
	int count = scandirat(images_fd, ".", &entries, is_name, alphasort);
	size_t len = 0;

	ret[0] = '\0';
	for (int i = 0; i < count; i++) {
		size_t room = size - len;
		int n = 0;

		if (is_image(images_fd, entries[i]->d_name))
			n = snprintf(ret + len, room, "%s\"%s\"", len ? ", " : "",
				     entries[i]->d_name);
		if (n > 0 && (size_t)n < room)
			len += (size_t)n;
		else
			ret[len] = '\0'; /* not half a name; the others are there all the same */
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

int image_open(int images_fd, const char *name, struct err *err)
{
	char path[IMAGE_NAME_MAX + sizeof("/rootfs")], names[160];
	int fd;

	snprintf(path, sizeof(path), "%.*s/rootfs", IMAGE_NAME_MAX, name);
	fd = dir_open(images_fd, path);
	if (fd >= 0)
		return fd;
	if (fd != -ENOENT && fd != -ENOTDIR)
		return err_set(err, fd, ERR_START_FAILED, "the image \"%s\" cannot be opened: %s",
			       name, strerror(-fd));
	list_names(images_fd, names, sizeof(names));
	return err_set(err, fd, ERR_NOT_FOUND,
		       "there is no image \"%s\": there is %s. Another is a root file system in "
		       "the folder images/%s/rootfs of the state directory",
		       name, names, name);
}

bool image_name_is_valid(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.");

	return len > 0 && len <= IMAGE_NAME_MAX && !name[len] && name[0] != '.';
}
