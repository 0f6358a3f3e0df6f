#include "cmd/berth/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/command.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/tree.h"

#define STAT_MAX     (1024 * 1024)
#define TEMP_PATTERN ".berth-XXXXXX"

/* Where it goes. */
struct target {
	char path[PATH_MAX];
	char dir[PATH_MAX], name[NAME_MAX + 1]; /* the same, apart */
	bool is_there;
	mode_t type;
};

static int failed(struct copy *copy, const char *path, int error)
{
	const char *slash = strrchr(path, '/');
	struct str dir = {path, slash ? (size_t)(slash - path) : 0};

	if (error == -ENOENT && dir.len)
		return haul_fail(copy->haul, error, "there is no directory `%s`",
				 screen_text(dir).text);
	return haul_fail(copy->haul, error, "cannot write %s: %s", screen_text(str_of(path)).text,
			 strerror(-error));
}

static void look(struct target *target)
{
	struct stat st;

	target->is_there = stat(target->path, &st) == 0;
	target->type = target->is_there ? st.st_mode & S_IFMT : 0;
}

/* Follows links: what they lead to is replaced, as cp does it. */
static int split(struct copy *copy, struct target *target)
{
	bool is_kept = target->is_there && (S_ISREG(target->type) || S_ISDIR(target->type));
	cleanup_free char *real = is_kept ? realpath(target->path, NULL) : NULL;
	const char *slash;
	size_t len;
	int r;

	/* What is written to needs no other name; a pipe that /dev/stdout leads to has none. */
	if (is_kept && !real)
		return failed(copy, target->path, -errno);
	if (real)
		snprintf(target->path, sizeof(target->path), "%s", real);
	len = strlen(target->path);
	while (len > 1 && target->path[len - 1] == '/')
		target->path[--len] = '\0';
	r = copy_name(target->path, target->name);
	if (r < 0)
		return failed(copy, target->path, r);
	slash = strrchr(target->path, '/');
	len = slash ? (size_t)(slash - target->path) : 0;
	memcpy(target->dir, target->path, len);
	target->dir[len] = '\0';
	if (!len)
		snprintf(target->dir, sizeof(target->dir), "%s", slash ? "/" : ".");
	return 0;
}

/* DST, or below it if that is a directory. */
static int find_target(struct copy *copy, bool is_tree, struct target *ret)
{
	char name[NAME_MAX + 1] = "";
	size_t len = strlen(copy->local);
	bool is_contents = is_tree && copy_is_contents(copy->remote.path);

	*ret = (struct target){0};
	if (len + NAME_MAX + 2 > PATH_MAX || copy_name(copy->remote.path, name) < 0)
		return failed(copy, copy->local, -ENAMETOOLONG);
	snprintf(ret->path, sizeof(ret->path), "%s", copy->local);
	look(ret);
	if (ret->is_there && S_ISDIR(ret->type) && !is_contents) {
		snprintf(ret->path + len, sizeof(ret->path) - len, "/%s", name);
		look(ret);
		if (ret->is_there && S_ISDIR(ret->type) && !is_tree)
			return failed(copy, ret->path, -EISDIR);
	} else if (!is_tree && copy->local[len - 1] == '/') {
		return haul_fail(copy->haul, -ENOTDIR, "%s is no directory",
				 screen_text(str_of(copy->local)).text);
	}
	if (is_tree && ret->is_there && !S_ISDIR(ret->type))
		return failed(copy, ret->path, -ENOTDIR);
	return split(copy, ret);
}

/* --- a file --- */

struct arriving {
	struct copy *copy;
	struct landing landing;
	uint64_t at;
};

static int on_bytes(void *arg, struct str bytes)
{
	struct arriving *a = arg;
	int r = landing_write(&a->landing, bytes, a->at, &a->copy->haul->own);

	a->at += bytes.len;
	return r;
}

