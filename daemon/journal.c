#include "daemon/journal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

#include "base/cleanup.h"
#include "daemon/journal_file.h"

#define RECORD_MAX (256 * 1024)
#define DROP_MAX   (64 * 1024)

static_assert(sizeof(struct journal_header) == 16, "as it stands on disk");

/* --- files --- */

int journal_segment_open(const struct journal *j, uint64_t start, int flags)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%0*llu", j->path, SEGMENT_DIGITS,
		 (unsigned long long)start);
	fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? -errno : fd;
}

static void remove_segment(const struct journal *j, uint64_t start)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%0*llu", j->path, SEGMENT_DIGITS,
		 (unsigned long long)start);
	unlink(path);
}

static struct journal_segment *newest(struct journal *j)
{
	return &j->segments[j->segments_len - 1];
}

static uint64_t size_of(const struct journal *j)
{
	uint64_t size = 0;

	for (unsigned i = 0; i < j->segments_len; i++)
		size += j->segments[i].size;
	return size;
}

static void remove_oldest(struct journal *j)
{
	remove_segment(j, j->segments[0].start);
	j->segments_len--;
	memmove(j->segments, j->segments + 1, j->segments_len * sizeof(j->segments[0]));
}

static int add_segment(struct journal *j)
{
	uint64_t start;
	int fd;

	if (j->segments_len == SEGMENTS_MAX)
		remove_oldest(j);
	/* What was dropped is said in the new one. */
	start = j->end - j->dropped;
	fd = journal_segment_open(j, start, O_RDWR | O_CREAT | O_TRUNC);
	if (fd < 0)
		return fd;
	close_fdp(&j->fd);
	j->fd = fd;
	j->has_last = j->is_broken = false;
	j->segments[j->segments_len++] = (struct journal_segment){start, 0};
	return 0;
}

static uint64_t segment_max(const struct journal *j)
{
	return j->bound / SEGMENTS;
}

static size_t record_max(const struct journal *j)
{
	uint64_t most = segment_max(j) / 2;

	return most < RECORD_MAX ? (size_t)most : RECORD_MAX;
}

/* Room for one more record, by new segments and by leaving old ones. */
static int make_room(struct journal *j)
{
	uint64_t more = record_max(j) + 2 * sizeof(struct journal_header);
	int r = 0;

	if (newest(j)->size >= segment_max(j) || j->is_broken)
		r = add_segment(j);
	/* What we are short of for a moment is no reason to drop anything: the old one grows. */
	if ((r == -EMFILE || r == -ENFILE || r == -ENOMEM) && !j->is_broken &&
	    size_of(j) + more <= j->bound)
		r = 0;
	while (j->segments_len > 1 && size_of(j) + more > j->bound)
		remove_oldest(j);
	if (r == 0 && j->fd < 0) {
		r = journal_segment_open(j, newest(j)->start, O_RDWR);
		j->fd = r < 0 ? -1 : r;
	}
	return r < 0 ? r : 0;
}

/* --- opening --- */

int journal_header_at(const struct journal_header *h, off_t at, off_t size)
{
	off_t behind = at + (off_t)sizeof(*h);

	if (memcmp(h->magic, "BJ", 2) != 0 || h->zero || h->kind < JOURNAL_STDOUT ||
	    h->kind > JOURNAL_GAP)
		return 0;
	if (h->kind == JOURNAL_GAP)
		return h->length && behind <= size;
	return behind + (off_t)h->length <= size;
}

