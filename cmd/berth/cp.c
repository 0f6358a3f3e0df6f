#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/berth/copy.h"
#include "cmd/berth/screen.h"

enum { CP_RECURSIVE, CP_LINKS };

static int run(const struct call *call)
{
	struct copy copy = {.is_recursive = call->values[CP_RECURSIVE],
			    .keeps_links = call->values[CP_LINKS]};
	bool is_out, is_in;
	struct haul haul;
	int code;

	if (call->arg_count < 2)
		return usage_error("what, and where to? berth cp SRC DST, one of them ID:PATH");
	is_out = remote_is(call->args[0]);
	is_in = remote_is(call->args[1]);
	if (is_out == is_in)
		return usage_error(is_out ? "one side has to be local: `berth tar A | berth tar -x "
					    "B` goes from sandbox to sandbox"
					  : "one of SRC and DST has to be ID:PATH (a local name "
					    "with a colon is written ./a:b)");
	copy.local = call->args[is_out ? 1 : 0];
	if (!*copy.local)
		return usage_error("an empty name is no file's");
	code = remote_parse(call->args[is_out ? 0 : 1], &copy.remote);
	if (code != EXIT_OK)
		return code;
	code = haul_init(&haul, call->globals);
	if (code != EXIT_OK)
		return code;
	copy.haul = &haul;
	code = haul_finish(&haul, is_out ? copy_out(&copy) : copy_in(&copy));
	haul_close(&haul);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[CP_RECURSIVE] = { "--recursive", NULL, "copy directories and everything in them", "-r" },
	[CP_LINKS]     = { "--links",     NULL, "out of a sandbox: also make links that lead out of the tree" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth cp notes.txt box:",            "into /workspace" },
	{ "berth cp box:out/report.pdf .",      "and out of it" },
	{ "berth cp notes.txt box:new/",        "into a directory, made if need be" },
	{ "berth cp -r ./src box:/srv/app",     "a tree: becomes /srv/app, or /srv/app/src if that is there" },
	{ "berth cp -r box:src/. ./copy",       "what is in the directory, rather than itself" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_cp = {
	.name = "cp",
	.summary = "copy files and trees into a sandbox, or out of it",
	.arguments = "SRC DST",
	.arg_max = 2,
	.description =
		"Copies between here and a sandbox; one of the two is ID:PATH, and the other may\n"
		"be -, standard input or output. A DST that is a directory gets the copy under "
		"its\n"
		"own name; in a sandbox, directories that DST lacks are made. A SRC that ends "
		"with\n"
		"/. means what is in it.\n"
		"\n"
		"A file takes its place at once and as a whole, also when Ctrl-C is pressed, and "
		"so\n"
		"does a tree that is new here. A tree that goes into a sandbox, or into a "
		"directory\n"
		"that is there, may stop half-way: each of its files is whole then.\n"
		"\n"
		"Permissions go along, those of trees with their times; owners do not. Out of a\n"
		"sandbox the umask holds, and set-id bits, sticky bits, pipes, sockets and\n"
		"devices stay behind; into one, sockets and devices do. What is left out is\n"
		"counted, but for sockets and devices of a sandbox, which it does not tell of.\n"
		"What a sandbox sends is never written outside of DST.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
