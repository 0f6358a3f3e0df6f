#include "daemon/store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <sqlite3.h>

#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

struct bed {
	uv_loop_t loop;
	struct store *store;
};

/* An operation that runs one statement, perhaps fails after it, and says when it is done. */
struct op {
	struct store_op base;
	char sql[128];
	int fail_with;
	int *done_count;
	int done_at; /* the how-manieth it was */
	int64_t number;
};

static int open_bed(struct bed *bed, const char *path, enum store_sync sync, struct err *err)
{
	int r;

	check(uv_loop_init(&bed->loop) == 0);
	r = store_open(&bed->store, &bed->loop, path, sync, err);
	if (r < 0) {
		uv_run(&bed->loop, UV_RUN_DEFAULT);
		check(uv_loop_close(&bed->loop) == 0);
	}
	return r;
}

static void close_bed(struct bed *bed)
{
	store_close(bed->store);
	uv_run(&bed->loop, UV_RUN_DEFAULT);
	check(uv_loop_close(&bed->loop) == 0);
}

static int on_row(void *arg, int count, char **values, char **names)
{
	*(int64_t *)arg = values[0] ? atoll(values[0]) : -1;
	return 0;
}

static int op_work(struct store_op *base, struct sqlite3 *db)
{
	struct op *op = container_of(base, struct op, base);

	if (sqlite3_exec(db, op->sql, on_row, &op->number, NULL) != SQLITE_OK)
		return store_fail(base, db, "testing");
	return op->fail_with;
}

static void op_done(struct store_op *base)
{
	struct op *op = container_of(base, struct op, base);

	op->done_at = ++*op->done_count;
}

__attribute__((format(printf, 3, 4))) static void op_init(struct op *op, int *done_count,
							  const char *format, ...)
{
	va_list args;

	memset(op, 0, sizeof(*op));
	op->base.work = op_work;
	op->base.done = op_done;
	op->done_count = done_count;
	va_start(args, format);
	vsnprintf(op->sql, sizeof(op->sql), format, args);
	va_end(args);
}

static void run_until(struct bed *bed, const int *done_count, int wanted)
{
	while (*done_count < wanted)
		uv_run(&bed->loop, UV_RUN_ONCE);
}

/* Runs one statement to its end; the number that it selected is left in `op`. */
static int run_sql(struct bed *bed, struct op *op, const char *sql)
{
	int done = 0;

	op_init(op, &done, "%s", sql);
	check(store_submit(bed->store, &op->base) == 0);
	check(done == 0);
	run_until(bed, &done, 1);
	op->done_count = NULL;
	return op->base.result;
}

static int64_t select_number(struct bed *bed, const char *sql)
{
	struct op op;

	check(run_sql(bed, &op, sql) == 0);
	return op.number;
}

static void open_facts(struct bed *bed, const char *path, enum store_sync sync)
{
	struct err err = {0};
	struct op op;

	if (open_bed(bed, path, sync, &err) != 0) {
		printf("Bail out! %s\n", err.sentence);
		exit(1);
	}
	check(run_sql(bed, &op,
		      "CREATE TABLE IF NOT EXISTS fact (n INTEGER PRIMARY KEY, b BLOB)") == 0);
}

