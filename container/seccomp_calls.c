#include "container/seccomp_calls.h"

#include <stddef.h>

/* clang-format off */
const char *const seccomp_allowed[] = {
	"accept", "accept4", "access", "alarm", "arch_prctl", "bind", "brk", "capget", "capset",
	"chdir", "chmod", "chown", "clock_getres", "clock_gettime", "clock_nanosleep", "clone3",
	"close", "close_range", "connect", "copy_file_range", "creat", "dup", "dup2", "dup3",
	"epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old", "epoll_pwait",
	"epoll_pwait2", "epoll_wait", "epoll_wait_old", "eventfd", "eventfd2", "execve",
	"execveat", "exit", "exit_group", "faccessat", "faccessat2", "fadvise64", "fallocate",
	"fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync",
	"fgetxattr", "flistxattr", "flock", "fork", "fremovexattr", "fsetxattr", "fstat",
	"fstatfs", "fsync", "ftruncate", "futex", "futex_requeue", "futex_wait", "futex_waitv",
	"futex_wake", "futimesat", "get_mempolicy", "get_robust_list", "get_thread_area", "getcpu",
	"getcwd", "getdents", "getdents64", "getegid", "geteuid", "getgid", "getgroups",
	"getitimer", "getpeername", "getpgid", "getpgrp", "getpid", "getppid", "getpriority",
	"getrandom", "getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "getsockname",
	"getsockopt", "gettid", "gettimeofday", "getuid", "getxattr", "inotify_add_watch",
	"inotify_init", "inotify_init1", "inotify_rm_watch", "io_cancel", "io_destroy",
	"io_getevents", "io_pgetevents", "io_setup", "io_submit", "ioprio_get", "ioprio_set",
	"kill", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "lchown",
	"lgetxattr", "link", "linkat", "listen", "listxattr", "llistxattr", "lremovexattr",
	"lseek", "lsetxattr", "lstat", "madvise", "map_shadow_stack", "membarrier", "memfd_create",
	"memfd_secret", "mincore", "mkdir", "mkdirat", "mknod", "mknodat", "mlock", "mlock2",
	"mlockall", "mmap", "mprotect", "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive",
	"mq_timedsend", "mq_unlink", "mremap", "mseal", "msgctl", "msgget", "msgrcv", "msgsnd",
	"msync", "munlock", "munlockall", "munmap", "name_to_handle_at", "nanosleep", "newfstatat",
	"open", "openat", "openat2", "pause", "pidfd_open", "pidfd_send_signal", "pipe", "pipe2",
	"pkey_alloc", "pkey_free", "pkey_mprotect", "poll", "ppoll", "prctl", "pread64", "preadv",
	"preadv2", "process_mrelease", "pselect6", "pwrite64", "pwritev", "pwritev2",
	"read", "readahead", "readlink", "readlinkat", "readv", "recvfrom", "recvmmsg", "recvmsg",
	"remap_file_pages", "removexattr", "rename", "renameat", "renameat2", "restart_syscall",
	"rmdir", "rseq", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo",
	"rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
	"sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr",
	"sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity",
	"sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield", "seccomp",
	"select", "semctl", "semget", "semop", "semtimedop", "sendfile", "sendmmsg", "sendmsg",
	"sendto", "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid", "setfsuid",
	"setgid", "setgroups", "setitimer", "setpgid", "setpriority", "setregid", "setresgid",
	"setresuid", "setreuid", "setrlimit", "setsid", "setsockopt", "setuid", "setxattr",
	"shmat", "shmctl", "shmdt", "shmget", "shutdown", "sigaltstack", "signalfd", "signalfd4",
	"socketpair", "splice", "stat", "statfs", "statx", "symlink", "symlinkat", "sync",
	"sync_file_range", "syncfs", "sysinfo", "tee", "tgkill", "time", "timer_create",
	"timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create",
	"timerfd_gettime", "timerfd_settime", "times", "tkill", "truncate", "umask", "uname",
	"unlink", "unlinkat", "utime", "utimensat", "utimes", "vfork", "vmsplice", "wait4",
	"waitid", "write", "writev", NULL,
};

/*
 * New namespaces and mounts, other processes' memory and fds, the kernel itself, its keys, its
 * clock; and what has had many holes for little use: io_uring, userfaultfd, bpf, modify_ldt.
 */
const char *const seccomp_refused[] = {
	"acct", "add_key", "adjtimex", "afs_syscall", "bpf", "chroot", "clock_adjtime",
	"clock_settime", "create_module", "delete_module", "fanotify_init", "fanotify_mark",
	"finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "get_kernel_syms", "getpmsg",
	"init_module", "io_uring_enter", "io_uring_register", "io_uring_setup", "ioperm", "iopl",
	"kcmp", "kexec_file_load", "kexec_load", "keyctl", "lookup_dcookie", "mbind",
	"migrate_pages", "modify_ldt", "mount", "mount_setattr", "move_mount", "move_pages",
	"nfsservctl", "open_by_handle_at", "open_tree", "perf_event_open", "pidfd_getfd",
	"pivot_root", "process_madvise", "process_vm_readv", "process_vm_writev", "ptrace",
	"putpmsg", "query_module", "quotactl", "quotactl_fd", "reboot", "request_key", "security",
	"set_mempolicy", "set_mempolicy_home_node", "setdomainname", "sethostname", "setns",
	"settimeofday", "swapoff", "swapon", "sysfs", "syslog", "tuxcall", "umount2", "unshare",
	"uselib", "userfaultfd", "ustat", "vhangup", "vserver", NULL,
};
/* clang-format on */
