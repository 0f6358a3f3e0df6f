#include "container/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"

int mountinfo_read(const char *path, struct buf *buf)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : 1;

	while (n > 0) {
		char *room = buf_room(buf, 4096);

		if (!room)
			return -EFBIG;
		n = read(fd, room, 4096);
		if (n > 0)
			buf_added(buf, (size_t)n);
	}
	return n < 0 ? -errno : 0;
}
