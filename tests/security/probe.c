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
#include <unistd.h>

#define FDS_MAX     65536
#define TALLIES_MAX 256
#define HANDLES     64

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

/* What is open at the first instruction, and where we stand. */
static int show_fds(void)
{
	char cwd[4096];

	for (int fd = 0; fd < FDS_MAX; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			printf("%d ", fd);
	}
	printf("%s\n", getcwd(cwd, sizeof(cwd)) ? cwd : "(outside)");
	return 0;
}

/* How often which program's file answered how to whoever wanted to write to it. */
struct tally {
	char path[256];
	int error; /* 0: it was opened */
	long count;
};

static struct tally tallies[TALLIES_MAX];

static void count(const char *path, int error)
{
	for (size_t i = 0; i < TALLIES_MAX; i++) {
		struct tally *t = &tallies[i];

		if (t->count && (t->error != error || strcmp(t->path, path) != 0))
			continue;
		snprintf(t->path, sizeof(t->path), "%s", path);
		t->error = error;
		t->count++;
		return;
	}
	printf("too-many-files 0 1\n");
}

static void attempt(const char *link, const char *path, int flags)
{
	int fd = open(link, flags | O_CLOEXEC);

	count(path, fd < 0 ? errno : 0);
	if (fd >= 0)
		close(fd);
}

/*
 * One process of /proc: its file is wanted at once, and again through a handle that is kept until
 * long after that process has ended, when nobody executes the file any more.
 */
static void try_exe(const char *pid, unsigned round)
{
	static struct {
		int fd;
		char path[256];
	} kept[HANDLES];
	unsigned slot = round % HANDLES;
	char link[300], path[256];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/%s/exe", pid);
	len = readlink(link, path, sizeof(path) - 1);
	path[len > 0 ? len : 0] = '\0';
	attempt(link, len > 0 ? path : "?", O_WRONLY);
	attempt(link, len > 0 ? path : "?", O_RDWR | O_APPEND);
	if (kept[slot].fd > 0) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", kept[slot].fd);
		attempt(link, kept[slot].path, O_WRONLY);
		close(kept[slot].fd);
	}
	snprintf(link, sizeof(link), "/proc/%s/exe", pid);
	kept[slot].fd = open(link, O_PATH | O_CLOEXEC);
	memcpy(kept[slot].path, path, sizeof(path));
	if (kept[slot].fd >= 0) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", kept[slot].fd);
		attempt(link, path, O_WRONLY);
	}
}

/* Until the file `stop` is there. */
static int loop_exe(const char *stop)
{
	unsigned round = 0;

	puts("ready");
	fflush(stdout);
	while (access(stop, F_OK) != 0) {
		DIR *dir = opendir("/proc");
		struct dirent *entry;

		while (dir && (entry = readdir(dir)))
			if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
				try_exe(entry->d_name, round++);
		if (dir)
			closedir(dir);
	}
	for (size_t i = 0; i < TALLIES_MAX && tallies[i].count; i++)
		printf("%s %d %ld\n", tallies[i].path, tallies[i].error, tallies[i].count);
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

/* Whether it works is not the question, only where it ends up. */
static int touch(char **paths)
{
	for (; *paths; paths++) {
		int fd = open(*paths, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);

		if (fd >= 0)
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
		return loop_exe(argv[2]);
	if (strcmp(verb, "touch") == 0)
		return touch(argv + 2);
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
