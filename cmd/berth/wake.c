#include "cmd/berth/sandbox.h"

static int wake(const struct globals *globals, const char *id, struct answer *ret, struct err *err)
{
	char path[SANDBOX_PATH_MAX];
	struct client_request request = {
		.method = "POST", .path = path, .timeout_ms = CLIENT_WAIT_MS};
	int r = sandbox_path(id, "/wake", path, err);

	return r < 0 ? r : client_send(globals, &request, ret, err);
}

static int run(const struct call *call)
{
	return sandbox_for_all(call, wake, NULL);
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth wake web",      "wait until it runs" },
	{ "berth wake web db",   "several" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_wake = {
	.name = "wake",
	.summary = "wake sandboxes",
	.arguments = "ID...",
	.arg_max = VERB_ARGS_ANY,
	.description =
		"Wakes sandboxes and waits until they run; what runs already is left alone.\n"
		"One that is not there yet is made, with default settings. Commands wake their\n"
		"sandbox by themselves; this is for having it warm.",
	.examples = examples,
	.run = run,
};
