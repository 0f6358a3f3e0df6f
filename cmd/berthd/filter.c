#include "cmd/berthd/filter.h"

#include <errno.h>
#include <linux/prctl.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#endif

/* clang-format off */
static const char *const allowed[] = {
	/* descriptors */
	"read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2",
	"pwritev2", "lseek", "_llseek", "close", "close_range", "dup", "dup2", "dup3", "fcntl", "fcntl64",
	"pipe", "pipe2", "splice", "tee", "vmsplice", "sendfile", "sendfile64", "copy_file_range",
	"memfd_create",
	/* files; Landlock says which. No chmod, chown or truncate by path, and no links: it is blind there */
	"open", "openat", "openat2", "creat", "stat", "fstat", "lstat", "newfstatat", "fstatat64",
	"stat64", "fstat64", "lstat64", "statx", "access", "faccessat", "faccessat2", "readlink",
	"readlinkat", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat",
	"renameat2", "getdents", "getdents64", "getcwd", "umask", "statfs", "fstatfs", "statfs64",
	"fstatfs64", "fchmod", "ftruncate", "ftruncate64", "fallocate", "fadvise64", "readahead", "flock",
	"fsync", "fdatasync", "sync_file_range", "syncfs",
	/* memory */
	"munmap", "mremap", "madvise", "brk", "msync", "mincore", "mlock", "mlock2", "munlock",
	"membarrier",
	/* threads and time */
	"futex", "futex_waitv", "futex_time64", "set_robust_list", "get_robust_list", "set_tid_address",
	"rseq", "exit", "exit_group", "restart_syscall", "sched_yield", "sched_getaffinity",
	"sched_getparam", "sched_getscheduler", "sched_get_priority_max", "sched_get_priority_min",
	"getcpu", "getpriority", "nanosleep", "clock_nanosleep", "clock_nanosleep_time64",
	"clock_gettime", "clock_gettime64", "clock_getres", "gettimeofday", "time", "times", "pause",
	"getitimer", "setitimer", "alarm", "timerfd_create", "timerfd_settime", "timerfd_gettime",
	"wait4", "waitid",
	/* who we are */
	"getpid", "gettid", "getppid", "getpgid", "getpgrp", "getsid", "getuid", "geteuid", "getgid",
	"getegid", "getresuid", "getresgid", "getgroups", "getrlimit", "ugetrlimit", "getrusage",
	"uname", "sysinfo", "getrandom", "capget",
	/* signals */
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigreturn", "rt_sigpending",
	"rt_sigtimedwait", "rt_sigsuspend", "sigaltstack", "signalfd", "signalfd4",
	/* waiting */
	"epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2",
	"poll", "ppoll", "ppoll_time64", "select", "pselect6", "_newselect", "eventfd", "eventfd2",
	/* sockets; they are bound by now */
	"connect", "accept", "accept4", "listen", "shutdown", "getsockname", "getpeername",
	"getsockopt", "setsockopt", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg",
#ifdef IS_SANITIZED
	"clone", "ptrace", "prctl", "kill", "tkill", "tgkill", "mmap", "mprotect", "prlimit64",
	"setrlimit", "personality", "process_vm_readv", "arch_prctl", "sched_setaffinity",
#endif
	NULL,
};

static const char *const refused[] = {
	"execve", "execveat", "fork", "vfork", "unshare", "setns", "mount", "umount2", "pivot_root",
	"chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
	"bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "init_module",
	"finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "process_vm_writev",
	"process_madvise", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "kcmp",
	"open_by_handle_at", "name_to_handle_at", "setuid", "setgid", "setresuid", "setresgid",
	"setreuid", "setregid", "setgroups", "setfsuid", "setfsgid", "capset", "setrlimit", "ioperm",
	"iopl", "swapon", "swapoff", "acct", "quotactl", "settimeofday", "clock_settime", "adjtimex",
	"sethostname", "setdomainname", "syslog", "personality", "modify_ldt", "mknod", "mknodat",
	"link", "linkat", "symlink", "symlinkat", "chmod", "fchmodat", "chown", "fchown", "lchown",
	"fchownat", "truncate", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr",
	"fremovexattr", "utime", "utimes", "utimensat", "futimesat", "bind", "rt_sigqueueinfo",
	"rt_tgsigqueueinfo", "ptrace", "process_vm_readv", "tkill", "inotify_init", "inotify_init1",
	"inotify_add_watch", "fanotify_init", "setsid", "setpgid",
	NULL,
};
/* clang-format on */

