/*
 * Stands in for berth-init in the tests of container/: does what it is told over its agent socket
 * and says what came of it. One message is one order, "verb argument argument"; so is an answer.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MAX 60000
#define AGENT_FD   3

/* musl has no kernel headers. */
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
struct clone3_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	uint64_t set_tid, set_tid_size, cgroup;
};

struct answer {
	char text[ANSWER_MAX];
	size_t len;
};

__attribute__((format(printf, 2, 3))) static void say(struct answer *answer, const char *format,
						      ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(answer->text + answer->len, ANSWER_MAX - answer->len, format, args);
	va_end(args);
	answer->len += n > 0 ? (size_t)n : 0;
	if (answer->len >= ANSWER_MAX)
		answer->len = ANSWER_MAX - 1;
}

static void say_errno(struct answer *answer, long result)
{
	say(answer, "%s", result < 0 ? strerror(errno) : "ok");
}

static void cat(struct answer *answer, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, answer->text, ANSWER_MAX - 1);

	if (n < 0)
		say_errno(answer, -1);
	else
		answer->len = (size_t)n;
	if (fd >= 0)
		close(fd);
}

static void ls(struct answer *answer, const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	if (!dir) {
		say_errno(answer, -1);
		return;
	}
	while ((entry = readdir(dir))) {
		char target[256] = "", full[512];
		ssize_t n;

		if (entry->d_name[0] == '.' &&
		    !strchr("abcdefghijklmnopqrstuvwxyz", entry->d_name[1]))
			continue;
		snprintf(full, sizeof(full), "%s/%s", path, entry->d_name);
		n = readlink(full, target, sizeof(target) - 1);
		say(answer, "%s%s%.*s\n", entry->d_name, n > 0 ? " -> " : "", n > 0 ? (int)n : 0,
		    target);
	}
	closedir(dir);
}

static void write_to(struct answer *answer, const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	say_errno(answer, fd < 0 ? -1 : write(fd, text, strlen(text)));
	if (fd >= 0)
		close(fd);
}

/* In a child, since some of them might work. */
static long call(const char *name)
{
	struct clone3_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	struct rlimit files = {20, 20};
	char byte = 'x';

	if (strcmp(name, "clone_newuser") == 0)
		return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (strcmp(name, "clone3_newuser") == 0)
		return syscall(SYS_clone3, &args, sizeof(args));
	if (strcmp(name, "unshare") == 0)
		return unshare(CLONE_NEWUSER);
	if (strcmp(name, "tiocsti") == 0)
		return ioctl(0, TIOCSTI, &byte);
	if (strcmp(name, "tiocsti_high") == 0)
		return syscall(SYS_ioctl, 0, 0x100000000ULL | TIOCSTI, &byte);
	if (strcmp(name, "ioctl") == 0)
		return ioctl(0, FIONREAD, &args);
	if (strcmp(name, "vsock") == 0)
		return socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (strcmp(name, "alg") == 0)
		return socket(38, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (strcmp(name, "packet") == 0)
		return socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (strcmp(name, "raw") == 0)
		return socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1);
	if (strcmp(name, "inet") == 0)
		return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (strcmp(name, "netlink_route") == 0)
		return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (strcmp(name, "netlink_audit") == 0)
		return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 9);
	if (strcmp(name, "x32") == 0)
		return syscall(0x40000000 + SYS_getpid);
	if (strcmp(name, "i386") == 0) {
		long result;

		__asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
		return result;
	}
	if (strcmp(name, "prlimit_self") == 0)
		return prlimit(0, RLIMIT_NOFILE, &files, NULL);
	if (strcmp(name, "prlimit_init") == 0)
		return prlimit(1, RLIMIT_NOFILE, &files, NULL);
	if (strcmp(name, "prlimit_read") == 0)
		return prlimit(1, RLIMIT_NOFILE, NULL, &files);
	if (strcmp(name, "mknod_device") == 0)
		return mknod("/workspace/device", S_IFCHR | 0666, 0x103);
	if (strcmp(name, "mknod_fifo") == 0)
		return mkfifo("/workspace/fifo", 0666);
	/* Anything else by number, with arguments that would be refused anyway. */
	return syscall(atol(name), -1L, -1L, -1L, -1L, -1L, -1L);
}

static void try_call(struct answer *answer, const char *name)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		long result = call(name);

		_exit(result < 0 ? errno : 0);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		say(answer, "signal %d", WTERMSIG(status));
	else
		say(answer, "%s", WEXITSTATUS(status) ? strerror(WEXITSTATUS(status)) : "ok");
}

