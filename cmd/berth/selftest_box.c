#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/selftest.h"
#include "proto/base64.h"
#include "proto/json.h"

#define ARGV_MAX 512

/* --- requests --- */

bool selftest_is_lost(int r)
{
	return r < 0 && r != -EREMOTEIO;
}

struct str selftest_answer(const struct selftest *t)
{
	return (struct str){buf_at(&t->haul.answer.body), buf_len(&t->haul.answer.body)};
}

static int send_request(struct selftest *t, const struct client_request *asked, int body_fd)
{
	struct client_stream stream = {.body_fd = body_fd, .interrupt_fd = t->haul.interrupt_fd};
	struct client_request request = *asked;
	struct haul *haul = &t->haul;
	int r;

	request.stream = &stream;
	buf_consume(&haul->answer.body, buf_len(&haul->answer.body));
	haul->answer.status = 0;
	haul->err.code = ERR_NONE;
	r = client_send(haul->globals, &request, &haul->answer, &haul->err);
	buf_consume(&haul->body, buf_len(&haul->body));
	return r;
}

int selftest_send(struct selftest *t, const char *method, const char *path, unsigned timeout_ms)
{
	struct client_request request = {
		.method = method,
		.path = path,
		.body = {buf_at(&t->haul.body), buf_len(&t->haul.body)},
		.timeout_ms = timeout_ms,
	};

	return send_request(t, &request, -1);
}

static char *path_of(struct selftest *t, enum box box, const char *suffix)
{
	return arena_printf(&t->arena, "/v1/sandbox/%s%s", t->boxes[box].id, suffix);
}

static int no_memory(struct selftest *t)
{
	return haul_fail(&t->haul, -ENOMEM, "out of memory");
}

int selftest_ask(struct selftest *t, enum box box, const char *method, const char *suffix)
{
	const char *path = path_of(t, box, suffix);

	return path ? selftest_send(t, method, path, 3 * SELFTEST_WAIT_MS) : no_memory(t);
}

int selftest_upload(struct selftest *t, enum box box, const char *method, const char *suffix,
		    struct str bytes)
{
	struct client_request request = {
		.method = method, .path = path_of(t, box, suffix), .timeout_ms = CLIENT_WAIT_MS};
	cleanup_fd int fd = memfd_create("berth-selftest", MFD_CLOEXEC);

	if (!request.path)
		return no_memory(t);
	if (fd < 0 || write(fd, bytes.at, bytes.len) != (ssize_t)bytes.len ||
	    lseek(fd, 0, SEEK_SET) < 0)
		return haul_fail(&t->haul, -errno, "cannot keep what is to be sent: %m");
	return send_request(t, &request, fd);
}

/* --- the sandboxes --- */

static int write_settings(const struct selftest *t, enum box box, struct buf *out)
{
	struct json_writer w;
	int r = json_writer_init(&w, false);

	if (r < 0)
		return r;
	json_object(&w);
	json_key(&w, "id");
	json_text(&w, t->boxes[box].id);
	if (t->image) {
		json_key(&w, "image");
		json_text(&w, t->image);
	}
	/* If we are killed, the daemon clears away after us. */
	json_key(&w, "sleep_after");
	json_text(&w, "10m");
	json_key(&w, "sleep_mode");
	json_text(&w, "stop");
	json_key(&w, "delete_after");
	json_text(&w, "10m");
	json_key(&w, "stop_grace");
	json_text(&w, "0s");
	if (box == BOX_PIDS || box == BOX_MEMORY) {
		json_key(&w, "limits");
		json_object(&w);
		json_key(&w, box == BOX_PIDS ? "pids" : "memory");
		json_int(&w, box == BOX_PIDS ? 64 : 64 << 20);
		json_object_end(&w);
	}
	json_object_end(&w);
	r = json_writer_end(&w, out);
	json_writer_close(&w);
	return r;
}

int selftest_make(struct selftest *t, enum box box)
{
	struct selftest_box *b = &t->boxes[box];
	int r = 0;

	if (b->is_ready)
		return 0;
	if (!b->is_made) {
		r = write_settings(t, box, &t->haul.body);
		/* An answer that did not come may have been a good one. */
		b->is_made = r == 0;
		if (r == 0)
			r = selftest_send(t, "POST", "/v1/sandbox", CLIENT_WAIT_MS);
		if (r == -EREMOTEIO)
			b->is_made = false;
	}
	if (r == 0)
		r = selftest_upload(t, box, "PUT", "/file" SELFTEST_PROBE "?mode=0755",
				    selftest_probe_file);
	b->is_ready = r == 0;
	return r == -EREMOTEIO && t->haul.answer.status == 501 ? -EOPNOTSUPP : r;
}

