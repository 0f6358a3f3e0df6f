#include "base/log.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/tap.h"

/* Puts a pipe in stderr's place. Returns the end to read from. */
static int pipe_stderr(void)
{
	int fds[2];

	check(pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
	check(fcntl(fds[1], F_SETFL, 0) == 0); /* its writer is to block, if it writes */
	check(dup2(fds[1], STDERR_FILENO) == STDERR_FILENO);
	close(fds[1]);
	return fds[0];
}

static size_t read_all(int fd, char *bytes, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len + 1 < size && (n = read(fd, bytes + len, size - 1 - len)) > 0)
		len += (size_t)n;
	bytes[len] = '\0';
	return len;
}

static void test_line(void)
{
	int fd = pipe_stderr();
	char text[4096];

	log_warn("it rains where=%s", log_value(STR("in \x1b[1m Bergen")).text);
	log_debug("not wanted");
	read_all(fd, text, sizeof(text));
	check(strstr(text, "Z warn it rains where=\"in \\x1b[1m Bergen\"\n"));
	check(!strstr(text, "not wanted"));
	close(fd);
	tap_ok("a line is written");
}

static void test_full_pipe(void)
{
	static char text[1 << 20];
	int fd = pipe_stderr();
	unsigned lines = 0, dropped = 0;
	const char *told;

	alarm(20); /* a write that waits ends the test */
	for (int i = 0; i < 5000; i++)
		log_info("line number %d of those that nobody reads", i);
	read_all(fd, text, sizeof(text));
	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	check(lines > 100 && lines < 5000 && strstr(text, "line number 0 "));
	log_info("and on");
	read_all(fd, text, sizeof(text));
	told = strstr(text, " warn ");
	check(told && sscanf(told, " warn %u lines were dropped", &dropped) == 1);
	check(lines + dropped == 5000);
	check(strstr(text, "info and on\n"));
	log_info("again");
	read_all(fd, text, sizeof(text));
	check(strstr(text, "again") && !strstr(text, "dropped"));
	alarm(0);
	close(fd);
	tap_ok("a pipe that nobody reads stops nothing, and the loss is told");
}

static void test_no_reader(void)
{
	signal(SIGPIPE, SIG_IGN);
	close(pipe_stderr());
	log_info("nobody hears this");
	close(STDERR_FILENO);
	log_info("nor this");
	tap_ok("a log that is gone is no end");
}

int main(void)
{
	test_line();
	test_full_pipe();
	test_no_reader();
	return tap_done();
}
