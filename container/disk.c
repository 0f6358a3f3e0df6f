#include "container/container.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <dirent.h>

#include "base/cleanup.h"
#include "container/child.h"
#include "container/dir.h"
#include "container/host_state.h"
#include "container/tree.h"

#define TRASH ".trash"

static int check_id(const struct sandbox_id *id, struct err *err)
{
	size_t len = strnlen(id->text, sizeof(id->text));

	if (len == sizeof(id->text) || !sandbox_id_is_valid((struct str){id->text, len}))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "that is no sandbox id");
	return 0;
}

/* Its range is taken until the last file that belongs to it is gone. */
static int remove_disk(int trash, const char *name)
{
	cleanup_fd int disk = dir_open(trash, name);
	int r = disk < 0 ? 0 : tree_remove(disk, "upper");

	if (disk >= 0 && r == 0)
		r = tree_remove(disk, "work");
	return r < 0 ? r : tree_remove(trash, name);
}

/* In the worker. What an earlier one did not finish is in there too. */
static int empty_trash(int trash)
{
	struct dirent **entries;
	int count = scandirat(trash, ".", &entries, NULL, NULL), failed = 0;

	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;

		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
		    remove_disk(trash, name) < 0)
			failed = 1;
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return count < 0 || failed;
}

/* Under its own name it is gone at once: the next start with this id makes a new disk. */
static int move_to_trash(const struct container_host *host, int trash, const char *id)
{
	for (unsigned i = 0;; i++) {
		char name[128];

		snprintf(name, sizeof(name), "%s-%u", id, i);
		if (renameat2(host->sandboxes_fd, id, trash, name, 1 /* RENAME_NOREPLACE */) == 0 ||
		    errno == ENOENT)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
}

int container_remove_disk(const struct container_host *host, const struct sandbox_id *id,
			  pid_t *ret_pid, struct err *err)
{
	cleanup_fd int trash = -1;
	struct stat st;
	int r = check_id(id, err);

	if (r < 0)
		return r;
	if (fstatat(host->run_fd, id->text, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, -EBUSY, ERR_CONFLICT, "the sandbox is not taken down yet");
	trash = dir_make(host->sandboxes_fd, TRASH, 0700);
	r = trash < 0 ? trash : move_to_trash(host, trash, id->text);
	if (r == 0)
		r = child_fork(&trash, 1, ret_pid);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot remove the sandbox's disk: %s",
			       strerror(-r));
	if (*ret_pid == 0)
		_exit(empty_trash(trash));
	return r;
}

static int tell_usage(const struct container_host *host, const char *id, int to)
{
	struct tree_usage usage;
	uint64_t numbers[2];
	int r = tree_measure(host->sandboxes_fd, id, &usage);

	if (r < 0 && r != -ENOENT)
		return 1;
	numbers[0] = usage.bytes;
	numbers[1] = usage.files;
	return dir_write_all(to, (struct str){(const char *)numbers, sizeof(numbers)}) < 0;
}

int container_disk_usage(const struct container_host *host, const struct sandbox_id *id,
			 pid_t *ret_pid, int *ret_fd, struct err *err)
{
	int ends[2], keep[2], r = check_id(id, err);

	if (r < 0)
		return r;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot make a pipe: %s",
			       strerror(errno));
	keep[0] = host->sandboxes_fd;
	keep[1] = ends[1];
	r = child_fork(keep, 2, ret_pid);
	if (r >= 0 && *ret_pid == 0)
		_exit(tell_usage(host, id->text, ends[1]));
	close(ends[1]);
	if (r < 0) {
		close(ends[0]);
		return err_set(err, r, ERR_INTERNAL, "cannot fork: %s", strerror(-r));
	}
	*ret_fd = ends[0];
	return r;
}
