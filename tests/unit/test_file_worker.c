/* What a worker may say, and when; everything else must end the call once, with an error. */
#include "daemon/file_worker.h"

#include <errno.h>

#include "base/cleanup.h"
#include "daemon/exec.h"
#include "daemon/registry.h"
#include "tests/unit/tap.h"

/* --- an exec that does what the test says --- */

struct exec {
	const struct exec_ops *ops;
	void *arg;
	bool is_worker, is_abandoned, is_stdin_ended;
	size_t stdin_bytes;
};

static struct exec fake;
static uv_loop_t loop;

uv_loop_t *registry_loop(const struct registry *registry)
{
	return &loop;
}

struct exec *exec_new(struct sandbox *sb, const struct exec_request *request,
		      const struct exec_ops *ops, void *arg, struct err *err)
{
	fake = (struct exec){.ops = ops, .arg = arg, .is_worker = request->is_worker};
	return &fake;
}

void exec_pause(struct exec *exec)
{
}

void exec_resume(struct exec *exec)
{
}

bool exec_stdin(struct exec *exec, struct str bytes)
{
	exec->stdin_bytes += bytes.len;
	return false;
}

void exec_stdin_end(struct exec *exec)
{
	exec->is_stdin_ended = true;
}

void exec_abandon(struct exec *exec)
{
	exec->is_abandoned = true;
}

/* --- what the caller hears --- */

struct heard {
	unsigned begun, entries, ended;
	size_t bytes;
	size_t offered; /* of the pipe, at most */
	size_t moves;   /* so much it takes by itself */
	enum err_code code;
	char sentence[512];
	struct file_worker *worker;
	bool drops; /* at `begun` */
};

static void on_begun(void *arg, const struct file_result *result)
{
	struct heard *h = arg;

	h->begun++;
	if (h->drops)
		file_worker_drop(h->worker);
	else if (result->stat.size)
		file_worker_go(h->worker, 0, result->stat.size);
}

static void on_entry(void *arg, const struct file_entry *entry)
{
	((struct heard *)arg)->entries++;
}

static void on_data(void *arg, uint64_t size, bool is_hole)
{
}

static void on_bytes(void *arg, struct str bytes)
{
	((struct heard *)arg)->bytes += bytes.len;
}

static size_t on_move(void *arg, int fd, size_t max)
{
	struct heard *h = arg;

	h->offered = max;
	h->bytes += h->moves < max ? h->moves : max;
	return h->moves < max ? h->moves : max;
}

static void on_ended(void *arg, const struct file_result *result, const struct err *err)
{
	struct heard *h = arg;

	h->ended++;
	h->code = err ? err->code : ERR_NONE;
	snprintf(h->sentence, sizeof(h->sentence), "%s", err ? err->sentence : "");
}

static const struct file_worker_ops ops = {.begun = on_begun,
					   .entry = on_entry,
					   .data = on_data,
					   .bytes = on_bytes,
					   .move = on_move,
					   .ended = on_ended};

/* --- what the worker says --- */

static void start(struct heard *h, enum file_op op)
{
	struct file_request request = {.op = op, .limit = 2, .path = STR("/f")};
	struct sandbox sb = {.registry = NULL};
	struct err err;

	*h = (struct heard){.drops = h->drops};
	h->worker = file_worker_new(&sb, &request, &ops, h, &err);
	check(h->worker && fake.is_worker && fake.stdin_bytes > 16);
}

static void say_bytes(const char *bytes, size_t len)
{
	/* One by one, as a hostile pipe may give them. */
	for (size_t i = 0; i < len; i++)
		fake.ops->output(fake.arg, false, (struct str){bytes + i, 1});
}

static void say(enum file_frame type, const struct frame_field *fields, const void *value)
{
	char bytes[FRAME_MAX];
	struct frame_head head = {(uint16_t)type, FRAME_VERSION, 0};
	int size = frame_encode(bytes, sizeof(bytes), &head, fields, value);

	check(size > 0);
	say_bytes(bytes, (size_t)size);
}

