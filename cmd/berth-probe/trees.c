/* Processes that do not want to end, or take all there is. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-probe/noise.h"
#include "cmd/berth-probe/probe.h"

#define RETRY_US 10000
#define MIB      (1024L * 1024)

/* --- a tree that resists --- */

static void resist(int up, bool is_stopped)
{
	static const int asked[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGPIPE};

	for (size_t i = 0; i < array_len(asked); i++)
		signal(asked[i], SIG_IGN);
	if (write(up, "x", 1) != 1)
		_exit(1);
	if (is_stopped)
		raise(SIGSTOP);
	for (;;)
		pause();
}

static void grow(int up, bool is_session, bool is_orphan, bool is_stopped)
{
	pid_t pid = fork();

	if (pid != 0) {
		if (is_orphan && pid > 0)
			waitpid(pid, NULL, 0);
		return;
	}
	if (is_session)
		setsid();
	if (is_orphan && fork() != 0)
		_exit(0);
	resist(up, is_stopped);
}

/* WORD: by which its processes are found. Says "up" when all of them are there. */
int escape(char **args)
{
	int pipe_fds[2];
	char byte;

	if (!args[0] || pipe2(pipe_fds, O_CLOEXEC) < 0)
		return 2;
	grow(pipe_fds[1], false, false, false);
	grow(pipe_fds[1], true, false, false);
	grow(pipe_fds[1], true, true, false);
	grow(pipe_fds[1], true, true, true);
	for (int i = 0; i < 4; i++)
		if (read(pipe_fds[0], &byte, 1) != 1)
			return 2;
	puts("up");
	fflush(stdout);
	signal(SIGTERM, SIG_IGN);
	for (;;)
		pause();
}

/* The process's letter in /proc/<pid>/stat; 0: it is gone. */
static char state_of(const char *pid)
{
	char path[300], text[TEXT_MAX];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	at = strrchr(text_of(path, text), ')');
	return at && at[1] ? at[2] : '\0';
}

static bool is_called(const char *pid, const char *word)
{
	char path[300], text[TEXT_MAX];
	int fd;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? 0 : read(fd, text, sizeof(text));
	if (fd >= 0)
		close(fd);
	return len > 0 && memmem(text, (size_t)len, word, strlen(word));
}

/* WORD: whoever else has it in its command line still lives. */
int show_alive(char **args)
{
	const struct dirent *entry;
	DIR *dir = opendir("/proc");

	if (!args[0] || !dir)
		return 2;
	while ((entry = readdir(dir))) {
		char state = state_of(entry->d_name);

		if (atoi(entry->d_name) <= 0 || !tried(state) || state == 'Z' || state == 'X' ||
		    atoi(entry->d_name) == getpid() || !is_called(entry->d_name, args[0]))
			continue;
		hole("process %s of it lives on (%c)", entry->d_name, state);
	}
	closedir(dir);
	return probe_end();
}

/* --- taking all --- */

struct fuse {
	atomic_long processes;
	atomic_bool is_limited, is_over;
};

static void burn(struct fuse *fuse, long most)
{
	while (!atomic_load(&fuse->is_over)) {
		pid_t pid = fork();

		if (pid > 0 && atomic_fetch_add(&fuse->processes, 1) >= most) {
			if (!atomic_exchange(&fuse->is_over, true))
				hole("%ld processes were started", most);
		} else if (pid < 0 && !atomic_exchange(&fuse->is_limited, true)) {
			printf("limit %ld\n", atomic_load(&fuse->processes));
			fflush(stdout);
		}
		if (pid < 0)
			usleep(RETRY_US);
	}
}

/* MOST WORD: a fork bomb with a fuse, so that a host without limits survives it. */
int bomb(char **args)
{
	struct fuse *fuse = mmap(NULL, sizeof(*fuse), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (!args[0] || fuse == MAP_FAILED)
		return 2;
	signal(SIGCHLD, SIG_IGN);
	burn(fuse, atol(args[0]));
	return 0;
}

int flood(char **args)
{
	static char text[65536];

	memset(text, 'y', sizeof(text));
	while (write(STDOUT_FILENO, text, sizeof(text)) > 0)
		;
	return 0;
}

/* SEED LENGTH */
int make_noise(char **args)
{
	static unsigned char bytes[65536];
	uint64_t state;
	size_t len;

	if (!args[0] || !args[1])
		return 2;
	state = strtoull(args[0], NULL, 10);
	for (len = strtoull(args[1], NULL, 10); len > 0;) {
		size_t piece = len < sizeof(bytes) ? len : sizeof(bytes);

		noise_fill(&state, bytes, piece);
		if (fwrite(bytes, 1, piece, stdout) != piece)
			return 1;
		len -= piece;
	}
	return fflush(stdout) == 0 ? 0 : 1;
}

/* MIB: so much memory, all of it used. */
int eat(char **args)
{
	long most = args[0] ? atol(args[0]) : 0;

	for (long had = 0; had < most; had++) {
		char *at =
			mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (at == MAP_FAILED) {
			cannot("more than %ld MiB are refused: %s", had, strerror(errno));
			return 0;
		}
		memset(at, (int)had + 1, MIB);
	}
	hole("%ld MiB were had", most);
	return probe_end();
}
