#include "cmd/berth/sandbox.h"

static int run(const struct call *call)
{
	return sandbox_for_all(call, sandbox_remove, NULL);
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth rm web",            "the sandbox and its disk are gone" },
	{ "berth rm a b c",          "several" },
	{ "berth rm $(berth ls -q)", "all of them" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_rm = {
	.name = "rm",
	.summary = "remove sandboxes with their disks",
	.arguments = "ID...",
	.arg_max = VERB_ARGS_ANY,
	.description =
		"Ends everything that runs in the sandboxes and removes them with their disks.\n"
		"That there is no such sandbox is no failure.",
	.examples = examples,
	.run = run,
};
