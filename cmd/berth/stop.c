#include "cmd/berth/sandbox.h"

static int run(const struct call *call)
{
	return sandbox_for_all(call, sandbox_stop, NULL);
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth stop web",             "its processes end, its disk stays" },
	{ "berth stop $(berth ls -q)",  "all of them" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_stop = {
	.name = "stop",
	.summary = "stop sandboxes, keeping their disks",
	.arguments = "ID...",
	.arg_max = VERB_ARGS_ANY,
	.description =
		"Ends everything that runs in the sandboxes. Their disks and settings stay, and\n"
		"the next command starts them again.",
	.examples = examples,
	.run = run,
};
