#include <errno.h>
#include <unistd.h>

#include "cmd/berth/haul.h"

static int show(const struct call *call, const char *text)
{
	struct remote remote;
	struct haul haul;
	int code, r;

	code = remote_parse_path("cat", text, &remote);
	if (code != EXIT_OK)
		return code;
	code = haul_init(&haul, call->globals);
	if (code != EXIT_OK)
		return code;
	r = remote_target(&remote, "file", &haul.target);
	if (r == 0)
		r = haul_receive_fd(&haul, "GET", STDOUT_FILENO);
	code = haul_finish(&haul, r);
	haul_close(&haul);
	return code;
}

static int run(const struct call *call)
{
	int code = EXIT_OK;

	if (call->arg_count == 0)
		return usage_error("which file? berth cat ID:PATH");
	/* As cat does it: the next one is shown even if this one could not be. */
	for (size_t i = 0; i < call->arg_count; i++) {
		int one = show(call, call->args[i]);

		if (one != EXIT_OK)
			code = one;
		if (one != EXIT_OK && one != EXIT_FAILED)
			break;
	}
	return code;
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth cat box:notes.txt",            "a file of /workspace" },
	{ "berth cat box:/etc/os-release",      "any file, by its whole path" },
	{ "berth cat box:a.log box:b.log | wc", "one after the other" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_cat = {
	.name = "cat",
	.summary = "write a sandbox's file to standard output",
	.arguments = "ID:PATH...",
	.arg_max = VERB_ARGS_ANY,
	.description = "Writes files of sandboxes to standard output, byte by byte as they are. A\n"
		       "path that does not begin with a slash is below /workspace.",
	.examples = examples,
	.run = run,
};
