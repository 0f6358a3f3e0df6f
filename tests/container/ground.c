#include "tests/container/ground.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/cgroup.h"
#include "container/dir.h"
#include "container/host_state.h"
#include "container/namespaces.h"
#include "container/tree.h"

#define USER_ID  200000 /* who runs the rootless ones; needs no entry in /etc/passwd */
#define SUB_IDS  300000
#define PATIENCE 120000 /* when something counts as hung */

/* Written by the body, read by whoever cleans up after it. */
struct traces {
	char cgroup[CGROUP_NAME_MAX];
};

static struct traces *traces;

static int write_file(const char *path, const char *text)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -1 : dir_write_all(fd, str_of(text));
}

/* What newuidmap does for an ordinary user: only root may write such a map. */
static int write_maps(pid_t pid, enum ground_mode mode)
{
	char path[64], map[128];

	snprintf(map, sizeof(map), "0 %d 1\n", USER_ID);
	if (mode == GROUND_ROOTLESS)
		snprintf(map, sizeof(map), "0 %d 1\n1 %d 65535\n", USER_ID, SUB_IDS);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	if (write_file(path, map) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
	return write_file(path, map);
}

static int enter_user_namespace(int ready, int go)
{
	char byte;

	if (setgroups(0, NULL) < 0 || setresgid(USER_ID, USER_ID, USER_ID) < 0 ||
	    setresuid(USER_ID, USER_ID, USER_ID) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 ||
	    unshare(CLONE_NEWUSER) < 0 || write(ready, "x", 1) != 1 || read(go, &byte, 1) != 1 ||
	    setresuid(0, 0, 0) < 0 || setresgid(0, 0, 0) < 0)
		return -1;
	return 0;
}

static int body_of(struct ground *ground, int (*body)(struct ground *), const int *pipes)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (ground->mode != GROUND_ROOT && enter_user_namespace(pipes[1], pipes[2]) < 0) {
		printf("Bail out! cannot enter a user namespace: %s\n", strerror(errno));
		return 1;
	}
	return body(ground);
}

static void kill_children(void)
{
	char path[64], text[4096];
	cleanup_fd int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	snprintf(path, sizeof(path), "%d/task/%d/children", getpid(), getpid());
	while (dir_read(proc, path, text, sizeof(text)) > 0) {
		for (char *at = text, *word; (word = strsep(&at, " "));)
			if (*word)
				kill((pid_t)atol(word), SIGKILL);
		if (waitpid(-1, NULL, 0) < 0)
			break;
	}
}

static void remove_cgroups(void)
{
	struct cgroup_host cg;
	struct err err;

	if (!traces->cgroup[0] ||
	    cgroup_host_init(&cg, &(struct cgroup_place){.cgroup2_fd = -1}, &err) < 0)
		return;
	snprintf(cg.name, sizeof(cg.name), "%s", traces->cgroup);
	for (char id[] = "t0"; id[1] <= '9'; id[1]++)
		cgroup_remove(&cg, id, PATIENCE / 10);
	cgroup_host_close(&cg);
}

static int make_dirs(struct ground *ground)
{
	uid_t owner = ground->mode == GROUND_ROOT ? 0 : USER_ID;

	snprintf(ground->dir, sizeof(ground->dir), "/tmp/berth-container-XXXXXX");
	if (!mkdtemp(ground->dir))
		return -1;
	snprintf(ground->state, sizeof(ground->state), "%s/state", ground->dir);
	snprintf(ground->run, sizeof(ground->run), "%s/run", ground->dir);
	snprintf(ground->bait, sizeof(ground->bait), "%s-bait", ground->dir);
	/* As /run/user/<uid> is: nobody else may pass, not even a sandbox's root. */
	if (chmod(ground->dir, 0700) < 0 || chown(ground->dir, owner, owner) < 0 ||
	    mkdir(ground->state, 0711) < 0 || mkdir(ground->run, 0711) < 0 ||
	    chown(ground->state, owner, owner) < 0 || chown(ground->run, owner, owner) < 0 ||
	    mkdir(ground->bait, 0700) < 0 || chmod(ground->bait, 0777) < 0 ||
	    chown(ground->bait, owner, owner) < 0)
		return -1;
	return 0;
}

