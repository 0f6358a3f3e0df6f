#include "cmd/berthd/keeper_start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/channel.h"

#define READY_MS   30000
#define RESTART_MS 15000 /* a killed keeper is back by then */
#define BUSY_MS    3000
#define STEP_MS    50
#define LEAVE_MS   700 /* a keeper that has nothing to keep has ended by then */

static int program_path(char ret[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - 16);
	char *slash;

	if (n < 0)
		return -errno;
	ret[n] = '\0';
	slash = strrchr(ret, '/');
	if (!slash)
		return -ENOENT;
	snprintf(slash + 1, 16, "berth-keeper");
	return 0;
}

static void become_keeper(const struct config *config, const struct privileges *p,
			  const char *program, int ready_fd)
{
	char uid[16], gid[16], ready[16];
	const char *binds[MOUNTS_ALLOWED_MAX], *argv[24 + 2 * MOUNTS_ALLOWED_MAX];
	unsigned bind_count = config_binds(config, binds);
	int n = 0;

	snprintf(uid, sizeof(uid), "%u", p->uid);
	snprintf(gid, sizeof(gid), "%u", p->gid);
	snprintf(ready, sizeof(ready), "%d", ready_fd);
	argv[n++] = "berth-keeper";
	argv[n++] = "--state-dir";
	argv[n++] = config->paths.state_dir;
	argv[n++] = "--run-dir";
	argv[n++] = config->paths.run_dir;
	argv[n++] = "--daemon-uid";
	argv[n++] = uid;
	argv[n++] = "--daemon-gid";
	argv[n++] = gid;
	argv[n++] = "--ready-fd";
	argv[n++] = ready;
	argv[n++] = "--idle-ms";
	argv[n++] = "300"; /* it has nothing to keep when we are gone and nothing runs */
	argv[n++] = "--log-level";
	argv[n++] = log_level_name(config->log_level);
	if (config->runtime[0]) {
		argv[n++] = "--runtime";
		argv[n++] = config->runtime;
	}
	for (unsigned i = 0; i < bind_count; i++) {
		argv[n++] = "--allow-bind";
		argv[n++] = binds[i];
	}
	argv[n] = NULL;
	setsid();
	if (fcntl(ready_fd, F_SETFD, 0) == 0 && chdir("/") == 0)
		execv(program, (char **)argv);
	dprintf(ready_fd, "%s cannot be run: %s\n", program, strerror(errno));
	_exit(127);
}

/* One line: "ready", or why not; -EBUSY if another keeper has the state directory. */
static int await_ready(int fd, struct err *err)
{
	char line[sizeof(err->sentence)] = "";
	size_t len = 0;

	while (len < sizeof(line) - 1 && !strchr(line, '\n')) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;

		if (poll(&p, 1, READY_MS) <= 0)
			return err_set(err, -ETIMEDOUT, ERR_INTERNAL,
				       "berth-keeper was not ready in time");
		n = read(fd, line + len, sizeof(line) - 1 - len);
		if (n <= 0)
			break;
		len += (size_t)n;
		line[len] = '\0';
	}
	line[strcspn(line, "\n")] = '\0';
	if (strncmp(line, "ready", 5) == 0)
		return 0;
	if (strncmp(line, "busy ", 5) == 0)
		return err_set(err, -EBUSY, ERR_CONFLICT, "%s", line + 5);
	return err_set(err, -EIO, ERR_INTERNAL, "%s",
		       line[0] ? line : "berth-keeper did not start");
}

