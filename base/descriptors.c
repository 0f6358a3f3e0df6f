#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"

int descriptors_fill_standard(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* The lowest free number, which is this one; children have it, too. */
		if (open("/dev/null", O_RDWR | O_CLOEXEC) != fd || fcntl(fd, F_SETFD, 0) < 0)
			return errno ? -errno : -EBADF;
	}
	return 0;
}

int descriptors_silence(int fd)
{
	cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	return null < 0 || dup3(null, fd, fd <= STDERR_FILENO ? 0 : O_CLOEXEC) < 0 ? -errno : 0;
}
