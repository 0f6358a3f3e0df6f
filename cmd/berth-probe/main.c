#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-probe/probe.h"

static long tried_count;
static const char *said_to;

static void say(const char *word, const char *format, va_list args)
{
	printf("%s ", word);
	vprintf(format, args);
	putchar('\n');
	/* Whoever forks next must not say it again. */
	fflush(stdout);
}

void hole(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("hole", format, args);
	va_end(args);
}

void cannot(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("cannot", format, args);
	va_end(args);
}

void note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("note", format, args);
	va_end(args);
}

long tried(long result)
{
	tried_count++;
	return result;
}

void say_to(const char *path)
{
	char hidden[PATH_MAX];

	if (!path)
		return;
	snprintf(hidden, sizeof(hidden), "%s.part", path);
	if (!freopen(hidden, "we", stdout))
		_exit(2);
	said_to = path;
}

int probe_end(void)
{
	char hidden[PATH_MAX];

	printf("tried %ld\n", tried_count);
	if (fflush(stdout) != 0)
		return 1;
	if (!said_to)
		return 0;
	snprintf(hidden, sizeof(hidden), "%s.part", said_to);
	return rename(hidden, said_to) == 0 ? 0 : 1;
}

const char *text_of(const char *path, char ret[TEXT_MAX])
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : read(fd, ret, TEXT_MAX - 1);

	ret[len > 0 ? len : 0] = '\0';
	if (fd >= 0)
		close(fd);
	return ret;
}

void walk(const char *path, bool (*visit)(const char *path, const struct stat *st))
{
	const struct dirent *entry;
	DIR *dir = opendir(path);

	while (dir && (entry = readdir(dir))) {
		char below[PATH_MAX];
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (snprintf(below, sizeof(below), "%s/%s", strcmp(path, "/") ? path : "",
			     entry->d_name) >= (int)sizeof(below))
			continue;
		if (lstat(below, &st) == 0 && visit(below, &st) && S_ISDIR(st.st_mode))
			walk(below, visit);
	}
	if (dir)
		closedir(dir);
}

/* clang-format off */
static const struct {
	const char *name;
	int (*run)(char **args);
} verbs[] = {
	{ "abi",         try_abi },
	{ "alive",       show_alive },
	{ "bomb",        bomb },
	{ "calls",       try_calls },
	{ "devices",     try_devices },
	{ "eat",         eat },
	{ "escape",      escape },
	{ "exe",         loop_exe },
	{ "fds",         show_fds },
	{ "flood",       flood },
	{ "identity",    show_identity },
	{ "ids",         show_ids },
	{ "links",       plant_links },
	{ "namespaces",  show_namespaces },
	{ "network",     try_network },
	{ "noise",       make_noise },
	{ "plant",       plant_privileges },
	{ "privileges",  try_privileges },
	{ "reach",       try_reach },
	{ "routes",      try_routes },
	{ "sockets",     try_sockets },
	{ "special",     plant_special },
	{ "stay",        stay },
	{ "surfaces",    try_surfaces },
	{ "swap",        swap },
	{ "touch",       touch_all },
	{ "tty",         try_tty },
	{ "writes",      try_writes },
};
/* clang-format on */

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < array_len(verbs); i++)
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argv + 2);
	return 2;
}
