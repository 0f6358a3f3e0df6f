#include "daemon/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

int file_open(const char *path, int *ret_fd, struct stat *ret_stat, struct err *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, ERR_INVALID_REQUEST, "it cannot be read: %s",
			       strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "it is not a regular file");
	*ret_stat = st;
	*ret_fd = take_fd(&fd);
	return 0;
}

int file_read(int fd, char *bytes, size_t size, size_t *ret_len, struct err *err)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = read(fd, bytes + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, -errno, ERR_INVALID_REQUEST, "it cannot be read: %s",
				       strerror(errno));
		if (n == 0) {
			*ret_len = len;
			return 0;
		}
		len += (size_t)n;
	}
	return err_set(err, -EFBIG, ERR_INVALID_REQUEST, "it is larger than %zu bytes", size - 1);
}
