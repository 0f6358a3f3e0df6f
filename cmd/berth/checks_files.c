/* The checks that look at programs and directories. */
#include "cmd/berth/checks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/screen.h"

#define VERSION_TIMEOUT_MS 5000
#define SPACE_GOOD         (100ULL * 1000 * 1000)
#define INODES_GOOD        1000
#define RESERVED           (64 << 10)

extern char **environ;

/* Starts "<path> --version" with its standard output in a pipe; gives the end to read. */
static int spawn_version(const char *path, pid_t *ret_pid)
{
	char *argv[] = {(char *)path, "--version", NULL};
	posix_spawn_file_actions_t actions;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	r = posix_spawn(ret_pid, path, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	if (r) {
		close(fds[0]);
		return -r;
	}
	return fds[0];
}

struct version_text {
	char bytes[512];
	size_t len;
};

/* What "<path> --version" prints; -EIO if it prints nothing or fails. */
static int read_version(const char *path, struct version_text *ret)
{
	size_t len = 0;
	int status = -1;
	pid_t pid;
	cleanup_fd int fd = spawn_version(path, &pid);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (fd < 0)
		return fd;
	while (len < sizeof(ret->bytes) && poll(&p, 1, VERSION_TIMEOUT_MS) > 0) {
		ssize_t n = read(fd, ret->bytes + len, sizeof(ret->bytes) - len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	/* At its end it is gone already; a program that hangs or babbles must not hold us. */
	if (p.revents == 0 || len == sizeof(ret->bytes))
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			break;
	if (len == 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return -EIO;
	ret->len = len;
	return 0;
}

/* Runtimes add the OCI specification that they follow; other programs do not. */
static void say_version(struct findings *findings, const struct host_facts *facts,
			const struct version_text *version)
{
	struct str told = {version->bytes, version->len}, rest = told;
	struct screen_text shown = screen_text(str_cut(&rest, '\n'));
	struct finding *f;

	if (!memmem(told.at, told.len, "spec", 4)) {
		f = finding_add(findings, "runtime", FINDING_WARN,
				"%.200s (%.200s) does not look like an OCI runtime", shown.text,
				facts->runtime);
		finding_mend(f, "name the path of crun or runc with --runtime");
		return;
	}
	finding_add(findings, "runtime", FINDING_OK, "%.200s (%.250s)", shown.text, facts->runtime);
	check_runtime_holes(findings, told);
}

void check_runtime(struct findings *findings, const struct host_facts *facts, const char *wanted)
{
	struct version_text version;
	struct finding *f;

	if (!facts->runtime[0] && wanted) {
		f = finding_add(findings, "runtime", FINDING_MISSING, "%s is no program",
				screen_text(str_of(wanted)).text);
		finding_mend(f, "name the path of crun or runc with --runtime");
	} else if (!facts->runtime[0]) {
		f = finding_add(findings, "runtime", FINDING_MISSING,
				"neither crun nor runc is installed: no sandbox can start");
		finding_mend(f, "apt install crun");
	} else if (read_version(facts->runtime, &version) < 0) {
		f = finding_add(findings, "runtime", FINDING_MISSING,
				"%s is there, but `%s --version` fails", facts->runtime,
				facts->runtime_name);
		finding_mend(f, "apt install --reinstall %s", facts->runtime_name);
	} else {
		say_version(findings, facts, &version);
	}
}

/* Shortens the path to its parent; false at "/". */
static bool go_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || (slash == path && !path[1]))
		return false;
	slash[slash == path ? 1 : 0] = '\0';
	return true;
}

/* The directory itself, or the first above it that is there. */
static void find_existing(const char *dir, char ret[PATH_MAX])
{
	struct stat st;

	snprintf(ret, PATH_MAX, "%s", dir);
	while (stat(ret, &st) < 0 && errno == ENOENT)
		if (!go_up(ret)) {
			snprintf(ret, PATH_MAX, "."); /* a relative one begins here */
			break;
		}
}

/* The first directory above that only its owner may pass; "" if there is none. */
static void find_closed_parent(const char *dir, char ret[PATH_MAX])
{
	struct stat st;

	snprintf(ret, PATH_MAX, "%s", dir);
	while (go_up(ret))
		if (stat(ret, &st) == 0 && !(st.st_mode & S_IXOTH))
			return;
	ret[0] = '\0';
}

static void check_space(struct findings *findings, const char *at, const char *dir)
{
	struct statvfs fs;
	unsigned long long bytes;
	struct finding *f;
	bool is_enough;

	if (statvfs(at, &fs) < 0)
		return;
	bytes = (unsigned long long)fs.f_bavail * fs.f_frsize;
	/* Some file systems make inodes as they go, and say that they have none. */
	is_enough = bytes >= SPACE_GOOD && (fs.f_files == 0 || fs.f_favail >= INODES_GOOD);
	f = finding_add(findings, "disk space", is_enough ? FINDING_OK : FINDING_WARN,
			"%s free for %.200s", screen_bytes(bytes).text, dir);
	if (is_enough)
		return;
	if (bytes >= SPACE_GOOD)
		snprintf(f->what, sizeof(f->what), "room for %llu more files below %.200s",
			 (unsigned long long)fs.f_favail, dir);
	finding_mend(f, "make room there, or choose another place with --state-dir");
}

static int open_nameless(const char *dir)
{
	char path[PATH_MAX];
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	/* Those that cannot do the one often cannot do the other. */
	if (fd >= 0 || errno != EOPNOTSUPP ||
	    snprintf(path, sizeof(path), "%s/.doctor-XXXXXX", dir) >= (int)sizeof(path))
		return fd;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

/* As root, limited disks are in a file there, whose blocks must be its own before they are used. */
static void check_reserve(struct findings *findings, const char *at, const char *dir)
{
	cleanup_fd int fd = geteuid() == 0 ? open_nameless(at) : -1;
	struct finding *f;

	if (fd < 0 || fallocate(fd, 0, 0, RESERVED) == 0 || errno != EOPNOTSUPP)
		return;
	f = finding_add(findings, "limited disks", FINDING_WARN,
			"limits.disk is refused: the file system of %.200s cannot reserve blocks "
			"(fallocate), as zfs and some of the network's cannot",
			dir);
	finding_mend(f, "choose a place on ext4, xfs or btrfs with --state-dir");
}

/* What helps depends on what is in the way. */
static void mend_dir(struct finding *f, int error, const char *dir, const char *flag)
{
	if (error == EACCES || error == EPERM)
		finding_mend(f, "sudo install -d -o %u -g %u %.200s, or choose another with %s",
			     geteuid(), getegid(), dir, flag);
	else if (error == EROFS)
		finding_mend(f, "mount that file system for writing, or choose another with %s",
			     flag);
	else
		finding_mend(f, "choose another with %s", flag);
}

static void check_dir(struct findings *findings, const char *name, const char *dir,
		      const char *flag)
{
	char at[PATH_MAX], closed[PATH_MAX];
	struct finding *f;

	find_existing(dir, at);
	if (faccessat(AT_FDCWD, at, W_OK | X_OK, AT_EACCESS) < 0) {
		int error = errno;

		f = finding_add(findings, name, FINDING_MISSING, "%.200s cannot be %s: %.200s: %m",
				dir, strcmp(at, dir) == 0 ? "written" : "made", at);
		mend_dir(f, error, dir, flag);
		return;
	}
	find_closed_parent(dir, closed);
	/* Only root's daemon gives up its privileges and becomes somebody else. */
	if (geteuid() == 0 && *closed) {
		f = finding_add(findings, name, FINDING_WARN,
				"%.200s is below %.200s, which only its owner may pass", dir,
				closed);
		finding_mend(f, "chmod o+x %.200s, or choose another with %s", closed, flag);
		return;
	}
	finding_add(findings, name, FINDING_OK, "%.400s%s", dir,
		    strcmp(at, dir) == 0 ? "" : " can be made");
}

void check_dirs(struct findings *findings, const struct paths *paths)
{
	char at[PATH_MAX];

	check_dir(findings, "state directory", paths->state_dir, "--state-dir");
	find_existing(paths->state_dir, at);
	check_space(findings, at, paths->state_dir);
	check_reserve(findings, at, paths->state_dir);
	check_state_mode(findings, paths->state_dir);
	check_dir(findings, "run directory", paths->run_dir, "--run-dir");
}
