#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/haul.h"

enum { TAR_EXTRACT, TAR_EXCLUDE, TAR_FREEZE, TAR_OWNERS };

static int pack(const struct call *call, struct haul *haul, const struct remote *remote)
{
	int r = remote_tree_target(remote, "persist", &haul->target);

	if (r == 0)
		r = buf_printf(&haul->target, "&sparse=1%s",
			       call->values[TAR_FREEZE] ? "&freeze=1" : "");
	if (r == 0)
		r = haul_patterns(haul, call, TAR_EXCLUDE, "excludes");
	if (r < 0)
		return haul_fail(haul, r, "the path and the patterns are too long");
	return haul_receive_fd(haul, "POST", STDOUT_FILENO);
}

static int extract(const struct call *call, struct haul *haul, const struct remote *remote)
{
	cleanup_fd int fd = haul_open_stdin(haul);
	int r;

	if (fd < 0)
		return fd;
	r = remote_tree_target(remote, "hydrate", &haul->target);
	if (r == 0 && call->values[TAR_OWNERS])
		r = buf_printf(&haul->target, "&owners=1");
	if (r == 0)
		r = haul_send(haul, "POST", fd, NULL, NULL);
	if (r == 0 && haul->globals->json)
		printf("%.*s\n", (int)buf_len(&haul->answer.body), buf_at(&haul->answer.body));
	return r;
}

/* EXIT_OK, or EXIT_USAGE with a sentence. */
static int check(const struct call *call)
{
	bool is_extract = call->values[TAR_EXTRACT];

	if (call->arg_count == 0)
		return usage_error("of which sandbox? berth tar ID[:PATH] >FILE");
	if (is_extract && call->values[TAR_EXCLUDE])
		return usage_error("--exclude is for archives that are made, not for --extract");
	if (is_extract && call->values[TAR_FREEZE])
		return usage_error("--freeze is for archives that are made, not for --extract");
	if (!is_extract && call->values[TAR_OWNERS])
		return usage_error("--owners is for --extract: an archive always tells owners");
	for (size_t i = 0; i < call->given_count; i++)
		if (strchr(call->given[i].value, ','))
			return usage_error("--exclude takes one pattern, without a comma; give it "
					   "more than once");
	if (is_extract && isatty(STDIN_FILENO))
		return usage_error("an archive is read from standard input: <FILE");
	if (!is_extract && isatty(STDOUT_FILENO))
		return usage_error("an archive is not for a terminal: >FILE, or | tar -t");
	return EXIT_OK;
}

static int run(const struct call *call)
{
	struct remote remote;
	struct haul haul;
	int code = check(call);

	if (code == EXIT_OK)
		code = remote_parse(call->args[0], &remote);
	if (code == EXIT_OK)
		code = haul_init(&haul, call->globals);
	if (code != EXIT_OK)
		return code;
	code = haul_finish(&haul, call->values[TAR_EXTRACT] ? extract(call, &haul, &remote)
							    : pack(call, &haul, &remote));
	haul_close(&haul);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[TAR_EXTRACT] = { "--extract", NULL,      "unpack standard input into the sandbox", "-x" },
	[TAR_EXCLUDE] = { "--exclude", "PATTERN", "leave out a path below it, or *.o; may be repeated" },
	[TAR_FREEZE]  = { "--freeze",  NULL,      "let everything in the sandbox stand still meanwhile" },
	[TAR_OWNERS]  = { "--owners",  NULL,      "with -x: keep the numeric owners of the archive" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth tar box >box.tar",                 "all of /workspace" },
	{ "berth tar box:src --exclude '*.o' | gzip >src.tar.gz", "a part of it" },
	{ "berth tar --freeze db:/data >db.tar",    "as it is at one moment, though it is written" },
	{ "berth tar -x box:src <src.tar.gz",       "and back, also from gzip, xz or zstd" },
	{ "berth tar a | berth tar -x b",           "from one sandbox to another" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_tar = {
	.name = "tar",
	.summary = "make a tar archive of a sandbox's tree, or unpack one there",
	.arguments = "ID[:PATH]",
	.arg_max = 1,
	.description =
		"Writes a tree of a sandbox, /workspace by default, to standard output as a tar\n"
		"archive, or with -x unpacks one from standard input. An archive that could not "
		"be\n"
		"written to its end is a failure, and what came of it is not complete.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
