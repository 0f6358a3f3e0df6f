#include "daemon/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "daemon/journal_file.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

#define BOUND (1024 * 1024)

static struct journal *open_at(const char *name, uint64_t bound)
{
	struct journal *j = NULL;
	struct err err;

	if (journal_open(&j, scratch_path(name), bound, &err) < 0) {
		printf("Bail out! %s\n", err.sentence);
		exit(1);
	}
	return j;
}

/* A pipe that a test prints into. */
struct source {
	int ends[2];
};

static struct source source_open(void)
{
	struct source s;

	if (pipe2(s.ends, O_CLOEXEC | O_NONBLOCK) < 0)
		exit(1);
	fcntl(s.ends[0], F_SETPIPE_SZ, 1024 * 1024);
	return s;
}

static void source_close(struct source *s)
{
	close_fdp(&s->ends[0]);
	close_fdp(&s->ends[1]);
}

static void put(struct journal *j, enum journal_kind kind, const void *bytes, size_t len)
{
	struct source s = source_open();
	size_t moved = 0;
	ssize_t n;

	check(write(s.ends[1], bytes, len) == (ssize_t)len);
	while (moved < len && (n = journal_pull(j, kind, s.ends[0])) > 0)
		moved += (size_t)n;
	check(moved == len);
	source_close(&s);
}

static void put_text(struct journal *j, enum journal_kind kind, const char *text)
{
	put(j, kind, text, strlen(text));
}

/* All that a reader gets from there on; streams marked, gaps by their size. */
static char *text_from(struct journal *j, uint64_t cursor)
{
	static struct buf all;
	char room[JOURNAL_PIECE_MAX];
	struct journal_reader reader = {.cursor = cursor};
	struct journal_piece piece;
	unsigned kind = 0;

	buf_close(&all);
	buf_init(&all, 64 * 1024 * 1024);
	while (journal_read(j, &reader, room, &piece) == 1) {
		if (piece.kind == JOURNAL_GAP)
			buf_printf(&all, "<%llu>", (unsigned long long)piece.gap);
		else if (piece.kind != kind)
			buf_append(&all, piece.kind == JOURNAL_STDERR ? "2" : "1", 1);
		kind = piece.kind;
		buf_append_str(&all, piece.bytes);
	}
	check(reader.cursor == journal_end(j) || cursor > journal_end(j));
	buf_append(&all, "", 1);
	return (char *)buf_at(&all);
}

static void test_order(void)
{
	struct journal *j = open_at("order", BOUND);

	check(journal_start(j) == 0 && journal_end(j) == 0);
	check_str(text_from(j, 0), "");
	put_text(j, JOURNAL_STDOUT, "one\n");
	put_text(j, JOURNAL_STDERR, "two\n");
	put_text(j, JOURNAL_STDOUT, "three");
	check(journal_end(j) == 13);
	check_str(text_from(j, 0), "1one\n2two\n1three");
	check_str(text_from(j, 4), "2two\n1three");
	check_str(text_from(j, 6), "2o\n1three");
	check_str(text_from(j, 13), "");
	journal_close(j);
	j = open_at("order", BOUND);
	check(journal_end(j) == 13);
	put_text(j, JOURNAL_STDERR, "four");
	check_str(text_from(j, 0), "1one\n2two\n1three2four");
	journal_rest(j);
	put_text(j, JOURNAL_STDERR, "!");
	check_str(text_from(j, 13), "2four!");
	journal_close(j);
	tap_ok("streams keep their order, and come back after a restart");
}

static void test_pipe_ends(void)
{
	struct journal *j = open_at("ends", BOUND);
	struct source s = source_open();

	check(journal_pull(j, JOURNAL_STDOUT, s.ends[0]) == -EAGAIN);
	check(write(s.ends[1], "x", 1) == 1);
	close(take_fd(&s.ends[1]));
	check(journal_pull(j, JOURNAL_STDOUT, s.ends[0]) == 1);
	check(journal_pull(j, JOURNAL_STDOUT, s.ends[0]) == 0);
	check_str(text_from(j, 0), "1x");
	source_close(&s);
	journal_close(j);
	tap_ok("nothing there, and the end of a pipe");
}

/* As a berthd leaves it that is killed at a point of its work. */
static void leave(const char *name, off_t keep, const char *more, bool length_is_open)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%020d", scratch_path(name), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	check(fd >= 0 && ftruncate(fd, keep) == 0);
	if (length_is_open)
		check(pwrite(fd, "\0\0\0\0", 4, 4) == 4);
	check(pwrite(fd, more, strlen(more), keep) == (ssize_t)strlen(more));
	close(fd);
}

