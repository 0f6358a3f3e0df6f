#include "daemon/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "daemon/reserve.h"
#include "daemon/store_error.h"
#include "daemon/store_schema.h"

#define BUSY_MS   2000 /* how long another program's lock is waited for */
#define BATCH_MAX 256  /* operations that share one sync, and then one wake-up of the loop */

struct store {
	struct sqlite3 *db;     /* the thread's while it runs */
	struct reserve reserve; /* the thread's, too */
	bool is_locked_out;     /* the last wait for a lock was in vain; the thread's */
	enum store_sync sync;
	char instance[STORE_INSTANCE_LEN + 1];
	unsigned unfinished; /* submitted, `done` not called yet; the loop's */
	uv_thread_t thread;
	uv_async_t wake_loop;

	uv_mutex_t mutex; /* of all below */
	uv_cond_t submitted_cond, finished_cond;
	struct list submitted, finished;
	bool stop_wanted;
};

int store_fail(struct store_op *op, struct sqlite3 *db, const char *intent)
{
	return store_error(&op->err, db, intent);
}

const char *store_refusal(int error)
{
	return error == -ESHUTDOWN ? "berthd is stopping: try again when it is back"
	       : error == -ENOMEM  ? "out of memory"
				   : "too much is being stored: try again";
}

int store_refuse(struct err *err, int error)
{
	return err_set(err, error, ERR_UNAVAILABLE, "%s", store_refusal(error));
}

unsigned store_queue_len(const struct store *store)
{
	return store->unfinished;
}

const char *store_instance(const struct store *store)
{
	return store->instance;
}

