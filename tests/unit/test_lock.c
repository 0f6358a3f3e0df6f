#include "daemon/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/holder.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

static void test_take(void)
{
	const char *state = scratch_path("a/b/state");
	struct err err = {0};
	struct holder holder;
	char word[32];
	struct stat st;
	int fd = -1, other = -1;

	umask(0);
	check(lock_take(&fd, state, "/x/api.sock", &err) == 0);
	check(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	check(stat(scratch_path("a/b/state/berthd/lock"), &st) == 0);
	check((st.st_mode & 07777) == 0600);
	check(stat(scratch_path("a/b/state/berthd"), &st) == 0 && (st.st_mode & 07777) == 0700);
	check(stat(scratch_path("a"), &st) == 0 && (st.st_mode & 07777) == 0700);
	check(lock_take(&other, state, "/x/api.sock", &err) == -EBUSY && other == -1);
	snprintf(word, sizeof(word), "(pid %ld)", (long)getpid());
	check(err.code == ERR_CONFLICT && strstr(err.sentence, word));
	check(strstr(err.sentence, state) && strstr(err.sentence, "`berth --socket /x/api.sock"));
	check(holder_find(state, &holder) && holder.pid == getpid());
	check(strcmp(holder.socket, "/x/api.sock") == 0);
	check(ftruncate(fd, 0) == 0);
	check(lock_take(&other, state, "/x/api.sock", &err) == -EBUSY &&
	      !strstr(err.sentence, "pid"));
	check(!holder_find(state, &holder));
	close(fd);
	check(lock_take(&fd, state, "/x/api.sock", &err) == 0);
	close(fd);
	check(!holder_find(state, &holder) && !holder_find(scratch_path("none"), &holder));
	tap_ok("the lock is taken once, and names its holder");
}

/* A limit of the size stands for the disk. */
static void test_full(void)
{
	const char *state = scratch_path("full"), *path = scratch_path("full/berthd/lock");
	struct rlimit before, none;
	struct err err = {0};
	struct holder holder;
	struct stat st;
	int fd = -1, other = -1;

	signal(SIGXFSZ, SIG_IGN);
	check(getrlimit(RLIMIT_FSIZE, &before) == 0);
	check(lock_take(&fd, state, "/x/api.sock", &err) == 0);
	close(fd);
	for (rlim_t room = 0; room < 8; room += 4) {
		none = (struct rlimit){room, before.rlim_max};
		check(setrlimit(RLIMIT_FSIZE, &none) == 0);
		check(lock_take(&fd, state, "/y/api.sock", &err) == 0);
		check(setrlimit(RLIMIT_FSIZE, &before) == 0);
		check(stat(path, &st) == 0 && st.st_size == 0);
		check(lock_take(&other, state, "/z/api.sock", &err) == -EBUSY);
		check(strstr(err.sentence, "another berthd uses"));
		check(!holder_find(state, &holder));
		close(fd);
	}
	check(lock_take(&fd, state, "/y/api.sock", &err) == 0);
	check(holder_find(state, &holder) && strcmp(holder.socket, "/y/api.sock") == 0);
	close(fd);
	check(lock_take(&fd, state, "/y", &err) == 0);
	check(holder_find(state, &holder) && strcmp(holder.socket, "/y") == 0);
	close(fd);
	tap_ok("without room for its text the lock is held all the same");
}

static void test_killed(void)
{
	const char *state = scratch_path("killed");
	struct err err = {0};
	int fds[2], fd = -1, status;
	char byte;
	pid_t pid;

	check(pipe2(fds, O_CLOEXEC) == 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (lock_take(&fd, state, "/x/api.sock", &err) != 0 || write(fds[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(1);
	}
	close(fds[1]);
	check(read(fds[0], &byte, 1) == 1);
	check(lock_take(&fd, state, "/x/api.sock", &err) == -EBUSY);
	kill(pid, SIGKILL);
	check(waitpid(pid, &status, 0) == pid);
	check(lock_take(&fd, state, "/x/api.sock", &err) == 0);
	close(fd);
	close(fds[0]);
	tap_ok("a killed holder holds nothing");
}

static void check_fails(const char *path, int error, const char *word)
{
	struct err err = {0};

	check(directory_make(path, 0700, &err) == error);
	if (!strstr(err.sentence, word))
		printf("# %s\n", err.sentence);
	check(strstr(err.sentence, word));
}

static void as_nobody(void)
{
	struct err err = {0};
	int fd;

	check_fails(scratch_path("open/closed/x/y"), -EACCES, "because of");
	check_fails(scratch_path("open/roots/x"), -EACCES, "Permission denied");
	check(lock_take(&fd, scratch_path("open/roots"), "/x/api.sock", &err) == -EACCES);
	check(strstr(err.sentence, "the state directory: "));
	check(directory_make(scratch_path("open/x"), 0711, &err) == 0);
}

static void test_directories(void)
{
	const char *file = scratch_path("file");
	struct err err = {0};
	struct stat st;
	int status = -1;
	pid_t pid;

	check(directory_make(scratch_path("run/berthd"), 0711, &err) == 0);
	check(stat(scratch_path("run"), &st) == 0 && (st.st_mode & 07777) == 0711);
	check(directory_make(scratch_path("run//berthd/"), 0700, &err) == 0);
	check(stat(scratch_path("run/berthd"), &st) == 0 && (st.st_mode & 07777) == 0711);
	scratch_write(file, "", 0);
	check_fails(file, -ENOTDIR, "Not a directory");
	check_fails(scratch_path("file/x"), -ENOTDIR, file);
	check(symlink("/no/such/place", scratch_path("dangling")) == 0);
	check_fails(scratch_path("dangling/x"), -ENOENT, "dangling");
	check(mkdir(scratch_path("all"), 0777) == 0 && chmod(scratch_path("all"), 01777) == 0);
	check_fails(scratch_path("all"), -EPERM, "chmod o-w");
	check(directory_make(scratch_path("all/mine"), 0700, &err) == 0);
	tap_ok("directories are made, and what is in the way is named");

	check(mkdir(scratch_path("open"), 0777) == 0 && chmod(scratch_path("open"), 0777) == 0);
	check(mkdir(scratch_path("open/closed"), 0) == 0);
	check(mkdir(scratch_path("open/roots"), 0755) == 0);
	if (geteuid() != 0)
		check(chmod(scratch_path("open/roots"), 0500) == 0);
	check(chmod(scratch_dir, 0711) == 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
			_exit(2);
		as_nobody();
		fflush(stdout);
		_exit(tap_case_failed);
	}
	check(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	check(chmod(scratch_path("open/closed"), 0700) == 0);
	check(chmod(scratch_path("open/roots"), 0700) == 0);
	tap_ok("a lack of permission is said");
	if (geteuid() == 0) {
		check(chown(scratch_path("open/roots"), 65534, 65534) == 0);
		check_fails(scratch_path("open/roots"), -EPERM, "belongs to user 65534");
		tap_ok("a directory of somebody else is refused");
	}
}

int main(void)
{
	scratch_make();
	test_take();
	test_full();
	test_killed();
	test_directories();
	return tap_done();
}
