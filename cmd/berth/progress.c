#include "cmd/berth/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cmd/berth/screen.h"

#define FIRST_MS   300 /* what is done sooner needs no line */
#define EVERY_MS   100
#define NAME_WIDTH 20
#define BAR_WIDTH  20
#define COLUMNS    80

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void progress_init(struct progress *p)
{
	*p = (struct progress){0};
}

void progress_start(struct progress *p, const char *name, uint64_t total)
{
	*p = (struct progress){.is_wanted = isatty(STDERR_FILENO),
			       .name = name,
			       .total = total,
			       .started_ms = now_ms()};
	p->drawn_ms = p->started_ms + FIRST_MS - EVERY_MS;
}

static int columns(void)
{
	struct winsize size = {0};

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : COLUMNS;
}

/* "[====>     ]  42 %", or nothing if the whole is not known. */
static void print_bar(const struct progress *p, char *line, size_t size)
{
	/* An archive is a little more than the files in it. */
	uint64_t done = p->done < p->total ? p->done : p->total;
	double part = p->total ? (double)done / (double)p->total : 0;
	int filled = (int)(part * BAR_WIDTH);

	line[0] = '\0';
	if (p->total)
		snprintf(line, size, "[%.*s%*s] %3d %%  ", filled,
			 "====================", BAR_WIDTH - filled, "", (int)(part * 100));
}

static void draw(struct progress *p, uint64_t now)
{
	double rate = (double)p->done * 1000 / (double)(now - p->started_ms);
	char bar[64], left[64] = "", line[512];

	print_bar(p, bar, sizeof(bar));
	if (p->total > p->done && rate > 0)
		snprintf(left, sizeof(left), "  %.40s left",
			 screen_duration(
				 (unsigned long long)((double)(p->total - p->done) / rate * 1000))
				 .text);
	/* What the bar says is not said again: all of it fits into 80 columns. */
	if (!p->total)
		snprintf(bar, sizeof(bar), "%.20s  ", screen_bytes(p->done).text);
	snprintf(line, sizeof(line), "%-*.*s  %s%.20s/s%s", NAME_WIDTH, NAME_WIDTH,
		 screen_text(str_of(p->name)).text, bar,
		 screen_bytes((unsigned long long)rate).text, left);
	/* A line that wraps could not be drawn over. */
	fprintf(stderr, "\r%.*s\033[K", columns() - 1, line);
	p->is_drawn = true;
	p->drawn_ms = now;
}

void progress_add(struct progress *p, size_t bytes)
{
	uint64_t now;

	p->done += bytes;
	if (!p->is_wanted)
		return;
	now = now_ms();
	if (now >= p->drawn_ms + EVERY_MS)
		draw(p, now);
}

void progress_end(struct progress *p)
{
	if (p->is_drawn)
		fputs("\r\033[K", stderr);
	*p = (struct progress){0};
}