bool selftest_remove_all(struct selftest *t)
{
	bool is_clean = true;

	for (size_t i = 0; i < BOX_COUNT; i++) {
		struct selftest_box *b = &t->boxes[i];
		struct answer answer;
		struct err err;

		if (!b->is_made)
			continue;
		answer_init(&answer);
		if (sandbox_remove(t->haul.globals, b->id, &answer, &err) < 0) {
			screen_error("the sandbox %s could not be removed: %s", b->id,
				     err.sentence);
			is_clean = false;
		}
		answer_close(&answer);
		b->is_made = b->is_ready = false;
	}
	return is_clean;
}

/* --- commands --- */

static void write_word(struct json_writer *w, const char *name, const char *value)
{
	if (!value)
		return;
	json_key(w, name);
	json_text(w, value);
}

int selftest_exec_body(const char *const *argv, const struct selftest_exec *exec, struct buf *out)
{
	struct json_writer w;
	int r = json_writer_init(&w, false);

	if (r < 0)
		return r;
	json_object(&w);
	json_key(&w, "argv");
	json_array(&w);
	for (; *argv; argv++)
		json_text(&w, *argv);
	json_array_end(&w);
	write_word(&w, "id", exec->name);
	write_word(&w, "user", exec->user);
	write_word(&w, "cwd", exec->cwd);
	write_word(&w, "stdin", exec->input);
	if (exec->env_name) {
		json_key(&w, "env");
		json_object(&w);
		write_word(&w, exec->env_name, exec->env_value);
		json_object_end(&w);
	}
	if (exec->timeout_ms) {
		json_key(&w, "timeout_ms");
		json_int(&w, exec->timeout_ms);
	}
	json_object_end(&w);
	r = json_writer_end(&w, out);
	json_writer_close(&w);
	return r;
}

struct told {
	struct str out, encoding, reason;
	int64_t code;
};