static int launch(const struct config *config, const struct privileges *p, struct err *err)
{
	cleanup_fd int reading = -1, writing = -1;
	char program[PATH_MAX];
	int ends[2];
	pid_t pid;

	if (program_path(program) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -EIO, ERR_INTERNAL, "cannot find berth-keeper beside berthd");
	reading = ends[0];
	writing = ends[1];
	pid = fork();
	if (pid < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot start berth-keeper: %s",
			       strerror(errno));
	if (pid == 0) {
		/* Twice, so that it is nobody's child here: it outlives us, or we it. */
		if (fork() == 0)
			become_keeper(config, p, program, writing);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	close(take_fd(&writing));
	return await_ready(reading, err);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Another service starts it, and may just be doing so. */
static int await(const char *socket, int *ret_fd, struct err *err)
{
	const struct timespec step = {.tv_nsec = STEP_MS * 1000000L};
	uint64_t began = now_ms();

	for (;;) {
		int fd = channel_connect(socket);

		if (fd >= 0) {
			*ret_fd = fd;
			return 0;
		}
		if (now_ms() - began >= READY_MS)
			return err_set(err, fd, ERR_UNAVAILABLE,
				       "no berth-keeper answers on %s: %s; start its service, or "
				       "berthd without --keeper await",
				       socket, strerror(-fd));
		nanosleep(&step, NULL);
	}
}

/*
 * Its keeper may have been started for another state directory: it knows other sandboxes, and what
 * runs there would be strangers to us. An older one does not tell.
 */
static int check_state(const struct config *config, struct err *err)
{
	char link[PATH_MAX + 8], path[PATH_MAX];
	struct stat theirs, ours;
	ssize_t n;

	snprintf(link, sizeof(link), "%s/.state", config->paths.run_dir);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0 || stat(link, &theirs) < 0 || stat(config->paths.state_dir, &ours) < 0)
		return 0;
	path[n] = '\0';
	if (theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino)
		return 0;
	return err_set(err, -EBUSY, ERR_CONFLICT,
		       "the berth-keeper of %s serves the state directory %s, not %s: start with "
		       "--state-dir %s, or with another --run-dir",
		       config->paths.run_dir, path, config->paths.state_dir, path);
}

/*
 * Whether the keeper that is there lets other folders be mounted than we are told to. One that
 * has nothing to keep ends in a moment, if nobody comes to it.
 */
static bool has_other_binds(const struct config *config)
{
	const char *binds[MOUNTS_ALLOWED_MAX];
	char link[PATH_MAX + 16], theirs[MOUNTS_DIGEST_SIZE + 1], ours[MOUNTS_DIGEST_SIZE];
	ssize_t n;

	snprintf(link, sizeof(link), "%s/.allow-bind", config->paths.run_dir);
	n = readlink(link, theirs, sizeof(theirs) - 1);
	if (n < 0)
		return false; /* there is none, or an older one */
	theirs[n] = '\0';
	mounts_allowed_digest(binds, config_binds(config, binds), ours);
	return strcmp(theirs, ours) != 0;
}

/*
 * A keeper that is there but does not serve was killed and is being started again by its monitor
 * (its socket is still there), or is just beginning or ending: worth a wait. One that was ready may
 * have ended again before we came, having nothing to keep; then there is another try.
 */
static int find_or_launch(const struct config *config, const struct privileges *p, int *ret_fd,
			  struct err *err)
{
	const struct timespec step = {.tv_nsec = STEP_MS * 1000000L};
	uint64_t began = now_ms();
	char socket[PATH_MAX + 16];
	bool was_ready = false;

	snprintf(socket, sizeof(socket), "%s/keeper.sock", config->paths.run_dir);
	if (config->keeper_is_awaited)
		return await(socket, ret_fd, err);
	for (;;) {
		bool is_awaited = has_other_binds(config) && now_ms() - began < LEAVE_MS;
		int fd = is_awaited ? -EBUSY : channel_connect(socket), r;
		bool is_late = now_ms() - began >= (fd == -ECONNREFUSED ? RESTART_MS : BUSY_MS);

		if (fd >= 0) {
			if (has_other_binds(config))
				log_warn(
					"the berth-keeper that runs lets other folders be mounted "
					"than --allow-bind says: it keeps what runs, and ends when "
					"that has stopped and berthd, too; a folder can be mounted "
					"until then if both allow it");
			*ret_fd = fd;
			return 0;
		}
		if (was_ready && is_late)
			return err_set(err, fd, ERR_UNAVAILABLE,
				       "no berth-keeper answers on %s: %s", socket, strerror(-fd));
		r = launch(config, p, err);
		was_ready = r == 0;
		if (r < 0 && (r != -EBUSY || is_late))
			return r;
		if (r == -EBUSY)
			nanosleep(&step, NULL);
	}
}

int keeper_start_up(const struct config *config, const struct privileges *p, int *ret_fd,
		    struct err *err)
{
	int r = find_or_launch(config, p, ret_fd, err);

	if (r == 0)
		r = check_state(config, err);
	if (r < 0)
		close_fdp(ret_fd);
	return r;
}
