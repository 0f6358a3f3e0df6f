#include "proto/code_request.h"

#include <errno.h>

#include "proto/exec_asked.h"

#define FILE_NAME_MAX 255

static int find_language(struct str name, enum kernel_language *ret, struct err *err)
{
	int language = kernel_language_find(name);

	if (language < 0)
		return exec_refuse(err, "language must be python, javascript, typescript or bash");
	*ret = (enum kernel_language)language;
	return 0;
}

static int check_id(struct str id, const char *sentence, struct err *err)
{
	return session_id_is_valid(id) ? 0 : exec_refuse(err, sentence);
}

int context_request_parse(struct arena *arena, struct str body, struct context_request *ret,
			  struct err *err)
{
	struct asked_context {
		struct exec_asked exec;
		struct str id, language;
		bool id_given;
	} asked = {.exec.max_output_bytes = 0};
	/* clang-format off */
#define IN(member) offsetof(struct asked_context, member)
	const struct json_field fields[] = {
		{ "id",       JSON_STRING, IN(id),        false, IN(id_given) },
		{ "language", JSON_STRING, IN(language),  true },
		{ "cwd",      JSON_STRING, IN(exec.cwd),  false, IN(exec.cwd_given) },
		{ "user",     JSON_STRING, IN(exec.user), false, IN(exec.user_given) },
		{ "env",      JSON_MAP,    IN(exec.env) },
		{ NULL },
	};
#undef IN
	/* clang-format on */
	struct str program = STR("kernel");
	int r = json_parse(arena, body, fields, &asked, err);

	if (r == 0 && asked.id_given)
		r = check_id(asked.id,
			     "id must be 1 to 128 letters, digits and -_.: and begin with a letter "
			     "or digit",
			     err);
	if (r == 0)
		r = find_language(asked.language, &ret->language, err);
	if (r < 0)
		return r;
	asked.exec.argv = (struct json_strings){&program, 1};
	asked.exec.argv_given = true;
	ret->id = asked.id_given ? asked.id : STR("");
	return exec_take_asked(arena, &asked.exec, &ret->exec, err);
}

int code_request_parse(struct arena *arena, struct str body, struct code_request *ret,
		       struct err *err)
{
	struct asked_code {
		struct code_request code;
		struct str language;
		bool context_given;
	} asked = {.code.language = KERNEL_PYTHON};
	/* clang-format off */
#define IN(member) offsetof(struct asked_code, member)
	const struct json_field fields[] = {
		{ "code",       JSON_BYTES,  IN(code.code),       true },
		{ "context",    JSON_STRING, IN(code.context),    false, IN(context_given) },
		{ "language",   JSON_STRING, IN(language),        false, IN(code.has_language) },
		{ "file",       JSON_STRING, IN(code.file) },
		{ "timeout_ms", JSON_UINT,   IN(code.timeout_ms) },
		{ NULL },
	};
#undef IN
	/* clang-format on */
	int r = json_parse(arena, body, fields, &asked, err);

	if (r == 0 && asked.context_given)
		r = check_id(asked.code.context, "context must be the ID of one", err);
	if (r == 0 && asked.code.has_language)
		r = find_language(asked.language, &asked.code.language, err);
	if (r < 0)
		return r;
	if (asked.code.timeout_ms > EXEC_TIMEOUT_MAX_MS)
		return exec_refuse(err, EXEC_TIMEOUT_RULE);
	if (asked.code.file.len > FILE_NAME_MAX)
		return exec_refuse(err, "file must be a name of at most 255 bytes");
	*ret = asked.code;
	return 0;
}

static void write_flag(struct json_writer *w, const char *key, bool flag)
{
	if (!flag)
		return;
	json_key(w, key);
	json_bool(w, true);
}

void code_result_write(const struct kernel_result *result, struct json_writer *w)
{
	json_object(w);
	json_str_if_any(w, "text", result->text);
	json_str_if_any(w, "html", result->html);
	json_str_if_any(w, "markdown", result->markdown);
	json_str_if_any(w, "svg", result->svg);
	json_str_if_any(w, "png", result->png);
	json_str_if_any(w, "jpeg", result->jpeg);
	json_str_if_any(w, "latex", result->latex);
	json_raw_if_any(w, "json", result->json);
	json_raw_if_any(w, "chart", result->chart);
	write_flag(w, "is_value", result->is_value);
	write_flag(w, "truncated", result->is_truncated);
	json_object_end(w);
}

static void write_number(struct json_writer *w, const char *key, uint64_t number)
{
	if (!number || number > INT64_MAX)
		return;
	json_key(w, key);
	json_int(w, (int64_t)number);
}

void code_error_write(const struct kernel_error *error, struct json_writer *w)
{
	json_object(w);
	json_key(w, "name");
	json_str(w, error->name);
	json_key(w, "message");
	json_str(w, error->message);
	json_key(w, "traceback");
	json_array(w);
	for (size_t i = 0; i < error->traceback.len; i++)
		json_str(w, error->traceback.items[i]);
	json_array_end(w);
	json_str_if_any(w, "file", error->file);
	write_number(w, "line", error->line);
	write_number(w, "column", error->column);
	write_number(w, "exit_code", error->exit_code);
	write_flag(w, "is_syntax", error->is_syntax);
	json_str_if_any(w, "blocked", error->blocked);
	json_object_end(w);
}
