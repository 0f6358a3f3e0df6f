#include "cmd/berth-init/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cmd/berth-init/number.h"

#define STOP_TRIES   20
#define FIND_TRIES   4
#define STOP_WAIT_NS 200000
#define PATH_SIZE    64

/* "<pid>/task", and behind it "/<thread><leaf>" if there is a leaf. */
static void put_path(char path[PATH_SIZE], pid_t pid, const char *thread, const char *leaf)
{
	size_t used = number_put(path, pid);

	memcpy(path + used, "/task", 6);
	used += 5;
	if (!leaf)
		return;
	path[used++] = '/';
	/* A pid has at most 10 digits, as has a thread; the leaf is ours. */
	for (const char *from = thread; *from && used < PATH_SIZE - 16; from++)
		path[used++] = *from;
	memcpy(path + used, leaf, strlen(leaf) + 1);
}

/* The state stands behind the name, which may hold anything but ends with the last parenthesis. */
static bool is_still(const struct tree *t, const char *path)
{
	cleanup_fd int fd = openat(t->proc_fd, path, O_RDONLY | O_CLOEXEC);
	char text[128];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	/* Gone, which is as still as it gets. */
	if (n <= 0)
		return true;
	for (ssize_t i = n - 3; i >= 0; i--) {
		if (text[i] == ')')
			return strchr("TtZX", text[i + 2]) != NULL;
	}
	return false;
}

static void add_pid(struct tree *t, pid_t pid)
{
	if (pid > 0 && t->count < TREE_PIDS_MAX)
		t->pids[t->count++] = pid;
}

/* The numbers in a file, one by one. */
struct pids {
	int fd;
	ssize_t len, at;
	char text[4096];
};

/* 0: no more. */
static pid_t next_pid(struct pids *p)
{
	pid_t pid = 0;

	for (;; p->at++) {
		if (p->at == p->len) {
			p->at = 0;
			p->len = p->fd < 0 ? 0 : read(p->fd, p->text, sizeof(p->text));
			if (p->len <= 0) {
				p->len = 0;
				return pid;
			}
		}
		if (p->text[p->at] >= '0' && p->text[p->at] <= '9')
			pid = pid * 10 + (p->text[p->at] - '0');
		else if (pid)
			return pid;
	}
}

static void add_children(struct tree *t, const char *path)
{
	cleanup_fd int fd = openat(t->proc_fd, path, O_RDONLY | O_CLOEXEC);
	struct pids pids;
	pid_t pid;

	pids.fd = fd;
	pids.len = pids.at = 0;
	while ((pid = next_pid(&pids)))
		add_pid(t, pid);
}

/* Adds the children of all its threads. Were all of them still before we looked? */
static bool look_at(struct tree *t, pid_t pid, bool is_self)
{
	cleanup_fd int dir = -1;
	char path[PATH_SIZE];
	bool all_still = true;
	int n;

	put_path(path, pid, NULL, NULL);
	dir = openat(t->proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (dir >= 0 && (n = getdents(dir, (struct dirent *)t->text, sizeof(t->text))) > 0) {
		const struct dirent *entry;

		for (int at = 0; at < n; at += entry->d_reclen) {
			entry = (const struct dirent *)(t->text + at);
			if (entry->d_name[0] == '.')
				continue;
			put_path(path, pid, entry->d_name, "/stat");
			if (!is_self && !is_still(t, path))
				all_still = false;
			put_path(path, pid, entry->d_name, "/children");
			add_children(t, path);
		}
	}
	return all_still;
}

/* Stops whoever still runs. True when nobody did: then nobody can have forked behind our back. */
static bool stop_all(struct tree *t)
{
	bool all_still = true;

	t->count = 0;
	look_at(t, getpid(), true);
	for (size_t i = 0; i < t->count; i++) {
		pid_t pid = t->pids[i];

		if (!look_at(t, pid, false)) {
			kill(pid, SIGSTOP);
			all_still = false;
		}
	}
	return all_still;
}

static void find_all(struct tree *t)
{
	t->count = 0;
	look_at(t, getpid(), true);
	for (size_t i = 0; i < t->count; i++)
		look_at(t, t->pids[i], false);
}

void tree_signal(struct tree *t, pid_t but, int signal)
{
	size_t before;

	/* All of them first: whose parent ends at once is found nowhere for a moment. `but` has the
	 * signal already: its children become ours while we look, behind those that we saw. */
	find_all(t);
	for (int i = 0; i < FIND_TRIES; i++) {
		before = t->count;
		find_all(t);
		if (t->count == before)
			break;
	}
	for (size_t i = 0; i < t->count; i++) {
		if (t->pids[i] != but)
			kill(t->pids[i], signal);
	}
}

void tree_signal_group(int group_fd, pid_t but, int signal)
{
	cleanup_fd int fd = openat(group_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	struct pids pids;
	pid_t pid;

	pids.fd = fd;
	pids.len = pids.at = 0;
	/* Who moves itself there for ever is as many as its sandbox may have, and more are not
	 * waited for. */
	for (int i = 0; i < TREE_PIDS_MAX && (pid = next_pid(&pids)); i++) {
		if (pid > 1 && pid != but)
			kill(pid, signal);
	}
}

void tree_kill(struct tree *t)
{
	for (int i = 0; i < STOP_TRIES && !stop_all(t); i++)
		nanosleep(&(struct timespec){0, STOP_WAIT_NS}, NULL);
	for (size_t i = 0; i < t->count; i++)
		kill(t->pids[i], SIGKILL);
}
