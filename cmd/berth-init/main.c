/*
 * berth-init: the first process of each sandbox. The OCI runtime starts it with the sandbox's
 * bound agent socket as descriptor 3. It has no configuration, reads no file of its own, makes none
 * but one fifo, and never will: see cmd/berth-init/init.h for what it does. Under the name of a
 * file worker, and never as the first process, the same binary does what cmd/berth-init/work.h
 * says.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "cmd/berth-init/init.h"
#include "cmd/berth-init/session.h"
#include "cmd/berth-init/work.h"

#define AGENT_FD      3
#define OOM_SCORE_ADD 100
#define OOM_SCORE_MAX 1000

/* Without stdio: half of the program would be printf. */
static int say(int fd, const char *text)
{
	size_t len = strlen(text);

	while (len) {
		ssize_t n = write(fd, text, len);

		if (n <= 0)
			return 1;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

static int fail(const char *what, int error)
{
	say(2, "berth-init: ");
	say(2, what);
	if (error) {
		say(2, ": ");
		say(2, strerror(-error));
	}
	say(2, "\n");
	return 2;
}

/* The runtime may leave signals ignored, which execs would inherit. */
static int take_signals(void)
{
	struct sigaction by_default = {.sa_handler = SIG_DFL};

	for (int i = 1; i < NSIG; i++) {
		if (sigaction(i, &by_default, NULL) < 0 && errno != EINVAL)
			return -errno;
	}
	return 0;
}

/*
 * What the kernel charges to the user who made our user namespace too: all sandboxes share it, so
 * each user inside has only a little. A few timers, three message queues, a key or a password.
 */
static int take_quotas(void)
{
	static const struct {
		int resource;
		rlim_t limit;
	} quotas[] = {
		{RLIMIT_SIGPENDING, 256},
		{RLIMIT_MSGQUEUE, 256 << 10},
		{RLIMIT_MEMLOCK, 64 << 10},
	};

	for (size_t i = 0; i < array_len(quotas); i++) {
		struct rlimit limit;

		if (getrlimit(quotas[i].resource, &limit) < 0)
			return -errno;
		if (limit.rlim_max > quotas[i].limit)
			limit.rlim_max = quotas[i].limit;
		if (limit.rlim_cur > limit.rlim_max)
			limit.rlim_cur = limit.rlim_max;
		if (setrlimit(quotas[i].resource, &limit) < 0)
			return -errno;
	}
	return 0;
}

/* Execs get what we were given; we need a descriptor or two for each of them. */
static int take_limits(struct launcher *launcher, rlim_t processes)
{
	struct rlimit files, given, limit = {processes, processes};

	if (getrlimit(RLIMIT_NOFILE, &launcher->old_files) < 0)
		return -errno;
	files = launcher->old_files;
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		return -errno;
	if (getrlimit(RLIMIT_NPROC, &given) < 0)
		return -errno;
	if (processes < given.rlim_max && setrlimit(RLIMIT_NPROC, &limit) < 0)
		return -errno;
	return 0;
}

/* Opened once, so that nobody inside can put something else there. */
static int take_proc(struct launcher *launcher)
{
	struct statfs fs;

	launcher->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (launcher->proc_fd < 0 || fstatfs(launcher->proc_fd, &fs) < 0)
		return -errno;
	return fs.f_type == PROC_SUPER_MAGIC ? 0 : -ENOENT;
}

/* Likewise; without it there are no terminals, and all else works. */
static void take_pts(struct launcher *launcher)
{
	struct statfs fs;

	launcher->pts_fd = open("/dev/pts", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (launcher->pts_fd >= 0 &&
	    (fstatfs(launcher->pts_fd, &fs) < 0 || fs.f_type != DEVPTS_SUPER_MAGIC)) {
		close(launcher->pts_fd);
		launcher->pts_fd = -1;
	}
}

/* Nothing of whoever started us stays open but the agent socket. */
static int take_streams(void)
{
	cleanup_fd int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	cleanup_fd int out = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct stat st;

	if (in < 0 || out < 0 || fstat(in, &st) < 0)
		return -errno;
	if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
		return -ENODEV;
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		return -errno;
	return 0;
}

/* What execs start with: above us, so that they go first when memory is short. */
static int take_oom_score(struct launcher *launcher)
{
	cleanup_fd int fd = openat(launcher->proc_fd, "self/oom_score_adj", O_RDONLY | O_CLOEXEC);
	char text[16] = "";
	int score;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return -errno;
	score = atoi(text) + OOM_SCORE_ADD;
	number_put(launcher->oom_score_adj, score < OOM_SCORE_MAX ? score : OOM_SCORE_MAX);
	return 0;
}

/* Of the process, before anything of the sandbox runs in it. */
static int harden(struct init *init, rlim_t processes)
{
	int error = take_signals();

	if (error == 0)
		error = take_quotas();
	if (error == 0)
		error = take_limits(&init->launcher, processes);
	if (error < 0)
		return error;
	umask(022);
	/* Nobody inside may trace us or read our memory, and nothing that we start can gain rights.
	 */
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_close_range, AGENT_FD + 1, UINT_MAX, 0) < 0 || chdir("/") < 0)
		return -errno;
	return 0;
}

static int run(rlim_t processes, bool is_strict)
{
	/* Mostly never touched, so it costs address space only. */
	struct init *init = mmap(NULL, sizeof(*init), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int error;

	if (init == MAP_FAILED)
		return fail("no memory", -errno);
	if (getpid() != 1)
		return fail("only for the first process of a sandbox, see --help", 0);
	/* Before there is one of our own: a runtime that does not know how it is told would leave
	 * it out in silence. */
	if (prctl(PR_GET_SECCOMP) != SECCOMP_MODE_FILTER)
		return fail("the runtime has not installed the system call filter", 0);
	init->launcher.is_strict = is_strict;
	error = harden(init, processes);
	if (error < 0)
		return fail("cannot protect itself", error);
	error = take_proc(&init->launcher);
	if (error == 0)
		error = take_oom_score(&init->launcher);
	if (error < 0)
		return fail("/proc is of no use", error);
	take_pts(&init->launcher);
	heartbeat_init(&init->heartbeat);
	execs_init(&init->execs);
	error = channel_init(&init->channel, AGENT_FD);
	if (error < 0)
		return fail("descriptor 3 is no bound agent socket", error);
	error = watchdog_init(&init->launcher.watchdog);
	if (error < 0)
		return fail("cannot start its watchdog", error);
	error = take_streams();
	if (error < 0)
		return fail("/dev/null is of no use", error);
	return loop_run(init) < 0 ? 1 : 0;
}

/* A positive number and nothing else; 0 when it is none. */
static rlim_t parse_processes(const char *text)
{
	rlim_t value = 0;

	for (const char *at = text; *at; at++) {
		if (*at < '0' || *at > '9' || at - text > 8)
			return 0;
		value = value * 10 + (rlim_t)(*at - '0');
	}
	return value;
}

int main(int argc, char **argv)
{
	bool is_strict = false;

	if (argc == 1 && getpid() != 1 && strcmp(argv[0], ARGS_WORKER) == 0)
		return work_run();
	if (argc > 1 && getpid() != 1 && strcmp(argv[0], ARGS_SESSION) == 0)
		return session_feed(argv);
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return say(1, "berth-init " BERTH_VERSION "\n");
	if (argc == 2 && strcmp(argv[1], "--help") == 0)
		return say(
			1,
			"Usage: berth-init [--processes N] [--strict]\n\n"
			"The first process of each sandbox. The OCI runtime starts it with the\n"
			"sandbox's bound agent socket as descriptor 3; it is of no use by hand.\n"
			"--processes limits the processes of its user namespace (RLIMIT_NPROC);\n"
			"--strict ends by SIGSYS whatever tries what only an attack needs.\n");
	if (argc > 1 && strcmp(argv[argc - 1], "--strict") == 0) {
		is_strict = true;
		argc--;
	}
	if (argc == 3 && strcmp(argv[1], "--processes") == 0 && parse_processes(argv[2]))
		return run(parse_processes(argv[2]), is_strict);
	if (argc != 1)
		return fail("only --processes N, --strict, --version and --help are understood", 0);
	return run(RLIM_INFINITY, is_strict);
}
