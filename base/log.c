#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define LINE_MAX_BYTES 1024

static const char *const words[] = {"error", "warn", "info", "debug"};

/* The only state in base/: which lines are wanted (written by the loop thread), and what was lost.
 */
static enum log_level wanted = LOG_INFO_LEVEL;
static atomic_uint dropped;

int log_level_parse(struct str word, enum log_level *ret)
{
	for (size_t i = 0; i < array_len(words); i++) {
		if (str_eq(word, str_of(words[i]))) {
			*ret = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *log_level_name(size_t number)
{
	return number < array_len(words) ? words[number] : NULL;
}

void log_set_level(enum log_level level)
{
	wanted = level;
}

/*
 * A reader that stands still must not stop us: a pipe that polls as writable takes a line of this
 * size at once. O_NONBLOCK would be simpler, but belongs to everybody who shares the terminal.
 */
static bool can_write(void)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

	return poll(&p, 1, 0) > 0;
}

static size_t put_prefix(char line[LINE_MAX_BYTES], enum log_level level)
{
	struct timespec now;
	struct tm utc;
	size_t len;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	len = strftime(line, LINE_MAX_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
	return len + (size_t)snprintf(line + len, LINE_MAX_BYTES - len, ".%03ldZ %s ",
				      now.tv_nsec / 1000000, words[level]);
}

/* False if the log takes nothing now. One write, so that lines of several threads do not mix. */
static bool write_line(const char *line, size_t len)
{
	if (!can_write())
		return false;
	/* A log that is gone is not our end. */
	return write(STDERR_FILENO, line, len) >= 0 || errno != EAGAIN;
}

static bool tell_dropped(void)
{
	unsigned count = atomic_exchange(&dropped, 0);
	char line[LINE_MAX_BYTES];
	size_t len;

	if (!count)
		return true;
	len = put_prefix(line, LOG_WARN_LEVEL);
	len += (size_t)snprintf(line + len, sizeof(line) - len,
				"%u lines were dropped: nobody read the log\n", count);
	if (write_line(line, len))
		return true;
	atomic_fetch_add(&dropped, count);
	return false;
}

void log_line(enum log_level level, const char *format, ...)
{
	char line[LINE_MAX_BYTES];
	va_list args;
	size_t len;
	int n;

	if (level > wanted)
		return;
	len = put_prefix(line, level);
	va_start(args, format);
	n = vsnprintf(line + len, sizeof(line) - len - 1, format, args);
	va_end(args);
	if (n < 0)
		return;
	len += (size_t)n < sizeof(line) - len - 1 ? (size_t)n : sizeof(line) - len - 2;
	line[len++] = '\n';
	if (!tell_dropped() || !write_line(line, len))
		atomic_fetch_add(&dropped, 1);
}

size_t log_escape(struct str s, char *ret, size_t size)
{
	static const char hex[] = "0123456789abcdef";
	bool is_plain = s.len > 0;
	size_t n = 0;

	for (size_t i = 0; i < s.len && is_plain; i++) {
		unsigned char c = (unsigned char)s.at[i];

		is_plain = c > ' ' && c < 0x7f && c != '"' && c != '\\' && c != '=';
	}
	if (!is_plain)
		ret[n++] = '"';
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.at[i];

		if (n > size - 10) {
			memcpy(ret + n, "...", 3);
			n += 3;
			break;
		}
		if (c < ' ' || c >= 0x7f || c == '"' || c == '\\') {
			ret[n++] = '\\';
			ret[n++] = 'x';
			ret[n++] = hex[c >> 4];
			ret[n++] = hex[c & 15];
		} else {
			ret[n++] = (char)c;
		}
	}
	if (!is_plain)
		ret[n++] = '"';
	ret[n] = '\0';
	return n;
}

struct log_value log_value(struct str s)
{
	struct log_value v;

	v.text[0] = '\0';
	log_escape(s, v.text, sizeof(v.text));
	return v;
}
