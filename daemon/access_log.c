#include "daemon/access_log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "proto/time_text.h"

#define MODE         0640
#define CLIENT_SIZE  96 /* of each value, escaped and with its NUL */
#define SANDBOX_SIZE 96
#define METHOD_SIZE  64
#define PATH_SIZE    1536

static_assert(CLIENT_SIZE + SANDBOX_SIZE + METHOD_SIZE + PATH_SIZE + 240 <= ACCESS_LINE_MAX,
	      "names, numbers and the time fit, too");
static_assert(ACCESS_BUFFER_MAX / 2 + ACCESS_LINE_MAX <= ACCESS_BUFFER_MAX,
	      "a line fits until it is half full");

struct access_log {
	uv_timer_t timer; /* runs while there is something to write */
	int fd;
	uint64_t dropped;
	uint64_t told; /* of those */
	bool is_failing;
	size_t len;
	size_t torn; /* of these, the rest of a line of which a part is in the file */
	char bytes[ACCESS_BUFFER_MAX];
};

/* --- a line --- */

/* Only a path: the target of a request may also name a host. */
static struct str path_of(struct str target)
{
	struct str path = str_cut(&target, '?');

	if (path.len > 0 && (path.at[0] == '/' || str_eq(path, STR("*"))))
		return path;
	return STR("-");
}

size_t access_entry_format(const struct access_entry *e, int64_t at_ms, char ret[ACCESS_LINE_MAX])
{
	char at[TIME_TEXT_SIZE] = "-", client[CLIENT_SIZE], sandbox[SANDBOX_SIZE];
	char method[METHOD_SIZE], path[PATH_SIZE];
	int n;

	time_text_format(at_ms, at);
	log_escape(e->client, client, sizeof(client));
	log_escape(e->sandbox, sandbox, sizeof(sandbox));
	log_escape(e->method, method, sizeof(method));
	log_escape(path_of(e->path), path, sizeof(path));
	n = snprintf(ret, ACCESS_LINE_MAX,
		     "%s client=%s sandbox=%s port=%u method=%s path=%s status=%d "
		     "bytes_in=%" PRIu64 " bytes_out=%" PRIu64 " duration_us=%" PRIu64
		     " upgrade=%d\n",
		     at, client, sandbox, e->port, method, path, e->status, e->bytes_in,
		     e->bytes_out, e->duration_us, e->is_upgrade);
	assert(n > 0 && n < ACCESS_LINE_MAX);
	return (size_t)n;
}

/* --- the file --- */

static void consume(struct access_log *log, size_t len)
{
	const char *end;
	bool is_torn = len > 0 && log->bytes[len - 1] != '\n';

	log->len -= len;
	memmove(log->bytes, log->bytes + len, log->len);
	end = is_torn ? memchr(log->bytes, '\n', log->len) : NULL;
	log->torn = end ? (size_t)(end - log->bytes) + 1 : 0;
}

/* Whole lines only: the rest of one that has begun is what the file needs next. */
static void drop(struct access_log *log)
{
	for (size_t i = log->torn; i < log->len; i++)
		log->dropped += log->bytes[i] == '\n';
	log->len = log->torn;
}

static void fail(struct access_log *log, int error)
{
	drop(log);
	if (!log->is_failing)
		log_error("the access log cannot be written, and its lines are dropped: %s",
			  strerror(error));
	log->is_failing = true;
}

static void recover(struct access_log *log)
{
	if (!log->is_failing)
		return;
	log_info("the access log can be written again lines_dropped=%" PRIu64,
		 log->dropped - log->told);
	log->told = log->dropped;
	log->is_failing = false;
}

static void flush(struct access_log *log)
{
	uv_timer_stop(&log->timer);
	while (log->len > 0) {
		ssize_t n = write(log->fd, log->bytes, log->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			fail(log, n < 0 ? errno : EIO);
			return;
		}
		consume(log, (size_t)n);
	}
	recover(log);
}

static void on_timer(uv_timer_t *timer)
{
	flush(container_of(timer, struct access_log, timer));
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void access_log_add(struct access_log *log, const struct access_entry *e)
{
	if (!log)
		return;
	log->len += access_entry_format(e, now_ms(), log->bytes + log->len);
	if (log->len >= ACCESS_BUFFER_MAX / 2)
		flush(log);
	else if (!uv_is_active((uv_handle_t *)&log->timer))
		uv_timer_start(&log->timer, on_timer, ACCESS_FLUSH_MS, 0);
}

uint64_t access_log_dropped(const struct access_log *log)
{
	return log->dropped;
}

/* A FIFO or a device could make the loop wait. */
static int open_file(const char *path, int *ret_fd, struct err *err)
{
	cleanup_fd int fd =
		open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, MODE);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, ERR_FORBIDDEN,
			       "the access log \"%s\" cannot be opened: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the access log \"%s\" is not a regular file", path);
	*ret_fd = take_fd(&fd);
	return 0;
}

int access_log_open(struct access_log **ret, uv_loop_t *loop, const char *path, struct err *err)
{
	struct access_log *log = calloc(1, sizeof(*log));
	int r;

	if (!log)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	r = open_file(path, &log->fd, err);
	if (r < 0) {
		free(log);
		return r;
	}
	uv_timer_init(loop, &log->timer);
	*ret = log;
	return 0;
}

int access_log_reopen(struct access_log *log, const char *path, struct err *err)
{
	int fd = -1, r = open_file(path, &fd, err);

	if (r < 0)
		return r;
	flush(log);
	log->dropped += log->torn > 0;
	log->len = log->torn = 0;
	close(log->fd);
	log->fd = fd;
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	free(container_of((uv_timer_t *)handle, struct access_log, timer));
}

void access_log_close(struct access_log *log)
{
	flush(log);
	close(log->fd);
	uv_close((uv_handle_t *)&log->timer, on_closed);
}
