/*
 * What a process has said, on disk: both of its streams as one sequence of records, so that their
 * order and time are kept and one number says how far somebody has read. That number, the cursor,
 * counts bytes of output from the very first: any number is safe to ask for.
 *
 *	<path>/00000000000000000000    segments, each named by the cursor of its first byte
 *	<path>/00000000000004194240    ... the last one is written to
 *
 *	record:  "BJ" kind 0 | length | time in ms | `length` bytes        (2+1+1, 4, 8, then bytes)
 *
 * A record is begun with length 0, then the bytes are moved behind it from the pipe, then the
 * length is written: a berthd that is killed in between finds by the file's length what was moved,
 * and nothing is lost. When the bound is passed, the oldest segment goes; at least half of the
 *bound is always kept. What the disk has no room for is dropped, and a record says how much.
 *
 * Readers hold no file open, so a slow one keeps nothing from being removed: it is told how many
 * bytes it has missed. Replay and live are the same reading, so there is no seam between them.
 */
#ifndef BERTH_DAEMON_JOURNAL_H
#define BERTH_DAEMON_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"

#define JOURNAL_BOUND_MIN (64 * 1024)
#define JOURNAL_PIECE_MAX (48 * 1024) /* of output in one journal_read() */

struct journal;

enum journal_kind { JOURNAL_STDOUT = 1, JOURNAL_STDERR, JOURNAL_GAP };

/* Somebody who wants to know when there is more to read, or that nothing more will come. */
struct journal_follower {
	struct list link;
	void (*changed)(struct journal_follower *follower);
};

/* Opens it, or makes it with its directory, whose parent is there. `bound` is of bytes on disk. */
int journal_open(struct journal **ret, const char *path, uint64_t bound, struct err *err);
void journal_close(struct journal *journal);
/* It is not written to for now: its file is closed until the next byte. */
void journal_rest(struct journal *journal);
/* Its directory was removed: what nobody has read yet is missed, and nothing will be written. */
void journal_forget(struct journal *journal);

/*
 * Moves what the pipe holds, at most some of it. Bytes moved or dropped; 0 at its end; -EAGAIN when
 * nothing is there now; -EIO, ... if even dropping fails.
 */
ssize_t journal_pull(struct journal *journal, enum journal_kind kind, int pipe_fd);

/* The cursors of the first byte that is kept, and of the next one to come. */
uint64_t journal_start(const struct journal *journal);
uint64_t journal_end(const struct journal *journal);

void journal_follow(struct journal *journal, struct journal_follower *follower);
/* Tells all followers; journal_pull() does it by itself. */
void journal_tell(struct journal *journal);

struct journal_reader {
	uint64_t cursor; /* of the next byte; the owner may set it at any time */
	/* Where that was found the last time. */
	uint64_t segment, record;
	off_t at;
	bool is_found;
};

struct journal_piece {
	enum journal_kind kind; /* JOURNAL_GAP: `gap` bytes are not there any more */
	uint64_t gap;
	int64_t time_ms;
	struct str bytes; /* in the caller's room */
	bool is_record_end;
};

/*
 * The next piece, and the cursor moves behind it. 1; 0: nothing more now; negative: it cannot be
 * read. `room` has JOURNAL_PIECE_MAX bytes.
 */
int journal_read(struct journal *journal, struct journal_reader *reader, char *room,
		 struct journal_piece *ret);

#endif
