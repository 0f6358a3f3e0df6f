#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define LINE_MAX_BYTES 1024

static const char *const words[] = {"error", "warn", "info", "debug"};

/* The one piece of state in base/: which lines are wanted. Written by the loop thread only. */
static enum log_level wanted = LOG_INFO_LEVEL;

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

void log_set_level(enum log_level level)
{
	wanted = level;
}

void log_line(enum log_level level, const char *format, ...)
{
	char line[LINE_MAX_BYTES];
	struct timespec now;
	struct tm utc;
	va_list args;
	size_t len;
	int n;

	if (level > wanted)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	len = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &utc);
	len += (size_t)snprintf(line + len, sizeof(line) - len, ".%03ldZ %s ",
				now.tv_nsec / 1000000, words[level]);
	va_start(args, format);
	n = vsnprintf(line + len, sizeof(line) - len - 1, format, args);
	va_end(args);
	if (n < 0)
		return;
	len += (size_t)n < sizeof(line) - len - 1 ? (size_t)n : sizeof(line) - len - 2;
	line[len++] = '\n';
	/* One write, so that lines of several threads do not mix; a log that is gone is not our
	 * end. */
	if (write(STDERR_FILENO, line, len) < 0)
		return;
}

struct log_value log_value(struct str s)
{
	static const char hex[] = "0123456789abcdef";
	struct log_value v;
	bool is_plain = s.len > 0;
	size_t n = 0;

	for (size_t i = 0; i < s.len && is_plain; i++) {
		unsigned char c = (unsigned char)s.at[i];

		is_plain = c > ' ' && c < 0x7f && c != '"' && c != '\\' && c != '=';
	}
	if (!is_plain)
		v.text[n++] = '"';
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.at[i];

		if (n > sizeof(v.text) - 10) {
			memcpy(v.text + n, "...", 3);
			n += 3;
			break;
		}
		if (c < ' ' || c >= 0x7f || c == '"' || c == '\\') {
			v.text[n++] = '\\';
			v.text[n++] = 'x';
			v.text[n++] = hex[c >> 4];
			v.text[n++] = hex[c & 15];
		} else {
			v.text[n++] = (char)c;
		}
	}
	if (!is_plain)
		v.text[n++] = '"';
	v.text[n] = '\0';
	return v;
}
