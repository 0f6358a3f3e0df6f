/* The side of this machine: what a sandbox must not reach, and what can be seen of it from here. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "cmd/berth/selftest.h"

#define OUTSIDE_MAX 40

static bool is_called(const char *pid, const char *word)
{
	char path[300], text[4096];
	cleanup_fd int fd = -1;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? 0 : read(fd, text, sizeof(text));
	return len > 0 && memmem(text, (size_t)len, word, strlen(word));
}

pid_t selftest_find(const char *word)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	pid_t found = 0;

	while (dir && !found && (entry = readdir(dir)))
		if (atoi(entry->d_name) > 0 && is_called(entry->d_name, word))
			found = atoi(entry->d_name);
	if (dir)
		closedir(dir);
	return found;
}

/* --- the canary --- */

static void canary_path(const struct selftest *t, char *ret, size_t size)
{
	snprintf(ret, size, "%s/canary", t->outside);
}

int selftest_make_outside(struct selftest *t)
{
	char path[sizeof(t->outside) + 16];
	const char *tmp = getenv("TMPDIR");
	cleanup_fd int fd = -1;

	/* Names in an archive are short. */
	snprintf(t->outside, sizeof(t->outside), "%s/berth-selftest-XXXXXX",
		 tmp && *tmp == '/' && strlen(tmp) < OUTSIDE_MAX ? tmp : "/tmp");
	if (!mkdtemp(t->outside)) {
		t->outside[0] = '\0';
		return haul_fail(&t->haul, -errno, "cannot make a directory for a canary: %m");
	}
	canary_path(t, path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	/* Nothing but the sandbox's walls may stand in the way: not the mode of a file. */
	if (fd < 0 || dprintf(fd, "canary %s", t->word) < 0 || fchmod(fd, 0666) < 0 ||
	    chmod(t->outside, 0777) < 0)
		return haul_fail(&t->haul, -errno, "cannot write %s: %m", path);
	return 0;
}

bool selftest_has_canary(const struct selftest *t, struct str text)
{
	char canary[64];

	snprintf(canary, sizeof(canary), "canary %s", t->word);
	return text.len && memmem(text.at, text.len, canary, strlen(canary));
}

static size_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	size_t count = 0;

	while (dir && (entry = readdir(dir)))
		count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	if (dir)
		closedir(dir);
	return count;
}

bool selftest_is_outside_same(struct selftest *t, const char *what, struct outcome *ret)
{
	char path[sizeof(t->outside) + 16], text[128];
	cleanup_fd int fd = -1;
	struct stat st;
	ssize_t len;

	canary_path(t, path, sizeof(path));
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	len = fd < 0 ? 0 : read(fd, text, sizeof(text));
	if (len <= 0 || !selftest_has_canary(t, (struct str){text, (size_t)len}) ||
	    (size_t)len != strlen("canary ") + strlen(t->word)) {
		outcome_hole(ret, "%s changed a file of the host", what);
		return false;
	}
	if (fstat(fd, &st) < 0 || (st.st_mode & 07777) != 0666 || st.st_nlink != 1) {
		outcome_hole(ret, "%s changed the mode or the links of a file of the host", what);
		return false;
	}
	if (count_entries(t->outside) != 1) {
		outcome_hole(ret, "%s made a file on the host", what);
		return false;
	}
	return true;
}

/* What a hole has let in is removed, too, as far as it is no tree. */
void selftest_remove_outside(struct selftest *t)
{
	const struct dirent *entry;
	DIR *dir;

	if (!t->outside[0])
		return;
	dir = opendir(t->outside);
	while (dir && (entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(t->outside);
	t->outside[0] = '\0';
}