/* The first action that is given to a call stays: the sanitizer's come before what is refused. */
static int add_names(scmp_filter_ctx filter, const char *const *names, uint32_t action)
{
	for (; *names; names++) {
		int call = seccomp_syscall_resolve_name(*names);
		int r;

		/* Newer than the library, or of another architecture. */
		if (call == __NR_SCMP_ERROR || call < 0)
			continue;
		r = seccomp_rule_add_array(filter, action, call, 0, NULL);
		if (r < 0 && r != -EEXIST)
			return r;
	}
	return 0;
}

struct condition {
	int call;
	struct scmp_arg_cmp is;
};

#define EQUAL(arg, value)  SCMP_CMP64(arg, SCMP_CMP_EQ, value)
#define WITHOUT(arg, mask) SCMP_CMP64(arg, SCMP_CMP_MASKED_EQ, mask, 0)
#define WITH(arg, mask)    SCMP_CMP64(arg, SCMP_CMP_MASKED_EQ, mask, mask)

/* Each row is a way in which the call is allowed. */
static int add_conditions(scmp_filter_ctx filter)
{
	uint64_t self = (uint64_t)getpid();
	const struct condition rows[] = {
		/* threads, and no processes */
		{SCMP_SYS(clone), WITH(0, CLONE_THREAD)},
		/* no mapping that can be written and run; libraries may still be loaded */
		{SCMP_SYS(mmap), WITHOUT(2, PROT_EXEC)},
		{SCMP_SYS(mmap), WITHOUT(2, PROT_WRITE)},
		{SCMP_SYS(mprotect), WITHOUT(2, PROT_EXEC)},
		{SCMP_SYS(socket), EQUAL(0, AF_UNIX)},
		{SCMP_SYS(socketpair), EQUAL(0, AF_UNIX)},
		{SCMP_SYS(kill), EQUAL(0, self)},
		{SCMP_SYS(kill), EQUAL(1, 0)},
		{SCMP_SYS(tgkill), EQUAL(0, self)},
		{SCMP_SYS(prlimit64), EQUAL(2, 0)},
		{SCMP_SYS(prctl), EQUAL(0, PR_SET_NAME)},
		{SCMP_SYS(prctl), EQUAL(0, PR_GET_NAME)},
		{SCMP_SYS(prctl), EQUAL(0, PR_GET_DUMPABLE)},
		{SCMP_SYS(prctl), EQUAL(0, PR_CAPBSET_READ)},
		{SCMP_SYS(prctl), EQUAL(0, 0x53564d41)}, /* PR_SET_VMA: names of memory */
		{SCMP_SYS(ioctl), EQUAL(1, FIONREAD)},
		{SCMP_SYS(ioctl), EQUAL(1, FIONBIO)},
		{SCMP_SYS(ioctl), EQUAL(1, FIOCLEX)},
		{SCMP_SYS(ioctl), EQUAL(1, FIONCLEX)},
		{SCMP_SYS(ioctl), EQUAL(1, SIOCOUTQ)},
		{SCMP_SYS(ioctl), EQUAL(1, TCGETS)},
		{SCMP_SYS(ioctl), EQUAL(1, TIOCGWINSZ)},
	};

	for (size_t i = 0; i < array_len(rows); i++) {
		int r = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, rows[i].call, 1,
					       &rows[i].is);

		if (r < 0 && r != -EEXIST)
			return r;
	}
	return 0;
}

static int fill(scmp_filter_ctx filter)
{
	int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	/* A tree of comparisons in place of a list of hundreds. */
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (r == 0)
		r = add_names(filter, allowed, SCMP_ACT_ALLOW);
	if (r == 0)
		r = add_names(filter, refused, SCMP_ACT_ERRNO(EPERM));
	return r < 0 ? r : add_conditions(filter);
}

int filter_load(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	int r = filter ? fill(filter) : -ENOMEM;

	if (r == 0)
		r = seccomp_load(filter);
	if (filter)
		seccomp_release(filter);
	return r;
}
