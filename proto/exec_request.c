#include "proto/exec_request.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "proto/agent.h"
#include "proto/base64.h"
#include "proto/exec_asked.h"
#include "proto/uri.h"
#include "proto/utf8.h"

#define QUERY_MAX 1024 /* parameters */

/* clang-format off */
#define AT(member) offsetof(struct exec_asked, member)

static const struct json_field body_fields[] = {
	{ "argv",             JSON_STRINGS, AT(argv),           false, AT(argv_given) },
	{ "command",          JSON_STRING,  AT(command),        false, AT(command_given) },
	{ "cwd",              JSON_STRING,  AT(cwd),            false, AT(cwd_given) },
	{ "env",              JSON_MAP,     AT(env) },
	{ "stdin",            JSON_BYTES,   AT(stdin_text),     false, AT(stdin_given) },
	{ "stdin_encoding",   JSON_STRING,  AT(stdin_encoding), false, AT(encoding_given) },
	{ "timeout_ms",       JSON_UINT,    AT(timeout_ms) },
	{ "user",             JSON_STRING,  AT(user),           false, AT(user_given) },
	{ "max_output_bytes", JSON_UINT,    AT(max_output_bytes) },
	{ "detach",           JSON_BOOL,    AT(detach) },
	{ NULL },
};
/* clang-format on */

int exec_refuse(struct err *err, const char *sentence)
{
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s", sentence);
}

static int refuse_memory(struct err *err)
{
	return err_set(err, -EMSGSIZE, ERR_PAYLOAD_TOO_LARGE,
		       "the request needs more memory than one request may take");
}

static int check_program(const struct exec_asked *a, struct err *err)
{
	if (a->argv_given && a->command_given)
		return exec_refuse(err, "argv and command exclude each other: give one of them");
	if (!a->argv_given && !a->command_given)
		return exec_refuse(err, "argv or command is missing: what should be run?");
	if (a->command_given && !a->command.len)
		return exec_refuse(err, "command must not be empty");
	if (a->argv_given && (!a->argv.len || !a->argv.items[0].len))
		return exec_refuse(err, "argv must begin with the program's name");
	return 0;
}

static int check_env(const struct json_map *env, struct err *err)
{
	for (size_t i = 0; i < env->len; i++) {
		struct str name = env->items[i].key;

		if (!name.len || memchr(name.at, '=', name.len))
			return exec_refuse(err, "a name in env must not be empty or hold \"=\"");
		if (name.len + env->items[i].value.len + 2 > AGENT_STRING_MAX)
			return err_set(err, -E2BIG, ERR_INVALID_REQUEST,
				       "env: \"%.*s\" is longer than the %d bytes that name and "
				       "value may have together",
				       STR_ARGS(name), AGENT_STRING_MAX - 2);
	}
	return 0;
}

/* Digits that fit a uid; the last of them all, -1, means "none" to the kernel. */
static bool is_number(struct str s)
{
	uint64_t value = 0;

	if (!s.len || s.len > 10)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(s.at[i] - '0');
	}
	return value < UINT32_MAX;
}

static bool is_user_name(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];
		bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
		bool is_inner = (c >= '0' && c <= '9') || c == '-' || c == '.';

		if (!is_letter && (i == 0 || !is_inner))
			return false;
	}
	return s.len > 0 && s.len <= AGENT_USER_MAX;
}

static bool is_user(struct str s)
{
	bool has_group = s.len && memchr(s.at, ':', s.len);
	struct str group = s, user = str_cut(&group, ':');

	if (has_group)
		return is_number(user) && is_number(group);
	return is_number(user) || is_user_name(user);
}

static int check_rest(const struct exec_asked *a, struct err *err)
{
	if (a->cwd_given && (!a->cwd.len || a->cwd.at[0] != '/'))
		return exec_refuse(err, "cwd must be an absolute path");
	if (a->cwd.len >= AGENT_CWD_MAX)
		return exec_refuse(err, "cwd is longer than a path can be");
	if (a->user_given && !is_user(a->user))
		return exec_refuse(err, "user must be a name, a uid or \"uid:gid\"");
	if (a->timeout_ms > EXEC_TIMEOUT_MAX_MS)
		return exec_refuse(err, EXEC_TIMEOUT_RULE);
	if (a->max_output_bytes > EXEC_OUTPUT_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "max_output_bytes must be at most %d", EXEC_OUTPUT_MAX);
	return 0;
}

static size_t list_size(const struct json_strings *items)
{
	size_t size = 0;

	for (size_t i = 0; i < items->len; i++)
		size += items->items[i].len + 1;
	return size;
}