static int run_work(struct store_op *op, struct sqlite3 *db)
{
	int r = op->work(op, db);

	if (r < 0) {
		if (op->err.code == ERR_NONE)
			err_set(&op->err, r, ERR_INTERNAL, "the store's operation failed: %s",
				strerror(-r));
		return r;
	}
	if (sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
		return store_fail(op, db, "storing");
	return 0;
}

/*
 * Each operation has a transaction to itself: SQLite may answer a full disk by rolling back the
 * whole of one, and that must not undo another operation that already succeeded.
 */
static int run_op(struct store_op *op, struct sqlite3 *db)
{
	int r;

	if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
		return store_fail(op, db, "storing");
	r = run_work(op, db);
	if (!sqlite3_get_autocommit(db))
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return r;
}

/*
 * What synchronous=FULL would do at each commit, once for a whole batch: the commits have been
 * appended to the write-ahead log, whose checksums make it valid up to any point.
 */
static int sync_log(struct store *store, struct err *err)
{
	sqlite3_file *log = NULL;
	int code;

	code = sqlite3_file_control(store->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
	if (code == SQLITE_OK && log && log->pMethods)
		code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
	if (code == SQLITE_OK)
		return 0;
	return err_set(err, -EIO, ERR_INTERNAL,
		       "storing: the disk did not confirm what was written (%s)",
		       sqlite3_errstr(code));
}

static void run_batch(struct store *store, struct list *batch)
{
	struct err err = {0};
	int r;

	list_for_each (node, batch) {
		struct store_op *op = list_entry(node, struct store_op, link);

		/* One wait for one lock: else a full queue would take days to be refused. */
		sqlite3_busy_timeout(store->db, store->is_locked_out ? 0 : BUSY_MS);
		op->result = run_op(op, store->db);
		if (op->result == -ENOSPC && op->is_vital && reserve_spend(&store->reserve))
			op->result = run_op(op, store->db);
		store->is_locked_out = op->result == -EBUSY;
	}
	if (store->sync != STORE_SYNC_FULL)
		return;
	r = sync_log(store, &err);
	list_for_each (node, batch) {
		struct store_op *op = list_entry(node, struct store_op, link);

		if (r < 0 && op->result == 0) {
			op->result = r;
			op->err = err;
		}
	}
}

/* False when there is nothing more to come. */
static bool take_batch(struct store *store, struct list *batch)
{
	uv_mutex_lock(&store->mutex);
	while (list_is_empty(&store->submitted) && !store->stop_wanted)
		uv_cond_wait(&store->submitted_cond, &store->mutex);
	for (int n = 0; n < BATCH_MAX && !list_is_empty(&store->submitted); n++)
		list_move(batch, store->submitted.next);
	uv_mutex_unlock(&store->mutex);
	return !list_is_empty(batch);
}

static void run_thread(void *arg)
{
	struct store *store = arg;
	struct list batch;

	list_init(&batch);
	while (take_batch(store, &batch)) {
		run_batch(store, &batch);
		uv_mutex_lock(&store->mutex);
		while (!list_is_empty(&batch))
			list_move(&store->finished, batch.next);
		uv_cond_signal(&store->finished_cond);
		uv_mutex_unlock(&store->mutex);
		uv_async_send(&store->wake_loop);
		reserve_keep(&store->reserve);
	}
}

static struct store_op *take_finished(struct store *store)
{
	struct store_op *op = NULL;

	uv_mutex_lock(&store->mutex);
	if (!list_is_empty(&store->finished)) {
		op = list_entry(store->finished.next, struct store_op, link);
		list_remove(&op->link);
	}
	uv_mutex_unlock(&store->mutex);
	return op;
}

/* One at a time from the shared list: `done` may submit more, and may even close the store. */
static void call_done(struct store *store)
{
	struct store_op *op;

	while ((op = take_finished(store)) != NULL) {
		store->unfinished--;
		op->done(op);
	}
}

static void on_wake_loop(uv_async_t *handle)
{
	call_done(container_of(handle, struct store, wake_loop));
}

int store_submit(struct store *store, struct store_op *op)
{
	assert(op->work && op->done);
	if (store->unfinished >= STORE_QUEUE_MAX)
		return -EBUSY;
	store->unfinished++;
	op->result = 0;
	op->err.code = ERR_NONE;
	op->err.sentence[0] = '\0';
	uv_mutex_lock(&store->mutex);
	assert(!store->stop_wanted);
	list_append(&store->submitted, &op->link);
	uv_cond_signal(&store->submitted_cond);
	uv_mutex_unlock(&store->mutex);
	return 0;
}

static void free_store(struct store *store)
{
	uv_cond_destroy(&store->finished_cond);
	uv_cond_destroy(&store->submitted_cond);
	uv_mutex_destroy(&store->mutex);
	free(store);
}

static void on_closed(uv_handle_t *handle)
{
	free_store(container_of((uv_async_t *)handle, struct store, wake_loop));
}

static void close_database(struct store *store)
{
	int code = sqlite3_close(store->db);

	assert(code == SQLITE_OK); /* else some `work` left a statement behind */
	store->db = NULL;
}

void store_close(struct store *store)
{
	while (store->unfinished > 0) {
		uv_mutex_lock(&store->mutex);
		while (list_is_empty(&store->finished))
			uv_cond_wait(&store->finished_cond, &store->mutex);
		uv_mutex_unlock(&store->mutex);
		call_done(store);
	}
	uv_mutex_lock(&store->mutex);
	store->stop_wanted = true;
	uv_cond_signal(&store->submitted_cond);
	uv_mutex_unlock(&store->mutex);
	uv_thread_join(&store->thread);
	close_database(store);
	uv_close((uv_handle_t *)&store->wake_loop, on_closed);
}

/* SQLite gives its other files the mode of the database: it must be right from the start. */
static int make_file(const char *path, struct err *err)
{
	cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd >= 0)
		return 0;
	if (errno != EEXIST)
		return err_set(err, -errno, ERR_INTERNAL, "it cannot be made: %s", strerror(errno));
	return 0;
}

/* By a descriptor: a confined berthd cannot change modes by path. */
static int close_to_others(const char *path)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -1 : fchmod(fd, 0600);
}

