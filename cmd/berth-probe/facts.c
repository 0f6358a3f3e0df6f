/* Who and where we are, and what we were born with. These tell facts; who asked judges them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-probe/probe.h"

#define FDS_MAX    65536
#define GROUPS_MAX 64
#define PIDS_MAX   32

/* What is open at the first instruction, and where we stand. */
int show_fds(char **args)
{
	char cwd[PATH_MAX];

	for (int fd = 0; fd < FDS_MAX; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			printf("%d ", fd);
	}
	printf("%s\n", getcwd(cwd, sizeof(cwd)) ? cwd : "(outside)");
	return 0;
}

int show_ids(char **args)
{
	printf("%d %d\n", getuid(), geteuid());
	return 0;
}

/* Ids, directory and the whole environment, each on a line of its own. */
int show_identity(char **args)
{
	gid_t groups[GROUPS_MAX];
	char cwd[PATH_MAX];
	int count = getgroups(GROUPS_MAX, groups);

	printf("uid %d %d\ngid %d %d\n", getuid(), geteuid(), getgid(), getegid());
	for (int i = 0; i < count; i++)
		if (groups[i] != getgid())
			printf("group %d\n", groups[i]);
	printf("cwd %s\n", getcwd(cwd, sizeof(cwd)) ? cwd : "(outside)");
	for (char **env = environ; *env; env++)
		printf("env %s\n", *env);
	return 0;
}

int show_namespaces(char **args)
{
	static const char *const names[] = {"pid", "mnt", "net", "ipc", "uts", "cgroup", "user"};
	char path[64], target[64];
	const struct dirent *entry;
	long pids = 0;
	ssize_t len;
	DIR *dir;

	for (size_t i = 0; i < array_len(names); i++) {
		snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		len = readlink(path, target, sizeof(target) - 1);
		printf("%.*s\n", (int)(len > 0 ? len : 0), target);
	}
	dir = opendir("/proc");
	while (dir && (entry = readdir(dir)))
		pids += entry->d_name[0] >= '1' && entry->d_name[0] <= '9';
	if (dir)
		closedir(dir);
	len = readlink("/proc/self", target, sizeof(target) - 1);
	target[len > 0 ? len : 0] = '\0';
	if (strtol(target, NULL, 10) != getpid())
		hole("/proc is that of other processes");
	if (tried(pids) > PIDS_MAX)
		hole("/proc shows %ld processes, most of them of others", pids);
	return probe_end();
}

/* Before we open anything ourselves. */
static void list_fds(char *ret, size_t size)
{
	char path[64], target[PATH_MAX];
	size_t len = 0;

	*ret = '\0';
	for (int fd = 0; fd < FDS_MAX && len < size; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		if (n > 0)
			len += (size_t)snprintf(ret + len, size - len, "fd %d %.*s\n", fd, (int)n,
						target);
		tried(n);
	}
}

/* OUT WORD: what each descriptor is; says "up", and stays, to be found by the word. */
int stay(char **args)
{
	char fds[TEXT_MAX];
	int up;

	if (!args[0] || !args[1])
		return 2;
	list_fds(fds, sizeof(fds));
	up = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	say_to(args[0]);
	fputs(fds, stdout);
	if (probe_end() != 0 || write(up, "up\n", 3) != 3)
		return 1;
	for (;;)
		pause();
}

/* Whether it works is not the question, only where it ends up. */
int touch_all(char **args)
{
	for (; *args; args++) {
		int fd = open(*args, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);

		if (fd >= 0)
			close(fd);
	}
	return 0;
}
