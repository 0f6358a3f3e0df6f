#include "container/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/child.h"
#include "container/passage.h"
#include "container/quotas.h"

#define COMMAND_TIMEOUT_MS 10000
#define WORDS_READ         8192

/* Of our environment it gets nothing. */
struct environment {
	const char *words[6];
	char copies[PATH_MAX + 128];
};

/*
 * A runtime runs from a read-only mount of its own program, which it puts on a file that it makes
 * for a moment: crun in /tmp, unless told otherwise. If it is killed then, both stay; in the
 * sandbox's own folder they go with that, see runtime_unmount_copies().
 */
static void fill_environment(struct environment *ret, const struct container_host *host,
			     const char *id)
{
	*ret = (struct environment){
		.words = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			  "LC_ALL=C", "HOME=/", "XDG_RUNTIME_DIR=/nonexistent", ret->copies}};
	snprintf(ret->copies, sizeof(ret->copies), "_LIBCONTAINER_STATEDIR=%s/%s/bundle",
		 host->run_dir, id);
}

enum runtime_kind runtime_kind_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	return strncmp(name, "crun", 4) == 0   ? RUNTIME_CRUN
	       : strncmp(name, "runc", 4) == 0 ? RUNTIME_RUNC
					       : RUNTIME_OTHER;
}

/* What comes before the verb. */
static unsigned common_args(const struct container_host *host, const char **argv, char *root,
			    size_t root_size)
{
	unsigned n = 0;

	snprintf(root, root_size, "--root=%s/.runtime", host->run_dir);
	argv[n++] = host->runtime;
	argv[n++] = root;
	if (host->kind == RUNTIME_CRUN && !host->cgroup.is_used)
		argv[n++] = "--cgroup-manager=disabled";
	return n;
}

struct setup {
	const struct container_host *host;
	struct passage passage;
};

static int set_up(const void *data)
{
	const struct setup *setup = data;
	int r = quotas_halve();

	return r == 0 && setup->host->closed_dir[0] ? passage_open(&setup->passage) : r;
}

int runtime_start(const struct container_host *host, const struct runtime_run *run, pid_t *ret_pid)
{
	char root[PATH_MAX + 32], bundle[PATH_MAX + 128];
	const char *argv[16];
	unsigned n = common_args(host, argv, root, sizeof(root));
	struct setup setup = {host, {host->run_dir, host->closed_dir, run->id}};
	struct environment environment;
	struct child_program program = {
		.path = host->runtime,
		.setup = set_up,
		.setup_data = &setup,
		.argv = argv,
		.envp = environment.words,
		.cwd_fd = run->bundle_fd,
		.cgroup_fd = run->cgroup_fd,
		.log_fd = run->log_fd,
		.passed_fd = run->agent_fd,
	};

	fill_environment(&environment, host, run->id);
	snprintf(bundle, sizeof(bundle), "--bundle=%s/%s/bundle", host->run_dir, run->id);
	argv[n++] = "--log=/proc/self/fd/4";
	argv[n++] = "run";
	argv[n++] = "--detach";
	argv[n++] = "--preserve-fds=1";
	argv[n++] = "--pid-file=pid";
	if (host->has_keyring && host->kind != RUNTIME_OTHER)
		argv[n++] = "--no-new-keyring";
	argv[n++] = bundle;
	argv[n++] = run->id;
	argv[n] = NULL;
	return child_start(&program, ret_pid);
}

/* One short command about a container; waits for it. */
static int command(const struct container_host *host, const char *id, const char *const *words)
{
	char root[PATH_MAX + 32];
	const char *argv[8];
	unsigned n = common_args(host, argv, root, sizeof(root));
	struct environment environment;
	struct child_program program = {
		.path = host->runtime,
		.argv = argv,
		.envp = environment.words,
		.cwd_fd = -1,
		.cgroup_fd = -1,
		.log_fd = -1,
		.passed_fd = -1,
	};
	cleanup_fd int pidfd = -1;
	pid_t pid;
	int status;

	fill_environment(&environment, host, id);
	while (*words)
		argv[n++] = *words++;
	argv[n] = NULL;
	pidfd = child_start(&program, &pid);
	if (pidfd < 0)
		return pidfd;
	status = child_wait(pid, pidfd, COMMAND_TIMEOUT_MS);
	return status < 0 ? status : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

int runtime_kill(const struct container_host *host, const char *id)
{
	return command(host, id, (const char *const[]){"kill", id, "KILL", NULL});
}

int runtime_delete(const struct container_host *host, const char *id)
{
	return command(host, id, (const char *const[]){"delete", id, NULL});
}

static int is_copy(const struct dirent *entry)
{
	return strncmp(entry->d_name, "crun.", 5) == 0 || strncmp(entry->d_name, "runc.", 5) == 0;
}

void runtime_unmount_copies(int dir_fd)
{
	struct dirent **entries;
	int count = scandirat(dir_fd, ".", &entries, is_copy, NULL);

	for (int i = 0; i < count; i++) {
		char path[NAME_MAX + 64];

		snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir_fd, entries[i]->d_name);
		umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

/* runc: time="..." level=error msg="the words, with \" escaped" */
static void strip_fields(char *line)
{
	char *at = strstr(line, " msg=\""), *to = line;

	if (strncmp(line, "time=", 5) != 0 || !at)
		return;
	for (at += 6; *at && *at != '"'; at++) {
		if (*at == '\\' && at[1])
			at++;
		*to++ = *at;
	}
	*to = '\0';
}

/* crun: 2026-01-02T03:04:05.123456Z: the words */
static void strip_time(char *line)
{
	char *end = strstr(line, "Z: ");

	if (end && end - line < 40 && line[0] >= '0' && line[0] <= '9')
		memmove(line, end + 3, strlen(end + 3) + 1);
}

void runtime_words(int log_fd, char *ret, size_t size)
{
	char text[WORDS_READ + 1], *line = text;
	off_t end = lseek(log_fd, 0, SEEK_END);
	ssize_t n =
		end <= 0 ? 0
			 : pread(log_fd, text, WORDS_READ, end > WORDS_READ ? end - WORDS_READ : 0);

	text[n > 0 ? n : 0] = '\0';
	for (size_t i = strlen(text); i > 0 && strchr(" \n\r\t", text[i - 1]); i--)
		text[i - 1] = '\0';
	if (strrchr(text, '\n'))
		line = strrchr(text, '\n') + 1;
	strip_fields(line);
	strip_time(line);
	/* Words go into JSON and logs; there they are escaped, here cut. */
	snprintf(ret, size, "%.*s", (int)size - 1, line);
}
