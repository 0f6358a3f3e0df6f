#include "container/container.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/child.h"
#include "container/dir.h"
#include "container/host_state.h"
#include "container/trash.h"
#include "container/tree.h"

static int check_id(const struct sandbox_id *id, struct err *err)
{
	size_t len = strnlen(id->text, sizeof(id->text));

	if (len == sizeof(id->text) || !sandbox_id_is_valid((struct str){id->text, len}))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "that is no sandbox id");
	return 0;
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
	trash = trash_open(host);
	/* Under its own name it is gone at once: the next start with this id makes a new disk. */
	r = trash < 0 ? trash : trash_move(trash, host->sandboxes_fd, id->text, id->text);
	if (r == 0)
		r = child_fork(&trash, 1, ret_pid);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot remove the sandbox's disk: %s",
			       strerror(-r));
	if (*ret_pid == 0)
		_exit(trash_empty(trash, id->text));
	return r;
}

bool container_has_trash(const struct container_host *host)
{
	cleanup_fd int trash = trash_open(host);

	return trash >= 0 && !trash_is_empty(trash);
}

int container_empty_trash(const struct container_host *host, pid_t *ret_pid, struct err *err)
{
	cleanup_fd int trash = trash_open(host);
	int r = trash < 0 ? trash : child_fork(&trash, 1, ret_pid);

	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot empty the trash: %s", strerror(-r));
	if (*ret_pid == 0)
		_exit(trash_empty(trash, NULL));
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
