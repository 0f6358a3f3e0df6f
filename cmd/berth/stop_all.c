#include "cmd/berth/stop_all.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cmd/berth/run_info.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "proto/sandbox_id.h"

/*
 * A round ends what there is by then; runs that somebody begins meanwhile, and those that were to
 * be told on another page, are for the next.
 */
#define ROUNDS_MAX 50

struct stopping {
	const struct globals *globals;
	unsigned passing; /* of this round: runs, and sandboxes of runs or of the pool */
	unsigned failed;  /* of this round; each was told */
};

struct run_page {
	struct json_objects runs; /* struct run_info */
};

/* clang-format off */
static const struct json_field page_fields[] = {
	{ "runs", JSON_OBJECTS, offsetof(struct run_page, runs), true, .fields = run_fields,
	  .size = sizeof(struct run_info) },
	{ "*",    JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

/* 0 also when there is no such thing: it is gone, or the daemon is of a time before it. */
static int ask(const struct stopping *s, const char *method, const char *path, struct answer *ret,
	       struct err *err)
{
	struct client_request request = {
		.method = method, .path = path, .timeout_ms = CLIENT_WAIT_MS};
	int r = client_send(s->globals, &request, ret, err);

	return r == -EREMOTEIO && ret->status == 404 ? 0 : r;
}

/* --- runs --- */

static int cancel_one(struct stopping *s, const struct run_info *run, struct err *err)
{
	char path[sizeof(struct sandbox_id) + 16];
	cleanup(answer_close) struct answer answer;
	struct sandbox_id id;

	answer_init(&answer);
	if (sandbox_id_parse(run->id, &id) < 0)
		return err_set(err, -EPROTO, ERR_INTERNAL, "a run has no proper ID");
	snprintf(path, sizeof(path), "/v1/runs/%s", id.text);
	s->passing++;
	return ask(s, "DELETE", path, &answer, err);
}

static int cancel_page(struct stopping *s, const char *path, struct err *err)
{
	cleanup(answer_close) struct answer answer;
	struct run_page page = {0};
	const struct run_info *runs;
	struct arena arena;
	int r;

	answer_init(&answer);
	arena_init(&arena, RUN_ARENA_MAX);
	r = ask(s, "GET", path, &answer, err);
	if (r == 0 && answer.status == 200)
		r = json_parse(&arena, (struct str){buf_at(&answer.body), buf_len(&answer.body)},
			       page_fields, &page, err);
	runs = page.runs.items;
	for (size_t i = 0; r == 0 && i < page.runs.len; i++)
		r = cancel_one(s, &runs[i], err);
	arena_close(&arena);
	return r;
}

/* Those that wait first: one begins when another ends. */
static int cancel_runs(struct stopping *s, struct err *err)
{
	int r = cancel_page(s, "/v1/runs?limit=200&status=queued", err);

	return r < 0 ? r : cancel_page(s, "/v1/runs?limit=200&status=running", err);
}

/* It would fill itself again with what is removed from it. */
static int shut_pool(const struct stopping *s, struct err *err)
{
	cleanup(answer_close) struct answer answer;

	answer_init(&answer);
	return ask(s, "POST", "/v1/pool/shutdown-prewarmed", &answer, err);
}

/* --- sandboxes --- */

/* One that stands still is left alone; one that is gone by now needs no stopping either. */
static int end_one(void *arg, const struct sandbox_info *info)
{
	cleanup(answer_close) struct answer answer;
	struct stopping *s = arg;
	bool is_removed = sandbox_is_passing(info);
	struct err err;
	int r;

	answer_init(&answer);
	if (!is_removed && (str_eq(info->state, STR("cold")) || str_eq(info->state, STR("failed"))))
		return 0;
	r = is_removed ? sandbox_remove(s->globals, info->id.at, &answer, &err)
		       : sandbox_stop(s->globals, info->id.at, &answer, &err);
	s->passing += is_removed;
	if (r == 0 || answer.status == 404)
		return 0;
	screen_error("cannot %s %s: %s", is_removed ? "remove" : "stop", screen_text(info->id).text,
		     err.sentence);
	/* What can be stopped is, unless there is nobody to ask. */
	s->failed++;
	return r == -EREMOTEIO ? 0 : -ECANCELED;
}

static int end_sandboxes(struct stopping *s, struct err *err)
{
	const struct sandbox_visitor visitor = {.sandbox = end_one, .arg = s};
	cleanup(answer_close) struct answer answer;

	answer_init(&answer);
	return sandbox_each(s->globals, &visitor, &answer, err);
}

/* --- all --- */

static int round_of(struct stopping *s)
{
	struct err err;
	const char *what = "the runs cannot be cancelled";
	int r = shut_pool(s, &err);

	if (r == 0)
		r = cancel_runs(s, &err);
	if (r == 0) {
		what = "cannot list the sandboxes";
		r = end_sandboxes(s, &err);
	}
	if (r == 0 || client_is_absent(r))
		return r;
	if (!s->failed)
		screen_error("%s: %s", what, err.sentence);
	s->failed++;
	return r;
}

/* The daemon goes on, and so does its pool. */
static int give_up(const struct globals *globals)
{
	struct stopping s = {.globals = globals};
	cleanup(answer_close) struct answer answer;
	struct err unused;

	answer_init(&answer);
	(void)ask(&s, "POST", "/v1/pool/prime", &answer, &unused); /* 409: there is none */
	return EXIT_FAILED;
}

int stop_all(const struct globals *globals)
{
	for (unsigned i = 0; i < ROUNDS_MAX; i++) {
		struct stopping s = {.globals = globals};
		int r = round_of(&s);

		if (s.failed)
			return give_up(globals);
		/* That there is no daemon is found out, and said, later. */
		if (r < 0 || !s.passing)
			return EXIT_OK;
	}
	screen_error("new runs are begun all the time: stop who begins them, and try again");
	return give_up(globals);
}