static int receive_file(struct copy *copy, const struct target *target, mode_t mode)
{
	struct haul *haul = copy->haul;
	struct arriving a = {.copy = copy};
	int r = landing_open(&a.landing, target->dir, &haul->own);

	if (r == 0)
		r = landing_begin_file(&a.landing, target->name, &haul->own);
	if (r == 0)
		r = haul_receive(haul, "GET", on_bytes, &a);
	/* Up to here nothing has changed, and from here on it is done. */
	if (r == 0 && haul_is_interrupted(haul))
		r = -EINTR;
	if (r == 0)
		r = landing_finish_file(&a.landing, mode, a.at, NULL, &haul->own);
	landing_close(&a.landing);
	return r;
}

/* A descriptor of ours by one of its names: nothing that is behind it is replaced. -1: none. */
static int own_descriptor(const struct copy *copy)
{
	static const char *const dirs[] = {"/dev/fd/", "/proc/self/fd/"};
	const char *path = copy->local;

	if (copy_is_standard(copy) || strcmp(path, "/dev/stdout") == 0)
		return STDOUT_FILENO;
	if (strcmp(path, "/dev/stderr") == 0)
		return STDERR_FILENO;
	for (size_t i = 0; i < array_len(dirs); i++) {
		const char *number = path + strlen(dirs[i]);

		if (strncmp(path, dirs[i], strlen(dirs[i])) == 0 && *number &&
		    strspn(number, "0123456789") == strlen(number) && strlen(number) <= 6)
			return atoi(number);
	}
	return -1;
}

static int get_file(struct copy *copy, const struct file_info *info)
{
	struct haul *haul = copy->haul;
	int own = own_descriptor(copy), r = 0;
	cleanup_fd int fd = -1;
	struct target target;

	if (own < 0)
		r = find_target(copy, false, &target);
	if (r == 0)
		r = remote_target(&copy->remote, "file", &haul->target);
	if (r < 0)
		return r;
	if (own >= 0)
		return haul_receive_fd(haul, "GET", own);
	if (!target.is_there || S_ISREG(target.type)) {
		progress_start(&haul->progress, copy->remote.text, info->size);
		return receive_file(copy, &target, file_info_mode(info));
	}
	/* A device or a pipe is written to, not replaced. */
	fd = haul_open(haul, target.path, O_WRONLY);
	if (fd < 0)
		return fd == -EINTR ? fd : failed(copy, target.path, fd);
	return haul_receive_fd(haul, "GET", fd);
}

/* --- a tree --- */

/* Directories may be closed to us by now. */
static void remove_tree(char *path)
{
	char *const paths[] = {path, NULL};
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	const FTSENT *at;

	while (fts && (at = fts_read(fts))) {
		if (at->fts_info == FTS_D)
			chmod(at->fts_accpath, S_IRWXU);
		else if (at->fts_info == FTS_DP)
			rmdir(at->fts_accpath);
		else
			unlink(at->fts_accpath);
	}
	if (fts)
		fts_close(fts);
}

