#include "daemon/metrics.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LABELS_MAX 256 /* with a NUL */
#define DIGITS_MAX 20

static const char *const types[] = {
	[METRIC_COUNTER] = "counter",
	[METRIC_GAUGE] = "gauge",
};

void metrics_init(struct metrics *m)
{
	*m = (struct metrics){.family = ""};
	buf_init(&m->text, METRICS_MAX);
}

void metrics_close(struct metrics *m)
{
	buf_close(&m->text);
}

void metrics_family(struct metrics *m, const char *name, enum metric_type type, const char *help)
{
	m->family = name;
	if (buf_printf(&m->text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, types[type]) < 0)
		m->is_cut = true;
}

/* There may be ten thousand in one answer: what is a constant, or a number, is put by hand. */
static char *put(char *at, const char *bytes, size_t len)
{
	memcpy(at, bytes, len);
	return at + len;
}

static char *put_uint(char *at, uint64_t value)
{
	char digits[DIGITS_MAX];
	size_t n = sizeof(digits);

	do {
		digits[--n] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	return put(at, digits + n, sizeof(digits) - n);
}

static char *put_ms(char *at, uint64_t ms)
{
	unsigned rest = (unsigned)(ms % 1000);
	char digits[] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
			 (char)('0' + rest % 10)};

	return put(put_uint(at, ms / 1000), digits, sizeof(digits));
}

__attribute__((format(printf, 4, 0))) static void sample(struct metrics *m, uint64_t value,
							 char *(*write)(char *at, uint64_t value),
							 const char *labels, va_list args)
{
	size_t len = strlen(m->family);
	char *room = buf_room(&m->text, len + LABELS_MAX + DIGITS_MAX + 8), *at = room;
	int n;

	if (!room) {
		m->is_cut = true;
		return;
	}
	at = put(at, m->family, len);
	n = vsnprintf(at + 1, LABELS_MAX, labels, args);
	if (n < 0 || n >= LABELS_MAX) {
		m->is_cut = true;
		return;
	}
	if (n) {
		*at = '{';
		at = put(at + 1 + n, "}", 1);
	}
	*at++ = ' ';
	at = write(at, value);
	*at++ = '\n';
	buf_added(&m->text, (size_t)(at - room));
}

void metrics_sample(struct metrics *m, uint64_t value, const char *labels, ...)
{
	va_list args;

	va_start(args, labels);
	sample(m, value, put_uint, labels, args);
	va_end(args);
}

void metrics_sample_ms(struct metrics *m, uint64_t ms, const char *labels, ...)
{
	va_list args;

	va_start(args, labels);
	sample(m, ms, put_ms, labels, args);
	va_end(args);
}
