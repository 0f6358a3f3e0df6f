/* Wants to write to the programs of all processes that it sees, as long as it runs. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/berth-probe/probe.h"

#define TALLIES_MAX 256
#define HANDLES     64

/* How often which program's file answered how to whoever wanted to write to it. */
struct tally {
	char path[256];
	int error; /* 0: it was opened */
	long count;
};

static struct tally tallies[TALLIES_MAX];

static void count(const char *path, int error)
{
	for (size_t i = 0; i < TALLIES_MAX; i++) {
		struct tally *t = &tallies[i];

		if (t->count && (t->error != error || strcmp(t->path, path) != 0))
			continue;
		snprintf(t->path, sizeof(t->path), "%s", path);
		t->error = error;
		t->count++;
		return;
	}
	printf("too-many-files 0 1\n");
}

static void attempt(const char *link, const char *path, int flags)
{
	int fd = open(link, flags | O_CLOEXEC);

	count(path, fd < 0 ? errno : 0);
	if (fd >= 0)
		close(fd);
}

/*
 * One process of /proc: its file is wanted at once, and again through a handle that is kept until
 * long after that process has ended, when nobody executes the file any more.
 */
static void try_exe(const char *pid, unsigned round)
{
	static struct {
		int fd;
		char path[256];
	} kept[HANDLES];
	unsigned slot = round % HANDLES;
	char link[300], path[256];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/%s/exe", pid);
	len = readlink(link, path, sizeof(path) - 1);
	path[len > 0 ? len : 0] = '\0';
	attempt(link, len > 0 ? path : "?", O_WRONLY);
	attempt(link, len > 0 ? path : "?", O_RDWR | O_APPEND);
	if (kept[slot].fd > 0) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", kept[slot].fd);
		attempt(link, kept[slot].path, O_WRONLY);
		close(kept[slot].fd);
	}
	snprintf(link, sizeof(link), "/proc/%s/exe", pid);
	kept[slot].fd = open(link, O_PATH | O_CLOEXEC);
	memcpy(kept[slot].path, path, sizeof(path));
	if (kept[slot].fd >= 0) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", kept[slot].fd);
		attempt(link, path, O_WRONLY);
	}
}

/* STOP [OUT]: until that file is there. Says what was tried: the program, errno, how often. */
int loop_exe(char **args)
{
	unsigned round = 0;

	if (!args[0])
		return 2;
	puts("ready");
	fflush(stdout);
	while (access(args[0], F_OK) != 0) {
		const struct dirent *entry;
		DIR *dir = opendir("/proc");

		while (dir && (entry = readdir(dir)))
			if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
				try_exe(entry->d_name, round++);
		if (dir)
			closedir(dir);
	}
	say_to(args[1]);
	for (size_t i = 0; i < TALLIES_MAX && tallies[i].count; i++)
		printf("%s %d %ld\n", tallies[i].path, tallies[i].error, tallies[i].count);
	return args[1] ? probe_end() : 0;
}
