#include "cmd/berth-init/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"

#define USUAL_COLS 80
#define USUAL_ROWS 24
/* The kernel keeps less than 64 kB of a pty's output, and a page of it in another place. */
#define PTY_HOLDS_MAX (128 * 1024)

void terminal_resize(struct terminal *t, uint32_t cols, uint32_t rows)
{
	struct winsize size = {
		.ws_col = (unsigned short)(cols ? cols : USUAL_COLS),
		.ws_row = (unsigned short)(rows ? rows : USUAL_ROWS),
	};

	if (t->master >= 0)
		ioctl(t->master, TIOCSWINSZ, &size);
}

void terminal_hang_up(const struct terminal *t, pid_t leader)
{
	pid_t front = 0; /* the group in the foreground */

	if (t->master < 0 || ioctl(t->master, TIOCGPGRP, &front) < 0 || front <= 1)
		front = leader;
	kill(-front, SIGHUP);
	kill(-front, SIGCONT);
	if (front == leader)
		return; /* it is of that group, and need not hear it twice */
	kill(leader, SIGHUP);
	kill(leader, SIGCONT);
}

static int unblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

/* By no path but "ptmx" in the file system that was there at the start. */
static int open_pty(struct terminal *t, const struct launch *l)
{
	int locked = 0;

	t->master = openat(l->launcher->pts_fd, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (t->master < 0 || ioctl(t->master, TIOCSPTLCK, &locked) < 0)
		return -errno;
	t->slave = ioctl(t->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->slave < 0)
		return -errno;
	terminal_resize(t, l->cols, l->rows);
	return 0;
}

int terminal_open(struct terminal *t, struct launch *l)
{
	int error;

	t->master = t->slave = -1;
	t->last = PTY_HOLDS_MAX;
	t->in.at = t->in.len = t->out.at = t->out.len = 0;
	t->input = l->fds[0];
	t->output = l->fds[1];
	l->fds[0] = l->fds[1] = -1;
	if (l->launcher->pts_fd < 0)
		return -ENODEV;
	error = unblock(t->input);
	if (error == 0)
		error = unblock(t->output);
	if (error == 0)
		error = open_pty(t, l);
	for (int i = 0; i < 3 && error == 0; i++) {
		l->fds[i] = fcntl(t->slave, F_DUPFD_CLOEXEC, 3);
		error = l->fds[i] < 0 ? -errno : 0;
	}
	return error;
}

static void close_fd(int *fd)
{
	close_fdp(fd);
	*fd = -1;
}

void terminal_close(struct terminal *t)
{
	close_fd(&t->master);
	close_fd(&t->slave);
	close_fd(&t->input);
	close_fd(&t->output);
}

void terminal_poll(const struct terminal *t, struct pollfd ready[TERMINAL_POLLS])
{
	short wanted = (short)((t->out.len ? 0 : POLLIN) | (t->in.len ? POLLOUT : 0));

	/* A descriptor for which nothing is wanted would still tell of its end, again and again. */
	ready[0] = (struct pollfd){wanted ? t->master : -1, wanted, 0};
	ready[1] = (struct pollfd){t->in.len ? -1 : t->input, POLLIN, 0};
	ready[2] = (struct pollfd){t->out.len ? t->output : -1, POLLOUT, 0};
}

/* False: nothing is there now; or ever again, and `from` is closed. */
static bool fill(struct terminal_flow *flow, int *from)
{
	ssize_t n = *from < 0 ? -1 : read(*from, flow->bytes, sizeof(flow->bytes));

	if (n > 0) {
		flow->at = 0;
		flow->len = (size_t)n;
	} else if (*from >= 0 && (n == 0 || errno != EAGAIN)) {
		close_fd(from);
	}
	return n > 0;
}

/* False: no more can be taken now. What nobody reads any more is taken, and gone. */
static bool drain(struct terminal_flow *flow, int *to)
{
	while (flow->len) {
		ssize_t n = *to < 0 ? -1 : write(*to, flow->bytes + flow->at, flow->len);

		if (n < 0 && *to >= 0 && errno == EAGAIN)
			return false;
		if (n < 0) {
			close_fd(to);
			n = (ssize_t)flow->len;
		}
		flow->at += (size_t)n;
		flow->len -= (size_t)n;
	}
	return true;
}

/* One piece each way and turn: requests of init's are heard in between. */
void terminal_pump(struct terminal *t)
{
	if (drain(&t->in, &t->master) && fill(&t->in, &t->input))
		drain(&t->in, &t->master);
	if (drain(&t->out, &t->output) && fill(&t->out, &t->master))
		drain(&t->out, &t->output);
}

bool terminal_pump_last(struct terminal *t)
{
	/* Nobody will read what is typed now. */
	t->in.len = 0;
	close_fd(&t->input);
	while (drain(&t->out, &t->output)) {
		if (!t->last || !fill(&t->out, &t->master))
			return true;
		t->last -= t->out.len < t->last ? t->out.len : t->last;
	}
	return false;
}
