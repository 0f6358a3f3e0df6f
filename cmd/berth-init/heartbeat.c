#include "cmd/berth-init/heartbeat.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/clock.h"

#define PATH     "/run/berth/heartbeat"
#define MODE     0622 /* everybody may write, and only root take away what others wrote */
#define EVERY_MS 1000
#define READ_MAX (16 * 1024) /* a turn: a flood is one event among others */

/* For both ways: then it has no end when a writer leaves, and none finds it without a reader. */
static int make(void)
{
	cleanup_fd int fd = -1;
	struct stat st;

	if (mkfifo(PATH, 0600) < 0)
		return -1;
	fd = open(PATH, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode) || fchmod(fd, MODE) < 0)
		return -1;
	return take_fd(&fd);
}

void heartbeat_init(struct heartbeat *h)
{
	h->fd = make();
}

bool heartbeat_read(struct heartbeat *h)
{
	char bytes[READ_MAX];
	ssize_t n = read(h->fd, bytes, sizeof(bytes));

	if (n > 0)
		h->is_due = true;
	/* What was spliced into it may be unreadable, and would stay there for ever. */
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

int heartbeat_wait_ms(const struct heartbeat *h)
{
	uint64_t now = h->is_due ? clock_ms() : 0;

	if (!h->is_due)
		return -1;
	return h->next_ms > now ? (int)(h->next_ms - now) : 0;
}

void heartbeat_told(struct heartbeat *h)
{
	h->is_due = false;
	h->next_ms = clock_ms() + EVERY_MS;
}
