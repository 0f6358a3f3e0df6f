#include "cmd/berth/sandbox.h"

static int start(const struct globals *globals, const char *id, struct answer *ret, struct err *err)
{
	char path[SANDBOX_PATH_MAX];
	struct client_request request = {
		.method = "POST", .path = path, .timeout_ms = CLIENT_WAIT_MS};
	int r = sandbox_path(id, "/start", path, err);

	return r < 0 ? r : client_send(globals, &request, ret, err);
}

static int run(const struct call *call)
{
	return sandbox_for_all(call, start, NULL);
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth start web",      "wait until it runs" },
	{ "berth start web db",   "several" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_start = {
	.name = "start",
	.summary = "start sandboxes",
	.arguments = "ID...",
	.arg_max = VERB_ARGS_ANY,
	.description =
		"Starts sandboxes and waits until they run. What runs already is left alone.\n"
		"One that is not there yet is made, with default settings. Commands start their\n"
		"sandbox by themselves; this is for having it warm.",
	.examples = examples,
	.run = run,
};
