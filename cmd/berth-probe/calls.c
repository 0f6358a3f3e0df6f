/* System calls and the other doors to the kernel that nobody in a sandbox needs. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-probe/probe.h"

#define WORKED 255 /* an exit code that is no errno */

struct attempt {
	const char *name;
	long number;
	long args[3];
};

/* With arguments that are no good: whoever is let in gets EFAULT or EINVAL, and changes nothing. */
/* clang-format off */
static const struct attempt attempts[] = {
	{"unshare_user",      SYS_unshare, {0x10000000}},
	{"unshare_mount",     SYS_unshare, {0x00020000}},
	{"unshare_net",       SYS_unshare, {0x40000000}},
	{"clone_user",        SYS_clone, {0x10000000 | 17}},
	{"setns",             SYS_setns, {0, 0}},
	{"mount",             SYS_mount, {0, 0, 0}},
	{"umount2",           SYS_umount2, {0, 0}},
	{"fsopen",            430, {0, 0}},
	{"fsmount",           432, {-1, 0, 0}},
	{"open_tree",         428, {-100, 0, 1}},
	{"move_mount",        429, {-1, 0, -1}},
	{"mount_setattr",     442, {-1, 0, 0}},
	{"pivot_root",        SYS_pivot_root, {0, 0}},
	{"bpf",               321, {0, 0, 0}},
	{"perf_event_open",   SYS_perf_event_open, {0, 0, -1}},
	{"keyctl",            SYS_keyctl, {0, -3, 0}},
	{"add_key",           SYS_add_key, {0, 0, 0}},
	{"request_key",       SYS_request_key, {0, 0, 0}},
	{"userfaultfd",       323, {0}},
	{"io_uring_setup",    425, {1, 0}},
	{"io_uring_enter",    426, {-1, 0, 0}},
	{"io_uring_register", 427, {-1, 0, 0}},
	{"kexec_load",        SYS_kexec_load, {0, 1, 0}}, /* with none it would drop what is loaded */
	{"kexec_file_load",   320, {-1, -1, 0}},
	{"init_module",       SYS_init_module, {0, 0, 0}},
	{"finit_module",      313, {-1, 0, 0}},
	{"delete_module",     SYS_delete_module, {0, 0}},
	{"open_by_handle_at", 304, {-1, 0, 0}},
	{"ptrace",            SYS_ptrace, {0, 0, 0}},
	{"process_vm_readv",  310, {1, 0, 0}},
	{"pidfd_getfd",       438, {-1, 0, 0}},
	{"swapon",            SYS_swapon, {0, 0}},
	{"reboot",            SYS_reboot, {0, 0, 0}},
	{"settimeofday",      SYS_settimeofday, {0, 0}},
	{"acct",              SYS_acct, {(long)"/dev/null/nowhere"}},
	{"iopl",              SYS_iopl, {3}},
	{"clone3",            435, {0, 0}},
};
/* clang-format on */

/* In a child: what one of them changes must not be what lets the next one in. */
static int attempt(const struct attempt *a)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		long ret = syscall(a->number, a->args[0], a->args[1], a->args[2], 0, 0);

		_exit(ret < 0 ? errno & 0x7f : WORKED);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM; /* killed for it */
}

int try_calls(char **args)
{
	for (size_t i = 0; i < array_len(attempts); i++) {
		int error = (int)tried(attempt(&attempts[i]));

		if (error == WORKED)
			hole("%s() works", attempts[i].name);
		else if (error < 0)
			cannot("fork for %s()", attempts[i].name);
		else if (error != EPERM && error != ENOSYS && error != EACCES)
			hole("%s() is let in: %s", attempts[i].name, strerror(error));
	}
	return probe_end();
}

/* getpid() by the two other doors of x86_64. Whoever closes them may kill us: then there is no end.
 */
int try_abi(char **args)
{
	long ret = -1;

	if (!args[0])
		return 2;
#ifdef __x86_64__
	if (strcmp(args[0], "i386") == 0)
		__asm__ volatile("int $0x80"
				 : "=a"(ret)
				 : "a"(20L)
				 : "memory", "r8", "r9", "r10", "r11");
	else
		ret = syscall(0x40000000L | SYS_getpid);
#endif
	if (tried(ret) > 0)
		hole("system calls of the %s ABI work", args[0]);
	return probe_end();
}

/* Types one character as if somebody had at the keyboard: the shell outside would run it. */
int try_tty(char **args)
{
	char key = ' ';

	/* What a terminal shows is for its viewers. */
	say_to(args[0]);
	if (!isatty(STDIN_FILENO))
		cannot("standard input is no terminal");
	else if (tried(ioctl(STDIN_FILENO, TIOCSTI, &key)) == 0)
		hole("TIOCSTI types into the terminal");
	else if (errno != EPERM && errno != EACCES && errno != ENOSYS && errno != EIO)
		hole("TIOCSTI is let in: %s", strerror(errno));
	return probe_end();
}
