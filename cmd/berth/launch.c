#include "cmd/berth/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/berth/screen.h"

#define READY_TIMEOUT_MS 60000
#define END_TIMEOUT_MS   5000
#define STDOUT_MAX       4096
#define LAST_WORDS_MAX   4096

extern char **environ;

static void find_daemon(char ret[PATH_MAX])
{
	char self[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n > 0) {
		self[n] = '\0';
		slash = strrchr(self, '/');
		if (slash &&
		    snprintf(ret, PATH_MAX, "%.*s/berthd", (int)(slash - self), self) < PATH_MAX &&
		    access(ret, X_OK) == 0)
			return;
	}
	snprintf(ret, PATH_MAX, "berthd"); /* posix_spawnp looks on PATH */
}

/*
 * The daemon must not live in our terminal, our directory or our descriptors, nor take us for the
 * service manager that may have started us.
 */
static int spawn_detached(char *const argv[], int out, int log, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	char program[PATH_MAX];
	sigset_t all, none;
	int r;

	find_daemon(program);
	unsetenv("NOTIFY_SOCKET");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	sigfillset(&all);
	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETSID);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawn_file_actions_adddup2(&actions, log, 2);
	posix_spawn_file_actions_addclosefrom_np(&actions, 3);
	posix_spawn_file_actions_addchdir_np(&actions, "/");
	r = posix_spawnp(ret, program, &actions, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return -r;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Finds the line in what came so far. */
static bool take_ready_line(const struct buf *out, struct launched *ret)
{
	const char *at = buf_at(out), *end = at + buf_len(out), *newline;

	for (; at < end && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1) {
		struct str line = {at, (size_t)(newline - at)};

		if (!str_starts_with(line, STR("ready")))
			continue;
		snprintf(ret->line, sizeof(ret->line), "%s", screen_text(line).text);
		return true;
	}
	return false;
}

/* 0, -EPIPE when the daemon closed its standard output (it ended), -ETIMEDOUT. */
static int await_ready(int fd, struct launched *ret)
{
	int64_t deadline = now_ms() + READY_TIMEOUT_MS, left;
	struct buf out;
	int r = -ETIMEDOUT;

	buf_init(&out, STDOUT_MAX);
	while ((left = deadline - now_ms()) > 0) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		char bytes[1024];
		ssize_t n;

		n = poll(&p, 1, (int)left);
		if (n == 0 || (n < 0 && errno == EINTR))
			continue;
		n = n < 0 ? -1 : read(fd, bytes, sizeof(bytes));
		if (n <= 0 || buf_append(&out, bytes, (size_t)n) < 0) {
			r = -EPIPE;
			break;
		}
		if (take_ready_line(&out, ret)) {
			r = 0;
			break;
		}
	}
	buf_close(&out);
	return r;
}

/* "2026-01-02T03:04:05.678Z error what" -> "what"; "berthd: what" -> "what". */
static const char *skip_prefix(const char *line)
{
	const char *space;

	if (strncmp(line, "berthd: ", 8) == 0)
		return line + 8;
	if (line[0] < '0' || line[0] > '9')
		return line;
	space = strchr(line, ' ');
	if (!space || space == line || space[-1] != 'Z')
		return line;
	space = strchr(space + 1, ' ');
	return space ? space + 1 : line;
}

/* The last line that was logged since `from`; "" if there is none. */
static void last_words(int log, off_t from, char ret[LAST_WORDS_MAX])
{
	struct stat st;
	ssize_t n;
	char *newline;

	ret[0] = '\0';
	if (fstat(log, &st) < 0)
		return;
	if (st.st_size - from > LAST_WORDS_MAX - 1)
		from = st.st_size - (LAST_WORDS_MAX - 1);
	n = pread(log, ret, LAST_WORDS_MAX - 1, from);
	while (n > 0 && (ret[n - 1] == '\n' || ret[n - 1] == '\0'))
		n--;
	ret[n > 0 ? n : 0] = '\0';
	newline = strrchr(ret, '\n');
	if (newline)
		memmove(ret, newline + 1, strlen(newline + 1) + 1);
}

/* Our own child, not waited for yet: its pid cannot be anybody else's. Gives its wait status. */
static int end_child(pid_t pid, int patience_ms)
{
	cleanup_fd int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int status = 0;

	if (pidfd < 0 || poll(&p, 1, patience_ms) <= 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 0;
	return status;
}

static int explain(int error, int status, const char *words, const char *log, struct err *err)
{
	if (error == -ETIMEDOUT)
		return err_set(err, error, ERR_START_FAILED,
			       "berthd was not ready after %d s and was ended; its log is %s",
			       READY_TIMEOUT_MS / 1000, log);
	if (*words)
		return err_set(err, error, ERR_START_FAILED, "berthd did not start: %s",
			       screen_text(str_of(skip_prefix(words))).text);
	if (WIFSIGNALED(status))
		return err_set(err, error, ERR_START_FAILED,
			       "berthd was ended by signal %d before it was ready",
			       WTERMSIG(status));
	return err_set(err, error, ERR_START_FAILED,
		       "berthd ended with code %d before it was ready, and said nothing",
		       WEXITSTATUS(status));
}

int launch(char *const argv[], const char *log_path, struct launched *ret, struct err *err)
{
	cleanup_fd int log = -1, in = -1, out = -1;
	char words[LAST_WORDS_MAX];
	struct stat st;
	int pipe_fds[2], status, r;

	/* O_NOFOLLOW: in a shared state directory a link could make us append elsewhere. */
	log = open(log_path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (log < 0 || fstat(log, &st) < 0)
		return err_set(err, -errno, ERR_FORBIDDEN, "cannot open the log %s: %m", log_path);
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot make a pipe: %m");
	in = pipe_fds[0];
	out = pipe_fds[1];
	r = spawn_detached(argv, out, log, &ret->pid);
	if (r == -ENOENT)
		return err_set(err, r, ERR_NOT_FOUND,
			       "berthd is neither beside berth nor on PATH: is it installed?");
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot start berthd: %s", strerror(-r));
	close(take_fd(&out)); /* so that the daemon's end is seen */
	r = await_ready(in, ret);
	if (r == 0)
		return 0;
	status = end_child(ret->pid, r == -ETIMEDOUT ? 0 : END_TIMEOUT_MS);
	last_words(log, st.st_size, words);
	return explain(r, status, words, log_path, err);
}
