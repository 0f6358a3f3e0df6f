#include "daemon/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

static const struct access_entry plain = {
	.client = {"192.0.2.7", 9},
	.sandbox = {"box", 3},
	.port = 8000,
	.method = {"GET", 3},
	.path = {"/a/b", 4},
	.status = 200,
	.bytes_out = 512,
	.duration_us = 1830,
};

static const char *line_of(const struct access_entry *e)
{
	static char line[ACCESS_LINE_MAX + 1];
	size_t len = access_entry_format(e, 1769860800250, line);

	line[len] = '\0';
	return line;
}

/* Behind "path=", up to the status. */
static const char *path_in(struct str path)
{
	static char text[ACCESS_LINE_MAX + 1];
	struct access_entry e = plain;
	char *end;

	e.path = path;
	snprintf(text, sizeof(text), "%s", strstr(line_of(&e), "path=") + 5);
	end = strstr(text, " status=200 bytes_in=");
	if (end)
		*end = '\0';
	return text;
}

static void test_line(void)
{
	struct access_entry e = plain;

	check_str(line_of(&e), "2026-01-31T12:00:00.250Z client=192.0.2.7 sandbox=box port=8000 "
			       "method=GET path=/a/b status=200 bytes_in=0 bytes_out=512 "
			       "duration_us=1830 upgrade=0\n");
	e.is_upgrade = true;
	e.status = 101;
	e.bytes_in = UINT64_MAX;
	check(strstr(line_of(&e), " status=101 bytes_in=18446744073709551615 "));
	check(strstr(line_of(&e), " upgrade=1\n"));
	tap_ok("a line");
}

static void test_escapes(void)
{
	check_str(path_in(STR("/a b")), "\"/a b\"");
	check_str(path_in(STR("/a=b")), "\"/a=b\"");
	check_str(path_in(STR("/\" status=500")), "\"/\\x22 status=500\"");
	check_str(path_in(STR("/\r\n2026 client=x")), "\"/\\x0d\\x0a2026 client=x\"");
	check_str(path_in(STR("/\x1b]0;x\x07\x9b\x7f")), "\"/\\x1b]0;x\\x07\\x9b\\x7f\"");
	check_str(path_in(STR("/\xc3\xa4\\x22")), "\"/\\xc3\\xa4\\x5cx22\"");
	check_str(path_in(STR("/\0x")), "\"/\\x00x\"");
	tap_ok("no byte of a path breaks a line, a value or a terminal");
}

static void test_secrets(void)
{
	check_str(path_in(STR("/login?token=secret")), "/login");
	check_str(path_in(STR("/?")), "/");
	check_str(path_in(STR("http://8000-box-token.localhost/a")), "-");
	check_str(path_in(STR("8000-box-token.localhost:80")), "-");
	check_str(path_in(STR("?token=secret")), "-");
	check_str(path_in(STR("")), "-");
	check_str(path_in(STR("*")), "*");
	tap_ok("neither a query nor a host is written");
}

static void test_long(void)
{
	static char bytes[ACCESS_LINE_MAX * 4];
	struct str all = {bytes, sizeof(bytes)};
	struct access_entry e = {.client = all, .sandbox = all, .method = all, .path = all};
	const char *line;

	for (int c = 0; c < 256; c++) {
		memset(bytes, c, sizeof(bytes));
		bytes[0] = '/';
		line = line_of(&e);
		check(strlen(line) < ACCESS_LINE_MAX &&
		      strchr(line, '\n') == strchr(line, '\0') - 1);
		for (const char *p = line; *p && *p != '\n'; p++)
			check(*p >= ' ' && *p < 0x7f);
	}
	e.status = -1;
	e.port = UINT16_MAX;
	e.bytes_in = e.bytes_out = e.duration_us = UINT64_MAX;
	check(strstr(line_of(&e), "...\" status=-1 ") && strstr(line_of(&e), " upgrade=0\n"));
	tap_ok("whatever is long is cut, and the rest of the line is there");
}

/* --- the file --- */

static size_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? 0 : (size_t)st.st_size;
}

static unsigned lines_of(const char *path)
{
	static char bytes[1 << 20];
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
	unsigned lines = 0;

	check(n >= 0 && (n == 0 || bytes[n - 1] == '\n'));
	for (ssize_t i = 0, start = 0; i < n; i++) {
		if (bytes[i] != '\n')
			continue;
		check(strncmp(bytes + start, "20", 2) == 0);
		check(memmem(bytes + start, (size_t)(i - start), " upgrade=0", 10));
		start = i + 1;
		lines++;
	}
	return lines;
}

