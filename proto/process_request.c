/* The body of POST .../processes; see proto/exec_request.h. */
#include <errno.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "proto/exec_asked.h"
#include "proto/frame.h"

/* The exec comes first: its fields are found by the same offsets. */
struct asked_process {
	struct exec_asked asked;
	struct str id;
	bool autostart, id_given, timeout_given;
	double timeout;
};

/* clang-format off */
#define AT(member)      offsetof(struct exec_asked, member)
#define PROCESS(member) offsetof(struct asked_process, member)

static const struct json_field process_fields[] = {
	{ "id",         JSON_STRING,  PROCESS(id),                  false, PROCESS(id_given) },
	{ "argv",       JSON_STRINGS, AT(argv),                     false, AT(argv_given) },
	{ "command",    JSON_STRING,  AT(command),                  false, AT(command_given) },
	{ "cwd",        JSON_STRING,  AT(cwd),                      false, AT(cwd_given) },
	{ "env",        JSON_MAP,     AT(env) },
	{ "timeout",    JSON_NUMBER,  PROCESS(timeout),             false, PROCESS(timeout_given) },
	{ "timeout_ms", JSON_UINT,    AT(timeout_ms) },
	{ "user",       JSON_STRING,  AT(user),                     false, AT(user_given) },
	{ "autostart",  JSON_BOOL,    PROCESS(autostart) },
	{ NULL },
};
/* clang-format on */

int process_request_parse(struct arena *arena, struct str body, struct process_request *ret,
			  struct err *err)
{
	struct asked_process a = {.asked.max_output_bytes = EXEC_OUTPUT_DEFAULT};
	int r = json_parse(arena, body, process_fields, &a, err);

	if (r < 0)
		return r;
	if (a.timeout_given && !(a.timeout >= 0 && a.timeout <= (double)EXEC_TIMEOUT_MAX_MS))
		return exec_refuse(err, "timeout is out of range");
	if (a.timeout_given)
		a.asked.timeout_ms =
			(uint64_t)a.timeout + (a.timeout > (double)(uint64_t)a.timeout);
	ret->id = a.id_given ? a.id : STR("");
	ret->autostart = a.autostart;
	return exec_take_asked(arena, &a.asked, &ret->exec, err);
}

int process_request_store(const struct process_request *request, struct buf *out)
{
	cleanup(json_writer_close) struct json_writer w;
	struct str argv = request->exec.argv, env = request->exec.env;
	const char *item;

	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "argv");
	json_array(&w);
	while ((item = frame_list_next(&argv)))
		json_text(&w, item);
	json_array_end(&w);
	json_key(&w, "env");
	json_object(&w);
	while ((item = frame_list_next(&env))) {
		struct str value = str_of(item), name = str_cut(&value, '=');

		json_key_str(&w, name);
		json_str(&w, value);
	}
	json_object_end(&w);
	json_key(&w, "cwd");
	json_str(&w, request->exec.cwd);
	if (request->exec.user.len) {
		json_key(&w, "user");
		json_str(&w, request->exec.user);
	}
	json_key(&w, "timeout_ms");
	json_int(&w, (int64_t)request->exec.timeout_ms);
	json_key(&w, "autostart");
	json_bool(&w, request->autostart);
	json_object_end(&w);
	return json_writer_end(&w, out);
}