static int fork_into(int cgroup)
{
	struct clone3_args args = {
		.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)cgroup};

	return (int)syscall(SYS_clone3, &args, sizeof(args));
}

/* A tree that resists: double forks, own sessions, SIGTERM ignored. */
static void grow_tree(struct answer *answer, int cgroup)
{
	pid_t pid = fork_into(cgroup);

	if (pid == 0) {
		signal(SIGTERM, SIG_IGN);
		for (int i = 0; i < 3; i++)
			if (fork() == 0)
				setsid();
		for (;;)
			pause();
	}
	say_errno(answer, pid);
}

static void eat(struct answer *answer, size_t megabytes)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		for (size_t i = 0; i < megabytes; i++)
			memset(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			       1, 1 << 20);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	say(answer, "%s %d", WIFSIGNALED(status) ? "signal" : "exit",
	    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* How many processes can be had. */
static void breed(struct answer *answer)
{
	int count = 0;
	pid_t pid;

	while (count < 5000 && (pid = fork()) != -1) {
		if (pid == 0)
			for (;;)
				pause();
		count++;
	}
	say(answer, "%d", count);
	kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		continue;
}

/* Many users, each with as many queued signals as it can have. They stay. */
static void queue(struct answer *answer, int users)
{
	sigset_t set;
	int ends[2], done = 0;
	char byte;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMAX);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	for (int user = 0; user < users; user++) {
		if (fork() != 0)
			continue;
		setresuid(user, user, user);
		sigprocmask(SIG_BLOCK, &set, NULL);
		while (sigqueue(getpid(), SIGRTMAX, (union sigval){0}) == 0)
			continue;
		write(ends[1], "x", 1);
		for (;;)
			pause();
	}
	close(ends[1]);
	while (done < users && read(ends[0], &byte, 1) == 1)
		done++;
	close(ends[0]);
	say(answer, "%d", done);
}

static void obey(struct answer *answer, char *order, int fd)
{
	char *two = order, *verb = strsep(&two, " "), *one = strsep(&two, " ");
	struct stat st;

	if (!verb)
		return;
	if (!one)
		one = "";
	if (strcmp(verb, "cat") == 0)
		cat(answer, one);
	else if (strcmp(verb, "ls") == 0)
		ls(answer, one);
	else if (strcmp(verb, "write") == 0)
		write_to(answer, one, two ? two : "");
	else if (strcmp(verb, "open") == 0)
		say_errno(answer, open(one, (two ? O_WRONLY : O_RDONLY) | O_CLOEXEC));
	else if (strcmp(verb, "symlink") == 0)
		say_errno(answer, symlink(one, two ? two : ""));
	else if (strcmp(verb, "rmdir") == 0)
		say_errno(answer, rmdir(one));
	else if (strcmp(verb, "rename") == 0)
		say_errno(answer, rename(one, two ? two : ""));
	else if (strcmp(verb, "mkdir") == 0)
		say_errno(answer, mkdir(one, 0700));
	else if (strcmp(verb, "chown") == 0)
		say_errno(answer, chown(one, 1000, 1000));
	else if (strcmp(verb, "stat") == 0 && lstat(one, &st) == 0)
		say(answer, "%o %u %u", st.st_mode, st.st_uid, st.st_gid);
	else if (strcmp(verb, "try") == 0)
		try_call(answer, one);
	else if (strcmp(verb, "tree") == 0)
		grow_tree(answer, fd);
	else if (strcmp(verb, "eat") == 0)
		eat(answer, (size_t)atol(one));
	else if (strcmp(verb, "breed") == 0)
		breed(answer);
	else if (strcmp(verb, "queue") == 0)
		queue(answer, atoi(one));
	else
		say_errno(answer, -1);
}

static ssize_t receive(int peer, char *order, size_t size, int *ret_fd)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = {order, size - 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(peer, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	*ret_fd = -1;
	if (header)
		memcpy(ret_fd, CMSG_DATA(header), sizeof(int));
	return n;
}

int main(void)
{
	static struct answer answer;

	if (listen(AGENT_FD, 8) < 0)
		return 1;
	for (;;) {
		int peer = accept4(AGENT_FD, NULL, NULL, SOCK_CLOEXEC), fd;
		char order[4096];
		ssize_t n;

		while (peer >= 0 && (n = receive(peer, order, sizeof(order), &fd)) > 0) {
			order[n] = '\0';
			answer = (struct answer){0};
			obey(&answer, order, fd);
			if (fd >= 0)
				close(fd);
			send(peer, answer.text, answer.len ? answer.len : 1, MSG_NOSIGNAL);
		}
		close(peer);
	}
}