static void test_instance(void)
{
	const char *path = scratch_path("instance.db");
	struct err err = {0};
	struct bed bed;
	struct stat st;
	char name[64];

	open_facts(&bed, path, STORE_SYNC_NORMAL);
	check(strlen(store_instance(bed.store)) == 26);
	check(strspn(store_instance(bed.store), "abcdefghijklmnopqrstuvwxyz234567") == 26);
	snprintf(name, sizeof(name), "%s", store_instance(bed.store));
	check(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
	check(stat(scratch_path("instance.db-wal"), &st) == 0 && (st.st_mode & 07777) == 0600);
	check(select_number(&bed, "PRAGMA user_version") == 17);
	check(select_number(&bed, "PRAGMA foreign_keys") == 1);
	check(select_number(&bed, "SELECT value > '2020' FROM meta WHERE key = 'created_at'") == 1);
	close_bed(&bed);
	check(chmod(path, 0644) == 0);
	check(open_bed(&bed, path, STORE_SYNC_FULL, &err) == 0);
	check_str(store_instance(bed.store), name);
	check(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
	close_bed(&bed);
	check(open_bed(&bed, scratch_path("other.db"), STORE_SYNC_NORMAL, &err) == 0);
	check(strcmp(store_instance(bed.store), name) != 0);
	close_bed(&bed);
	tap_ok("the instance is made once and kept; the files are 0600");
}

/* Many at once: their order, and that a failure in between takes only its own facts along. */
static void test_many(enum store_sync sync, const char *name)
{
	enum { COUNT = 2000 };
	struct op *ops = calloc(COUNT, sizeof(*ops));
	struct bed bed;
	int done = 0, wrong = 0;

	unlink(scratch_path("many.db"));
	open_facts(&bed, scratch_path("many.db"), sync);
	for (int i = 0; i < COUNT; i++) {
		op_init(&ops[i], &done, "INSERT INTO fact SELECT %d, count(*) FROM fact", i);
		if (i % 10 == 3)
			ops[i].fail_with = -ECANCELED;
		if (i % 10 == 7) /* a key that is taken */
			snprintf(ops[i].sql, sizeof(ops[i].sql), "INSERT INTO fact VALUES (0, 0)");
		wrong += store_submit(bed.store, &ops[i].base) != 0;
	}
	run_until(&bed, &done, COUNT);
	for (int i = 0; i < COUNT; i++) {
		int expected = i % 10 == 3 ? -ECANCELED : i % 10 == 7 ? -EIO : 0;

		wrong += ops[i].done_at != i + 1;
		wrong += ops[i].base.result != expected;
		wrong += (ops[i].base.err.code == ERR_NONE) != (expected == 0);
	}
	check(wrong == 0);
	check(strstr(ops[7].base.err.sentence, "testing: UNIQUE"));
	check(select_number(&bed, "SELECT count(*) FROM fact") == COUNT / 10 * 8);
	check(select_number(&bed, "SELECT count(*) FROM fact WHERE n % 10 IN (3, 7)") == 0);
	/* Each saw exactly those before it. */
	check(select_number(&bed, "SELECT count(*) FROM fact WHERE b != n - (n / 10) * 2 - "
				  "(n % 10 > 3) - (n % 10 > 7)") == 0);
	close_bed(&bed);
	free(ops);
	tap_ok(name);
}

static void test_queue_limit(void)
{
	struct op *ops = calloc(STORE_QUEUE_MAX + 1, sizeof(*ops));
	struct bed bed;
	struct err err;
	int done = 0, refused = 0;

	open_facts(&bed, scratch_path("limit.db"), STORE_SYNC_NORMAL);
	for (int i = 0; i <= STORE_QUEUE_MAX; i++) {
		op_init(&ops[i], &done, "SELECT 1");
		if (store_submit(bed.store, &ops[i].base) == -EBUSY)
			refused += i == STORE_QUEUE_MAX ? 1 : 1000;
	}
	check(refused == 1);
	close_bed(&bed); /* which waits for them */
	check(done == STORE_QUEUE_MAX && ops[STORE_QUEUE_MAX].done_at == 0);
	check(store_refuse(&err, -EBUSY) == -EBUSY && err.code == ERR_UNAVAILABLE);
	check(strstr(err.sentence, "too much is being stored"));
	check(store_refuse(&err, -ESHUTDOWN) == -ESHUTDOWN && err.code == ERR_UNAVAILABLE);
	check(strstr(err.sentence, "berthd is stopping"));
	free(ops);
	tap_ok("the queue has a limit; closing waits for all that is in it");
}

struct chain {
	struct op op;
	struct bed *bed;
	int left;
};

static void chain_done(struct store_op *base)
{
	struct chain *chain = container_of(base, struct chain, op.base);

	if (--chain->left > 0)
		check(store_submit(chain->bed->store, base) == 0);
}

static void test_submit_from_done(void)
{
	struct chain chain = {.left = 100};
	struct bed bed;

	open_facts(&bed, scratch_path("chain.db"), STORE_SYNC_NORMAL);
	op_init(&chain.op, NULL, "INSERT INTO fact DEFAULT VALUES");
	chain.op.base.done = chain_done;
	chain.bed = &bed;
	check(store_submit(bed.store, &chain.op.base) == 0);
	close_bed(&bed);
	check(chain.left == 0);
	open_facts(&bed, scratch_path("chain.db"), STORE_SYNC_NORMAL);
	check(select_number(&bed, "SELECT count(*) FROM fact") == 100);
	close_bed(&bed);
	tap_ok("what is submitted while closing is done too");
}

static void close_done(struct store_op *base)
{
	struct chain *chain = container_of(base, struct chain, op.base);

	op_done(base);
	store_close(chain->bed->store);
}

static void test_close_from_done(void)
{
	struct chain chain = {0};
	struct bed bed;
	struct op ops[10];
	int done = 0;

	open_facts(&bed, scratch_path("close.db"), STORE_SYNC_NORMAL);
	op_init(&chain.op, &done, "SELECT 1");
	chain.op.base.done = close_done;
	chain.bed = &bed;
	check(store_submit(bed.store, &chain.op.base) == 0);
	for (int i = 0; i < 10; i++) {
		op_init(&ops[i], &done, "SELECT 1");
		check(store_submit(bed.store, &ops[i].base) == 0);
	}
	uv_run(&bed.loop, UV_RUN_DEFAULT);
	check(done == 11 && ops[9].done_at == 11);
	check(uv_loop_close(&bed.loop) == 0);
	tap_ok("the store may be closed from an operation's end");
}

static uint64_t now_ms(void)
{
	return uv_hrtime() / 1000000;
}

static void test_busy(void)
{
	enum { COUNT = 100 };
	struct op ops[COUNT];
	struct bed bed;
	sqlite3 *other;
	uint64_t start;
	int done = 0, wrong = 0;

	open_facts(&bed, scratch_path("busy.db"), STORE_SYNC_NORMAL);
	check(sqlite3_open(scratch_path("busy.db"), &other) == SQLITE_OK);
	check(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL) == SQLITE_OK);
	start = now_ms();
	for (int i = 0; i < COUNT; i++) {
		op_init(&ops[i], &done, "INSERT INTO fact DEFAULT VALUES");
		check(store_submit(bed.store, &ops[i].base) == 0);
	}
	run_until(&bed, &done, COUNT);
	for (int i = 0; i < COUNT; i++)
		wrong += ops[i].base.result != -EBUSY || ops[i].base.err.code != ERR_UNAVAILABLE;
	check(wrong == 0);
	/* Waited for once, not by each of them. */
	check(now_ms() - start >= 1900 && now_ms() - start < 20000);
	check(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK);
	check(run_sql(&bed, &ops[0], "INSERT INTO fact DEFAULT VALUES") == 0);
	check(select_number(&bed, "SELECT count(*) FROM fact") == 1);
	sqlite3_close(other);
	close_bed(&bed);
	tap_ok("another program's lock is waited for, then said; then all goes on");
}

/* In a child, because it waits as long as test_busy() does. */
static pid_t start_busy_open(void)
{
	const char *path = scratch_path("busy-open.db");
	struct err err = {0};
	struct bed bed;
	sqlite3 *other;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	check(sqlite3_open(path, &other) == SQLITE_OK);
	check(sqlite3_exec(other, "BEGIN EXCLUSIVE; CREATE TABLE t (a)", NULL, NULL, NULL) ==
	      SQLITE_OK);
	check(open_bed(&bed, path, STORE_SYNC_NORMAL, &err) == -EBUSY);
	check(err.code == ERR_UNAVAILABLE && strstr(err.sentence, "another program holds a lock"));
	sqlite3_close(other);
	fflush(stdout);
	_exit(tap_case_failed);
}

static void test_busy_open(pid_t pid)
{
	int status = -1;

	check(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	tap_ok("a database that another program has locked is said at the start");
}

#define INSERT_BLOB "INSERT INTO fact (b) VALUES (randomblob(20000))"

/* Inserts until it fails for want of room; how many went in. */
static int fill_up(struct bed *bed, struct op *op)
{
	int n = 0;

	while (n < 1000 && run_sql(bed, op, INSERT_BLOB) == 0)
		n++;
	check(op->base.result == -ENOSPC && op->base.err.code == ERR_DISK_LIMIT);
	check(strstr(op->base.err.sentence, "no room left"));
	return n;
}

static void test_full_pages(void)
{
	struct bed bed;
	struct op op;
	int n;

	open_facts(&bed, scratch_path("pages.db"), STORE_SYNC_NORMAL);
	check(run_sql(&bed, &op, "PRAGMA max_page_count = 100") == 0);
	n = fill_up(&bed, &op);
	check(n > 5 && select_number(&bed, "SELECT count(*) FROM fact") == n);
	check(run_sql(&bed, &op, "UPDATE meta SET value = value") == 0);
	check(run_sql(&bed, &op, "DELETE FROM fact WHERE n = 1") == 0);
	check(run_sql(&bed, &op, INSERT_BLOB) == 0);
	check(run_sql(&bed, &op, INSERT_BLOB) == -ENOSPC);
	check(run_sql(&bed, &op, "PRAGMA max_page_count = 10000") == 0);
	check(run_sql(&bed, &op, INSERT_BLOB) == 0);
	check(select_number(&bed, "SELECT count(*) FROM fact") == n + 1);
	close_bed(&bed);
	tap_ok("a full database says so, keeps what it has, and goes on when there is room");
}

static void test_full_disk(enum store_sync sync, const char *name)
{
	struct rlimit before, tight;
	struct bed bed;
	struct op op;
	int n;

	unlink(scratch_path("disk.db"));
	open_facts(&bed, scratch_path("disk.db"), sync);
	signal(SIGXFSZ, SIG_IGN);
	check(getrlimit(RLIMIT_FSIZE, &before) == 0);
	tight = before;
	tight.rlim_cur = 400000;
	check(setrlimit(RLIMIT_FSIZE, &tight) == 0);
	n = fill_up(&bed, &op);
	check(n > 5 && select_number(&bed, "SELECT count(*) FROM fact") == n);
	check(setrlimit(RLIMIT_FSIZE, &before) == 0);
	check(run_sql(&bed, &op, INSERT_BLOB) == 0);
	close_bed(&bed);
	open_facts(&bed, scratch_path("disk.db"), sync);
	check(select_number(&bed, "SELECT count(*) FROM fact") == n + 1);
	close_bed(&bed);
	tap_ok(name);
}

static size_t slurp(const char *path, char **ret)
{
	FILE *file = fopen(path, "rbe");
	struct stat st;

	if (!file || fstat(fileno(file), &st) < 0)
		exit(1);
	*ret = malloc((size_t)st.st_size + 1);
	if (fread(*ret, 1, (size_t)st.st_size, file) != (size_t)st.st_size)
		exit(1);
	fclose(file);
	return (size_t)st.st_size;
}

/* Opening fails with that word in the sentence, and the file stays as it is to the byte. */
static void check_refused(const char *path, const char *word)
{
	cleanup_free char *before = NULL, *after = NULL;
	struct err err = {0};
	struct bed bed;
	size_t len = slurp(path, &before);

	check(open_bed(&bed, path, STORE_SYNC_NORMAL, &err) < 0);
	if (!strstr(err.sentence, word) || !strstr(err.sentence, path))
		printf("# no \"%s\" in: %s\n", word, err.sentence);
	check(strstr(err.sentence, word) && strstr(err.sentence, path));
	check(slurp(path, &after) == len && memcmp(before, after, len) == 0);
}

static void test_damaged(void)
{
	const char *path = scratch_path("damaged.db");
	char bytes[4096];
	struct bed bed;
	struct op op;
	FILE *file;

	memset(bytes, 'x', sizeof(bytes));
	scratch_write(path, bytes, sizeof(bytes));
	check_refused(path, "damaged");
	check_refused(path, "start again");
	check_refused(path, "their disks stay");
	unlink(path);

	open_facts(&bed, path, STORE_SYNC_NORMAL);
	for (int i = 0; i < 20; i++)
		check(run_sql(&bed, &op, INSERT_BLOB) == 0);
	close_bed(&bed);
	file = fopen(path, "r+be");
	check(file && fseek(file, 4096, SEEK_SET) == 0);
	for (int i = 0; file && i < 4; i++)
		check(fwrite(bytes, 1, sizeof(bytes), file) == sizeof(bytes));
	check(file && fclose(file) == 0);
	check_refused(path, "damaged");
	check_refused(path, "start again");
	check_refused(path, "their disks stay");

	scratch_write(path, "", 0);
	scratch_write(scratch_path("damaged.db-wal"), bytes, sizeof(bytes));
	check_refused(path, "damaged");
	check_refused(path, "start again");
	check_refused(path, "their disks stay");
	check(access(scratch_path("damaged.db-wal"), F_OK) == 0);
	tap_ok("a damaged database is said and left alone");
}

static void test_foreign(void)
{
	const char *path = scratch_path("foreign.db");
	struct err err = {0};
	struct bed bed;
	struct op op;
	sqlite3 *other;

	open_facts(&bed, path, STORE_SYNC_NORMAL);
	check(run_sql(&bed, &op, "PRAGMA user_version = 1000") == 0);
	close_bed(&bed);
	check_refused(path, "newer Berth");
	unlink(path);

	check(sqlite3_open(path, &other) == SQLITE_OK);
	check(sqlite3_exec(other, "CREATE TABLE t (a)", NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(other);
	check_refused(path, "not one of Berth's");

	check(symlink(path, scratch_path("link.db")) == 0);
	check(open_bed(&bed, scratch_path("link.db"), STORE_SYNC_NORMAL, &err) == -EINVAL);
	check(strstr(err.sentence, "not a regular file"));
	check(open_bed(&bed, scratch_path("no/such/dir.db"), STORE_SYNC_NORMAL, &err) == -ENOENT);
	check(strstr(err.sentence, "cannot be made"));
	tap_ok("what is newer, somebody else's or not a file is refused");
}

struct announced {
	struct op op;
	struct bed *bed;
	int fd;
	int next;
};

static void announce(struct store_op *base)
{
	struct announced *a = container_of(base, struct announced, op.base);

	if (base->result != 0 || write(a->fd, &a->next, sizeof(a->next)) != sizeof(a->next))
		_exit(3);
	op_init(&a->op, NULL, "INSERT INTO fact VALUES (%d, zeroblob(2000))", ++a->next);
	a->op.base.done = announce;
	store_submit(a->bed->store, base);
}

static void run_until_killed(const char *path, int fd)
{
	struct announced a = {.fd = fd};
	struct bed bed;

	open_facts(&bed, path, STORE_SYNC_NORMAL);
	a.bed = &bed;
	op_init(&a.op, NULL, "INSERT INTO fact VALUES (0, zeroblob(2000))");
	a.op.base.done = announce;
	store_submit(bed.store, &a.op.base);
	uv_run(&bed.loop, UV_RUN_DEFAULT);
	_exit(4);
}

static void kill_once(int facts)
{
	int fds[2], number, last = -1, status = 0;
	char name[64];
	struct bed bed;
	int64_t kept;
	pid_t pid;

	snprintf(name, sizeof(name), "killed-%d.db", facts);
	check(pipe2(fds, O_CLOEXEC) == 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		run_until_killed(scratch_path(name), fds[1]);
	close(fds[1]);
	while (read(fds[0], &number, sizeof(number)) == sizeof(number)) {
		check(number == last + 1);
		last = number;
		if (number == facts)
			kill(pid, SIGKILL);
	}
	close(fds[0]);
	check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	check(last >= facts);
	open_facts(&bed, scratch_path(name), STORE_SYNC_NORMAL);
	kept = select_number(&bed, "SELECT count(*) FROM fact");
	/* Announced is kept; one more may have been stored and not announced any more. */
	check(kept == last + 1 || kept == last + 2);
	check(select_number(&bed, "SELECT max(n) FROM fact") == kept - 1);
	close_bed(&bed);
}

static void test_killed(void)
{
	/* 1000 pages of log make a checkpoint: some of these die around one. */
	static const int facts[] = {0, 1, 50, 330, 333, 500, 999, 1500};

	for (size_t i = 0; i < array_len(facts); i++)
		kill_once(facts[i]);
	tap_ok("kill -9 loses nothing that was announced");
}

int main(void)
{
	pid_t pid;

	scratch_make();
	pid = start_busy_open();
	test_instance();
	test_many(STORE_SYNC_NORMAL, "order and failures of thousands");
	test_many(STORE_SYNC_FULL, "order and failures of thousands, synced");
	test_queue_limit();
	test_submit_from_done();
	test_close_from_done();
	test_full_pages();
	test_full_disk(STORE_SYNC_NORMAL, "a full disk");
	test_full_disk(STORE_SYNC_FULL, "a full disk, synced");
	test_damaged();
	test_foreign();
	test_killed();
	test_busy();
	test_busy_open(pid);
	return tap_done();
}
