#include "base/descriptors.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/tap.h"

static bool is_null(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

/* In a child, whose descriptors are its own: 0 if all is as it should be. */
static int try_closed(unsigned closed)
{
	for (int fd = 0; fd < 3; fd++)
		if (closed & 1u << fd)
			close(fd);
	if (descriptors_fill_standard() != 0)
		return 1;
	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) != 0)
			return 2;
		if (closed & 1u << fd && !is_null(fd))
			return 3;
	}
	return 0;
}

static void test_fill(void)
{
	for (unsigned closed = 0; closed < 8; closed++) {
		pid_t child = fork();
		int status = 0;

		if (child == 0)
			_exit(try_closed(closed));
		check(child > 0 && waitpid(child, &status, 0) == child);
		check(status == 0);
	}
	tap_ok("whichever is closed becomes /dev/null");
}

static void test_silence(void)
{
	int fds[2];

	check(pipe2(fds, O_CLOEXEC) == 0);
	check(descriptors_silence(fds[1]) == 0);
	check(is_null(fds[1]) && fcntl(fds[1], F_GETFD) == FD_CLOEXEC);
	check(read(fds[0], &(char){0}, 1) == 0); /* no writer is left */
	close(fds[0]);
	close(fds[1]);
	tap_ok("/dev/null takes a pipe's place");
}

int main(void)
{
	test_fill();
	test_silence();
	return tap_done();
}