static void say_result(uint32_t error, uint64_t size)
{
	say(FILE_RESULT, file_result_fields,
	    &(struct file_result){.error = error, .stat.size = size});
}

static void say_entry(void)
{
	say(FILE_ENTRY, file_entry_fields, &(struct file_entry){.name = STR("n")});
}

static void say_data(enum file_frame type, uint64_t size)
{
	say(type, file_data_fields, &(struct file_data){size});
}

/* The process ends, unless it was abandoned, and the loop has nothing left. */
static void end(enum exec_reason reason)
{
	struct exec_end e = {.reason = reason};

	uv_run(&loop, UV_RUN_NOWAIT);
	uv_run(&loop, UV_RUN_NOWAIT);
	if (!fake.is_abandoned)
		fake.ops->ended(fake.arg, &e);
	uv_run(&loop, UV_RUN_NOWAIT);
	check(!uv_loop_alive(&loop));
}

static void check_nonsense(struct heard *h)
{
	check(h->ended == 1 && h->code == ERR_EXEC_TRANSPORT_ERROR);
	end(EXEC_EXITED);
	check(fake.is_abandoned && h->ended == 1);
}

static void test_good(void)
{
	struct heard h = {.drops = false};

	start(&h, FILE_OP_READ);
	say_result(0, 5);
	say_data(FILE_DATA, 5);
	say_bytes("hello", 5);
	check(h.begun == 1 && h.bytes == 5 && h.ended == 1 && h.code == ERR_NONE);
	end(EXEC_EXITED);
	check(fake.is_stdin_ended && !fake.is_abandoned && h.ended == 1);

	start(&h, FILE_OP_WRITE);
	say_result(0, 0);
	file_worker_end(h.worker);
	say_result(0, 0);
	check(h.begun == 1 && h.ended == 1 && h.code == ERR_NONE);
	end(EXEC_EXITED);

	start(&h, FILE_OP_LIST);
	say_entry();
	say_entry();
	say_result(0, 0);
	check(h.entries == 2 && h.ended == 1 && h.code == ERR_NONE);
	end(EXEC_EXITED);

	start(&h, FILE_OP_STAT);
	say_result(ENOENT, 0);
	check(h.ended == 1 && h.code == ERR_NOT_FOUND);
	end(EXEC_EXITED);
	check(!fake.is_abandoned && h.ended == 1);
	tap_ok("what it should say is passed on, byte by byte");
}

static size_t move(void)
{
	return fake.ops->move(fake.arg, -1);
}

static void test_moves(void)
{
	struct heard h = {.drops = false};

	start(&h, FILE_OP_READ);
	h.moves = 100;
	check(move() == 0); /* before it is asked for */
	say_result(0, 200);
	check(move() == 0);
	say_data(FILE_DATA, 200);
	check(move() == 100 && h.offered == 200 && h.ended == 0);
	say_bytes("hello", 5);
	h.moves = 0; /* as a socket that is full */
	check(move() == 0 && h.offered == 95);
	h.moves = 100;
	check(move() == 95 && h.bytes == 200 && h.ended == 1 && h.code == ERR_NONE);
	h.offered = 0;
	check(move() == 0 && h.offered == 0); /* what follows is nobody's */
	end(EXEC_EXITED);
	check(h.ended == 1);

	start(&h, FILE_OP_PACK);
	h.moves = 100;
	say_result(0, 0);
	say_entry();
	check(move() == 0 && h.offered == 0); /* frames lie between the bytes */
	say(FILE_END, file_end_fields, &(struct file_end){0});
	check_nonsense(&h);
	tap_ok("only a file's bytes are moved, no more than were promised, mixed with copied ones");
}

