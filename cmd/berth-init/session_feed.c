#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/clock.h"
#include "cmd/berth-init/number.h"
#include "cmd/berth-init/session.h"
#include "cmd/berth-init/session_line.h"
#include "cmd/berth-init/usage.h"

#define SCRIPT_SIZE   4096        /* one page */
#define INLINE_MAX    1024        /* of a line for bash, which reads it byte by byte */
#define KEPT_MAX      (64 * 1024) /* of the line's memory, after a command */
#define PROBE_MS      10000       /* that a shell has to say that it is one */
#define ASK_MS        50          /* after which it is watched whether the shell comes back */
#define SERIALS       0x7fffffff
#define ORDER_BYTES   (FRAME_MAX + AGENT_CWD_MAX)
#define SIGNALS_COUNT 32

struct order {
	struct session_order head;
	char bytes[ORDER_BYTES];
};

struct command {
	bool is_running; /* or, with number 0 and before is_ready, the probe is */
	uint64_t number;
	int fds[3];
	int cwd_fd, back_fd, line_fd;
	struct str left; /* of the line */
	bool is_asked;   /* the empty line is written */
	uint64_t ask_ms;
	uint64_t user_us, system_us; /* of the shell, before it */
};

struct feeder {
	char line[SESSION_LINE_MAX]; /* first: so its pages are its own */
	size_t line_len;
	int socket, script, status, status_w, shell_fd, stat_fd;
	pid_t shell;
	bool is_ready, is_bash;
	uint32_t serial;
	uint64_t probe_ms;
	struct command command;
	char report[512];
	size_t report_len;
	struct order order;
	char short_line[512];
};

static const struct command no_command = {
	.fds = {-1, -1, -1}, .cwd_fd = -1, .back_fd = -1, .line_fd = -1};

static bool tell(const struct feeder *f, const struct session_note *note)
{
	return send(f->socket, note, sizeof(*note), MSG_NOSIGNAL) == sizeof(*note);
}

/* Of the shell and of what it has waited for. */
static void read_times(const struct feeder *f, uint64_t *ret_user, uint64_t *ret_system)
{
	char text[1024];
	ssize_t n = f->stat_fd < 0 ? 0 : pread(f->stat_fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	usage_parse(text, ret_user, ret_system);
}

/* --- the command --- */

static void drop_command(struct feeder *f)
{
	const struct command *c = &f->command;
	const int fds[] = {c->fds[0], c->fds[1], c->fds[2], c->cwd_fd, c->back_fd, c->line_fd};

	for (size_t i = 0; i < array_len(fds); i++)
		close_fdp(&(int){fds[i]});
	f->command = no_command;
	if (f->line_len > KEPT_MAX)
		madvise(f->line + KEPT_MAX, sizeof(f->line) - KEPT_MAX, MADV_DONTNEED);
	f->line_len = 0;
}

static bool refuse(struct feeder *f, uint32_t stage, int error)
{
	struct session_note note = {.kind = SESSION_REFUSED,
				    .number = f->order.head.number,
				    .stage = stage,
				    .error = (uint32_t)-error};

	drop_command(f);
	return tell(f, &note);
}

static int open_proc(pid_t pid, const char *name, int flags)
{
	char path[32] = "/proc/";
	size_t len = strlen(path);

	len += number_put(path + len, pid);
	memcpy(path + len, name, strlen(name) + 1);
	return open(path, flags | O_CLOEXEC);
}

static struct session_line line_of(struct feeder *f)
{
	const struct command *c = &f->command;

	f->serial = (f->serial + 1) & SERIALS;
	return (struct session_line){
		.feeder = getpid(),
		.serial = f->serial,
		.fds = {c->fds[0], c->fds[1], c->fds[2]},
		.status_fd = f->status_w,
		.cwd_fd = c->cwd_fd,
		.back_fd = c->back_fd,
	};
}

static void begin_line(struct feeder *f, struct str line)
{
	f->command.is_running = true;
	f->command.is_asked = false;
	f->command.left = line;
	f->command.ask_ms = clock_ms() + ASK_MS;
	f->report_len = 0;
}

/* By the rules of all execs: the user may enter it, and no magic link of proc leads there. */
static int enter_cwd(struct feeder *f, const char *cwd)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS,
	};
	int error = 0;

	if (cwd[0] != '/')
		return -EINVAL;
	f->command.cwd_fd = (int)syscall(SYS_openat2, AT_FDCWD, cwd, &how, sizeof(how));
	if (f->command.cwd_fd < 0 || fchdir(f->command.cwd_fd) < 0)
		error = -errno;
	if (chdir("/") < 0)
		return -errno;
	f->command.back_fd = open_proc(f->shell, "/cwd", O_PATH | O_DIRECTORY);
	return error;
}

