#include <stdio.h>

#include "cmd/berth/client.h"
#include "cmd/berth/info.h"
#include "cmd/berth/screen.h"

/* `daemon` is NULL when none answers. */
static int print_json(const struct info *daemon)
{
	struct json_writer w;
	struct buf out;
	int r;

	buf_init(&out, INFO_ARENA_MAX);
	r = json_writer_init(&w, false);
	if (r < 0)
		return EXIT_FAILED;
	json_object(&w);
	json_key(&w, "berth");
	json_text(&w, BERTH_VERSION);
	json_key(&w, "berthd");
	if (daemon)
		json_str(&w, daemon->version);
	else
		json_null(&w);
	json_object_end(&w);
	r = json_writer_end(&w, &out);
	json_writer_close(&w);
	if (r == 0)
		printf("%.*s\n", (int)buf_len(&out), buf_at(&out));
	buf_close(&out);
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

static int print_text(const struct info *daemon, const char *why_not)
{
	printf("berth  %s\n", BERTH_VERSION);
	if (daemon)
		printf("berthd %s\n", screen_text(daemon->version).text);
	else
		printf("berthd not reached: %s\n", why_not);
	return EXIT_OK;
}

static int run(const struct call *call)
{
	struct answer answer;
	struct arena arena;
	struct info info;
	struct err err;
	int code, r;

	answer_init(&answer);
	arena_init(&arena, INFO_ARENA_MAX);
	r = client_get(call->globals, "/v1/info", &answer, &err);
	if (r == 0)
		r = info_parse(&arena, &answer, &info, &err);
	code = call->globals->json ? print_json(r < 0 ? NULL : &info)
				   : print_text(r < 0 ? NULL : &info, err.sentence);
	arena_close(&arena);
	answer_close(&answer);
	return code;
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth version",        "both versions" },
	{ "berth version --json", "{\"berth\": ..., \"berthd\": ... or null}" },
	{ "berth --version",      "berth's own, without asking a daemon" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_version = {
	.name = "version",
	.summary = "print berth's version and the daemon's",
	.arguments = "",
	.description = "Prints the version of this program and, if one answers, of the daemon.\n"
		       "That none answers is no failure here.",
	.examples = examples,
	.run = run,
};
