#include "container/stray.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process_stat.h"
#include "container/dir.h"
#include "container/process.h"
#include "container/userns.h"

#define TEXT_MAX (256 * 1024)
#define SLACK_MS 1000 /* clock ticks, and a clock that was set meanwhile */

/* Where runtimes write the pid down (before and behind the id), and what stands before it. */
static const struct {
	const char *before, *behind, *key;
} places[] = {
	{"", "/bundle/pid", ""},
	{".runtime/", "/status", "\"pid\":"},                  /* crun */
	{".runtime/", "/state.json", "\"init_process_pid\":"}, /* runc */
};

static uint64_t clock_ms(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A process that began after the file was written has only inherited the number. */
static bool is_older_than(const struct process_stat *stat, const struct stat *file)
{
	uint64_t began_ms = stat->start * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t written_ms =
		(uint64_t)file->st_mtim.tv_sec * 1000 + (uint64_t)file->st_mtim.tv_nsec / 1000000;

	return began_ms + clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_BOOTTIME) <=
	       written_ms + SLACK_MS;
}

static pid_t read_pid(int fd, const char *key)
{
	cleanup_free char *text = malloc(TEXT_MAX);
	ssize_t n = text ? read(fd, text, TEXT_MAX - 1) : -1;
	const char *at;
	long pid;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	at = strstr(text, key);
	pid = at ? strtol(at + strlen(key), NULL, 10) : 0;
	return pid > 1 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

static int open_one(int run_fd, const char *path, const char *key, pid_t *ret_pid)
{
	cleanup_fd int fd = dir_open_file(run_fd, path, O_RDONLY, 0), pidfd = -1;
	struct process_stat stat;
	struct stat file;
	pid_t pid;
	int r;

	if (fd < 0 || fstat(fd, &file) < 0)
		return fd == -ENOENT ? -ESRCH : fd < 0 ? fd : -errno;
	pid = read_pid(fd, key);
	pidfd = pid ? process_pidfd_open(pid) : -ESRCH;
	/* Looked at behind the pidfd, so that all of it is about one process. */
	r = pidfd < 0 ? pidfd : process_stat(pid, &stat);
	if (r < 0)
		return r;
	if (stat.state == 'Z' || !is_older_than(&stat, &file) || !userns_is_below(pid))
		return -ESRCH;
	*ret_pid = pid;
	return take_fd(&pidfd);
}

int stray_open(int run_fd, const struct sandbox_id *id, pid_t *ret_pid)
{
	int r = -ESRCH;

	for (size_t i = 0; i < array_len(places) && r == -ESRCH; i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s%s%s", places[i].before, id->text,
			 places[i].behind);
		r = open_one(run_fd, path, places[i].key, ret_pid);
	}
	return r;
}
