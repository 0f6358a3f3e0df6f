/* How much memory is held by what lives in the group of an exec. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/exec_state.h"

#define PIDS_MAX 512 /* that are looked at one by one */

/* Owns the descriptor, which may be an error. */
static ssize_t read_text(int file, char *text, size_t size)
{
	cleanup_fd int fd = file;
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (n >= 0)
		text[n] = '\0';
	return n;
}

/* What one process has for itself; 0 if it is gone by now. */
static int64_t memory_of(long pid)
{
	unsigned long size, resident, shared;
	char path[64], text[128];

	snprintf(path, sizeof(path), "/proc/%ld/statm", pid);
	if (read_text(open(path, O_RDONLY | O_CLOEXEC), text, sizeof(text)) < 0 ||
	    sscanf(text, "%lu %lu %lu", &size, &resident, &shared) != 3 || shared > resident)
		return 0;
	return (int64_t)(resident - shared) * sysconf(_SC_PAGESIZE);
}

/* Where groups have no memory controller (cgroups of version 1 and 2 at once). */
static int64_t sum_of(const struct exec *e)
{
	char text[PIDS_MAX * 8], *at = text, *end;
	int64_t sum = 0;

	if (read_text(sandbox_group_open(e->sb, e->group, "cgroup.procs"), text, sizeof(text)) <= 0)
		return -1;
	for (;;) {
		long pid = strtol(at, &end, 10);

		if (end == at || *end != '\n')
			return sum;
		if (pid > 0)
			sum += memory_of(pid);
		at = end + 1;
	}
}

int64_t exec_memory(const struct exec *exec)
{
	char text[32];

	if (exec->group.fd < 0)
		return -1;
	if (read_text(sandbox_group_open(exec->sb, exec->group, "memory.current"), text,
		      sizeof(text)) > 0)
		return strtoll(text, NULL, 10);
	return sum_of(exec);
}
