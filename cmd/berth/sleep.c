#include <stdio.h>

#include "cmd/berth/awake.h"
#include "cmd/berth/sandbox.h"
#include "proto/settings.h"

enum { SLEEP_WAY };

static int sleep_as(const struct globals *globals, const char *id, const char *body,
		    struct answer *ret, struct err *err)
{
	char path[SANDBOX_PATH_MAX];
	struct client_request request = {
		.method = "POST", .path = path, .body = str_of(body), .timeout_ms = CLIENT_WAIT_MS};
	int r = sandbox_path(id, "/sleep", path, err);

	return r < 0 ? r : client_send(globals, &request, ret, err);
}

static int sleep_as_set(const struct globals *globals, const char *id, struct answer *ret,
			struct err *err)
{
	return sleep_as(globals, id, "", ret, err);
}

static int sleep_frozen(const struct globals *globals, const char *id, struct answer *ret,
			struct err *err)
{
	return sleep_as(globals, id, "{\"mode\":\"freeze\"}", ret, err);
}

static int show(const char *id, const struct answer *answer, struct err *err)
{
	struct sandbox_receipt receipt;
	struct arena arena;
	int r;

	arena_init(&arena, SANDBOX_ARENA_MAX);
	r = sandbox_receipt_parse(&arena, answer, &receipt, err);
	if (r == 0)
		printf("%s is %s%s\n", id, awake_mode_word(receipt.mode),
		       awake_kept(&receipt.kept).text);
	arena_close(&arena);
	return r;
}

static int run(const struct call *call)
{
	static sandbox_act *const acts[SLEEP_MODES] = {
		[SLEEP_AUTO] = sleep_as_set,
		[SLEEP_FREEZE] = sleep_frozen,
		[SLEEP_STOP] = sandbox_stop,
	};
	const char *word = call->values[SLEEP_WAY];
	enum sleep_mode mode = SLEEP_AUTO;

	if (word && sleep_mode_parse(str_of(word), &mode) < 0)
		return usage_error("--mode wants `freeze` or `stop`");
	return sandbox_for_all(call, acts[mode], show);
}

/* clang-format off */
static const struct flag flags[] = {
	[SLEEP_WAY] = { "--mode", "WAY", "freeze or stop; without: as its settings say" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth sleep web",               "as its --sleep-mode says, at once" },
	{ "berth sleep web --mode freeze", "its processes stay, and use no processor" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_sleep = {
	.name = "sleep",
	.summary = "put sandboxes to sleep",
	.arguments = "ID...",
	.arg_max = VERB_ARGS_ANY,
	.description =
		"Puts sandboxes to sleep and says what they keep. One that is frozen keeps its\n"
		"processes and their memory, and wakes in a moment; one that is stopped keeps its\n"
		"disk. The next command wakes it. Sandboxes also sleep by themselves when they\n"
		"are idle.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
