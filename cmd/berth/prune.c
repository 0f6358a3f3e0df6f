/*
 * Removes sandboxes that have been out of use for long. What was seen in the list may have changed
 * by the time it is removed: each request says in which state and generation it was, and the daemon
 * removes it only if that is still so.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/berth/awake.h"
#include "cmd/berth/info.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "proto/sandbox_id.h"
#include "proto/time_text.h"
#include "proto/units.h"

#define OLDER_THAN_DEFAULT "7d"

enum { PRUNE_OLDER_THAN, PRUNE_LABEL, PRUNE_DRY_RUN, PRUNE_YES };

struct candidate {
	struct sandbox_id id;
	bool is_failed;
	uint64_t generation;
	int64_t unused_ms;
	bool is_removed;
	struct err err; /* why it was not */
};

struct pruning {
	const struct call *call;
	struct str label; /* empty: any */
	uint64_t older_than_ms;
	int64_t now_ms, daemon_since_ms;
	struct candidate *candidates;
	size_t len, size;
};

/* --- what is not needed --- */

static void take_later(int64_t *latest_ms, struct str at)
{
	int64_t ms;

	if (time_text_parse(at, &ms) == 0 && ms > *latest_ms)
		*latest_ms = ms;
}

/* A daemon does not know what came before it: until then it may have been in use. */
static int64_t last_used_ms(const struct pruning *p, const struct sandbox_info *info)
{
	int64_t latest_ms = p->daemon_since_ms;

	take_later(&latest_ms, info->created_at);
	take_later(&latest_ms, info->started_at);
	take_later(&latest_ms, info->last_active_at);
	take_later(&latest_ms, info->last_sleep.at);
	take_later(&latest_ms, info->last_failure.at);
	return latest_ms;
}

/* "name=value", or "name" for any value. */
static bool has_label(const struct sandbox_info *info, struct str wanted)
{
	const char *equals = wanted.len ? memchr(wanted.at, '=', wanted.len) : NULL;
	size_t len = equals ? (size_t)(equals - wanted.at) : wanted.len;
	struct str name = {wanted.at, len};
	struct str value = {equals ? equals + 1 : NULL, equals ? wanted.len - len - 1 : 0};

	for (size_t i = 0; i < info->labels.len; i++) {
		const struct json_pair *label = &info->labels.items[i];

		if (str_eq(label->key, name) && (!equals || str_eq(label->value, value)))
			return true;
	}
	return !wanted.len;
}

static int consider(void *arg, const struct sandbox_info *info)
{
	struct pruning *p = arg;
	struct candidate candidate = {
		.is_failed = str_eq(info->state, STR("failed")),
		.generation = info->generation,
		.unused_ms = p->now_ms - last_used_ms(p, info),
	};

	if ((!candidate.is_failed && !str_eq(info->state, STR("cold"))) ||
	    info->next_alarm_at.len || candidate.unused_ms < 0 ||
	    (uint64_t)candidate.unused_ms < p->older_than_ms || !has_label(info, p->label) ||
	    sandbox_id_parse(info->id, &candidate.id) < 0)
		return 0;
	if (p->len == p->size) {
		size_t size = p->size ? 2 * p->size : 64;
		struct candidate *larger = reallocarray(p->candidates, size, sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		p->candidates = larger;
		p->size = size;
	}
	p->candidates[p->len++] = candidate;
	return 0;
}

/* By the clock that is behind: nothing is taken for older than it is. */
static int ask_daemon(struct pruning *p, struct answer *answer, struct err *err)
{
	struct arena arena;
	struct info info;
	int64_t daemon_now_ms;
	int r = client_get(p->call->globals, "/v1/info", answer, err);

	arena_init(&arena, INFO_ARENA_MAX);
	if (r == 0)
		r = info_parse(&arena, answer, &info, err);
	if (r == 0 &&
	    (!info.capacity_given || time_text_parse(info.started_at, &p->daemon_since_ms) < 0))
		r = err_set(err, -EPROTO, ERR_UNSUPPORTED,
			    "the daemon is older than this `berth`, and may remove what is in use: "
			    "start it anew (`berth down`, `berth up`)");
	if (r == 0) {
		daemon_now_ms = p->daemon_since_ms + (int64_t)info.uptime_ms;
		p->now_ms = awake_now_ms();
		if (daemon_now_ms < p->now_ms)
			p->now_ms = daemon_now_ms;
	}
	arena_close(&arena);
	return r;
}

static int find(struct pruning *p, struct answer *answer, struct err *err)
{
	struct sandbox_visitor visitor = {.sandbox = consider, .arg = p};
	int r = ask_daemon(p, answer, err);

	return r < 0 ? r : sandbox_each(p->call->globals, &visitor, answer, err);
}

/* --- saying what --- */

static const char *state_of(const struct candidate *c)
{
	return c->is_failed ? "failed" : "cold";
}

static void print_plan(const struct pruning *p)
{
	if (!p->len)
		printf("nothing to remove: no sandbox was unused for so long\n");
	for (size_t i = 0; i < p->len; i++)
		printf("%s is %s, and unused for %s\n", p->candidates[i].id.text,
		       state_of(&p->candidates[i]),
		       screen_duration((unsigned long long)p->candidates[i].unused_ms).text);
}

static void write_candidate(struct json_writer *w, const struct candidate *c)
{
	json_object(w);
	json_key(w, "id");
	json_text(w, c->id.text);
	json_key(w, "state");
	json_text(w, state_of(c));
	json_key(w, "unused_ms");
	json_int(w, c->unused_ms);
	json_key(w, "removed");
	json_bool(w, c->is_removed);
	if (c->err.code != ERR_NONE) {
		json_key(w, "error");
		json_text(w, screen_text(str_of(c->err.sentence)).text);
	}
	json_object_end(w);
}

static int print_json(const struct pruning *p)
{
	struct json_writer w;
	struct buf out;
	int r = json_writer_init(&w, false);

	if (r < 0)
		return r;
	json_object(&w);
	json_key(&w, "sandboxes");
	json_array(&w);
	for (size_t i = 0; i < p->len; i++)
		write_candidate(&w, &p->candidates[i]);
	json_array_end(&w);
	json_object_end(&w);
	buf_init(&out, CLIENT_ANSWER_MAX);
	r = json_writer_end(&w, &out);
	json_writer_close(&w);
	if (r == 0)
		printf("%.*s\n", (int)buf_len(&out), buf_at(&out));
	buf_close(&out);
	return r;
}

/* --- removing --- */

static bool is_agreed(const struct pruning *p)
{
	char line[16];

	if (p->call->values[PRUNE_YES])
		return true;
	printf("remove %s with %s? [y/N] ", p->len == 1 ? "it" : "them all",
	       p->len == 1 ? "its disk" : "their disks");
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) &&
	       (strcmp(line, "y\n") == 0 || strcmp(line, "yes\n") == 0);
}