static size_t pairs_size(const struct json_map *map)
{
	size_t size = 0;

	for (size_t i = 0; i < map->len; i++)
		size += map->items[i].key.len + map->items[i].value.len + 2;
	return size;
}

/* Strings that are terminated, into `at`, one behind the other. */
static struct str put_list(char *at, const struct json_strings *items)
{
	const char *start = at;

	for (size_t i = 0; i < items->len; i++)
		at = mempcpy(at, items->items[i].at, items->items[i].len + 1);
	return (struct str){start, (size_t)(at - start)};
}

static struct str put_pairs(char *at, const struct json_map *map)
{
	const char *start = at;

	for (size_t i = 0; i < map->len; i++) {
		at = mempcpy(at, map->items[i].key.at, map->items[i].key.len);
		*at++ = '=';
		at = mempcpy(at, map->items[i].value.at, map->items[i].value.len + 1);
	}
	return (struct str){start, (size_t)(at - start)};
}

static int take_lists(struct arena *arena, const struct exec_asked *a, struct exec_request *ret,
		      struct err *err)
{
	struct str shell[] = {STR("sh"), STR("-c"), a->command};
	struct json_strings argv = a->argv_given ? a->argv : (struct json_strings){shell, 3};
	size_t argv_size = list_size(&argv), env_size = pairs_size(&a->env);
	char *bytes;

	if (argv_size + env_size > AGENT_ARGS_MAX)
		return err_set(err, -E2BIG, ERR_INVALID_REQUEST,
			       "%s and env together are larger than %d bytes",
			       a->argv_given ? "argv" : "command", AGENT_ARGS_MAX);
	bytes = arena_alloc(arena, argv_size + env_size);
	if (!bytes)
		return refuse_memory(err);
	ret->argv = put_list(bytes, &argv);
	ret->env = put_pairs(bytes + argv_size, &a->env);
	return 0;
}

static int refuse_stdin(struct err *err)
{
	return err_set(err, -EMSGSIZE, ERR_PAYLOAD_TOO_LARGE,
		       "stdin is larger than %d bytes: send it as the body instead",
		       EXEC_STDIN_MAX);
}

static int take_stdin(struct arena *arena, const struct exec_asked *a, struct exec_request *ret,
		      struct err *err)
{
	bool is_base64 = a->encoding_given && str_eq(a->stdin_encoding, STR("base64"));
	char *bytes;

	if (a->encoding_given && !is_base64 && !str_eq(a->stdin_encoding, STR("utf-8")))
		return exec_refuse(err, "stdin_encoding must be \"utf-8\" or \"base64\"");
	ret->has_stdin = a->stdin_given;
	ret->stdin_bytes = a->stdin_given ? a->stdin_text : STR("");
	if (a->stdin_given && is_base64) {
		if (a->stdin_text.len / 4 > EXEC_STDIN_MAX / 3 + 1)
			return refuse_stdin(err);
		bytes = arena_alloc(arena, BASE64_DECODE_ROOM(a->stdin_text.len));
		if (!bytes)
			return refuse_memory(err);
		if (base64_decode(a->stdin_text, bytes, &ret->stdin_bytes.len) < 0)
			return exec_refuse(err,
					   "stdin must be base64, with padding and without line "
					   "breaks");
		ret->stdin_bytes.at = bytes;
	}
	return ret->stdin_bytes.len > EXEC_STDIN_MAX ? refuse_stdin(err) : 0;
}

int exec_take_asked(struct arena *arena, const struct exec_asked *a, struct exec_request *ret,
		    struct err *err)
{
	int r = check_program(a, err);

	if (r == 0)
		r = check_env(&a->env, err);
	if (r == 0)
		r = check_rest(a, err);
	if (r < 0)
		return r;
	*ret = (struct exec_request){
		.cwd = a->cwd_given ? a->cwd : STR("/workspace"),
		.user = a->user_given ? a->user : STR(""),
		.has_cwd = a->cwd_given,
		.is_text = a->command_given,
		.detach = a->detach,
		.timeout_ms = a->timeout_ms,
		.max_output_bytes = a->max_output_bytes,
	};
	r = take_lists(arena, a, ret, err);
	return r < 0 ? r : take_stdin(arena, a, ret, err);
}

int exec_request_parse(struct arena *arena, struct str body, struct exec_request *ret,
		       struct err *err)
{
	struct exec_asked asked = {.max_output_bytes = EXEC_OUTPUT_DEFAULT};
	int r = json_parse(arena, body, body_fields, &asked, err);

