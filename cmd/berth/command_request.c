#include "cmd/berth/command_request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cmd/berth/sandbox.h"
#include "proto/json.h"

#define REQUEST_MAX (4 * 1024 * 1024) /* more than a command line can be */

static int put_text(struct buf *out, const char *text)
{
	return buf_append(out, text, strlen(text));
}

/* "&name=value", all but plain characters as %XX; the first one has its "?" already. */
static int put_parameter(struct buf *out, const char *name, const char *value)
{
	bool is_first = buf_at(out)[buf_len(out) - 1] == '?';
	int r = buf_printf(out, "%s%s=", is_first ? "" : "&", name);

	for (; r == 0 && *value; value++) {
		char c = *value;
		bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
				(c >= '0' && c <= '9') || strchr("-_.~/", c);

		r = is_plain ? buf_append(out, &c, 1)
			     : buf_printf(out, "%%%02X", (unsigned)(unsigned char)c);
	}
	return r;
}

static int put_query(struct buf *out, const struct command *command)
{
	int r = put_text(out, "?");

	for (size_t i = 0; r == 0 && i < command->argc; i++)
		r = put_parameter(out, "argv", command->argv[i]);
	for (size_t i = 0; r == 0 && i < command->env_len; i++)
		r = put_parameter(out, "env", command->env[i]);
	if (r == 0 && command->cwd)
		r = put_parameter(out, "cwd", command->cwd);
	if (r == 0 && command->user)
		r = put_parameter(out, "user", command->user);
	if (r == 0 && command->timeout_ms)
		r = buf_printf(out, "&timeout_ms=%" PRIu64, command->timeout_ms);
	return r;
}

static void write_env(struct json_writer *w, const struct command *command)
{
	if (!command->env_len)
		return;
	json_key(w, "env");
	json_object(w);
	for (size_t i = 0; i < command->env_len; i++) {
		struct str value = str_of(command->env[i]), name = str_cut(&value, '=');

		json_key_str(w, name);
		json_str(w, value);
	}
	json_object_end(w);
}

static int put_json(struct buf *out, const struct command *command)
{
	cleanup(json_writer_close) struct json_writer w;

	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "argv");
	json_array(&w);
	for (size_t i = 0; i < command->argc; i++)
		json_text(&w, command->argv[i]);
	json_array_end(&w);
	write_env(&w, command);
	if (command->cwd) {
		json_key(&w, "cwd");
		json_text(&w, command->cwd);
	}
	if (command->user) {
		json_key(&w, "user");
		json_text(&w, command->user);
	}
	if (command->timeout_ms) {
		json_key(&w, "timeout_ms");
		json_int(&w, (int64_t)command->timeout_ms);
	}
	if (command->process) {
		json_key(&w, "id");
		json_text(&w, command->process);
	}
	if (command->is_autostart) {
		json_key(&w, "autostart");
		json_bool(&w, true);
	}
	json_object_end(&w);
	return json_writer_end(&w, out);
}

int command_request_make(struct command_request *ret, const struct command *command,
			 struct err *err)
{
	char path[SANDBOX_PATH_MAX];
	int r;

	buf_init(&ret->path, REQUEST_MAX);
	buf_init(&ret->body, REQUEST_MAX);
	ret->is_query = false;
	ret->header[0] = '\0';
	r = sandbox_path(command->id, command->is_detached ? "/processes" : "/exec", path, err);
	if (r == 0 && command->session)
		r = session_check(command->session, err);
	if (r < 0)
		return r;
	if (command->session)
		snprintf(ret->header, sizeof(ret->header), "Session-Id: %s", command->session);
	r = put_text(&ret->path, path);
	ret->is_query = command->has_stdin;
	if (r == 0 && !ret->is_query)
		r = put_json(&ret->body, command);
	if (r == -EILSEQ && command->is_detached)
		return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "a background process takes only words that are UTF-8");
	/* JSON is text, and words of a command need not be: a query takes any bytes. */
	if (r == -EILSEQ) {
		buf_consume(&ret->body, buf_len(&ret->body));
		ret->is_query = true;
		r = 0;
	}
	if (r == 0 && ret->is_query)
		r = put_query(&ret->path, command);
	if (r == 0)
		r = buf_append(&ret->path, "", 1);
	return r < 0 ? err_set(err, r, ERR_INVALID_REQUEST, "the command is too long") : 0;
}

void command_request_close(struct command_request *request)
{
	buf_close(&request->path);
	buf_close(&request->body);
}