static void test_buffer(uv_loop_t *loop)
{
	const char *path = scratch_path("buffer");
	struct access_log *log = NULL;
	struct stat st;
	struct err err;
	unsigned sum = 0;

	umask(0);
	check(access_log_open(&log, loop, path, &err) == 0);
	check(stat(path, &st) == 0 && (st.st_mode & 07777) == 0640);
	access_log_add(log, &plain);
	check(size_of(path) == 0);
	uv_run(loop, UV_RUN_DEFAULT); /* until its timer has run, and no longer */
	check(lines_of(path) == 1);
	for (sum = 1; size_of(path) < 1000; sum++)
		access_log_add(log, &plain);
	check(size_of(path) >= ACCESS_BUFFER_MAX / 2 && lines_of(path) == sum);
	access_log_add(log, &plain);
	access_log_close(log);
	uv_run(loop, UV_RUN_DEFAULT);
	check(lines_of(path) == sum + 1);
	check(access_log_open(&log, loop, path, &err) == 0);
	access_log_add(log, &plain);
	access_log_close(log);
	uv_run(loop, UV_RUN_DEFAULT);
	check(lines_of(path) == sum + 2);
	access_log_add(NULL, &plain);
	tap_ok("lines are written after a while, when there are many, and at the end");
}

static void test_reopen(uv_loop_t *loop)
{
	const char *path = scratch_path("reopen"), *moved = scratch_path("reopen.1");
	struct access_log *log = NULL;
	struct err err;

	check(access_log_open(&log, loop, path, &err) == 0);
	access_log_add(log, &plain);
	check(rename(path, moved) == 0);
	check(access_log_reopen(log, path, &err) == 0);
	check(lines_of(moved) == 1 && lines_of(path) == 0);
	access_log_add(log, &plain);
	access_log_add(log, &plain);
	check(access_log_reopen(log, scratch_path("no/such"), &err) == -ENOENT);
	check(strstr(err.sentence, "no/such"));
	access_log_close(log);
	uv_run(loop, UV_RUN_DEFAULT);
	check(lines_of(moved) == 1 && lines_of(path) == 2);
	tap_ok("a file that was moved away is left with what was for it");
}

static void test_refused(uv_loop_t *loop)
{
	const char *fifo = scratch_path("fifo");
	struct access_log *log = NULL;
	struct err err;

	check(mkfifo(fifo, 0600) == 0);
	alarm(20);
	check(access_log_open(&log, loop, fifo, &err) < 0);
	check(access_log_open(&log, loop, "/dev/null", &err) == -EINVAL);
	check(access_log_open(&log, loop, scratch_dir, &err) == -EISDIR && !log);
	alarm(0);
	tap_ok("only a file is one");
}

/* A file that may not grow stands for a full disk: a line is cut in its middle. */
static void test_full(uv_loop_t *loop)
{
	const char *path = scratch_path("full");
	struct rlimit before, limit;
	struct access_log *log = NULL;
	struct err err;
	unsigned lines;

	signal(SIGXFSZ, SIG_IGN);
	check(getrlimit(RLIMIT_FSIZE, &before) == 0);
	limit = (struct rlimit){1000, before.rlim_max};
	check(access_log_open(&log, loop, path, &err) == 0);
	check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	for (int i = 0; i < 1000; i++)
		access_log_add(log, &plain);
	uv_run(loop, UV_RUN_DEFAULT);
	check(size_of(path) == 1000);
	check(setrlimit(RLIMIT_FSIZE, &before) == 0);
	access_log_add(log, &plain);
	uv_run(loop, UV_RUN_DEFAULT);
	lines = lines_of(path);
	check(lines > 1 && lines < 20);
	check(access_log_dropped(log) == 1001 - lines);
	access_log_close(log);
	uv_run(loop, UV_RUN_DEFAULT);
	tap_ok("what cannot be written is dropped and counted, and no line stays half");
}

int main(void)
{
	uv_loop_t loop;

	scratch_make();
	uv_loop_init(&loop);
	test_line();
	test_escapes();
	test_secrets();
	test_long();
	test_buffer(&loop);
	test_reopen(&loop);
	test_refused(&loop);
	test_full(&loop);
	check(uv_loop_close(&loop) == 0);
	return tap_done();
}