static void test_nonsense(void)
{
	struct heard h = {.drops = false};

	start(&h, FILE_OP_READ);
	say_data(FILE_DATA, 5); /* before the result */
	check_nonsense(&h);
	start(&h, FILE_OP_READ);
	say_result(0, 5);
	say_data(FILE_DATA, 6); /* more than was asked for */
	check_nonsense(&h);
	start(&h, FILE_OP_READ);
	say_result(0, 5);
	say_data(FILE_HOLE, 5);
	check_nonsense(&h);
	start(&h, FILE_OP_READ);
	say_result(0, 5);
	say_result(0, 5);
	check_nonsense(&h);
	start(&h, FILE_OP_WRITE);
	say_result(0, 0);
	say_result(0, 0); /* before the end was sent */
	check_nonsense(&h);
	start(&h, FILE_OP_WRITE);
	say_entry();
	check_nonsense(&h);
	start(&h, FILE_OP_LIST);
	say_entry();
	say_entry();
	say_entry(); /* more than the limit */
	check_nonsense(&h);
	start(&h, FILE_OP_PACK);
	say_result(0, 0);
	say_data(FILE_DATA, 1); /* of no entry */
	check_nonsense(&h);
	start(&h, FILE_OP_STAT);
	say(FILE_END, file_end_fields, &(struct file_end){0});
	check_nonsense(&h);
	start(&h, FILE_OP_STAT);
	say_bytes("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
	check_nonsense(&h);
	tap_ok("nonsense in every phase ends the call once");
}

static void test_ends(void)
{
	struct heard h = {.drops = false};

	start(&h, FILE_OP_STAT);
	end(EXEC_OOM);
	check(h.ended == 1 && h.code == ERR_MEMORY_LIMIT);
	start(&h, FILE_OP_STAT);
	end(EXEC_LOST);
	check(h.ended == 1 && h.code == ERR_EXEC_TRANSPORT_ERROR);
	start(&h, FILE_OP_STAT);
	end(EXEC_KILLED);
	check(h.ended == 1 && h.code == ERR_EXEC_TRANSPORT_ERROR);
	start(&h, FILE_OP_STAT);
	end(EXEC_NOT_STARTED);
	check(h.ended == 1 && h.code == ERR_EXEC_ERROR);
	start(&h, FILE_OP_READ);
	say_result(0, 5);
	say_data(FILE_DATA, 5);
	say_bytes("hell", 4);
	end(EXEC_EXITED);
	check(h.bytes == 4 && h.ended == 1 && h.code == ERR_EXEC_ERROR);
	start(&h, FILE_OP_PACK);
	say_result(0, 0);
	say(FILE_ENTRY, file_entry_fields, &(struct file_entry){.name = STR("n"), .stat.size = 5});
	say_data(FILE_DATA, 5);
	say_bytes("hell", 4);
	end(EXEC_EXITED);
	check(h.bytes == 4 && h.ended == 1 && h.code == ERR_EXEC_ERROR);
	check_str(h.sentence, "\"n\" in \"/f\": the file became shorter while it was read");
	tap_ok("a worker that ends without its answer is an error");
}

static void test_drops(void)
{
	struct heard h = {.drops = true};

	start(&h, FILE_OP_READ);
	say_result(0, 5); /* HEAD */
	say_data(FILE_DATA, 5);
	end(EXEC_EXITED);
	check(h.begun == 1 && h.ended == 0 && h.bytes == 0);
	check(fake.is_stdin_ended && !fake.is_abandoned);
	h.drops = false;
	start(&h, FILE_OP_WRITE);
	say_result(0, 0);
	file_worker_drop(h.worker);
	end(EXEC_EXITED);
	check(fake.is_stdin_ended && !fake.is_abandoned && h.ended == 0);
	start(&h, FILE_OP_READ);
	say_result(0, 5);
	file_worker_drop(h.worker);
	end(EXEC_EXITED);
	check(fake.is_abandoned && h.ended == 0);
	tap_ok("one that is dropped calls nobody; only one that reads is killed");
}

int main(void)
{
	uv_loop_init(&loop);
	test_good();
	test_moves();
	test_nonsense();
	test_ends();
	test_drops();
	uv_loop_close(&loop);
	return tap_done();
}
