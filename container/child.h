/*
 * Processes that we start: the runtime, and workers that run our own code and end. Who starts one
 * waits for it by its pidfd, and if that is killed, it is killed too.
 */
#ifndef BERTH_CONTAINER_CHILD_H
#define BERTH_CONTAINER_CHILD_H

#include <stdint.h>
#include <sys/types.h>

/* What a program gets. Everything else that is open here is O_CLOEXEC. */
struct child_program {
	const char *path;
	const char *const *argv;
	const char *const *envp;
	int cwd_fd;    /* -1: "/" */
	int cgroup_fd; /* a v2 cgroup to start in, or -1 */
	int log_fd;    /* becomes 4, or -1; also told when the program cannot be executed */
	int passed_fd; /* becomes 3, or -1 */
	/* Called in the child when its fds are in place, if not NULL; only system calls. */
	int (*setup)(const void *data);
	const void *setup_data;
};

/* Its pidfd. Standard input, output and error are /dev/null. */
int child_start(const struct child_program *program, pid_t *ret_pid);

/*
 * A copy of ourselves: returns twice like fork(). In the worker *ret_pid is 0, the answer is not
 * negative, no signal is blocked, and of our fds only 0 to 2 and `keep` are open.
 */
int child_fork(const int *keep, unsigned count, pid_t *ret_pid);

/* For what is over in no time. The wait() status, or negative errno. */
int child_wait(pid_t pid, int pidfd, int timeout_ms);

#endif