/* The thread reads as long as it lives, and then tells by EPIPE. */
static int on_archive(void *arg, struct str bytes)
{
	struct tree *tree = arg;

	while (bytes.len) {
		ssize_t n = write(tree->fd, bytes.at, bytes.len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			bytes = (struct str){bytes.at + n, bytes.len - (size_t)n};
	}
	return 0;
}

/* The sizes of all files, for those who look at the progress: 0 if it cannot be known. */
static uint64_t measure(struct copy *copy)
{
	struct haul *haul = copy->haul;
	struct buf cursor;
	uint64_t sum = 0;
	int r = 0;

	buf_init(&cursor, REMOTE_TARGET_MAX);
	do {
		struct file_list list = {0};
		struct arena arena;

		arena_init(&arena, REMOTE_LIST_MAX);
		r = remote_target(&copy->remote, "dir", &haul->target);
		if (r == 0)
			r = buf_printf(&haul->target, "?recursive=1&hidden=1%.*s",
				       (int)buf_len(&cursor),
				       buf_at(&cursor) ? buf_at(&cursor) : "");
		if (r == 0)
			r = haul_ask(haul, "GET");
		if (r == 0)
			r = file_list_parse(&arena, &haul->answer, &list, &haul->err);
		for (size_t i = 0; r == 0 && i < list.entries.len; i++) {
			const struct file_info *info = (struct file_info *)list.entries.items + i;

			if (str_eq(info->type, STR("file")))
				sum += info->size;
		}
		buf_consume(&cursor, buf_len(&cursor));
		if (r == 0 && list.cursor.len)
			r = buf_printf(&cursor, "&cursor=");
		if (r == 0)
			r = remote_encode(&cursor, list.cursor);
		arena_close(&arena);
	} while (r == 0 && buf_len(&cursor));
	buf_close(&cursor);
	buf_consume(&haul->target, buf_len(&haul->target));
	return r == 0 ? sum : 0;
}

static int receive_tree(struct copy *copy, const char *path, bool is_new)
{
	struct haul *haul = copy->haul;
	uint64_t size = isatty(STDERR_FILENO) ? measure(copy) : 0;
	struct landing landing;
	struct tree tree;
	int r = landing_open(&landing, path, &haul->own);

	landing.is_new = is_new;
	landing.keeps_links = copy->keeps_links;
	if (r == 0)
		r = tree_unpack(&tree, &landing, &haul->own);
	if (r == 0) {
		r = remote_tree_target(&copy->remote, "persist", &haul->target);
		if (r == 0)
			r = buf_printf(&haul->target, "&sparse=1");
		progress_start(&haul->progress, copy->remote.text, size);
		if (r == 0)
			r = haul_receive(haul, "POST", on_archive, &tree);
		/* What ended early is damaged to the thread: the cause is known better here. */
		if (tree_end(&tree) < 0 && (r == 0 || r == -EPIPE))
			r = haul_fail(haul, tree.result, "%s", tree.err.sentence);
	}
	if (r == 0 && landing.left_out)
		screen_error("left out, for they are no files (pipes; sockets and devices are not "
			     "counted, as sandboxes do not send them): %llu",
			     (unsigned long long)landing.left_out);
	landing_close(&landing);
	return r;
}

/* Beside its place and under another name, until all of it is there. */
static int receive_new_tree(struct copy *copy, const struct target *target)
{
	char temp[PATH_MAX];
	int r;

	if (snprintf(temp, sizeof(temp), "%s/" TEMP_PATTERN, target->dir) >= (int)sizeof(temp))
		return failed(copy, target->path, -ENAMETOOLONG);
	if (!mkdtemp(temp))
		return failed(copy, target->path, -errno);
	r = receive_tree(copy, temp, true);
	if (r == 0 && haul_is_interrupted(copy->haul))
		r = -EINTR;
	if (r == 0 && renameat2(AT_FDCWD, temp, AT_FDCWD, target->path, RENAME_NOREPLACE) < 0)
		r = failed(copy, target->path, -errno);
	if (r < 0)
		remove_tree(temp);
	return r;
}

static int get_tree(struct copy *copy)
{
	struct target target;
	int r;

	if (own_descriptor(copy) >= 0)
		return haul_fail(copy->haul, -EISDIR,
				 "%s is a directory: `berth tar` writes one to standard output",
				 screen_text(str_of(copy->remote.text)).text);
	r = find_target(copy, true, &target);
	if (r < 0)
		return r;
	return target.is_there ? receive_tree(copy, target.path, false)
			       : receive_new_tree(copy, &target);
}

int copy_out(struct copy *copy)
{
	struct file_info info;
	struct arena arena;
	int r;

	arena_init(&arena, STAT_MAX);
	r = haul_stat(copy->haul, &copy->remote, &arena, &info);
	if (r == 0 && !str_eq(info.type, STR("directory")))
		r = get_file(copy, &info);
	else if (r == 0)
		r = copy->is_recursive ? get_tree(copy)
				       : copy_needs_recursive(copy, copy->remote.text);
	arena_close(&arena);
	return r;
}