int ground_run(struct ground *ground, int (*body)(struct ground *ground))
{
	cleanup_fd int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int pipes[4], status = -1;
	char byte;
	pid_t pid;

	traces = mmap(NULL, sizeof(*traces), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (traces == MAP_FAILED || make_dirs(ground) < 0 || pipe2(pipes, O_CLOEXEC) < 0 ||
	    pipe2(pipes + 2, O_CLOEXEC) < 0)
		return 1;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int code = body_of(ground, body, pipes);

		fflush(stdout);
		_exit(code);
	}
	/* A time limit ends the whole process group; we stay to clean up. */
	signal(SIGTERM, SIG_IGN);
	if (ground->mode != GROUND_ROOT && read(pipes[0], &byte, 1) == 1 &&
	    (write_maps(pid, ground->mode) < 0 || write(pipes[3], "x", 1) != 1))
		kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	kill_children();
	remove_cgroups();
	tree_remove(tmp, ground->bait + strlen("/tmp/"));
	tree_remove(tmp, ground->dir + strlen("/tmp/"));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int ground_open_host(struct ground *ground, struct err *err)
{
	bool is_rootless = ground->mode != GROUND_ROOT;
	cleanup_fd int unified = -1;
	int r = namespaces_enter_mounts(is_rootless, &unified, err);
	struct container_host_config config = {
		.state_dir = ground->state,
		.run_dir = ground->run,
		.runtime = ground->runtime,
		.init_path = ground->probe,
		.is_rootless = is_rootless,
		.ids_mapped = ground->mode == GROUND_ROOTLESS ? 65536 : 1,
		.init_parent = getpid(),
		.cgroup2_fd = is_rootless ? -1 : unified,
	};

	if (r == 0)
		r = container_host_init(&ground->host, &config, err);
	if (r == 0)
		memcpy(traces->cgroup, ground->host->cgroup.name, sizeof(traces->cgroup));
	return r;
}

int ground_wait(pid_t pid, int pidfd)
{
	struct pollfd end = {.fd = pidfd, .events = POLLIN};
	int status;

	if (poll(&end, 1, PATIENCE) != 1 || waitpid(pid, &status, 0) != pid) {
		kill(pid, SIGKILL);
		close(pidfd);
		return -1;
	}
	close(pidfd);
	return status;
}

int ground_start(struct ground *ground, struct container *c, const struct container_spec *spec,
		 struct err *err)
{
	cleanup_fd int log = -1;
	int r = container_prepare(c, ground->host, spec, err), pidfd, status;
	pid_t pid;

	if (r < 0)
		return r;
	pidfd = container_create(c, ground->host, &pid, &log, err);
	if (pidfd < 0)
		return pidfd;
	status = ground_wait(pid, pidfd);
	r = container_created(c, ground->host, status, log, err);
	return r < 0 ? r : container_record(c, ground->host, err);
}

int ground_stop(struct ground *ground, struct container *c)
{
	struct err err;
	pid_t pid;
	int pidfd, status;

	container_kill(c, ground->host);
	pidfd = container_take_down(c, ground->host, &pid, &err);
	status = pidfd < 0 ? -1 : ground_wait(pid, pidfd);
	if (c->init_pid > 0)
		waitpid(c->init_pid, NULL, 0);
	if (c->init_pidfd >= 0)
		close(c->init_pidfd);
	c->init_pidfd = -1;
	c->init_pid = 0;
	return status;
}

int ground_connect(const struct ground *ground, const struct container *c)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%.60s/%.20s/agent.sock", ground->run,
		 c->spec.id.text);
	/* Its first process runs, but may not have called listen() yet. */
	for (int tries = 0; tries < PATIENCE; tries++) {
		if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
			return fd;
		if (errno != ECONNREFUSED)
			break;
		usleep(1000);
	}
	close(fd);
	return -1;
}

const char *ground_ask(int peer, int fd, const char *format, ...)
{
	static char text[65536];
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {text, 0};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	struct pollfd answer = {.fd = peer, .events = POLLIN};
	va_list args;
	ssize_t n;

	va_start(args, format);
	part.iov_len = (size_t)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (fd >= 0) {
		struct cmsghdr *header;

		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		header = CMSG_FIRSTHDR(&message);
		*header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(header), &fd, sizeof(int));
	}
	if (sendmsg(peer, &message, MSG_NOSIGNAL) < 0 || poll(&answer, 1, PATIENCE) != 1)
		return "(no answer)";
	n = recv(peer, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

bool ground_has_line(const char *text, const char *line)
{
	size_t len = strlen(line);

	for (const char *at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		if (strncmp(at, line, len) == 0 && (at[len] == '\n' || !at[len]))
			return true;
	return false;
}

int ground_main(int argc, char **argv, int (*body)(struct ground *ground))
{
	struct ground ground = {0};

	if (argc != 4)
		return 2;
	ground.mode = strcmp(argv[1], "root") == 0       ? GROUND_ROOT
		      : strcmp(argv[1], "rootless") == 0 ? GROUND_ROOTLESS
							 : GROUND_ONE_ID;
	ground.runtime = argv[2];
	ground.probe = argv[3];
	if (geteuid() != 0) {
		printf("1..0 # SKIP needs root, to play root and to play newuidmap\n");
		return 0;
	}
	return ground_run(&ground, body);
}
