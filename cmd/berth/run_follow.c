#include "cmd/berth/run_follow.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/plain.h"
#include "cmd/berth/screen.h"

#define EVENT_ARENA_MAX (2 * CLIENT_EVENT_MAX)
#define END_MS          10000 /* for what is done after Ctrl-C */

/* --- begin --- */

static int take_id(struct haul *haul, struct sandbox_id *ret)
{
	struct run_info run;
	struct arena arena;
	int r;

	arena_init(&arena, RUN_ARENA_MAX);
	r = run_parse(haul, &arena, &run);
	if (r == 0 && sandbox_id_parse(run.id, ret) < 0)
		r = haul_fail(haul, -EPROTO, "the answer cannot be understood (is it berthd's?)");
	arena_close(&arena);
	return r;
}

static int begin(struct haul *haul, struct sandbox_id *ret)
{
	struct client_stream stream = {.body_fd = -1, .interrupt_fd = haul->interrupt_fd};
	char header[64];
	struct client_request request = {
		.method = "POST",
		.path = "/v1/runs",
		.body = {buf_at(&haul->body), buf_len(&haul->body)},
		.header = header,
		.stream = &stream,
	};
	uint64_t key[2];
	int r;

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return haul_fail(haul, -EIO, "cannot make a random number: %m");
	snprintf(header, sizeof(header), "Idempotency-Key: %016" PRIx64 "%016" PRIx64, key[0],
		 key[1]);
	r = client_send(haul->globals, &request, &haul->answer, &haul->err);
	if (r == 0)
		return take_id(haul, ret);
	if (r != -EINTR)
		return r;
	/* There may be a run now. The same key finds it out, and what is begun by that ends, too.
	 */
	request.stream = NULL;
	request.timeout_ms = END_MS;
	if (client_send(haul->globals, &request, &haul->answer, &haul->err) == 0 &&
	    take_id(haul, ret) == 0)
		run_cancel(haul, ret->text);
	return r;
}

int run_begin(struct haul *haul, struct sandbox_id *ret)
{
	int r = begin(haul, ret);

	buf_consume(&haul->body, buf_len(&haul->body));
	return r;
}

/* --- follow --- */

struct following {
	struct haul *haul;
	bool has_ended;
};

/* Of each kind of event some. */
struct told {
	struct run_log_entry entry;
	uint64_t dropped;
};

/* clang-format off */
static const struct json_field told_fields[] = {
	{ "level",        JSON_BYTES, offsetof(struct told, entry.level) },
	{ "message",      JSON_BYTES, offsetof(struct told, entry.message) },
	{ "logs_dropped", JSON_UINT,  offsetof(struct told, dropped) },
	{ "*",            JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

static int show_json(struct haul *haul, struct str data)
{
	int r = haul_print(haul, data);

	return r < 0 ? r : haul_print(haul, STR("\n"));
}

static int show(struct following *f, struct str event, const struct told *told)
{
	if (str_eq(event, STR("log")))
		return run_show_entry(f->haul, &told->entry);
	if (str_eq(event, STR("done")))
		run_show_dropped(told->dropped);
	/* A newer daemon may tell of more. */
	return 0;
}

static int on_event(void *arg, const struct sse_event *event)
{
	struct following *f = arg;
	struct told told = {0};
	struct arena arena;
	int r;

	arena_init(&arena, EVENT_ARENA_MAX);
	if (json_parse(&arena, event->data, told_fields, &told, NULL) < 0)
		r = haul_fail(f->haul, -EPROTO, "an event cannot be understood (is it berthd's?)");
	else
		r = f->haul->globals->json ? show_json(f->haul, event->data)
					   : show(f, event->event, &told);
	arena_close(&arena);
	if (r == 0 && str_eq(event->event, STR("done"))) {
		f->has_ended = true;
		r = 1;
	}
	return r;
}

int run_follow(struct haul *haul, const char *run)
{
	struct following f = {.haul = haul};
	int r = run_target(haul, run, "/logs?follow=1");

	if (r == 0)
		r = haul_events(haul, "GET", on_event, &f);
	if (r == 0 && !f.has_ended)
		r = haul_fail(haul, -EPROTO, "the answer cannot be understood (is it berthd's?)");
	return r;
}

/* --- cancel --- */

void run_cancel(struct haul *haul, const char *run)
{
	char path[sizeof(struct sandbox_id) + 16];
	struct client_request request = {.method = "DELETE", .path = path, .timeout_ms = END_MS};
	struct answer answer;
	struct err err;

	snprintf(path, sizeof(path), "/v1/runs/%s", run);
	answer_init(&answer);
	if (client_send(haul->globals, &request, &answer, &err) < 0)
		screen_error("the run %s was not cancelled: %s", run, err.sentence);
	answer_close(&answer);
}