	return r < 0 ? r : exec_take_asked(arena, &asked, ret, err);
}

/* A query under way: room for as many strings and pairs as it has parameters. */
struct query {
	struct arena *arena;
	struct exec_asked asked;
	struct str timeout, max_output;
	bool timeout_given, max_output_given;
	struct err *err;
};

/* "+" is a space here, as uri_query() has it. */
static int decode(struct query *q, struct str raw, struct str *ret)
{
	char *spaced = arena_strndup(q->arena, raw.len ? raw.at : "", raw.len);
	int r;

	if (!spaced)
		return refuse_memory(q->err);
	for (char *at = spaced; (at = strchr(at, '+')) != NULL;)
		*at = ' ';
	r = uri_decode(q->arena, (struct str){spaced, raw.len}, ret);
	if (r == -ENOMEM)
		return refuse_memory(q->err);
	if (r < 0 || memchr(ret->at, '\0', ret->len))
		return exec_refuse(q->err, "the query has a bad percent-escape or a NUL in it");
	return 0;
}

static int add_env(struct query *q, struct str value)
{
	struct json_map *env = &q->asked.env;
	bool has_equals = value.len && memchr(value.at, '=', value.len);
	struct str name = str_cut(&value, '=');

	if (!has_equals)
		return exec_refuse(q->err, "env must be NAME=value");
	for (size_t i = 0; i < env->len; i++) {
		if (str_eq(env->items[i].key, name))
			return exec_refuse(q->err, "a name in env is given twice");
	}
	env->items[env->len++] = (struct json_pair){name, value};
	return 0;
}

/* Those that may be given once. */
static int set_once(struct query *q, struct str name, struct str value)
{
	struct exec_asked *a = &q->asked;
	const struct {
		const char *name;
		struct str *value;
		bool *given;
	} slots[] = {
		{"command", &a->command, &a->command_given},
		{"cwd", &a->cwd, &a->cwd_given},
		{"user", &a->user, &a->user_given},
		{"timeout_ms", &q->timeout, &q->timeout_given},
		{"max_output_bytes", &q->max_output, &q->max_output_given},
	};

	for (size_t i = 0; i < array_len(slots); i++) {
		if (!str_eq(name, str_of(slots[i].name)))
			continue;
		if (*slots[i].given)
			return err_set(q->err, -EINVAL, ERR_INVALID_REQUEST, "%s is given twice",
				       slots[i].name);
		*slots[i].value = value;
		*slots[i].given = true;
		return 0;
	}
	return exec_refuse(q->err,
			   "the query has a parameter that exec does not know: it takes argv, "
			   "command, cwd, env, user, timeout_ms and max_output_bytes");
}

static int add_parameter(struct query *q, struct str pair)
{
	struct str raw_value = pair, raw_name = str_cut(&raw_value, '=');
	struct str name, value;
	int r = decode(q, raw_name, &name);

	if (r == 0)
		r = decode(q, raw_value, &value);
	if (r < 0)
		return r;
	if (str_eq(name, STR("env")))
		return add_env(q, value);
	if (!str_eq(name, STR("argv")))
		return set_once(q, name, value);
	q->asked.argv_given = true;
	q->asked.argv.items[q->asked.argv.len++] = value;
	return 0;
}

static int take_number(struct query *q, struct str text, const char *name, uint64_t *ret)
{
	uint64_t value = 0;

	if (!text.len || text.len > 18)
		return err_set(q->err, -EINVAL, ERR_INVALID_REQUEST, "%s must be an integer", name);
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return err_set(q->err, -EINVAL, ERR_INVALID_REQUEST,
				       "%s must be an integer", name);
		value = value * 10 + (uint64_t)(text.at[i] - '0');
	}
	*ret = value;
	return 0;
}

static int query_init(struct query *q, struct str query)
{
	size_t count = 1;

	for (size_t i = 0; i < query.len; i++)
		count += query.at[i] == '&';
	if (count > QUERY_MAX)
		return err_set(q->err, -EINVAL, ERR_INVALID_REQUEST,
			       "the query has more than %d parameters", QUERY_MAX);
	q->asked.argv.items = arena_alloc(q->arena, count * sizeof(*q->asked.argv.items));
	q->asked.env.items = arena_alloc(q->arena, count * sizeof(*q->asked.env.items));
	return q->asked.argv.items && q->asked.env.items ? 0 : refuse_memory(q->err);
}

int exec_request_from_query(struct arena *arena, struct str query, struct exec_request *ret,
			    struct err *err)
{
	struct query q = {
		.arena = arena, .err = err, .asked.max_output_bytes = EXEC_OUTPUT_DEFAULT};
	int r = query_init(&q, query);