/* The line itself, or one that reads it. */
static int place_line(struct feeder *f, const struct session_line *line, int len)
{
	struct str text = {f->line, (size_t)len};

	if (!f->is_bash || len <= INLINE_MAX) {
		begin_line(f, (struct str){f->line, (size_t)len});
		return 0;
	}
	f->command.line_fd = memfd_create("command", MFD_CLOEXEC);
	if (f->command.line_fd < 0)
		return -errno;
	while (text.len) {
		ssize_t n = write(f->command.line_fd, text.at, text.len);

		if (n < 0)
			return -errno;
		text = (struct str){text.at + n, text.len - (size_t)n};
	}
	if (write(f->command.line_fd, "", 1) != 1)
		return -ENOSPC;
	len = session_line_make_read(line, f->command.line_fd, f->short_line,
				     sizeof(f->short_line));
	if (len < 0)
		return len;
	begin_line(f, (struct str){f->short_line, (size_t)len});
	return 0;
}

static bool run_command(struct feeder *f, struct str text, struct str env, const char *cwd)
{
	struct command *c = &f->command;
	struct session_line line;
	int error = *cwd ? enter_cwd(f, cwd) : 0;

	if (error < 0)
		return refuse(f, AGENT_STAGE_CWD, error);
	line = line_of(f);
	line.text = text;
	line.env = env;
	error = session_line_make(&line, f->line, sizeof(f->line));
	if (error < 0)
		return refuse(f, AGENT_STAGE_REQUEST, error);
	f->line_len = (size_t)error;
	error = place_line(f, &line, error);
	if (error < 0)
		return refuse(f, AGENT_STAGE_RESOURCES, error);
	read_times(f, &c->user_us, &c->system_us);
	return tell(f, &(struct session_note){.kind = SESSION_STARTED, .number = c->number});
}

/* --- orders --- */

static bool run_from_memfd(struct feeder *f, const struct session_order *o, int memfd,
			   const char *cwd)
{
	off_t size = lseek(memfd, 0, SEEK_END);
	bool is_right;
	char *lists;

	if (size <= 0 || size > AGENT_ARGS_MAX || o->text_size < 1 || o->text_size > size)
		return refuse(f, AGENT_STAGE_REQUEST, -EINVAL);
	lists = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, memfd, 0);
	if (lists == MAP_FAILED)
		return refuse(f, AGENT_STAGE_RESOURCES, -errno);
	is_right =
		run_command(f, (struct str){lists, o->text_size - 1},
			    (struct str){lists + o->text_size, (size_t)size - o->text_size}, cwd);
	munmap(lists, (size_t)size);
	return is_right;
}

static bool take_run(struct feeder *f, int *fds, unsigned fd_count)
{
	const struct session_order *o = &f->order.head;
	bool has_stdin = o->flags & SESSION_HAS_STDIN, in_fd = o->flags & SESSION_IN_FD;
	const char *at = f->order.bytes, *cwd;
	unsigned n = 0;

	/* One at a time, and berthd knows. */
	if (f->command.is_running || !f->is_ready || fd_count != 2u + has_stdin + in_fd)
		return tell(f, &(struct session_note){.kind = SESSION_REFUSED,
						      .number = o->number,
						      .stage = AGENT_STAGE_REQUEST,
						      .error = EBUSY});
	f->command.number = o->number;
	for (int i = has_stdin ? 0 : 1; i < 3; i++)
		f->command.fds[i] = take_fd(&fds[n++]);
	cwd = o->cwd_size ? at + (in_fd ? 0 : o->text_size + o->env_size) : "";
	if (in_fd)
		return run_from_memfd(f, o, fds[n], cwd);
	return run_command(f, (struct str){at, o->text_size - 1},
			   (struct str){at + o->text_size, o->env_size}, cwd);
}

