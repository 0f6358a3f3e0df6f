#include "cmd/berth/screen.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proto/utf8.h"

#define NAME_WIDTH 18

static bool is_colourful(FILE *file)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fileno(file)) && !(no_color && *no_color) && term && strcmp(term, "dumb");
}

const char *screen_tint(FILE *file, enum tint tint)
{
	static const char *const codes[] = {
		[TINT_NONE] = "\033[0m", [TINT_GOOD] = "\033[32m", [TINT_WARN] = "\033[33m",
		[TINT_BAD] = "\033[31m", [TINT_DIM] = "\033[2m",
	};

	return is_colourful(file) ? codes[tint] : "";
}

/* One that is no ASCII, whole; or a byte that is no UTF-8, "?" if it is a control. */
static size_t put_character(char *out, const struct str *s, size_t *at)
{
	unsigned char first = (unsigned char)s->at[*at];
	size_t len = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

	if (s->len - *at < len || utf8_valid_len((struct str){s->at + *at, len}) < len) {
		*out = first < 0xa0 ? '?' : (char)first;
		return 1;
	}
	memcpy(out, s->at + *at, len);
	*at += len - 1;
	return len;
}

struct screen_text screen_text(struct str s)
{
	struct screen_text ret;
	size_t n = 0;

	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.at[i];

		if (n > sizeof(ret.text) - 8) {
			memcpy(ret.text + n, "...", 3);
			n += 3;
			break;
		}
		/* C1 controls are two bytes in UTF-8, c2 80..9f, and one byte elsewhere: there are
		 * terminals that obey either. */
		if (c == 0xc2 && i + 1 < s.len && (unsigned char)s.at[i + 1] < 0xa0) {
			ret.text[n++] = '?';
			i++;
		} else if (c >= 0x80) {
			n += put_character(ret.text + n, &s, &i);
		} else {
			ret.text[n++] = c < ' ' || c == 0x7f ? '?' : (char)c;
		}
	}
	ret.text[n] = '\0';
	return ret;
}

void screen_row(const char *name, const char *format, ...)
{
	va_list args;

	printf("%s%-*s%s ", screen_tint(stdout, TINT_DIM), NAME_WIDTH, name,
	       screen_tint(stdout, TINT_NONE));
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

struct screen_text screen_bytes(unsigned long long bytes)
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
	double value = (double)bytes;
	struct screen_text ret;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < array_len(units)) {
		value /= 1024;
		unit++;
	}
	/* 1 KiB, but 15.6 GiB: no digit that says nothing. */
	if (value == (double)(unsigned long long)value)
		snprintf(ret.text, sizeof(ret.text), "%.0f %s", value, units[unit]);
	else
		snprintf(ret.text, sizeof(ret.text), "%.1f %s", value, units[unit]);
	return ret;
}

struct screen_text screen_duration(unsigned long long ms)
{
	unsigned long long s = ms / 1000;
	struct screen_text ret;

	if (s >= 86400)
		snprintf(ret.text, sizeof(ret.text), "%llu d %llu h", s / 86400, s % 86400 / 3600);
	else if (s >= 3600)
		snprintf(ret.text, sizeof(ret.text), "%llu h %llu min", s / 3600, s % 3600 / 60);
	else if (s >= 60)
		snprintf(ret.text, sizeof(ret.text), "%llu min %llu s", s / 60, s % 60);
	else
		snprintf(ret.text, sizeof(ret.text), "%llu s", s);
	return ret;
}

void screen_error(const char *format, ...)
{
	int error = errno; /* for a "%m" in the format */
	va_list args;

	fflush(stdout);
	fprintf(stderr, "%sberth:%s ", screen_tint(stderr, TINT_BAD),
		screen_tint(stderr, TINT_NONE));
	va_start(args, format);
	errno = error;
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}
