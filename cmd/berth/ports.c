#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/port.h"
#include "cmd/berth/screen.h"

/* The rows so far: what a page tells is gone with it. */
struct table {
	struct json_writer json; /* with --json; else */
	char *text;
	size_t text_len;
	FILE *out;
	bool is_json, has_head;
};

static void add_row(struct table *t, struct str id, const struct sandbox_port *port)
{
	if (!t->has_head)
		fprintf(t->out, "%s%-20s  %5s  %-12s  %-7s  %s%s\n", screen_tint(stdout, TINT_DIM),
			"SANDBOX", "PORT", "NAME", "PUBLIC", "URL", screen_tint(stdout, TINT_NONE));
	t->has_head = true;
	fprintf(t->out, "%-20s  %5" PRIu64 "  ", screen_text(id).text, port->port);
	fprintf(t->out, "%-12s  ", port->name.len ? screen_text(port->name).text : "-");
	fprintf(t->out, "%-7s  %s\n", port->is_public ? "yes" : "no",
		port->url.len ? screen_text(port->url).text : "-");
}

static void write_text(struct json_writer *w, const char *key, struct str text)
{
	json_key(w, key);
	if (text.len)
		json_str(w, text);
	else
		json_null(w);
}

static void write_row(struct json_writer *w, struct str id, const struct sandbox_port *port)
{
	json_object(w);
	write_text(w, "sandbox", id);
	json_key(w, "port");
	json_int(w, (int64_t)port->port);
	write_text(w, "url", port->url);
	write_text(w, "hostname", port->hostname);
	write_text(w, "name", port->name);
	json_key(w, "public");
	json_bool(w, port->is_public);
	json_object_end(w);
}

static int add_sandbox(void *arg, const struct sandbox_info *info)
{
	const struct sandbox_port *ports = info->ports.items;
	struct table *t = arg;

	for (size_t i = 0; i < info->ports.len; i++) {
		if (t->is_json)
			write_row(&t->json, info->id, &ports[i]);
		else
			add_row(t, info->id, &ports[i]);
	}
	return 0;
}

static int add_one(const struct call *call, struct table *t, struct answer *answer, struct err *err)
{
	char path[SANDBOX_PATH_MAX];
	struct sandbox_info info;
	struct arena arena;
	int r = sandbox_path(call->args[0], "", path, err);

	arena_init(&arena, SANDBOX_ARENA_MAX);
	if (r == 0)
		r = client_get(call->globals, path, answer, err);
	if (r == 0)
		r = sandbox_parse(&arena, answer, &info, err);
	if (r == 0)
		add_sandbox(t, &info);
	arena_close(&arena);
	return r;
}

static int print(struct table *t, struct err *err)
{
	cleanup(buf_close) struct buf text;
	int r;

	buf_init(&text, JSON_TEXT_MAX);
	if (!t->is_json) {
		fflush(t->out);
		fwrite(t->text, 1, t->text_len, stdout);
		return 0;
	}
	json_array_end(&t->json);
	json_object_end(&t->json);
	r = json_writer_end(&t->json, &text);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "the answer cannot be shown");
	printf("%.*s\n", (int)buf_len(&text), buf_at(&text));
	return 0;
}

static int run(const struct call *call)
{
	struct table t = {.is_json = call->globals->json};
	const struct sandbox_visitor visitor = {.sandbox = add_sandbox, .arg = &t};
	struct answer answer;
	struct err err;
	int code = EXIT_OK, r;

	answer_init(&answer);
	t.out = open_memstream(&t.text, &t.text_len);
	if (!t.out) {
		screen_error("out of memory");
		return EXIT_FAILED;
	}
	json_writer_init(&t.json, false);
	json_object(&t.json);
	json_key(&t.json, "ports");
	json_array(&t.json);
	r = call->arg_count ? add_one(call, &t, &answer, &err)
			    : sandbox_each(call->globals, &visitor, &answer, &err);
	if (r == 0)
		r = print(&t, &err);
	if (r < 0)
		code = client_failed(call->globals, &answer, r, &err);
	json_writer_close(&t.json);
	fclose(t.out);
	free(t.text);
	answer_close(&answer);
	return code;
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth ports",             "of all sandboxes" },
	{ "berth ports web",         "of one" },
	{ "berth ports --json",      "for programs" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_ports = {
	.name = "ports",
	.summary = "list exposed ports and their URLs",
	.arguments = "[ID]",
	.arg_max = 1,
	.description =
		"Lists the exposed ports of a sandbox, or of all of them. Nothing is started.",
	.examples = examples,
	.run = run,
};