static void test_killed(void)
{
	struct journal *j = open_at("killed", BOUND);

	put_text(j, JOURNAL_STDOUT, "hello");
	journal_close(j);
	leave("killed", 16 + 5, "", true);
	j = open_at("killed", BOUND);
	check(journal_end(j) == 5);
	check_str(text_from(j, 0), "1hello");
	put_text(j, JOURNAL_STDERR, "more");
	check_str(text_from(j, 0), "1hello2more");
	journal_close(j);
	tap_ok("killed between the bytes and their length: nothing is lost");

	j = open_at("killed-joining", BOUND);
	put_text(j, JOURNAL_STDOUT, "hello");
	journal_close(j);
	leave("killed-joining", 16 + 5, " world", true);
	j = open_at("killed-joining", BOUND);
	check(journal_end(j) == 11);
	check_str(text_from(j, 0), "1hello world");
	journal_close(j);
	tap_ok("killed while a record grew");

	leave("killed-joining", 16, "", true);
	j = open_at("killed-joining", BOUND);
	check(journal_end(j) == 0);
	put_text(j, JOURNAL_STDERR, "again");
	check_str(text_from(j, 0), "2again");
	journal_close(j);
	tap_ok("killed between the header and the bytes");

	leave("killed-joining", 16 + 5, "BJ\1", false);
	j = open_at("killed-joining", BOUND);
	check(journal_end(j) == 5);
	put_text(j, JOURNAL_STDERR, "!");
	journal_close(j);
	j = open_at("killed-joining", BOUND);
	check_str(text_from(j, 0), "2again!");
	journal_close(j);
	tap_ok("half a header is cut off");
}

static void test_damaged(void)
{
	char noise[512];
	struct journal *j;

	memset(noise, 0xee, sizeof(noise));
	check(mkdir(scratch_path("damaged"), 0700) == 0);
	for (int i = 0; i < 40; i++) {
		char name[64];

		snprintf(name, sizeof(name), "damaged/%020d", i * 100);
		scratch_write(scratch_path(name), noise, (size_t)i * 10);
	}
	scratch_write(scratch_path("damaged/readme"), noise, 10);
	scratch_write(scratch_path("damaged/99999999999999999999"), noise, 10);
	j = open_at("damaged", BOUND);
	check(journal_end(j) == 3900);
	put_text(j, JOURNAL_STDOUT, "sound");
	check(strstr(text_from(j, 0), "sound") != NULL);
	check(access(scratch_path("damaged/readme"), F_OK) == 0);
	journal_close(j);
	tap_ok("what is damaged is passed over as a gap");
}

static unsigned char byte_at(uint64_t i)
{
	return (unsigned char)((i * 2654435761u) >> 13);
}

static uint64_t check_bytes(struct journal *j, uint64_t from)
{
	char room[JOURNAL_PIECE_MAX];
	struct journal_reader reader = {.cursor = from};
	struct journal_piece piece;
	uint64_t gap = 0;

	while (journal_read(j, &reader, room, &piece) == 1) {
		uint64_t first = reader.cursor - piece.bytes.len;
		bool is_same = true;

		gap += piece.gap;
		for (size_t i = 0; i < piece.bytes.len; i++)
			is_same = is_same && (unsigned char)room[i] == byte_at(first + i);
		check(is_same);
	}
	check(reader.cursor == journal_end(j));
	return gap;
}

static uint64_t disk_size(const struct journal *j)
{
	uint64_t size = 0;

	for (unsigned i = 0; i < j->segments_len; i++)
		size += j->segments[i].size;
	return size;
}

static rlim_t newest_size(const struct journal *j)
{
	return j->segments[j->segments_len - 1].size;
}

static void test_rotation(void)
{
	struct journal *j = open_at("rotation", BOUND);
	char block[7001];
	uint64_t total = 0;

	while (total < 10 * BOUND) {
		size_t len = 1 + total % sizeof(block);

		for (size_t i = 0; i < len; i++)
			block[i] = (char)byte_at(total + i);
		put(j, total % 3 ? JOURNAL_STDOUT : JOURNAL_STDERR, block, len);
		total += len;
		check(disk_size(j) <= BOUND);
		if (total > 2 * BOUND)
			check(journal_end(j) - journal_start(j) >= BOUND / 2);
	}
	check(journal_end(j) == total);
	check(check_bytes(j, 0) == journal_start(j));
	check(check_bytes(j, journal_start(j)) == 0);
	check(check_bytes(j, journal_start(j) + 12345) == 0);
	journal_close(j);
	j = open_at("rotation", BOUND);
	check(journal_end(j) == total && check_bytes(j, 0) == journal_start(j));
	journal_close(j);
	tap_ok("the oldest goes, and at least half of the bound stays");
}