/* Init sends whole ones. */
static bool is_whole(const struct session_order *o, size_t size)
{
	size_t lists = o->flags & SESSION_IN_FD ? 0 : (size_t)o->text_size + o->env_size;

	return size >= sizeof(*o) && size == sizeof(*o) + lists + o->cwd_size &&
	       (o->flags & SESSION_IN_FD || o->kind != SESSION_RUN || o->text_size);
}

/* False: nobody is there any more who gives some. */
static bool take_order(struct feeder *f)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(SESSION_FDS_MAX * sizeof(int))];
	} control;
	struct iovec part = {&f->order, sizeof(f->order)};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	ssize_t size = recvmsg(f->socket, &message, MSG_CMSG_CLOEXEC);
	int fds[SESSION_FDS_MAX] = {-1, -1, -1, -1};
	unsigned fd_count = 0;
	bool goes_on = true;
	const struct cmsghdr *c;

	if (size <= 0)
		return false;
	c = CMSG_FIRSTHDR(&message);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		fd_count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), fd_count * sizeof(int));
	}
	if (!is_whole(&f->order.head, (size_t)size))
		return false;
	if (f->order.head.kind == SESSION_RUN)
		goes_on = take_run(f, fds, fd_count);
	else
		kill(-f->shell, (int)f->order.head.signal);
	for (int i = 0; i < SESSION_FDS_MAX; i++)
		close_fdp(&fds[i]);
	return goes_on;
}

/* --- the shell --- */

static void move_signals(void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};

	for (int i = 1; i < SIGNALS_COUNT; i++) {
		if (i != SIGCHLD)
			sigaction(i, &action, NULL);
	}
}

