/* What the files of a journal share: journal.c writes, journal_read.c reads. */
#ifndef BERTH_DAEMON_JOURNAL_FILE_H
#define BERTH_DAEMON_JOURNAL_FILE_H

#include <limits.h>

#include "daemon/journal.h"

#define SEGMENTS       8 /* that the bound is divided into */
#define SEGMENTS_MAX   (SEGMENTS + 4)
#define SEGMENT_DIGITS 20

struct journal_header {
	char magic[2];
	uint8_t kind;
	uint8_t zero;
	uint32_t length; /* 0: to the end of the file */
	int64_t time_ms;
};

struct journal_segment {
	uint64_t start; /* the cursor of its first byte, and its name */
	uint64_t size;  /* of the file */
};

struct journal {
	char path[PATH_MAX - 32];
	uint64_t bound;
	struct journal_segment segments[SEGMENTS_MAX]; /* oldest first; at least one */
	unsigned segments_len;
	uint64_t end;     /* cursor */
	uint64_t dropped; /* before `end`: no record says so yet */
	int fd;           /* of the last segment; -1: closed */
	/* The last record of the last segment, if `has_last`: more of its kind and time joins it.
	 */
	bool has_last;
	bool is_broken; /* its length could not be written: nothing may come behind it */
	bool is_gone;   /* its files: at their path there may be another's */
	struct journal_header last;
	off_t last_at;
	struct list followers;
};

/* The header at `at`, checked against the file's size: 1; 0 at the end or where nonsense begins. */
int journal_header_at(const struct journal_header *header, off_t at, off_t size);
int journal_segment_open(const struct journal *journal, uint64_t start, int flags);

#endif