static void test_cursors(void)
{
	static const uint64_t hostile[] = {1, 15, 16, 17, 1000, UINT32_MAX, INT64_MAX, UINT64_MAX};
	struct journal *j = open_at("cursors", BOUND);
	char room[JOURNAL_PIECE_MAX];
	struct journal_piece piece;
	char fake[200];

	/* Output that looks like records, and is not. */
	for (size_t i = 0; i < sizeof(fake); i++)
		fake[i] = "BJ\1\0\377\377\377\177"[i % 8];
	put(j, JOURNAL_STDOUT, fake, sizeof(fake));
	for (size_t i = 0; i < array_len(hostile); i++) {
		struct journal_reader reader = {.cursor = hostile[i]};
		int r = journal_read(j, &reader, room, &piece);

		check(r == (hostile[i] < sizeof(fake)));
		if (r == 1) {
			check(piece.kind == JOURNAL_STDOUT);
			check(piece.bytes.len == sizeof(fake) - hostile[i]);
			check(memcmp(piece.bytes.at, fake + hostile[i], piece.bytes.len) == 0);
		}
	}
	/* A reader that is sent back and forth. */
	for (uint64_t i = 0, at = 7; i < 1000; i++, at = (at * 31 + 11) % sizeof(fake)) {
		static struct journal_reader reader;

		reader.cursor = at;
		check(journal_read(j, &reader, room, &piece) == 1);
		check(memcmp(piece.bytes.at, fake + at, piece.bytes.len) == 0);
	}
	journal_close(j);
	tap_ok("any cursor is safe, also inside of output that looks like records");
}

static struct {
	struct journal *j;
	struct journal_follower follower;
	struct journal_reader reader;
	uint64_t got, gap;
	unsigned calls;
	bool leaves;
} followers[3];

static void on_changed(struct journal_follower *follower)
{
	char room[JOURNAL_PIECE_MAX];
	struct journal_piece piece;

	for (size_t i = 0; i < array_len(followers); i++) {
		if (follower != &followers[i].follower)
			continue;
		followers[i].calls++;
		while (journal_read(followers[i].j, &followers[i].reader, room, &piece) == 1) {
			followers[i].got += piece.bytes.len;
			followers[i].gap += piece.gap;
		}
		/* It goes, and sends the one behind it away. */
		if (followers[i].leaves) {
			list_remove(&follower->link);
			list_remove(&followers[i + 1].follower.link);
		}
	}
}

static void test_followers(void)
{
	struct journal *j = open_at("followers", BOUND);

	put_text(j, JOURNAL_STDOUT, "before");
	for (size_t i = 0; i < array_len(followers); i++) {
		followers[i].j = j;
		followers[i].follower.changed = on_changed;
		list_init(&followers[i].follower.link);
		journal_follow(j, &followers[i].follower);
	}
	followers[1].leaves = true;
	put_text(j, JOURNAL_STDERR, "then");
	put_text(j, JOURNAL_STDERR, "and then");
	check(followers[0].calls >= 2 && followers[0].got == 18);
	check(followers[1].calls == 1 && followers[1].got == 10);
	check(followers[2].calls == 0);
	list_remove(&followers[0].follower.link);
	for (int i = 0; i < 400; i++)
		put(j, JOURNAL_STDOUT, (char[8000]){0}, 8000);
	journal_follow(j, &followers[0].follower);
	journal_tell(j);
	check(followers[0].gap > 0 && followers[0].got + followers[0].gap == journal_end(j));
	list_remove(&followers[0].follower.link);
	journal_close(j);
	tap_ok("followers get everything once, or are told how much they missed");
}

/* Whatever the child was doing when it was killed: what it took from the pipe is in the journal. */
static void test_killed_for_real(void)
{
	struct source s = source_open();
	uint64_t written = 0;
	struct journal *j;

	for (int round = 0; round < 40; round++) {
		char block[4093];
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			j = open_at("really", 64 * BOUND);
			for (;;)
				journal_pull(j, JOURNAL_STDOUT, s.ends[0]);
		}
		for (int i = 0; i < 50 + round; i++) {
			ssize_t n;

			for (size_t k = 0; k < sizeof(block); k++)
				block[k] = (char)byte_at(written + k);
			n = write(s.ends[1], block, sizeof(block));
			written += n > 0 ? (uint64_t)n : 0;
		}
		kill(pid, SIGKILL);
		check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	}
	j = open_at("really", 64 * BOUND);
	while (journal_pull(j, JOURNAL_STDERR, s.ends[0]) > 0)
		;
	check(journal_end(j) == written && written > 1000000);
	check(check_bytes(j, 0) == 0);
	journal_close(j);
	source_close(&s);
	tap_ok("kill -9 at any moment loses and repeats no byte");
}