static void become_shell(char **shells, int script, int error_fd)
{
	int error = ENOENT;

	move_signals(SIG_DFL);
	if (setsid() >= 0 && dup2(script, 0) == 0) {
		for (char **shell = shells; *shell; shell++) {
			execvp(*shell, (char *[]){*shell, "-s", NULL});
			if (errno != ENOENT && errno != ENOTDIR)
				error = errno;
		}
	} else {
		error = errno;
	}
	if (write(error_fd, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

static int start_shell(struct feeder *f, char **shells)
{
	int script[2], status[2], errors[2], error = 0;

	if (pipe2(script, O_CLOEXEC) < 0 || pipe2(status, O_CLOEXEC) < 0 ||
	    pipe2(errors, O_CLOEXEC) < 0 || fcntl(script[1], F_SETPIPE_SZ, SCRIPT_SIZE) < 0)
		return -errno;
	fcntl(script[1], F_SETFL, O_NONBLOCK);
	fcntl(status[0], F_SETFL, O_NONBLOCK);
	f->shell = fork();
	if (f->shell < 0)
		return -errno;
	if (f->shell == 0)
		become_shell(shells, script[0], errors[1]);
	close(script[0]);
	close(errors[1]);
	if (read(errors[0], &error, sizeof(error)) == sizeof(error))
		return -error;
	close(errors[0]);
	f->script = script[1];
	f->status = status[0];
	f->status_w = status[1];
	f->shell_fd = (int)syscall(SYS_pidfd_open, f->shell, 0);
	f->stat_fd = open_proc(f->shell, "/stat", O_RDONLY);
	return f->shell_fd < 0 ? -errno : 0;
}

/* Whoever listens hears that it was no shell; nobody waits for the rest of it. */
static int fail_shell(struct feeder *f, int error)
{
	tell(f, &(struct session_note){.kind = SESSION_REFUSED,
				       .stage = AGENT_STAGE_PROGRAM,
				       .error = (uint32_t)-error});
	if (f->shell > 0)
		kill(-f->shell, SIGKILL);
	return 1;
}

static void probe_shell(struct feeder *f)
{
	struct session_line line = line_of(f);
	int len = session_line_make_probe(&line, f->short_line, sizeof(f->short_line));

	f->probe_ms = clock_ms() + PROBE_MS;
	begin_line(f, (struct str){f->short_line, (size_t)len});
}

static bool finish_command(struct feeder *f, int code)
{
	struct session_note note = {
		.kind = SESSION_DONE, .number = f->command.number, .status = code << 8};

	if (!f->is_ready) {
		note = (struct session_note){
			.kind = SESSION_READY, .uid = getuid(), .gid = getgid()};
		f->is_ready = true;
		f->is_bash = code == SESSION_LINE_BASH;
	} else {
		read_times(f, &note.user_us, &note.system_us);
		note.user_us -= f->command.user_us;
		note.system_us -= f->command.system_us;
	}
	drop_command(f);
	return tell(f, &note);
}

/* 1: the status is there, and was told. Everything that anyone writes there is read. */
static int read_status(struct feeder *f)
{
	size_t half = sizeof(f->report) / 2;
	int code;
	ssize_t n;

	while ((n = read(f->status, f->report + f->report_len, sizeof(f->report) - f->report_len)) >
	       0) {
		f->report_len += (size_t)n;
		if (f->command.is_running &&
		    session_line_parse_report((struct str){f->report, f->report_len}, f->serial,
					      &code))
			return finish_command(f, code) ? 1 : -EPIPE;
		/* The end of what does not fit is enough to find ours behind it. */
		if (f->report_len > half) {
			memmove(f->report, f->report + f->report_len - half, half);
			f->report_len = half;
		}
	}
	return 0;
}

/* The pipe is empty: the shell has read all. Negative: it has come back, and not told the status.
 */
static int feed(struct feeder *f)
{
	struct command *c = &f->command;
	size_t size = c->left.len < SCRIPT_SIZE ? c->left.len : SCRIPT_SIZE;
	ssize_t n;

	if (c->is_asked) {
		int told = read_status(f);

		return told == 0 ? -ENODATA : told;
	}
	if (c->left.len) {
		n = write(f->script, c->left.at, size);
		if (n > 0)
			c->left = (struct str){c->left.at + n, c->left.len - (size_t)n};
		return 0;
	}
	c->is_asked = write(f->script, "\n", 1) == 1;
	return 0;
}

static int over(struct feeder *f)
{
	struct session_note note = {.kind = SESSION_OVER};

	read_status(f); /* it may have been the last that it said */
	while (waitpid(f->shell, &note.status, 0) < 0 && errno == EINTR)
		;
	if (!f->is_ready)
		return fail_shell(f, -ENOEXEC);
	return tell(f, &note) ? 0 : 1;
}

/* Until there is something to do by the clock alone. */
static int wait_ms(const struct feeder *f, bool is_feeding)
{
	const struct command *c = &f->command;
	uint64_t now = clock_ms(), then;

	if (!c->is_running || (is_feeding && f->is_ready))
		return -1;
	then = f->is_ready || c->ask_ms > now ? c->ask_ms : f->probe_ms;
	return then > now ? (int)(then - now) : 0;
}

static int run(struct feeder *f)
{
	for (;;) {
		const struct command *c = &f->command;
		bool is_feeding =
			c->is_running && (c->left.len || c->is_asked || clock_ms() >= c->ask_ms);
		struct pollfd ready[] = {
			{f->status, POLLIN, 0},
			{is_feeding ? f->script : -1, POLLOUT, 0},
			{f->socket, POLLIN, 0},
			{f->shell_fd, POLLIN, 0},
		};
		int told = 0;

		if (poll(ready, array_len(ready), wait_ms(f, is_feeding)) < 0 && errno != EINTR)
			return 1;
		if (ready[0].revents)
			told = read_status(f);
		if (told == 0 && ready[1].revents & POLLERR)
			f->script = -1; /* it has closed its script: it ends, or is none any more */
		else if (told == 0 && ready[1].revents)
			told = feed(f);
		if (told < 0 || (!f->is_ready && clock_ms() >= f->probe_ms))
			break;
		if (ready[3].revents)
			return over(f);
		if (ready[2].revents && !take_order(f))
			return 0;
	}
	/* It is no shell, or none of any use any more. */
	if (!f->is_ready)
		return fail_shell(f, -ENOEXEC);
	kill(-f->shell, SIGKILL);
	return 1;
}

int session_feed(char **argv)
{
	struct feeder *f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	cleanup_fd int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int error;

	if (f == MAP_FAILED || null_fd < 0)
		return 1;
	move_signals(SIG_IGN);
	f->command = no_command;
	f->socket = fcntl(0, F_DUPFD_CLOEXEC, 3);
	/* Its streams are /dev/null, and what the shell opens is open to the shell's user. */
	if (f->socket < 0 || dup2(null_fd, 0) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
		return 1;
	error = start_shell(f, argv + 1);
	if (error < 0)
		return fail_shell(f, error);
	probe_shell(f);
	return run(f);
}
