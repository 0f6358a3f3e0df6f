#include "cmd/berth-init/usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/number.h"

#define US_PER_TICK   10000
#define PROCESSES_MAX 4096 /* looked at: nobody else is served meanwhile */
#define FIELDS_BEFORE 12   /* between the name and the times: utime, stime, cutime, cstime */

void usage_parse(const char *text, uint64_t *ret_user_us, uint64_t *ret_system_us)
{
	const char *at = strrchr(text, ')'); /* the name may hold anything */
	uint64_t ticks[4] = {0};

	for (int i = 0; at && i < FIELDS_BEFORE; i++)
		at = strchr(at + 1, ' ');
	for (int i = 0; at && i < 4; i++) {
		for (at++; *at >= '0' && *at <= '9'; at++)
			ticks[i] = ticks[i] * 10 + (uint64_t)(*at - '0');
	}
	*ret_user_us = (ticks[0] + ticks[2]) * US_PER_TICK;
	*ret_system_us = (ticks[1] + ticks[3]) * US_PER_TICK;
}

static uint64_t of_process(int proc_fd, int pid)
{
	char path[NUMBER_SIZE + sizeof("/stat")], text[1024];
	cleanup_fd int fd = -1;
	uint64_t user_us, system_us;
	ssize_t n;

	memcpy(path + number_put(path, pid), "/stat", sizeof("/stat"));
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	usage_parse(text, &user_us, &system_us);
	return user_us + system_us;
}

static uint64_t of_time(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

uint64_t usage_read(int proc_fd)
{
	cleanup_fd int dir = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(8) char entries[8192];
	struct rusage ended;
	uint64_t sum = 0;
	int n, left = PROCESSES_MAX;

	/* Whoever ends from now on is not reaped before we are done. */
	if (getrusage(RUSAGE_CHILDREN, &ended) == 0)
		sum = of_time(ended.ru_utime) + of_time(ended.ru_stime);
	while (left && dir >= 0 &&
	       (n = getdents(dir, (struct dirent *)entries, sizeof(entries))) > 0) {
		const struct dirent *entry;

		for (int at = 0; left && at < n; at += entry->d_reclen) {
			int pid;

			entry = (const struct dirent *)(entries + at);
			pid = atoi(entry->d_name); /* 0 of all that is no process */
			if (pid <= 1)
				continue;
			sum += of_process(proc_fd, pid);
			left--;
		}
	}
	return sum;
}