/* clang-format off */
static const struct json_field told_fields[] = {
	{ "stdout",    JSON_BYTES,  offsetof(struct told, out), true },
	{ "encoding",  JSON_STRING, offsetof(struct told, encoding), true },
	{ "reason",    JSON_STRING, offsetof(struct told, reason), true },
	{ "exit_code", JSON_INT,    offsetof(struct told, code) },
	{ "*",         JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

static int take_told(struct selftest *t, struct selftest_exec *exec)
{
	struct told told = {.code = -1};
	int r = json_parse(&t->arena, selftest_answer(t), told_fields, &told, &t->haul.err);

	if (r < 0)
		return err_wrap(&t->haul.err, r, "the answer cannot be understood");
	exec->reason = told.reason;
	exec->code = told.code;
	exec->out = told.out;
	if (str_eq(told.encoding, STR("base64"))) {
		char *bytes = arena_alloc(&t->arena, BASE64_DECODE_ROOM(told.out.len));

		if (!bytes)
			return no_memory(t);
		r = base64_decode(told.out, bytes, &exec->out.len);
		exec->out.at = bytes;
	}
	return r < 0 ? haul_fail(&t->haul, r, "the command's output cannot be understood") : 0;
}

int selftest_exec(struct selftest *t, enum box box, const char *const *argv,
		  struct selftest_exec *exec)
{
	int r = selftest_exec_body(argv, exec, &t->haul.body);

	if (r < 0)
		return haul_fail(&t->haul, r, "cannot write the request: %s", strerror(-r));
	r = selftest_ask(t, box, "POST", "/exec");
	return r < 0 ? r : take_told(t, exec);
}

static const char *const *with_probe(struct selftest *t, const char *const *words)
{
	const char **argv = arena_zalloc(&t->arena, (ARGV_MAX + 2) * sizeof(*argv));

	if (!argv)
		return NULL;
	argv[0] = SELFTEST_PROBE;
	for (size_t i = 0; i < ARGV_MAX && words[i]; i++)
		argv[i + 1] = words[i];
	return argv;
}

/* What stands behind a word and a space; at == NULL: the line begins with another. */
static struct str behind(struct str line, struct str word)
{
	if (!str_starts_with(line, word))
		return (struct str){NULL, 0};
	return (struct str){line.at + word.len, line.len - word.len};
}

int selftest_judge(struct selftest *t, struct str said, struct outcome *ret)
{
	bool is_over = false;

	while (said.len) {
		struct str line = str_cut(&said, '\n');
		struct str hole = behind(line, STR("hole ")), cannot = behind(line, STR("cannot "));
		struct str note = behind(line, STR("note "));

		if (hole.at)
			outcome_hole(ret, "%s", screen_text(hole).text);
		else if (cannot.at)
			outcome_untried(ret, "inside: %s", screen_text(cannot).text);
		else if (note.at && !ret->note[0])
			snprintf(ret->note, sizeof(ret->note), "%.*s", STR_ARGS(note));
		is_over = str_starts_with(line, STR("tried "));
	}
	return is_over ? 0 : haul_fail(&t->haul, -EPROTO, "the probe did not come to its end");
}

int selftest_probe(struct selftest *t, enum box box, const char *user, const char *const *words,
		   struct outcome *ret)
{
	struct selftest_exec exec = {.user = user, .timeout_ms = 2 * SELFTEST_WAIT_MS};
	const char *const *argv = with_probe(t, words);
	int r = argv ? selftest_make(t, box) : no_memory(t);

	if (r == 0)
		r = selftest_exec(t, box, argv, &exec);
	if (r == 0 && (!str_eq(exec.reason, STR("exited")) || exec.code != 0))
		r = haul_fail(&t->haul, -EPROTO, "the probe's `%s` ended by \"%s\" with %d",
			      words[0], screen_text(exec.reason).text, (int)exec.code);
	return r < 0 ? r : selftest_judge(t, exec.out, ret);
}

/* --- in the background --- */

int selftest_pause(struct selftest *t, struct selftest_patience *patience)
{
	struct pollfd fd = {.fd = t->haul.interrupt_fd, .events = POLLIN};

	if (patience->left_ms < SELFTEST_PAUSE_MS)
		return 0;
	patience->left_ms -= SELFTEST_PAUSE_MS;
	return poll(&fd, 1, SELFTEST_PAUSE_MS) > 0 ? -EINTR : 1;
}

static int wait_for(struct selftest *t, enum box box, const char *name, const char *line)
{
	char suffix[128];
	int r;

	snprintf(suffix, sizeof(suffix), "/processes/%s/wait", name);
	if (line)
		r = buf_printf(&t->haul.body,
			       "{\"for\":\"log\",\"pattern\":\"%s\",\"timeout_ms\":%d}", line,
			       SELFTEST_WAIT_MS);
	else
		r = buf_printf(&t->haul.body, "{\"for\":\"exit\",\"timeout_ms\":%d}",
			       SELFTEST_WAIT_MS);
	return r < 0 ? no_memory(t) : selftest_ask(t, box, "POST", suffix);
}

int selftest_start(struct selftest *t, enum box box, const char *name, const char *const *words,
		   const char *line)
{
	struct selftest_exec exec = {.name = name};
	const char *const *argv = with_probe(t, words);
	int r = argv ? selftest_make(t, box) : no_memory(t);

	if (r == 0)
		r = selftest_exec_body(argv, &exec, &t->haul.body);
	if (r == 0)
		r = selftest_ask(t, box, "POST", "/processes");
	return r < 0 ? r : wait_for(t, box, name, line);
}

int selftest_await(struct selftest *t, enum box box, const char *name)
{
	return wait_for(t, box, name, NULL);
}

int selftest_end(struct selftest *t, enum box box, const char *name)
{
	char suffix[128];

	snprintf(suffix, sizeof(suffix), "/processes/%s", name);
	return selftest_ask(t, box, "DELETE", suffix);
}

int selftest_read(struct selftest *t, enum box box, const char *name, struct str *ret)
{
	char suffix[256];
	char *copy;
	int r;

	snprintf(suffix, sizeof(suffix), "/file/workspace/%s", name);
	r = selftest_ask(t, box, "GET", suffix);
	if (r < 0)
		return r;
	*ret = selftest_answer(t);
	copy = arena_strndup(&t->arena, ret->at ? ret->at : "", ret->len);
	ret->at = copy;
	return copy ? 0 : no_memory(t);
}
