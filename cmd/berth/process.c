#include "cmd/berth/process.h"

#include <errno.h>
#include <stdio.h>

#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "proto/sandbox_id.h"

/* clang-format off */
#define AT(member) offsetof(struct process_info, member)

const struct json_field process_fields[] = {
	{ "id",         JSON_STRING,  AT(id), true },
	{ "state",      JSON_STRING,  AT(state) },
	{ "reason",     JSON_STRING,  AT(reason) },
	{ "message",    JSON_STRING,  AT(message) },
	{ "started_at", JSON_STRING,  AT(started_at) },
	{ "command",    JSON_STRINGS, AT(command) },
	{ "pid",        JSON_UINT,    AT(pid) },
	{ "signal",     JSON_UINT,    AT(signal) },
	{ "exit_code",  JSON_INT,     AT(exit_code), false, AT(exit_code_given) },
	{ "*",          JSON_IGNORED },
	{ NULL },
};

static const struct json_field list_fields[] = {
	{ "processes", JSON_OBJECTS, 0, true, .fields = process_fields,
	  .size = sizeof(struct process_info) },
	{ NULL },
};
/* clang-format on */

int process_list_parse(struct arena *arena, const struct answer *answer, struct json_objects *ret,
		       struct err *err)
{
	struct buf text;
	int r;

	/* The answer is an array, and what is parsed by a table is an object. */
	buf_init(&text, CLIENT_ANSWER_MAX + 64);
	r = buf_printf(&text, "{\"processes\":");
	if (r == 0)
		r = buf_append(&text, buf_at(&answer->body), buf_len(&answer->body));
	if (r == 0)
		r = buf_append(&text, "}", 1);
	*ret = (struct json_objects){0};
	if (r < 0)
		r = err_set(err, r, ERR_INTERNAL, "the answer is too long");
	else
		r = json_parse(arena, (struct str){buf_at(&text), buf_len(&text)}, list_fields, ret,
			       err);
	buf_close(&text);
	return r < 0 ? err_wrap(err, r, "the answer cannot be understood (is it berthd's?)") : 0;
}

/* Their IDs look like those of sandboxes. */
struct kind {
	const char *route, *noun, *flag;
};

static int set_target(struct haul *haul, const struct kind *kind, const char *const words[3])
{
	const char *id = words[0], *process = words[1], *suffix = words[2];
	char path[SANDBOX_PATH_MAX];
	struct sandbox_id parsed = {0};
	int r = sandbox_path(id, kind->route, path, &haul->err);

	if (r < 0)
		return r;
	if (process && sandbox_id_parse(str_of(process), &parsed) < 0)
		return err_set(&haul->err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "`%s` is no %s's ID: `berth ps %s%s` lists them",
			       screen_text(str_of(process)).text, kind->noun, kind->flag,
			       screen_text(str_of(id)).text);
	buf_consume(&haul->target, buf_len(&haul->target));
	r = buf_printf(&haul->target, "%s%s%s%s", path, process ? "/" : "", parsed.text, suffix);
	return r < 0 ? haul_fail(haul, r, "out of memory") : 0;
}

int process_target(struct haul *haul, const char *id, const char *process, const char *suffix)
{
	static const struct kind kind = {"/processes", "process", ""};

	return set_target(haul, &kind, (const char *const[]){id, process, suffix});
}

int terminal_target(struct haul *haul, const char *id, const char *terminal, const char *suffix)
{
	static const struct kind kind = {"/terminals", "terminal", "-t "};

	return set_target(haul, &kind, (const char *const[]){id, terminal, suffix});
}

const char *process_name(const char *typed, char ret[64])
{
	struct sandbox_id parsed;

	if (sandbox_id_parse(str_of(typed), &parsed) < 0)
		return typed;
	snprintf(ret, 64, "%s", parsed.text);
	return ret;
}
