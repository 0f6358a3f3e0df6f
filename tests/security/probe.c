/* Runs inside a sandbox and tries what must not work. Static: nothing runs before main(). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define FDS_MAX 65536

struct attempt {
	const char *name;
	long number;
	long args[3];
};

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
	{"kexec_load",        SYS_kexec_load, {0, 0, 0}},
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
	{"acct",              SYS_acct, {0}},
	{"iopl",              SYS_iopl, {3}},
	{"clone3",            435, {0, 0}},
};
/* clang-format on */

static int try_calls(void)
{
	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		const struct attempt *a = &attempts[i];
		long ret;

		errno = 0;
		ret = syscall(a->number, a->args[0], a->args[1], a->args[2], 0, 0);
		if (ret == 0 && a->number == SYS_clone)
			_exit(0);
		printf("%s %ld %d\n", a->name, ret, errno);
	}
	return 0;
}

/* getpid() by the two other doors of x86_64. */
static int try_abi(const char *which)
{
	long ret;

	if (strcmp(which, "i386") == 0)
		__asm__ volatile("int $0x80"
				 : "=a"(ret)
				 : "a"(20L)
				 : "memory", "r8", "r9", "r10", "r11");
	else
		ret = syscall(0x40000000L | SYS_getpid) < 0 ? -errno : 1;
	printf("%ld\n", ret);
	return 0;
}

static int show_fds(void)
{
	for (int fd = 0; fd < FDS_MAX; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			printf("%d ", fd);
	}
	return 0;
}

/* Whoever appears in /proc: is its program's file ours to write? */
static int loop_exe(int seconds)
{
	time_t end = time(NULL) + seconds;
	long opened = 0, tried = 0;

	while (time(NULL) < end) {
		DIR *dir = opendir("/proc");
		struct dirent *entry;

		while (dir && (entry = readdir(dir))) {
			char path[300];
			int fd;

			snprintf(path, sizeof(path), "/proc/%s/exe", entry->d_name);
			fd = open(path, O_WRONLY | O_CLOEXEC);
			tried += fd >= 0 || errno != ENOENT;
			if (fd >= 0) {
				opened++;
				close(fd);
			}
			fd = open(path, O_PATH | O_CLOEXEC);
			if (fd >= 0) {
				snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
				opened += close(open(path, O_WRONLY | O_CLOEXEC)) == 0;
				close(fd);
			}
		}
		if (dir)
			closedir(dir);
	}
	printf("%ld %ld\n", tried, opened);
	return 0;
}

static int try_devices(void)
{
	printf("fifo %d\n", mknod("/tmp/probe-fifo", S_IFIFO | 0600, 0) < 0 ? errno : 0);
	printf("char %d\n",
	       mknod("/tmp/probe-char", S_IFCHR | 0600, makedev(1, 1)) < 0 ? errno : 0);
	printf("block %d\n",
	       mknod("/tmp/probe-block", S_IFBLK | 0600, makedev(254, 0)) < 0 ? errno : 0);
	return 0;
}

static int try_sockets(void)
{
	static const struct {
		const char *name;
		int family, type, protocol;
	} rows[] = {
		{"vsock", 40, SOCK_STREAM, 0},      {"packet", 17, SOCK_RAW, 0},
		{"raw4", AF_INET, SOCK_RAW, 1},     {"raw6", AF_INET6, SOCK_RAW, 58},
		{"netlink_audit", 16, SOCK_RAW, 9}, {"alg", 38, SOCK_SEQPACKET, 0},
		{"bluetooth", 31, SOCK_RAW, 1},     {"tcp4", AF_INET, SOCK_STREAM, 0},
		{"tcp6", AF_INET6, SOCK_STREAM, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int fd = socket(rows[i].family, rows[i].type | SOCK_CLOEXEC, rows[i].protocol);

		printf("%s %d\n", rows[i].name, fd < 0 ? errno : 0);
		close(fd);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	if (strcmp(verb, "fds") == 0)
		return show_fds();
	if (strcmp(verb, "calls") == 0)
		return try_calls();
	if (strcmp(verb, "abi") == 0 && argc > 2)
		return try_abi(argv[2]);
	if (strcmp(verb, "exe") == 0 && argc > 2)
		return loop_exe(atoi(argv[2]));
	if (strcmp(verb, "devices") == 0)
		return try_devices();
	if (strcmp(verb, "sockets") == 0)
		return try_sockets();
	if (strcmp(verb, "ids") == 0) {
		printf("%d %d\n", getuid(), geteuid());
		return 0;
	}
	return 2;
}