/* Before SQLite opens it: to close a descriptor of it later would drop SQLite's own locks. */
static int prepare_file(const char *path, struct err *err)
{
	struct stat st, log;
	char log_path[PATH_MAX + 8];
	int r = make_file(path, err);

	if (r < 0)
		return r;
	if (lstat(path, &st) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "it cannot be read: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, ERR_CONFLICT, "it is not a regular file");
	if ((st.st_mode & 077) != 0 && close_to_others(path) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "its mode cannot be set to 0600: %s",
			       strerror(errno));
	/* SQLite would take an empty file for a new database, and delete its log. */
	snprintf(log_path, sizeof(log_path), "%s-wal", path);
	if (st.st_size == 0 && lstat(log_path, &log) == 0 && log.st_size > 0)
		return err_set(
			err, -EIO, ERR_CONFLICT,
			"it is damaged: the file is empty, but \"%s\" is not; restore it, "
			"or move both away and start again: the sandboxes' settings are lost "
			"with them, their disks stay",
			log_path);
	return 0;
}

static int on_check_row(void *arg, int count, char **values, char **names)
{
	bool *is_ok = arg;

	*is_ok = count == 1 && values[0] && strcmp(values[0], "ok") == 0;
	return 0;
}

/* Once, at start: damage is said now and not when the fact that it hit is needed. */
static int check_health(struct sqlite3 *db, struct err *err)
{
	bool is_ok = false;

	if (sqlite3_exec(db, "PRAGMA quick_check(1)", on_check_row, &is_ok, NULL) != SQLITE_OK)
		return store_error(err, db, "checking it");
	if (!is_ok)
		return err_set(err, -EIO, ERR_CONFLICT, "it is damaged: " STORE_DAMAGED_ADVICE);
	return 0;
}

static int on_mode_row(void *arg, int count, char **values, char **names)
{
	bool *is_wal = arg;

	*is_wal = count == 1 && values[0] && strcmp(values[0], "wal") == 0;
	return 0;
}

static int set_modes(struct sqlite3 *db, struct err *err)
{
	bool is_wal = false;

	if (sqlite3_exec(db, "PRAGMA journal_mode = WAL", on_mode_row, &is_wal, NULL) != SQLITE_OK)
		return store_error(err, db, "preparing it");
	if (!is_wal)
		return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			       "its file system cannot hold a write-ahead log; use a local disk");
	if (sqlite3_exec(db,
			 "PRAGMA synchronous = NORMAL;"
			 "PRAGMA foreign_keys = ON;"
			 "PRAGMA trusted_schema = OFF;"
			 "PRAGMA journal_size_limit = 4194304",
			 NULL, NULL, NULL) != SQLITE_OK)
		return store_error(err, db, "preparing it");
	return 0;
}

static int open_once(struct store *store, const char *path, bool is_alone, struct err *err)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
	int r;

	if (sqlite3_open_v2(path, &store->db, flags, NULL) != SQLITE_OK ||
	    (is_alone && sqlite3_exec(store->db, "PRAGMA locking_mode = EXCLUSIVE", NULL, NULL,
				      NULL) != SQLITE_OK))
		return store_error(err, store->db, "opening it");
	sqlite3_busy_timeout(store->db, BUSY_MS);
	/* Until it is known to be sound and ours, not even closing it may write to it. */
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	r = store_schema_check(store->db, err);
	if (r == 0)
		r = check_health(store->db, err);
	if (r == 0)
		r = set_modes(store->db, err);
	if (r == 0)
		r = store_schema_migrate(store->db, err);
	if (r == 0)
		r = store_schema_read_instance(store->db, store->instance, err);
	if (r == 0)
		sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
	return r;
}

/*
 * The index of the log is a file that is shared with other programs, and needs room on the disk. If
 * there is none it can be in memory instead, and others are locked out: it takes a berthd to remove
 * what fills the disk.
 */
static int open_database(struct store *store, const char *path, struct err *err)
{
	int r = prepare_file(path, err);

	if (r == 0)
		r = open_once(store, path, false, err);
	if (r != -ENOSPC || !store->db)
		return r;
	close_database(store);
	return open_once(store, path, true, err);
}

int store_open(struct store **ret, uv_loop_t *loop, const char *path, enum store_sync sync,
	       struct err *err)
{
	struct store *store = calloc(1, sizeof(*store));
	int r;

	if (!store)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	store->sync = sync;
	list_init(&store->submitted);
	list_init(&store->finished);
	/* None of these takes memory or can fail on Linux. */
	r = uv_mutex_init(&store->mutex) | uv_cond_init(&store->submitted_cond) |
	    uv_cond_init(&store->finished_cond);
	assert(r == 0);
	r = open_database(store, path, err);
	if (r < 0) {
		err_wrap(err, r, "the database \"%s\"", path);
		goto failed;
	}
	reserve_init(&store->reserve, path);
	r = uv_async_init(loop, &store->wake_loop, on_wake_loop);
	if (r < 0) {
		err_set(err, r, ERR_INTERNAL, "the store cannot start: %s", uv_strerror(r));
		goto failed;
	}
	r = uv_thread_create(&store->thread, run_thread, store);
	if (r < 0) {
		err_set(err, r, ERR_INTERNAL, "the store cannot start: %s", uv_strerror(r));
		close_database(store);
		uv_close((uv_handle_t *)&store->wake_loop, on_closed);
		return r;
	}
	*ret = store;
	return 0;

failed:
	close_database(store);
	free_store(store);
	return r;
}
