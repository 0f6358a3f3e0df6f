#include "cmd/berth-init/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/domain.h"
#include "cmd/berth-init/filter.h"
#include "cmd/berth-init/raw.h"

/* Without a PATH in the exec's environment, as execvp() has it. */
#define DEFAULT_PATH "/usr/local/bin:/bin:/usr/bin"

static int take_streams(struct launch *l)
{
	unsigned own = l->fds[3] >= 0 ? LAUNCH_STREAMS : 3;

	if (setsid() < 0)
		return -errno;
	for (int i = 0; i < (int)own; i++) {
		/* The last may have its number already. */
		if (l->fds[i] == i ? fcntl(i, F_SETFD, 0) < 0
				   : l->fds[i] >= 0 && syscall(SYS_dup3, l->fds[i], i, 0) < 0)
			return -errno;
	}
	if (l->is_terminal && ioctl(0, TIOCSCTTY, 0) < 0)
		return -errno;
	/* All others have it already; this is for the one that somebody forgets. */
	if (syscall(SYS_close_range, own, UINT_MAX, CLOSE_RANGE_CLOEXEC) < 0)
		return -errno;
	return 0;
}

/* A program may ask for less than this again, but never for less than init has. */
static int take_limits(struct launch *l)
{
	const struct launcher *shared = l->launcher;
	cleanup_fd int fd = -1;

	if (prlimit(0, RLIMIT_NOFILE, &shared->old_files, NULL) < 0)
		return -errno;
	fd = openat(shared->proc_fd, "self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, shared->oom_score_adj, strlen(shared->oom_score_adj)) < 0)
		return -errno;
	return 0;
}

static int find_user(struct launch *l)
{
	struct launcher *shared = l->launcher;
	struct user *user = &shared->user;
	struct str text = {NULL, 0};
	int error = user_parse(l->user, user);

	if (error < 0 || user->kind == USER_OWN)
		return error;
	error = user_read_file("/etc/passwd", shared->passwd, &text);
	/* Ids that were both given need no passwd, whatever it is; it only knows a home for them.
	 */
	if (error < 0 && error != -ENOENT && user->kind != USER_UID_GID)
		return error;
	error = user_find(user, text);
	if (error < 0)
		return error;
	text = (struct str){NULL, 0};
	if (user->kind == USER_NAMED) {
		error = user_read_file("/etc/group", shared->group, &text);
		if (error < 0 && error != -ENOENT)
			return error;
	}
	return user_add_groups(user, text);
}

/* The C library's calls would change all threads, and it counts one that shares our memory. */
static int take_ids(const struct user *user)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {{0}};
	bool is_same = user->uid == getuid() && user->gid == getgid();

	/* A namespace with a single id denies it; there is nothing to lose or to gain then. */
	if (syscall(SYS_setgroups, user->group_count, user->groups) < 0 &&
	    !(errno == EPERM && is_same))
		return -errno;
	if (syscall(SYS_setresgid, user->gid, user->gid, user->gid) < 0 ||
	    syscall(SYS_setresuid, user->uid, user->uid, user->uid) < 0)
		return -errno;
	/* A host may be set to make memory dumpable here, and it is init's too. */
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return -errno;
	if (user->uid && syscall(SYS_capset, &header, none) < 0)
		return -errno;
	return 0;
}

/* The home of whom it runs as, unless the environment says otherwise. */
static void take_home(struct launch *l)
{
	static const char name[] = "HOME=";
	const struct user *user = &l->launcher->user;
	struct str home = user->kind == USER_OWN ? STR("/root") : user->home;
	char *at = l->launcher->home;

	if (args_getenv(l->args, "HOME"))
		return;
	memcpy(at, name, sizeof(name) - 1);
	memcpy(at + sizeof(name) - 1, home.at, home.len);
	at[sizeof(name) - 1 + home.len] = '\0';
	args_add_env(l->args, at);
}

static int take_user(struct launch *l)
{
	const struct user *user = &l->launcher->user;
	int error = find_user(l);

	if (error == 0)
		take_home(l);
	if (error < 0 || user->kind == USER_OWN)
		return error;
	/* So that /dev/stdout can be opened again. Without CAP_CHOWN it cannot, and that is all. */
	for (int i = 0; i < LAUNCH_STREAMS; i++) {
		if (l->fds[i] >= 0 && fchown(i, user->uid, user->gid) < 0 && errno != EPERM)
			return -errno;
	}
	return take_ids(user);
}

