#include "cmd/berth/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/tree.h"

#define STAT_MAX (1024 * 1024)

static struct str last_part(const char *path)
{
	size_t end = strlen(path), start;

	while (end && path[end - 1] == '/')
		end--;
	start = end;
	while (start && path[start - 1] != '/')
		start--;
	return (struct str){path + start, end - start};
}

bool copy_is_contents(const char *path)
{
	struct str last = last_part(path);

	return !last.len || str_eq(last, STR(".")) || str_eq(last, STR(".."));
}

int copy_name(const char *path, char ret[NAME_MAX + 1])
{
	struct str last = last_part(path);

	if (last.len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(ret, last.at, last.len);
	ret[last.len] = '\0';
	return 0;
}

bool copy_is_standard(const struct copy *copy)
{
	return strcmp(copy->local, "-") == 0;
}

int copy_needs_recursive(struct copy *copy, const char *what)
{
	return haul_fail(copy->haul, -EISDIR, "%s is a directory: -r copies trees",
			 screen_text(str_of(what)).text);
}

static int local_failed(struct copy *copy, int error)
{
	return haul_fail(copy->haul, error, "cannot read %s: %s",
			 screen_text(str_of(copy->local)).text, strerror(-error));
}

/* Where it goes: DST, or below it if that is a directory. `ret_type`: of what is at DST, or "". */
static int find_target(struct copy *copy, bool is_tree, struct remote *ret, char ret_type[16])
{
	struct file_info info = {.type = STR("")};
	char name[NAME_MAX + 1];
	struct arena arena;
	int r;

	arena_init(&arena, STAT_MAX);
	r = haul_stat(copy->haul, &copy->remote, &arena, &info);
	snprintf(ret_type, 16, "%.*s", STR_ARGS(info.type));
	arena_close(&arena);
	*ret = copy->remote;
	if (r < 0)
		return r;
	if (strcmp(ret_type, "directory") != 0) {
		/* "dir/" wants a directory: one that is not there is made with the file. */
		if (is_tree || copy->remote.path[strlen(copy->remote.path) - 1] != '/')
			return 0;
		if (*ret_type)
			return haul_fail(copy->haul, -ENOTDIR, "%s is no directory",
					 screen_text(str_of(copy->remote.text)).text);
	}
	if (is_tree && copy_is_contents(copy->local))
		return 0;
	if (copy_is_standard(copy))
		return haul_fail(copy->haul, -EISDIR,
				 "%s is a directory, and standard input has no name: say what the "
				 "file shall be called",
				 screen_text(str_of(copy->remote.text)).text);
	r = copy_name(copy->local, name);
	if (r == 0)
		r = remote_join(&copy->remote, name, ret);
	return r < 0 ? haul_fail(copy->haul, r, "the path is too long") : 0;
}

static int send_file(struct copy *copy, int fd, const struct stat *st)
{
	struct haul *haul = copy->haul;
	struct remote target;
	char type[16];
	int r = find_target(copy, false, &target, type);

	if (r == 0)
		r = remote_target(&target, "file", &haul->target);
	if (r == 0 && S_ISREG(st->st_mode))
		r = buf_printf(&haul->target, "?mode=%04o", (unsigned)st->st_mode & 0777);
	if (r < 0)
		return r;
	progress_start(&haul->progress, copy->local, (uint64_t)st->st_size);
	return haul_send(haul, "PUT", fd, NULL, NULL);
}

static uint64_t tree_size; /* nftw() hands nothing on */

static int add_size(const char *path, const struct stat *st, int type, struct FTW *where)
{
	if (type == FTW_F && S_ISREG(st->st_mode))
		tree_size += (uint64_t)st->st_size;
	return 0;
}

static int on_packed(void *arg)
{
	struct tree *tree = arg;

	return tree_join(tree);
}

static int pack_and_send(struct copy *copy, const char *source, bool has_root)
{
	struct haul *haul = copy->haul;
	struct tree tree;
	int r = tree_pack(&tree, source, has_root, &haul->own);

	if (r < 0)
		return r;
	/* Only for those who look: it costs a walk. */
	tree_size = 0;
	if (isatty(STDERR_FILENO))
		nftw(source, add_size, 16, FTW_PHYS | FTW_MOUNT);
	progress_start(&haul->progress, copy->local, tree_size);
	r = haul_send(haul, "POST", tree.fd, on_packed, &tree);
	/* Its own failure is the cause; a pipe that we have closed is not. */
	if (tree_end(&tree) < 0 && (r == 0 || r == tree.result))
		r = haul_fail(haul, tree.result, "%s", tree.err.sentence);
	if (r == 0 && tree.left_out)
		screen_error("left out, for they are no files (sockets and devices): %llu",
			     (unsigned long long)tree.left_out);
	return r;
}

static int send_tree(struct copy *copy)
{
	cleanup_free char *source = realpath(copy->local, NULL);
	struct remote target;
	char type[16];
	bool is_new;
	int r;

	if (!source)
		return local_failed(copy, -errno);
	if (!copy->is_recursive)
		return copy_needs_recursive(copy, copy->local);
	r = find_target(copy, true, &target, type);
	if (r < 0)
		return r;
	if (*type && strcmp(type, "directory") != 0)
		return haul_fail(copy->haul, -ENOTDIR, "%s is no directory",
				 screen_text(str_of(copy->remote.text)).text);
	/* One that is there keeps its own permissions. */
	is_new = !*type || strcmp(target.path, copy->remote.path) != 0;
	r = remote_tree_target(&target, "hydrate", &copy->haul->target);
	return r < 0 ? r : pack_and_send(copy, source, is_new);
}

int copy_in(struct copy *copy)
{
	cleanup_fd int fd = -1;
	struct stat st;

	fd = copy_is_standard(copy) ? haul_open_stdin(copy->haul)
				    : haul_open(copy->haul, copy->local, O_RDONLY);
	if (fd < 0 && copy_is_standard(copy))
		return fd;
	if (fd < 0 || fstat(fd, &st) < 0)
		return local_failed(copy, fd < 0 ? fd : -errno);
	/* It has no name by which it could be walked. */
	if (S_ISDIR(st.st_mode) && copy_is_standard(copy))
		return haul_fail(copy->haul, -EISDIR,
				 "standard input is a directory: -r copies trees that are named");
	return S_ISDIR(st.st_mode) ? send_tree(copy) : send_file(copy, fd, &st);
}
