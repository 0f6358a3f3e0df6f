/*
 * Puts on itself what berthd does, by the same code, then tries what whoever has taken over a
 * berthd would, and what berthd itself must still be able to. One line for each: a name, and the
 * error or "ok". Each layer can be tried alone, since else one would hide a hole in the other.
 *
 * usage: confined all|landlock|seccomp|none STATE RUN CONFIG TOKENS ACCESS_LOG OUTSIDE
 * ABSTRACT_NAME
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/berthd/confine.h"
#include "cmd/berthd/filter.h"

static const char *state, *outside;
static int tcp = -1;

static void say(const char *name, long result)
{
	printf("%s %s\n", name, result < 0 ? strerrorname_np(errno) : "ok");
	fflush(stdout);
}

static int try_open(const char *dir, const char *name, int flags)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s%s%s", dir, name[0] ? "/" : "", name);
	fd = open(path, flags | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	return fd;
}

static int try_beside(const char *file, const char *name, int flags)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(file, '/') - file), file);
	return try_open(dir, name, flags);
}

static void try_files(const struct config *config)
{
	char from[PATH_MAX], to[PATH_MAX];

	snprintf(from, sizeof(from), "%s/berthd/a", state);
	say("own-mkdir", mkdir(from, 0700));
	snprintf(from, sizeof(from), "%s/berthd/a/file", state);
	snprintf(to, sizeof(to), "%s/berthd/moved", state);
	say("own-make", try_open(from, "", O_RDWR | O_CREAT | O_EXCL));
	say("own-move", rename(from, to));
	say("own-truncate", try_open(to, "", O_RDWR | O_TRUNC));
	say("own-unlink", unlink(to));
	snprintf(from, sizeof(from), "%s/berthd/a", state);
	say("own-rmdir", rmdir(from));
	say("config-read", try_open(config->file, "", O_RDONLY));
	say("config-write", try_open(config->file, "", O_WRONLY));
	say("tokens-read", try_open(config->token_file, "", O_RDONLY));
	say("tokens-beside", try_beside(config->token_file, "beside", O_RDONLY));
	say("log-append", try_open(config->access_log, "", O_WRONLY | O_APPEND | O_CREAT));
	say("log-read", try_open(config->access_log, "", O_RDONLY));
	say("log-beside", try_beside(config->access_log, "beside", O_WRONLY | O_APPEND));
	say("log-make", try_beside(config->access_log, "new", O_WRONLY | O_APPEND | O_CREAT));
	say("log-unlink", unlink(config->access_log));
	say("outside-read", try_open(outside, "secret", O_RDONLY));
	say("outside-write", try_open(outside, "secret", O_WRONLY));
	say("outside-list", try_open(outside, "", O_RDONLY | O_DIRECTORY));
	say("outside-make", try_open(outside, "new", O_WRONLY | O_CREAT));
	say("state-make", try_open(state, "new", O_WRONLY | O_CREAT));
	snprintf(to, sizeof(to), "%s/secret", outside);
	say("chmod", chmod(to, 0600));
	snprintf(from, sizeof(from), "%s/berthd/link", state);
	say("link", link(to, from));
	say("null", try_open("/dev/null", "", O_RDWR));
	say("urandom", try_open("/dev/urandom", "", O_RDONLY));
	say("meminfo", try_open("/proc/meminfo", "", O_RDONLY));
	say("group", try_open("/etc/group", "", O_RDONLY));
}

static void try_calls(void)
{
	char *const argv[] = {"true", NULL}, *const envp[] = {NULL};
	struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_port = htons(1)};
	void *page;
	int pid;

	loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	say("unshare", unshare(CLONE_FS));
	say("mount", syscall(SYS_mount, "none", "/proc/self/nothing", "tmpfs", 0, NULL));
	say("setns", syscall(SYS_setns, -1, 0));
	say("bpf", syscall(SYS_bpf, 0, NULL, 0));
	say("keyctl", syscall(SYS_keyctl, 0, -3, 0));
	say("init_module", syscall(SYS_init_module, NULL, 0, ""));
	say("process_vm_writev", syscall(SYS_process_vm_writev, getpid(), NULL, 0, NULL, 0, 0));
	say("pidfd_open", syscall(SYS_pidfd_open, getpid(), 0));
	say("io_uring_setup", syscall(SYS_io_uring_setup, 0, NULL));
	say("socket-inet", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	say("socket-netlink", socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0));
	say("socket-unix", socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	say("connect-tcp", connect(tcp, (struct sockaddr *)&loopback, sizeof(loopback)));
	loopback.sin_port = 0;
	say("bind-tcp", bind(tcp, (struct sockaddr *)&loopback, sizeof(loopback)));
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	say("mmap-wx", page == MAP_FAILED ? -1 : 0);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("mprotect-x", mprotect(page, 4096, PROT_READ | PROT_EXEC));
	say("kill-parent", kill(getppid(), SIGCONT));
	say("kill-self", kill(getpid(), SIGCONT));
	say("tiocsti", ioctl(STDIN_FILENO, TIOCSTI, "x"));
	say("ptrace", ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) < 0 ? -1 : 0);
	pid = (int)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		_exit(0);
	say("fork", pid);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	say("execve", execve("/proc/self/exe", argv, envp));
}

static void try_abstract(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path + 1, name, strlen(name));
	say("abstract",
	    connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))));
	close(fd);
}

static void *try_thread(void *arg)
{
	say("thread-outside", try_open(outside, "secret", O_RDONLY));
	say("thread-keyctl", syscall(SYS_keyctl, 0, -3, 0));
	return NULL;
}

int main(int argc, char **argv)
{
	static struct config config;
	struct confinement result = {0};
	pthread_t thread;
	struct err err;
	int r = 0;

	if (argc != 9)
		return 2;
	state = argv[2];
	outside = argv[7];
	snprintf(config.paths.state_dir, PATH_MAX, "%s", state);
	snprintf(config.paths.run_dir, PATH_MAX, "%s", argv[3]);
	snprintf(config.paths.socket, PATH_MAX, "%s/berthd/api.sock", argv[3]);
	snprintf(config.file, PATH_MAX, "%s", argv[4]);
	snprintf(config.token_file, PATH_MAX, "%s", argv[5]);
	snprintf(config.access_log, PATH_MAX, "%s", argv[6]);
	tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (strcmp(argv[1], "all") == 0)
		r = confine_apply(&config, &result, &err);
	else if (strcmp(argv[1], "landlock") == 0)
		r = confine_reach(&config);
	else if (strcmp(argv[1], "seccomp") == 0)
		r = filter_load();
	if (r < 0)
		return 1;
	printf("abi %u\n", strcmp(argv[1], "landlock") == 0 ? (unsigned)r : result.landlock_abi);
	try_files(&config);
	try_abstract(argv[8]);
	if (pthread_create(&thread, NULL, try_thread, NULL) == 0)
		pthread_join(thread, NULL);
	try_calls();
	return 0;
}
