#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cmd/berth/port.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/settings.h"

#define BODY_MAX (64 * 1024) /* what is too long the daemon says */

enum { EXPOSE_NAME, EXPOSE_TOKEN, EXPOSE_PUBLIC };

static void write_text(struct json_writer *w, const char *key, const char *value)
{
	if (!value)
		return;
	json_key(w, key);
	json_text(w, value);
}

static int make_body(const struct call *call, struct buf *out, struct err *err)
{
	cleanup(json_writer_close) struct json_writer w;
	int r;

	json_writer_init(&w, false);
	json_object(&w);
	write_text(&w, "name", call->values[EXPOSE_NAME]);
	write_text(&w, "token", call->values[EXPOSE_TOKEN]);
	if (call->values[EXPOSE_PUBLIC]) {
		json_key(&w, "public");
		json_bool(&w, true);
	}
	json_object_end(&w);
	r = json_writer_end(&w, out);
	return r < 0 ? settings_unwritten(r, err) : 0;
}

static int run(const struct call *call)
{
	cleanup(buf_close) struct buf body;
	struct port_call c;
	int code = EXIT_OK, r;

	buf_init(&body, BODY_MAX);
	if (call->arg_count < 2)
		return usage_error("which port of which sandbox? berth expose ID PORT");
	if (call->values[EXPOSE_TOKEN] && call->values[EXPOSE_PUBLIC])
		return usage_error("a public port has no token: --token or --public");
	port_call_init(&c, call->globals);
	r = make_body(call, &body, &c.err);
	if (r == 0)
		r = port_ask(&c, "PUT", call->args, (struct str){buf_at(&body), buf_len(&body)});
	if (r < 0)
		code = client_failed(call->globals, &c.answer, r, &c.err);
	else if (call->globals->json)
		printf("%.*s\n", (int)buf_len(&c.answer.body), buf_at(&c.answer.body));
	else
		port_print_url(&c);
	port_call_close(&c);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[EXPOSE_NAME]   = { "--name",   "TEXT",  "what people call it", .may_be_empty = true },
	[EXPOSE_TOKEN]  = { "--token",  "TOKEN", "8 to 32 of a-z and 0-9, instead of random ones" },
	[EXPOSE_PUBLIC] = { "--public", NULL,    "without a token, for everybody who knows the sandbox's ID" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth expose web 8080",               "prints the URL, which nobody can guess" },
	{ "berth expose web 8080 --name site",   "with a name, for `berth ports`" },
	{ "berth expose web 8080 --public",      "under a URL that can be guessed" },
	{ "curl \"$(berth expose web 8080)\"",   "what listens there is started by who asks" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_expose = {
	.name = "expose",
	.summary = "give a port of a sandbox a URL",
	.arguments = "ID PORT",
	.arg_max = 2,
	.description =
		"Gives a port inside a sandbox a URL of its own and prints it. Whoever opens it\n"
		"wakes the sandbox. The URL holds a random token and stays the same, also when\n"
		"this is asked for again, until `berth unexpose`: sleep, restarts and crashes do\n"
		"not change it. What is not said of a port that is exposed already stays as it\n"
		"is; another token, or --public, changes its URL. A sandbox that is not there is\n"
		"made, and none is started.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