static void put_numbered(struct journal *j, uint64_t *total, uint64_t until)
{
	char block[5000];

	while (*total < until) {
		for (size_t i = 0; i < sizeof(block); i++)
			block[i] = (char)byte_at(*total + i);
		put(j, JOURNAL_STDOUT, block, sizeof(block));
		*total += sizeof(block);
	}
}

/* A file that may not grow is as good as a disk that is full. */
static void test_full(void)
{
	struct rlimit before, small;
	struct journal *j = open_at("full", BOUND);
	uint64_t total = 0, gap;

	signal(SIGXFSZ, SIG_IGN);
	while (j->segments_len < 4 || newest_size(j) > 20000)
		put_numbered(j, &total, total + 1);
	check(check_bytes(j, 0) == 0);
	check(getrlimit(RLIMIT_FSIZE, &before) == 0);
	small = (struct rlimit){newest_size(j) + 20000, before.rlim_max};
	check(setrlimit(RLIMIT_FSIZE, &small) == 0);
	put_numbered(j, &total, 900 * 1000);
	check(setrlimit(RLIMIT_FSIZE, &before) == 0);
	/* As many bytes as were printed are accounted for, kept or not; what is oldest went first.
	 */
	check(journal_end(j) == total && j->segments_len == 1);
	gap = check_bytes(j, 0);
	check(gap > 800 * 1000 && gap < total);
	/* Room again: what was dropped is said, and what comes is kept. */
	put_numbered(j, &total, 950 * 1000);
	check(check_bytes(j, 900 * 1000) == 0);
	journal_close(j);
	j = open_at("full", BOUND);
	check(journal_end(j) == total && check_bytes(j, 0) == gap);
	journal_close(j);
	tap_ok("a full disk: the process goes on, and what was dropped is said");
}

static void limit_files(rlim_t most)
{
	struct rlimit files;

	check(getrlimit(RLIMIT_NOFILE, &files) == 0);
	files.rlim_cur = most;
	check(setrlimit(RLIMIT_NOFILE, &files) == 0);
}

/* No descriptor is free meanwhile: what is kept is not said to be gone, and nothing is dropped. */
static void test_no_files(void)
{
	struct journal *j = open_at("files", BOUND);
	struct source s = source_open();
	struct journal_reader reader = {.cursor = 0};
	struct journal_piece piece;
	static char room[JOURNAL_PIECE_MAX], more[JOURNAL_BOUND_MIN];
	struct rlimit before;
	uint64_t total = 0;
	ssize_t n;

	check(getrlimit(RLIMIT_NOFILE, &before) == 0);
	put_numbered(j, &total, BOUND / 8);
	for (size_t i = 0; i < sizeof(more); i++)
		more[i] = (char)byte_at(total + i);
	check(write(s.ends[1], more, sizeof(more)) == (ssize_t)sizeof(more));
	limit_files(3);
	check(journal_read(j, &reader, room, &piece) == -EMFILE && reader.cursor == 0);
	while ((n = journal_pull(j, JOURNAL_STDOUT, s.ends[0])) > 0)
		total += (uint64_t)n;
	limit_files(before.rlim_cur);
	check(total == journal_end(j) && check_bytes(j, 0) == 0);
	put_numbered(j, &total, total + BOUND / 8);
	check(j->segments_len > 1 && check_bytes(j, 0) == 0);
	source_close(&s);
	journal_close(j);
	tap_ok("without a descriptor nothing is lost, nor said to be");
}

static void test_forgotten(void)
{
	struct journal *old = open_at("name", BOUND), *new;
	char path[PATH_MAX];

	put_text(old, JOURNAL_STDOUT, "old bytes");
	snprintf(path, sizeof(path), "%s-gone", scratch_path("name"));
	check(rename(scratch_path("name"), path) == 0);
	journal_forget(old);
	new = open_at("name", BOUND);
	put_text(new, JOURNAL_STDOUT, "new bytes");
	check_str(text_from(old, 4), "<5>");
	check_str(text_from(new, 0), "1new bytes");
	journal_close(old);
	journal_close(new);
	tap_ok("a reader of what was removed does not get what is in its place");
}

int main(void)
{
	scratch_make();
	test_order();
	test_pipe_ends();
	test_killed();
	test_damaged();
	test_rotation();
	test_cursors();
	test_followers();
	test_killed_for_real();
	test_full();
	test_no_files();
	test_forgotten();
	return tap_done();
}
