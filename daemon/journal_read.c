/* Reading a journal, by a cursor that may be anybody's. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/journal_file.h"

/* Where the reader looks for headers: many small records come with one read. */
struct window {
	char bytes[32 * 1024];
	off_t at;
	ssize_t len;
};

static bool read_header(struct window *w, int fd, off_t at, struct journal_header *ret)
{
	if (at < w->at || at + (off_t)sizeof(*ret) > w->at + w->len) {
		w->at = at;
		w->len = pread(fd, w->bytes, sizeof(w->bytes), at);
	}
	if (w->len < (ssize_t)sizeof(*ret))
		return false;
	memcpy(ret, w->bytes + (at - w->at), sizeof(*ret));
	return true;
}

static unsigned find_segment(const struct journal *j, uint64_t cursor)
{
	unsigned i = j->segments_len - 1;

	while (i > 0 && j->segments[i].start > cursor)
		i--;
	return i;
}

/* Of the segment: the cursor behind its last byte. */
static uint64_t end_of(const struct journal *j, unsigned i)
{
	return i + 1 < j->segments_len ? j->segments[i + 1].start : j->end;
}

static int give_gap(struct journal_reader *reader, uint64_t to, int64_t time_ms,
		    struct journal_piece *ret)
{
	*ret = (struct journal_piece){
		.kind = JOURNAL_GAP,
		.gap = to - reader->cursor,
		.time_ms = time_ms,
		.is_record_end = true,
	};
	reader->cursor = to;
	return 1;
}

/* The record that holds the cursor's byte, from where the reader was: 1; 0 if none does. */
static int find_record(int fd, off_t size, struct journal_reader *reader,
		       struct journal_header *ret)
{
	struct window w;

	w.at = 0;
	w.len = 0;
	while (reader->at < size && read_header(&w, fd, reader->at, ret) &&
	       journal_header_at(ret, reader->at, size)) {
		if (!ret->length)
			ret->length = (uint32_t)(size - reader->at - (off_t)sizeof(*ret));
		if (reader->cursor < reader->record + ret->length)
			return 1;
		reader->record += ret->length;
		reader->at += (off_t)sizeof(*ret);
		reader->at += ret->kind == JOURNAL_GAP ? 0 : (off_t)ret->length;
	}
	return 0;
}

static int give_bytes(int fd, struct journal_reader *reader, const struct journal_header *h,
		      char *room, struct journal_piece *ret)
{
	uint64_t skipped = reader->cursor - reader->record, left = h->length - skipped;
	size_t n = left < JOURNAL_PIECE_MAX ? (size_t)left : JOURNAL_PIECE_MAX;
	ssize_t got = pread(fd, room, n, reader->at + (off_t)sizeof(*h) + (off_t)skipped);

	if (got <= 0)
		return got < 0 ? -errno : -EIO;
	*ret = (struct journal_piece){
		.kind = h->kind,
		.time_ms = h->time_ms,
		.bytes = {room, (size_t)got},
		.is_record_end = (uint64_t)got == left,
	};
	reader->cursor += (uint64_t)got;
	return 1;
}

static int read_segment(const struct journal *j, unsigned i, struct journal_reader *reader,
			char *room, struct journal_piece *ret)
{
	const struct journal_segment *segment = &j->segments[i];
	cleanup_fd int fd = journal_segment_open(j, segment->start, O_RDONLY);
	struct journal_header h;

	if (fd == -ENOENT)
		return give_gap(reader, end_of(j, i), 0, ret);
	if (fd < 0)
		return fd;
	if (!reader->is_found || reader->segment != segment->start ||
	    reader->record > reader->cursor) {
		reader->segment = reader->record = segment->start;
		reader->at = 0;
		reader->is_found = true;
	}
	/* Damaged, or dropped and not yet said: what cannot be found is a gap. */
	if (find_record(fd, (off_t)segment->size, reader, &h) == 0)
		return give_gap(reader, end_of(j, i), 0, ret);
	if (h.kind == JOURNAL_GAP)
		return give_gap(reader, reader->record + h.length, h.time_ms, ret);
	return give_bytes(fd, reader, &h, room, ret);
}

int journal_read(struct journal *j, struct journal_reader *reader, char *room,
		 struct journal_piece *ret)
{
	if (reader->cursor < journal_start(j))
		return give_gap(reader, journal_start(j), 0, ret);
	if (reader->cursor >= j->end)
		return 0;
	if (j->is_gone)
		return give_gap(reader, j->end, 0, ret);
	return read_segment(j, find_segment(j, reader->cursor), reader, room, ret);
}
