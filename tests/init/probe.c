/* Runs inside as an exec: shows what it was started with, or misbehaves. Static, so that nothing
 * comes before main() but the C library's start. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define FDS_MAX 4096

/* Open descriptors, found without opening one. */
static int show_fds(void)
{
	for (int fd = 0; fd < FDS_MAX; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			printf("%d\n", fd);
	}
	return 0;
}

static int show_clone3(void)
{
	long ret = syscall(435, NULL, 0);

	printf("%ld %d\n", ret, errno);
	return 0;
}

static int show_ids(void)
{
	gid_t groups[64];
	int count = getgroups(64, groups);

	printf("%u %u", getuid(), getgid());
	for (int i = 0; i < count; i++)
		printf(" %u", groups[i]);
	printf("\n");
	return 0;
}

static int show_env(char **envp)
{
	for (; *envp; envp++)
		printf("%s%c", *envp, '\0');
	return 0;
}

/* Away from its parent and session, deaf to all that can be ignored; the pipes stay with it. */
static void daemonize(void)
{
	for (int i = 1; i < 32; i++)
		signal(i, SIG_IGN);
	if (fork() != 0)
		_exit(0);
	setsid();
	if (fork() != 0)
		_exit(0);
}

/* A pid that is never the same for long. */
static _Noreturn void run_away(void)
{
	for (;;) {
		pid_t pid = fork();

		if (pid > 0)
			_exit(0);
		if (pid < 0)
			usleep(1000);
	}
}

/* It is ready only when the one that is away is deaf. */
static _Noreturn void misbehave(int runners)
{
	int ends[2];
	char x;

	for (int i = 0; i < runners; i++) {
		if (fork() == 0)
			run_away();
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		_exit(1);
	if (fork() == 0) {
		daemonize();
		close(ends[0]);
		close(ends[1]);
		for (;;)
			pause();
	}
	close(ends[1]);
	if (read(ends[0], &x, 1) != 0)
		_exit(1);
	close(ends[0]);
	printf("ready\n");
	fflush(stdout);
	for (;;)
		pause();
}

static _Noreturn void bomb(void)
{
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		if (fork() < 0)
			usleep(1000);
	}
}

/* Stops or kills whatever has just been started, to hold up whoever waits for it. */
static _Noreturn void signal_others(int number)
{
	printf("ready\n");
	fflush(stdout);
	for (;;)
		kill(-1, number);
}

int main(int argc, char **argv, char **envp)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "fds") == 0)
		return show_fds();
	if (strcmp(what, "clone3") == 0)
		return show_clone3();
	if (strcmp(what, "ids") == 0)
		return show_ids();
	if (strcmp(what, "env") == 0)
		return show_env(envp);
	if (strcmp(what, "argc") == 0)
		return printf("%d\n", argc) < 0;
	if (strcmp(what, "misbehave") == 0)
		misbehave(argc > 2 ? atoi(argv[2]) : 0);
	if (strcmp(what, "bomb") == 0)
		bomb();
	if (strcmp(what, "stop-others") == 0)
		signal_others(SIGSTOP);
	if (strcmp(what, "kill-others") == 0)
		signal_others(SIGKILL);
	return 2;
}
