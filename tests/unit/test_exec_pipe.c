#include "daemon/exec_pipe.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

#define MANY   (200 * 1000)
#define HANG_S 30 /* SIGALRM then ends us: what is tested here fails by waiting */

static struct {
	uv_loop_t loop;
	struct exec_pipe pipe;
	int fds[2]; /* what init kept: the same open files as ours */
	size_t got, ends, rooms;
	bool is_closed;
	bool is_flooding; /* whatever is read is written again */
} t;

static void on_data(struct exec_pipe *pipe, struct str bytes)
{
	t.got += bytes.len;
	if (t.is_flooding)
		check(write(t.fds[1], bytes.at, bytes.len) == (ssize_t)bytes.len);
}

static void on_end(struct exec_pipe *pipe)
{
	t.ends++;
}

static void on_room(struct exec_pipe *pipe)
{
	t.rooms++;
}

static void on_closed(struct exec_pipe *pipe)
{
	t.is_closed = true;
}

static const struct exec_pipe_ops ops = {on_data, on_end, on_room, on_closed};

static void set_blocking(int fd)
{
	check(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0);
}

static void begin(bool is_reading)
{
	t.got = t.ends = t.rooms = 0;
	t.is_closed = t.is_flooding = false;
	check(uv_loop_init(&t.loop) == 0 && pipe2(t.fds, O_CLOEXEC) == 0);
	exec_pipe_init(&t.pipe, &t.loop, &ops, NULL);
	if (is_reading)
		exec_pipe_open_read(&t.pipe, fcntl(t.fds[0], F_DUPFD_CLOEXEC, 3));
	else
		exec_pipe_open_write(&t.pipe, fcntl(t.fds[1], F_DUPFD_CLOEXEC, 3));
	set_blocking(t.fds[0]);
	set_blocking(t.fds[1]);
	alarm(HANG_S);
}

static void end(const char *name)
{
	exec_pipe_close(&t.pipe);
	uv_run(&t.loop, UV_RUN_DEFAULT);
	check(t.is_closed && uv_loop_close(&t.loop) == 0);
	close(t.fds[0]);
	close(t.fds[1]);
	tap_ok(name);
}

static void test_read(void)
{
	begin(true);
	check(write(t.fds[1], "abc", 3) == 3);
	while (t.got < 3)
		uv_run(&t.loop, UV_RUN_ONCE);
	uv_run(&t.loop, UV_RUN_NOWAIT);
	check(t.got == 3 && t.ends == 0);
	end("reading waits for nothing though the file may wait");
}

static size_t swallow(size_t most)
{
	char bytes[4096];
	ssize_t n = read(t.fds[0], bytes, most < sizeof(bytes) ? most : sizeof(bytes));

	check(n > 0);
	return n > 0 ? (size_t)n : most;
}

/* Everything arrives, though never more than the pipe holds is written at once. */
static void swallow_all(size_t len)
{
	while (len) {
		uv_run(&t.loop, UV_RUN_NOWAIT);
		len -= swallow(len);
	}
}

static void write_many(void)
{
	static char bytes[MANY];

	exec_pipe_write(&t.pipe, (struct str){bytes, sizeof(bytes)});
	check(buf_len(&t.pipe.unwritten) > 0 && exec_pipe_is_open(&t.pipe));
	swallow_all(sizeof(bytes));
	check(buf_len(&t.pipe.unwritten) == 0);
}

static void test_write(void)
{
	begin(false);
	write_many();
	end("writing waits for nothing though the file may wait");
}

/* After a splice the kernel refuses RWF_NOWAIT on that file, as older kernels do on each pipe. */
static void test_write_spliced(void)
{
	int other[2];

	begin(false);
	check(pipe2(other, O_CLOEXEC) == 0 && write(other[1], "x", 1) == 1);
	check(splice(other[0], NULL, t.fds[1], NULL, 1, 0) == 1);
	check(swallow(1) == 1);
	write_many();
	close(other[0]);
	close(other[1]);
	end("writing waits for nothing where RWF_NOWAIT is not known");
}

static void test_fits(void)
{
	int sockets[2], file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	begin(true);
	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0 && file >= 0);
	check(exec_pipe_fits(t.fds[0], O_RDONLY) && exec_pipe_fits(t.fds[1], O_WRONLY));
	check(!exec_pipe_fits(t.fds[0], O_WRONLY) && !exec_pipe_fits(t.fds[1], O_RDONLY));
	check(!exec_pipe_fits(sockets[0], O_RDONLY) && !exec_pipe_fits(sockets[0], O_WRONLY));
	check(!exec_pipe_fits(file, O_RDONLY) && !exec_pipe_fits(-1, O_RDONLY));
	close(sockets[0]);
	close(sockets[1]);
	close(file);
	end("only the right end of a pipe will do");
}

static void test_drain(void)
{
	static char bytes[4096];

	begin(true);
	t.is_flooding = true;
	check(write(t.fds[1], bytes, sizeof(bytes)) == sizeof(bytes));
	exec_pipe_mark(&t.pipe);
	check(exec_pipe_drain(&t.pipe) && t.got == sizeof(bytes));
	exec_pipe_pause(&t.pipe);
	exec_pipe_mark(&t.pipe);
	check(!exec_pipe_drain(&t.pipe) && t.got == sizeof(bytes));
	exec_pipe_resume(&t.pipe);
	while (!t.ends)
		uv_run(&t.loop, UV_RUN_ONCE);
	check(t.ends == 1 && exec_pipe_drain(&t.pipe) && exec_pipe_is_open(&t.pipe));
	end("a flood does not move the end that was marked");
}

int main(void)
{
	test_read();
	test_write();
	test_write_spliced();
	test_fits();
	test_drain();
	return tap_done();
}