static int compare_segments(const void *a, const void *b)
{
	const struct journal_segment *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Another file than ours is left alone. */
static bool read_name(const char *name, uint64_t *ret)
{
	char *end;

	if (strlen(name) != SEGMENT_DIGITS || strspn(name, "0123456789") != SEGMENT_DIGITS)
		return false;
	errno = 0;
	*ret = strtoull(name, &end, 10);
	return errno == 0;
}

static void close_dirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* More than there can be are no journal's: the oldest go. */
static int find_segments(struct journal *j)
{
	cleanup(close_dirp) DIR *dir = opendir(j->path);
	struct dirent *entry;
	uint64_t start;
	struct stat st;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (!read_name(entry->d_name, &start) ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		if (j->segments_len == SEGMENTS_MAX) {
			qsort(j->segments, j->segments_len, sizeof(j->segments[0]),
			      compare_segments);
			if (start < j->segments[0].start) {
				remove_segment(j, start);
				continue;
			}
			remove_oldest(j);
		}
		j->segments[j->segments_len++] =
			(struct journal_segment){start, (uint64_t)st.st_size};
	}
	qsort(j->segments, j->segments_len, sizeof(j->segments[0]), compare_segments);
	return 0;
}

/* A record that was being written: its length is what came of it. Nothing came: it goes. */
static int mend_last(struct journal *j, off_t at, off_t size)
{
	off_t behind = at + (off_t)sizeof(j->last);

	if (size == behind)
		return ftruncate(j->fd, at) < 0 ? -errno : 1;
	j->last.length = (uint32_t)(size - behind);
	if (pwrite(j->fd, &j->last, sizeof(j->last), at) != (ssize_t)sizeof(j->last))
		return -EIO;
	return 0;
}

/* Walks the last segment to its end. What is behind the last record that makes sense is cut off. */
static int find_end(struct journal *j)
{
	struct journal_segment *segment = newest(j);
	off_t size = (off_t)segment->size, at = 0;
	struct journal_header h;
	int r;

	j->end = segment->start;
	while (at < size && pread(j->fd, &h, sizeof(h), at) == (ssize_t)sizeof(h) &&
	       journal_header_at(&h, at, size)) {
		j->last = h;
		j->last_at = at;
		if (!h.length) {
			r = mend_last(j, at, size);
			if (r < 0)
				return r;
			if (r > 0)
				break;
		}
		j->has_last = h.kind != JOURNAL_GAP;
		j->end += j->last.length;
		at += (off_t)sizeof(h) + (h.kind == JOURNAL_GAP ? 0 : (off_t)j->last.length);
	}
	if (at < size && ftruncate(j->fd, at) < 0)
		return -errno;
	segment->size = (uint64_t)at;
	return 0;
}

static int open_files(struct journal *j)
{
	int r;

	if (mkdir(j->path, 0700) < 0 && errno != EEXIST)
		return -errno;
	r = find_segments(j);
	if (r < 0 || !j->segments_len)
		return r < 0 ? r : add_segment(j);
	r = journal_segment_open(j, newest(j)->start, O_RDWR);
	if (r < 0)
		return r;
	j->fd = r;
	return find_end(j);
}

int journal_open(struct journal **ret, const char *path, uint64_t bound, struct err *err)
{
	struct journal *j = calloc(1, sizeof(*j));
	int r = -ENAMETOOLONG;

	if (!j)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	j->fd = -1;
	j->bound = bound < JOURNAL_BOUND_MIN ? JOURNAL_BOUND_MIN : bound;
	list_init(&j->followers);
	if (strlen(path) < sizeof(j->path)) {
		snprintf(j->path, sizeof(j->path), "%s", path);
		r = open_files(j);
	}
	if (r < 0) {
		journal_close(j);
		return err_set(err, r, r == -ENOSPC ? ERR_DISK_LIMIT : ERR_INTERNAL,
			       "its output cannot be kept in \"%s\": %s", path, strerror(-r));
	}
	*ret = j;
	return 0;
}

void journal_rest(struct journal *journal)
{
	close_fdp(&journal->fd);
	journal->fd = -1;
}

void journal_forget(struct journal *journal)
{
	journal_rest(journal);
	journal->is_gone = true;
}

void journal_close(struct journal *journal)
{
	journal_rest(journal);
	free(journal);
}

/* --- writing --- */

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int write_header(struct journal *j, const struct journal_header *h, off_t at)
{
	ssize_t n = pwrite(j->fd, h, sizeof(*h), at);

	if (n == (ssize_t)sizeof(*h))
		return 0;
	return n < 0 ? -errno : -ENOSPC;
}

/* What the disk had no room for, now that it has some. */
static int write_gap(struct journal *j)
{
	struct journal_header h = {"BJ", JOURNAL_GAP, 0, 0, now_ms()};
	int r;

	while (j->dropped) {
		h.length = j->dropped < UINT32_MAX ? (uint32_t)j->dropped : UINT32_MAX;
		r = write_header(j, &h, (off_t)newest(j)->size);
		if (r < 0)
			return r;
		newest(j)->size += sizeof(h);
		j->dropped -= h.length;
		j->has_last = false;
	}
	return 0;
}

/* The file's end is where we believe it to be, whatever a failed write left there. */
static void cut(struct journal *j)
{
	if (ftruncate(j->fd, (off_t)newest(j)->size) < 0)
		j->has_last = false;
}

static bool joins_last(const struct journal *j, enum journal_kind kind, int64_t time_ms)
{
	return j->has_last && j->last.kind == kind && j->last.time_ms == time_ms &&
	       j->last.length < record_max(j);
}

/* Behind a header that says nothing of them yet, so that they count from the moment they moved. */
static ssize_t move(struct journal *j, enum journal_kind kind, int pipe_fd)
{
	struct journal_segment *segment = newest(j);
	int64_t now = now_ms();
	bool is_joined = joins_last(j, kind, now);
	off_t at = is_joined ? j->last_at : (off_t)segment->size, to;
	struct journal_header h = {"BJ", kind, 0, 0, now};
	uint32_t before = is_joined ? j->last.length : 0;
	ssize_t n;
	int r;

	r = write_header(j, &h, at);
	if (r < 0) {
		cut(j);
		return r;
	}
	to = is_joined ? (off_t)segment->size : at + (off_t)sizeof(h);
	n = splice(pipe_fd, NULL, j->fd, &to, record_max(j), SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	n = n < 0 ? -errno : n;
	if (n <= 0 && !is_joined) {
		cut(j);
		return n;
	}
	h.length = before + (uint32_t)(n > 0 ? n : 0);
	if (n > 0) {
		segment->size = (uint64_t)(to);
		j->end += (uint64_t)n;
	} else {
		cut(j);
	}
	/* If even this fails, the file's length says it, as long as nothing is written behind. */
	j->has_last = write_header(j, &h, at) == 0;
	j->is_broken = !j->has_last;
	j->last = h;
	j->last_at = at;
	return n;
}

/* The process must not wait for a disk that may stay full. */
static ssize_t drop(struct journal *j, int pipe_fd)
{
	char bytes[DROP_MAX];
	struct iovec part = {bytes, sizeof(bytes)};
	ssize_t n = vmsplice(pipe_fd, &part, 1, SPLICE_F_NONBLOCK);

	if (n < 0)
		return -errno;
	j->dropped += (uint64_t)n;
	j->end += (uint64_t)n;
	return n;
}

/* 1: bytes are there; 0: and never will be; -EAGAIN. */
static int look(int pipe_fd)
{
	struct pollfd p = {.fd = pipe_fd, .events = POLLIN};

	if (poll(&p, 1, 0) < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	if (p.revents & POLLIN)
		return 1;
	return p.revents ? 0 : -EAGAIN;
}

static ssize_t try_move(struct journal *j, enum journal_kind kind, int pipe_fd)
{
	ssize_t n = make_room(j);

	if (n == 0)
		n = write_gap(j);
	return n < 0 ? n : move(j, kind, pipe_fd);
}

static bool is_full(ssize_t error)
{
	return error == -ENOSPC || error == -EDQUOT || error == -EFBIG;
}

static ssize_t move_or_drop(struct journal *j, enum journal_kind kind, int pipe_fd)
{
	ssize_t n = try_move(j, kind, pipe_fd);

	/* What is oldest goes before what is newest. */
	while (is_full(n) && j->segments_len > 1) {
		remove_oldest(j);
		n = try_move(j, kind, pipe_fd);
	}
	if (n < 0 && n != -EAGAIN && n != -EINTR)
		n = drop(j, pipe_fd);
	return n == -EINTR ? -EAGAIN : n;
}

ssize_t journal_pull(struct journal *j, enum journal_kind kind, int pipe_fd)
{
	ssize_t n = look(pipe_fd);

	if (n <= 0)
		return n;
	n = move_or_drop(j, kind, pipe_fd);
	if (n > 0)
		journal_tell(j);
	return n;
}

uint64_t journal_start(const struct journal *j)
{
	return j->segments[0].start;
}

uint64_t journal_end(const struct journal *j)
{
	return j->end;
}

void journal_follow(struct journal *j, struct journal_follower *follower)
{
	list_move(&j->followers, &follower->link);
}

void journal_tell(struct journal *j)
{
	struct list now;

	/* Whoever is told may leave, or send others away. */
	list_init(&now);
	while (!list_is_empty(&j->followers))
		list_move(&now, j->followers.next);
	while (!list_is_empty(&now)) {
		struct journal_follower *f = list_entry(now.next, struct journal_follower, link);

		list_move(&j->followers, &f->link);
		f->changed(f);
	}
}