/* After the user, so that it is the user who may enter, and not through a magic link of proc. */
static int take_cwd(struct launch *l)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS,
	};
	cleanup_fd int fd = -1;

	if (l->cwd[0] != '/')
		return -EINVAL;
	fd = (int)syscall(SYS_openat2, AT_FDCWD, l->cwd, &how, sizeof(how));
	if (fd < 0 || fchdir(fd) < 0)
		return -errno;
	return 0;
}

static int take_filter(struct launch *l)
{
	sigset_t none;
	int error = l->fds[3] >= 0 ? domain_enter() : 0;

	if (error == 0)
		error = filter_apply(l->launcher->is_strict);

	sigemptyset(&none);
	if (error == 0 && sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		error = -errno;
	return error;
}

/* "directory/name", or the name alone for the empty directory. */
static bool join(char path[PATH_MAX], struct str directory, struct str name)
{
	size_t used = directory.len;

	if (directory.len + 1 + name.len + 1 > PATH_MAX)
		return false;
	memcpy(path, directory.at, used);
	if (used)
		path[used++] = '/';
	memcpy(path + used, name.at, name.len);
	path[used + name.len] = '\0';
	return true;
}

/* As execvpe(), but that a file without a known format is not handed to a shell. */
static int take_program(struct launch *l)
{
	char **argv = l->args->argv, **envp = l->args->envp;
	struct str name = str_of(argv[0]);
	const char *value = args_getenv(l->args, "PATH");
	struct str rest = str_of(value ? value : DEFAULT_PATH);
	bool is_denied = false, is_last = false;
	char path[PATH_MAX];

	if (l->is_worker) {
		/* By no path: whatever a sandbox puts anywhere, it is not what runs here. */
		syscall(SYS_execveat, l->launcher->proc_fd, "self/exe", argv, envp, 0);
		return -errno;
	}
	if (strchr(argv[0], '/')) {
		execve(argv[0], argv, envp);
		return -errno;
	}
	if (!name.len)
		return -ENOENT;
	while (!is_last) {
		struct str directory = str_cut(&rest, ':');

		is_last = directory.at + directory.len == rest.at; /* no colon was skipped */
		if (!join(path, directory, name))
			continue;
		execve(path, argv, envp);
		if (errno == EACCES)
			is_denied = true;
		else if (errno != ENOENT && errno != ENOTDIR)
			return -errno;
	}
	return is_denied ? -EACCES : -ENOENT;
}

static int run_child(void *data)
{
	/* clang-format off */
	static const struct {
		enum agent_stage stage;
		int (*run)(struct launch *);
	} steps[] = {
		{AGENT_STAGE_RESOURCES, take_streams},
		{AGENT_STAGE_RESOURCES, take_limits},
		{AGENT_STAGE_USER,      take_user},
		{AGENT_STAGE_CWD,       take_cwd},
		{AGENT_STAGE_RESOURCES, take_filter},
		{AGENT_STAGE_PROGRAM,   take_program},
	};
	/* clang-format on */
	struct launch *l = data;

	for (size_t i = 0; i < array_len(steps); i++) {
		int error = steps[i].run(l);

		if (error < 0) {
			l->stage = steps[i].stage;
			l->error = (uint32_t)-error;
			break;
		}
	}
	return 127;
}

pid_t launch_run(struct launch *l, int *ret_pidfd)
{
	struct launcher *shared = l->launcher;
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD,
		.pidfd = (uintptr_t)&shared->watchdog.pidfd,
		.exit_signal = SIGCHLD,
		.stack = (uintptr_t)shared->stack,
		.stack_size = sizeof(shared->stack),
	};
	int pidfd;
	long pid;

	if (l->cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint32_t)l->cgroup_fd;
	}
	l->stage = AGENT_STAGE_RESOURCES;
	l->error = 0;
	watchdog_arm(&shared->watchdog);
	pid = raw_clone(&args, run_child, l);
	pidfd = atomic_load(&shared->watchdog.pidfd);
	watchdog_disarm(&shared->watchdog);
	if (pid < 0) {
		l->error = (uint32_t)-pid;
		return -1;
	}
	if (l->error) {
		while (waitpid((pid_t)pid, NULL, __WALL) < 0 && errno == EINTR)
			;
		close(pidfd);
		return -1;
	}
	*ret_pidfd = pidfd;
	return (pid_t)pid;
}