	while (r == 0 && query.len) {
		struct str pair = str_cut(&query, '&');

		r = pair.len ? add_parameter(&q, pair) : 0;
	}
	if (r == 0 && q.timeout_given)
		r = take_number(&q, q.timeout, "timeout_ms", &q.asked.timeout_ms);
	if (r == 0 && q.max_output_given)
		r = take_number(&q, q.max_output, "max_output_bytes", &q.asked.max_output_bytes);
	if (r == 0)
		r = exec_take_asked(arena, &q.asked, ret, err);
	if (r < 0)
		return r;
	ret->has_stdin = true;
	return 0;
}

/* clang-format off */
static const char *const reasons[] = {
	[EXEC_EXITED]      = "exited",
	[EXEC_SIGNALED]    = "signaled",
	[EXEC_TIMEOUT]     = "timeout",
	[EXEC_OOM]         = "oom",
	[EXEC_KILLED]      = "killed",
	[EXEC_NOT_STARTED] = "not_started",
	[EXEC_LOST]        = "lost",
	[EXEC_CPU_LIMIT]   = "cpu_limit",
	[EXEC_VIOLATION]   = "security_violation",
};
/* clang-format on */

/* It may quote what a sandbox said: what is not text becomes "?". */
static void write_message(struct json_writer *w, const char *message, size_t size)
{
	char text[sizeof(((struct exec_end *)NULL)->message)];
	size_t len = strnlen(message, size), good;

	memcpy(text, message, len);
	while ((good = utf8_valid_len((struct str){text, len})) < len)
		text[good] = '?';
	json_key(w, "message");
	json_str(w, (struct str){text, len});
}

const char *exec_reason_name(enum exec_reason reason)
{
	assert((size_t)reason < array_len(reasons));
	return reasons[reason];
}

static void write_figure(struct json_writer *w, const char *key, bool is_known, uint64_t value)
{
	json_key(w, key);
	if (is_known)
		json_int(w, (int64_t)(value & INT64_MAX));
	else
		json_null(w);
}

void exec_end_write(const struct exec_end *end, struct json_writer *w)
{
	json_key(w, "exit_code");
	if (end->exit_code < 0)
		json_null(w);
	else
		json_int(w, end->exit_code);
	json_key(w, "reason");
	json_text(w, exec_reason_name(end->reason));
	if (end->signal) {
		json_key(w, "signal");
		json_int(w, end->signal);
	}
	json_key(w, "duration_ms");
	json_int(w, (int64_t)(end->duration_ms & INT64_MAX));
	write_figure(w, "cpu_ms", end->is_measured, end->cpu_ms);
	/* What a session's command has used of it cannot be told from what the shell has. */
	if (!end->in_session) {
		write_figure(w, "max_rss_bytes", end->is_measured, end->max_rss_bytes);
	} else {
		json_key(w, "session_restarted");
		json_bool(w, end->session_restarted);
		json_key(w, "fresh");
		json_bool(w, end->is_fresh);
	}
	if (end->oom_suspected) {
		json_key(w, "oom_suspected");
		json_bool(w, true);
	}
	if (end->output_dropped) {
		json_key(w, "output_dropped");
		json_bool(w, true);
	}
	if (end->message[0])
		write_message(w, end->message, sizeof(end->message));
}

/* How long a character is that begins with this byte; 0 if none does. */
static size_t char_len(unsigned char lead)
{
	if (lead < 0x80)
		return 1;
	if (lead < 0xc2 || lead > 0xf4)
		return 0;
	return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* May this byte stand behind that lead? Overlong forms and surrogates show here. */
static bool is_second(unsigned char lead, unsigned char c)
{
	if (lead == 0xe0)
		return c >= 0xa0 && c < 0xc0;
	if (lead == 0xed)
		return c >= 0x80 && c < 0xa0;
	if (lead == 0xf0)
		return c >= 0x90 && c < 0xc0;
	if (lead == 0xf4)
		return c >= 0x80 && c < 0x90;
	return (c & 0xc0) == 0x80;
}

size_t exec_utf8_tail(struct str s)
{
	for (size_t n = 1; n <= 3 && n <= s.len; n++) {
		const unsigned char *at = (const unsigned char *)s.at + s.len - n;

		if ((*at & 0xc0) == 0x80)
			continue;
		if (char_len(*at) <= n || (n > 1 && !is_second(*at, at[1])))
			return 0;
		return n;
	}
	return 0;
}