/* The exit code. */
static int remove_one(const struct pruning *p, struct candidate *c)
{
	char path[SANDBOX_PATH_MAX], header[64];
	struct client_request request = {
		.method = "DELETE", .path = path, .header = header, .timeout_ms = CLIENT_WAIT_MS};
	struct answer answer;
	int code = EXIT_OK, r;

	answer_init(&answer);
	snprintf(path, sizeof(path), "/v1/sandbox/%s?reason=prune&if_state=%s", c->id.text,
		 state_of(c));
	snprintf(header, sizeof(header), "If-Generation: %" PRIu64, c->generation);
	r = client_send(p->call->globals, &request, &answer, &c->err);
	if (r == 0) {
		c->is_removed = true;
		c->err.code = ERR_NONE;
		if (!p->call->globals->json)
			printf("removed %s\n", c->id.text);
	} else {
		screen_error("%s was not removed: %s", c->id.text, c->err.sentence);
		code = client_is_absent(r) ? EXIT_NO_DAEMON : EXIT_FAILED;
	}
	answer_close(&answer);
	return code;
}

static int remove_all(struct pruning *p)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < p->len && code != EXIT_NO_DAEMON; i++) {
		int one = remove_one(p, &p->candidates[i]);

		if (one != EXIT_OK)
			code = one;
	}
	return code;
}

static int act(struct pruning *p)
{
	bool is_json = p->call->globals->json;
	int code = EXIT_OK;

	if (!is_json)
		print_plan(p);
	if (p->len && !p->call->values[PRUNE_DRY_RUN]) {
		if (!is_agreed(p)) {
			screen_error("nothing was removed");
			return EXIT_FAILED;
		}
		code = remove_all(p);
	}
	if (is_json && print_json(p) < 0) {
		screen_error("out of memory");
		return EXIT_FAILED;
	}
	return code;
}

static int check(struct pruning *p)
{
	const struct call *call = p->call;
	const char *older_than = call->values[PRUNE_OLDER_THAN];
	bool is_asking = !call->values[PRUNE_YES] && !call->values[PRUNE_DRY_RUN];

	if (duration_parse(str_of(older_than ? older_than : OLDER_THAN_DEFAULT),
			   &p->older_than_ms) < 0)
		return usage_error("--older-than wants a duration, such as 12h or 30d");
	if (is_asking && (call->globals->json || !isatty(STDIN_FILENO)))
		return usage_error(
			"`prune` asks before it removes anything, and there is nobody to "
			"ask: give --yes, or --dry-run to see what it would remove");
	p->label = str_of(call->values[PRUNE_LABEL] ? call->values[PRUNE_LABEL] : "");
	return EXIT_OK;
}

static int run(const struct call *call)
{
	struct pruning p = {.call = call};
	struct answer answer;
	struct err err;
	int code = check(&p), r;

	if (code != EXIT_OK)
		return code;
	answer_init(&answer);
	r = find(&p, &answer, &err);
	code = r < 0 ? client_failed(call->globals, &answer, r, &err) : act(&p);
	answer_close(&answer);
	free(p.candidates);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[PRUNE_OLDER_THAN] = { "--older-than", "DURATION",     "unused for so long: 12h, 30d (7d)" },
	[PRUNE_LABEL]      = { "--label",      "NAME[=VALUE]", "only those that have this label" },
	[PRUNE_DRY_RUN]    = { "--dry-run",    NULL,           "only say what would be removed" },
	[PRUNE_YES]        = { "--yes",        NULL,           "do not ask", "-y" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth prune --dry-run",            "what was not used for a week" },
	{ "berth prune --older-than 30d",     "a month; it asks first" },
	{ "berth prune -y --label kind=ci",   "of those with that label, without asking" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_prune = {
	.name = "prune",
	.summary = "remove sandboxes that were not used for long",
	.arguments = "",
	.description =
		"Removes sandboxes that are cold or failed, and were not used for a week or as\n"
		"long as --older-than says, with their disks. Says which ones, and asks first.\n"
		"One that is in use by then stays, and is a failure. The daemon does not know\n"
		"what was used before it was started: that time does not count.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
