/* What of requests concerns the shells of sessions; see proto/exec_request.h. */
#include <errno.h>

#include "proto/agent.h"
#include "proto/exec_asked.h"

static bool is_word(char c, bool is_first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (!is_first && c >= '0' && c <= '9');
}

bool session_id_is_valid(struct str id)
{
	for (size_t i = 0; i < id.len; i++) {
		bool is_mark = i > 0 && strchr("-.:", id.at[i]) && id.at[i];

		if (!is_word(id.at[i], false) && !is_mark)
			return false;
	}
	return id.len > 0 && id.len <= EXEC_SESSION_ID_MAX && id.at[0] != '_';
}

static int check_names(struct str env, struct err *err)
{
	const char *entry;

	while ((entry = frame_list_next(&env))) {
		for (const char *at = entry; at == entry || *at != '='; at++) {
			if (!is_word(*at, at == entry))
				return exec_refuse(err,
						   "a name in env is none that a shell can have: "
						   "in a session it must be letters, digits and _");
		}
	}
	return 0;
}

/* Each word between quotes; a quote in it needs four bytes. */
static char *put_words(char *at, struct str argv)
{
	const char *word;

	while ((word = frame_list_next(&argv))) {
		*at++ = '\'';
		for (; *word; word++) {
			if (*word == '\'')
				at = mempcpy(at, "'\\'", 3);
			*at++ = *word;
		}
		at = mempcpy(at, "' ", 2);
	}
	at[-1] = '\0';
	return at;
}

int exec_request_for_shell(struct arena *arena, struct exec_request *request, struct err *err)
{
	struct str argv = request->argv;
	char *text;

	if (request->user.len)
		return exec_refuse(err,
				   "user: a session has a user of its own, from when it was made");
	if (check_names(request->env, err) < 0)
		return -EINVAL;
	if (!request->has_cwd)
		request->cwd = STR("");
	if (request->is_text) {
		frame_list_next(&argv);
		frame_list_next(&argv);
		request->argv = argv;
		return 0;
	}
	text = arena_alloc(arena, 4 * argv.len + 3);
	if (!text)
		return err_set(err, -EMSGSIZE, ERR_PAYLOAD_TOO_LARGE,
			       "the request needs more memory than one request may take");
	request->argv = (struct str){text, (size_t)(put_words(text, argv) - text)};
	if (request->argv.len + request->env.len > AGENT_ARGS_MAX)
		return exec_refuse(err, "argv and env together are too large for a session");
	return 0;
}

struct str session_shells(struct arena *arena, struct str shell)
{
	static const char usual[] = AGENT_SESSION "\0bash\0sh";
	size_t head = sizeof(AGENT_SESSION), len = head + shell.len + 1;
	char *at = shell.len ? arena_alloc(arena, len) : NULL;

	if (!shell.len)
		return (struct str){usual, sizeof(usual)};
	if (!at)
		return (struct str){NULL, 0};
	memcpy(at, AGENT_SESSION, head);
	memcpy(at + head, shell.at, shell.len);
	at[len - 1] = '\0';
	return (struct str){at, len};
}

int session_request_parse(struct arena *arena, struct str body, struct session_request *ret,
			  struct err *err)
{
	struct asked_session {
		struct exec_asked exec;
		struct str id, shell;
		bool id_given, shell_given;
	} asked = {.exec.max_output_bytes = 0};
	/* clang-format off */
#define IN(member) offsetof(struct asked_session, member)
	const struct json_field fields[] = {
		{ "id",    JSON_STRING, IN(id),       false, IN(id_given) },
		{ "shell", JSON_STRING, IN(shell),    false, IN(shell_given) },
		{ "cwd",   JSON_STRING, IN(exec.cwd), false, IN(exec.cwd_given) },
		{ "user",  JSON_STRING, IN(exec.user), false, IN(exec.user_given) },
		{ "env",   JSON_MAP,    IN(exec.env) },
		{ NULL },
	};
#undef IN
	/* clang-format on */
	struct str program = STR("shell");
	int r = json_parse(arena, body, fields, &asked, err);

	if (r < 0)
		return r;
	if (asked.id_given && !session_id_is_valid(asked.id))
		return exec_refuse(err,
				   "id must be 1 to 128 letters, digits and -_.: and begin with a "
				   "letter or digit");
	if (asked.shell_given && (!asked.shell.len || asked.shell.len >= AGENT_CWD_MAX))
		return exec_refuse(err, "shell must be the name or the path of one");
	asked.exec.argv = (struct json_strings){&program, 1};
	asked.exec.argv_given = true;
	ret->id = asked.id_given ? asked.id : STR("");
	ret->shell = asked.shell_given ? asked.shell : STR("");
	return exec_take_asked(arena, &asked.exec, &ret->exec, err);
}
