/* The body of POST .../terminals, and the shell of a terminal; see proto/exec_request.h. */
#include <errno.h>
#include <stddef.h>

#include "proto/agent.h"
#include "proto/exec_asked.h"

static int refuse(struct err *err, const char *sentence)
{
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s", sentence);
}

/* Of images that have bash, people expect it. */
#define SHELL_SCRIPT "command -v bash >/dev/null 2>&1 && exec bash; exec sh"

struct asked_terminal {
	struct exec_asked asked;
	struct str id;
	bool id_given;
	uint64_t cols, rows;
};

/* clang-format off */
#define AT(member)       offsetof(struct exec_asked, member)
#define TERMINAL(member) offsetof(struct asked_terminal, member)

static const struct json_field terminal_fields[] = {
	{ "id",      JSON_STRING,  TERMINAL(id), false, TERMINAL(id_given) },
	{ "argv",    JSON_STRINGS, AT(argv),     false, AT(argv_given) },
	{ "command", JSON_STRING,  AT(command),  false, AT(command_given) },
	{ "cwd",     JSON_STRING,  AT(cwd),      false, AT(cwd_given) },
	{ "env",     JSON_MAP,     AT(env) },
	{ "user",    JSON_STRING,  AT(user),     false, AT(user_given) },
	{ "cols",    JSON_UINT,    TERMINAL(cols) },
	{ "rows",    JSON_UINT,    TERMINAL(rows) },
	{ NULL },
};
/* clang-format on */

int terminal_request_parse(struct arena *arena, struct str body, struct process_request *ret,
			   struct err *err)
{
	struct asked_terminal a = {.asked.max_output_bytes = EXEC_OUTPUT_DEFAULT};
	int r = json_parse(arena, body, terminal_fields, &a, err);

	if (r < 0)
		return r;
	if (a.cols > AGENT_CELLS_MAX || a.rows > AGENT_CELLS_MAX)
		return refuse(err, "cols and rows must be at most 65535");
	if (!a.asked.argv_given && !a.asked.command_given) {
		a.asked.command_given = true;
		a.asked.command = STR(SHELL_SCRIPT);
	}
	r = exec_take_asked(arena, &a.asked, &ret->exec, err);
	ret->id = a.id_given ? a.id : STR("");
	ret->autostart = false;
	ret->exec.is_terminal = true;
	ret->exec.cols = (uint32_t)a.cols;
	ret->exec.rows = (uint32_t)a.rows;
	return r;
}

int terminal_request_shell(struct arena *arena, struct str shell, struct str *ret)
{
	static const char best[] = "sh\0-c\0" SHELL_SCRIPT;
	char *copy;

	*ret = (struct str){best, sizeof(best)};
	if (!shell.len)
		return 0;
	if (memchr(shell.at, '\0', shell.len))
		return -EINVAL;
	copy = arena_strndup(arena, shell.at, shell.len);
	*ret = (struct str){copy, shell.len + 1};
	return copy ? 0 : -ENOMEM;
}
