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
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/verb.h"

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

/* Finds the line that begins with the word in what came so far. */
static bool find_line(const struct buf *out, struct str word, struct str *ret)
{
	const char *at = buf_at(out), *end = at + buf_len(out), *newline;

	for (; at < end && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1) {
		*ret = (struct str){at, (size_t)(newline - at)};
		if (str_starts_with(*ret, word))
			return true;
	}
	return false;
}

static bool is_ignored(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* From now on the signals that would end us are only read from the descriptor. */
static int catch_signals(sigset_t *ret_before)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < array_len(numbers); i++)
		if (!is_ignored(numbers[i]))
			sigaddset(&set, numbers[i]);
	sigprocmask(SIG_BLOCK, &set, ret_before);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* One step: more of the daemon's output. 1 to go on, -EPIPE at its end, -EINTR after a signal. */
static int read_some(int fd, int signals, int timeout_ms, struct buf *out)
{
	struct pollfd polls[] = {
		{.fd = fd, .events = POLLIN},
		{.fd = signals, .events = POLLIN},
	};
	struct signalfd_siginfo info;
	char bytes[1024];
	ssize_t n;

	n = poll(polls, array_len(polls), timeout_ms);
	if (n == 0 || (n < 0 && errno == EINTR))
		return 1;
	/* Taken, or it would end us without a word once signals are let in again. */
	if (n > 0 && polls[1].revents && read(signals, &info, sizeof(info)) > 0)
		return -EINTR;
	n = n < 0 ? -1 : read(fd, bytes, sizeof(bytes));
	return n <= 0 || buf_append(out, bytes, (size_t)n) < 0 ? -EPIPE : 1;
}

/*
 * 0 with the line "ready ...", -EPIPE when the daemon closed its standard output (it ended), with
 * the line "failed ..." if there was one, -ETIMEDOUT, -EINTR.
 */
static int await_ready(int fd, int signals, char ret_line[LAUNCH_LINE_MAX])
{
	int64_t deadline = now_ms() + READY_TIMEOUT_MS, left;
	struct str line;
	struct buf out;
	int r = 1;

	ret_line[0] = '\0';
	buf_init(&out, STDOUT_MAX);
	while (r > 0 && (left = deadline - now_ms()) > 0) {
		r = read_some(fd, signals, (int)left, &out);
		if (r > 0 && find_line(&out, STR("ready"), &line))
			r = 0;
	}
	if (r == 0 || (r == -EPIPE && find_line(&out, STR("failed "), &line)))
		snprintf(ret_line, LAUNCH_LINE_MAX, "%s", screen_text(line).text);
	buf_close(&out);
	return r > 0 ? -ETIMEDOUT : r;
}

/* "2026-01-02T03:04:05.678Z error what" -> "what"; "berthd: what" or "failed what" -> "what". */
static const char *skip_prefix(const char *line)
{
	const char *space;

	if (strncmp(line, "berthd: ", 8) == 0)
		return line + 8;
	if (strncmp(line, "failed ", 7) == 0)
		return line + 7;
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

static int explain(int error, int status, const char *words, struct err *err)
{
	if (error == -EINTR)
		return err_set(err, error, ERR_START_FAILED,
			       "interrupted: berthd was ended before it was ready");
	if (error == -ETIMEDOUT)
		return err_set(err, error, ERR_START_FAILED,
			       "berthd was not ready after %d s and was ended",
			       READY_TIMEOUT_MS / 1000);
	/* What it says of our flags is about the command line that was typed. */
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_USAGE)
		error = -EDESTADDRREQ;
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

static int spawn_and_wait(char *const argv[], int log, int signals, struct launched *ret,
			  struct err *err)
{
	cleanup_fd int in = -1, out = -1;
	char words[LAST_WORDS_MAX];
	off_t from = lseek(log, 0, SEEK_END);
	int pipe_fds[2], status, r;

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
	r = await_ready(in, signals, ret->line);
	if (r == 0)
		return 0;
	if (r == -EINTR)
		kill(ret->pid, SIGTERM);
	status = end_child(ret->pid, r == -ETIMEDOUT ? 0 : END_TIMEOUT_MS);
	last_words(log, from, words);
	return explain(r, status, *ret->line ? ret->line : words, err);
}

/* Its directory is berthd's user's: no link of that user may make root append elsewhere. */
static int open_log(const char *path, struct err *err)
{
	cleanup_fd int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, ERR_FORBIDDEN, "cannot open the log %s: %m", path);
	if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
		return err_set(err, -EPERM, ERR_FORBIDDEN,
			       "the log %s is no file of its own: move it away", path);
	return take_fd(&fd);
}

int launch(char *const argv[], const char *log_path, struct launched *ret, struct err *err)
{
	cleanup_fd int log = -1, signals = -1;
	sigset_t before;
	int r;

	log = open_log(log_path, err);
	if (log < 0)
		return log;
	signals = catch_signals(&before);
	r = spawn_and_wait(argv, log, signals, ret, err);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r == -ETIMEDOUT ? err_wrap(err, r, "see the log %s", log_path) : r;
}
