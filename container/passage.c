#include "container/passage.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define PASSAGE_STATE ".runtime" /* host_state.h */

void passage_find_closed(const char *run_dir, char ret[PATH_MAX])
{
	struct stat st;

	for (const char *at = run_dir + 1;; at++) {
		if (*at && *at != '/')
			continue;
		snprintf(ret, PATH_MAX, "%.*s", (int)(at - run_dir), run_dir);
		if (stat(ret, &st) == 0 && !(st.st_mode & S_IXOTH))
			return;
		if (!*at)
			break;
	}
	ret[0] = '\0';
}

/* The folders between the cover and `path`, and `path` itself. */
static int make_path(const char *path, size_t from)
{
	char part[PATH_MAX + 128];

	for (size_t i = from + 1;; i++) {
		if (path[i] && path[i] != '/')
			continue;
		snprintf(part, sizeof(part), "%.*s", (int)i, path);
		if (mkdir(part, 0711) < 0 && errno != EEXIST)
			return -errno;
		if (!path[i])
			return 0;
	}
}

static int put_back(int tree, const char *path, size_t from)
{
	int r = make_path(path, from);

	if (r == 0 && move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		r = -errno;
	return r;
}

/* By path: the fds that we hold are those of the namespace that was left. */
static int take_out(const char *path)
{
	int tree =
		open_tree(AT_FDCWD, path,
			  AT_SYMLINK_NOFOLLOW | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	return tree < 0 ? -errno : tree;
}

int passage_open(const void *data)
{
	const struct passage *passage = data;
	size_t from = strlen(passage->closed);
	char sandbox[PATH_MAX + 128], state[PATH_MAX + 128];
	cleanup_fd int sandbox_tree = -1, state_tree = -1;
	int r;

	snprintf(sandbox, sizeof(sandbox), "%s/%s", passage->run_dir, passage->id);
	snprintf(state, sizeof(state), "%s/%s", passage->run_dir, PASSAGE_STATE);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return -errno;
	sandbox_tree = take_out(sandbox);
	state_tree = take_out(state);
	if (sandbox_tree < 0 || state_tree < 0)
		return sandbox_tree < 0 ? sandbox_tree : state_tree;
	if (mount("tmpfs", passage->closed, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0711,size=64k") <
	    0)
		return -errno;
	r = put_back(sandbox_tree, sandbox, from);
	if (r == 0)
		r = put_back(state_tree, state, from);
	strncat(sandbox, "/bundle", sizeof(sandbox) - strlen(sandbox) - 1);
	if (r == 0 && chdir(sandbox) < 0)
		r = -errno;
	return r;
}
