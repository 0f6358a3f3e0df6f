#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cmd/berth/line.h"
#include "cmd/berth/process.h"
#include "cmd/berth/remote.h"
#include "cmd/berth/sandbox.h"
#include "cmd/value.h"
#include "proto/event_type.h"
#include "proto/kernel.h"
#include "proto/run_record.h"
#include "proto/sandbox_id.h"
#include "proto/settings.h"

#define SECONDS_MAX 2    /* somebody waits for the prompt */
#define OFFERS_MAX  5000 /* more than anybody reads */
#define PAGES_MAX   8    /* of a directory */

/* The word under the cursor, and what came before it. */
struct cursor {
	struct globals globals;
	struct line line;
	const char *typed;
	size_t kept; /* how much of it is settled: "--socket=", "box:src/" */
	unsigned offers;
};

/* How a shell has to go on behind a word. */
enum mark { WHOLE = '=', GOES_ON = '+' };

static void offer(struct cursor *c, enum mark mark, struct str word, const char *end)
{
	if (c->offers == OFFERS_MAX || !str_starts_with(word, str_of(c->typed + c->kept)))
		return;
	c->offers++;
	printf("%c%.*s%.*s%s\n", mark, (int)c->kept, c->typed, STR_ARGS(word), end);
}

static void offer_flags(struct cursor *c, const struct flag *flags)
{
	for (size_t i = 0; flags && flags[i].name; i++) {
		offer(c, WHOLE, str_of(flags[i].name), "");
		if (flags[i].letter)
			offer(c, WHOLE, str_of(flags[i].letter), "");
	}
}

static void offer_verbs(struct cursor *c)
{
	for (size_t i = 0; verbs[i]; i++)
		offer(c, WHOLE, str_of(verbs[i]->name), "");
}

static void offer_levels(struct cursor *c)
{
	for (size_t i = 0; log_level_name(i); i++)
		offer(c, WHOLE, str_of(log_level_name(i)), "");
}

static void offer_ways(struct cursor *c)
{
	for (enum sleep_mode mode = 0; mode < SLEEP_MODES; mode++)
		offer(c, WHOLE, str_of(sleep_mode_name(mode)), "");
}

static void offer_types(struct cursor *c)
{
	for (size_t i = 0; event_type_name(i); i++)
		offer(c, WHOLE, str_of(event_type_name(i)), "");
}

static void offer_languages(struct cursor *c)
{
	for (enum kernel_language i = 0; i < KERNEL_LANGUAGE_COUNT; i++)
		offer(c, WHOLE, str_of(kernel_language_name(i)), "");
}

static void offer_statuses(struct cursor *c)
{
	for (enum run_status i = 0; i < RUN_STATUS_COUNT; i++)
		offer(c, WHOLE, str_of(run_status_name(i)), "");
}

static void offer_users(struct cursor *c)
{
	const struct passwd *user;

	setpwent();
	while ((user = getpwent()))
		offer(c, WHOLE, str_of(user->pw_name), "");
	endpwent();
}

static void offer_groups(struct cursor *c)
{
	const struct group *group;

	setgrent();
	while ((group = getgrent()))
		offer(c, WHOLE, str_of(group->gr_name), "");
	endgrent();
}

struct ids {
	struct cursor *cursor;
	enum mark mark;
	const char *end;
};

static int offer_id(void *arg, const struct sandbox_info *info)
{
	const struct ids *ids = arg;
	struct sandbox_id id;

	/* Who answers on the network may say anything. */
	if (sandbox_id_parse(info->id, &id) == 0)
		offer(ids->cursor, ids->mark, str_of(id.text), ids->end);
	return ids->cursor->offers == OFFERS_MAX ? -E2BIG : 0;
}

/* That nobody answers means that there is nothing to offer. */
static void offer_ids(struct cursor *c, enum mark mark, const char *end)
{
	struct ids ids = {.cursor = c, .mark = mark, .end = end};
	struct sandbox_visitor visitor = {.sandbox = offer_id, .arg = &ids};
	struct answer answer;
	struct err err;

	answer_init(&answer);
	(void)sandbox_each(&c->globals, &visitor, &answer, &err);
	answer_close(&answer);
}

static void offer_processes(struct cursor *c)
{
	const struct call *call = &c->line.call;
	const struct process_info *infos;
	char path[SANDBOX_PATH_MAX];
	struct json_objects list;
	struct sandbox_id id;
	struct answer answer;
	struct arena arena;
	struct err err;

	answer_init(&answer);
	arena_init(&arena, PROCESS_ARENA_MAX);
	if (call->arg_count && sandbox_path(call->args[0], "/processes", path, &err) == 0 &&
	    client_get(&c->globals, path, &answer, &err) == 0 &&
	    process_list_parse(&arena, &answer, &list, &err) == 0) {
		infos = list.items;
		for (size_t i = 0; i < list.len; i++)
			if (sandbox_id_parse(infos[i].id, &id) == 0)
				offer(c, WHOLE, str_of(id.text), "");
	}
	arena_close(&arena);
	answer_close(&answer);
}

static void offer_ports(struct cursor *c)
{
	const struct call *call = &c->line.call;
	const struct sandbox_port *ports;
	char path[SANDBOX_PATH_MAX], number[24];
	struct sandbox_info info = {0};
	struct answer answer;
	struct arena arena;
	struct err err;

	answer_init(&answer);
	arena_init(&arena, SANDBOX_ARENA_MAX);
	if (call->arg_count && sandbox_path(call->args[0], "", path, &err) == 0 &&
	    client_get(&c->globals, path, &answer, &err) == 0 &&
	    sandbox_parse(&arena, &answer, &info, &err) == 0) {
		ports = info.ports.items;
		for (size_t i = 0; i < info.ports.len; i++) {
			snprintf(number, sizeof(number), "%" PRIu64, ports[i].port);
			offer(c, WHOLE, str_of(number), "");
		}
	}
	arena_close(&arena);
	answer_close(&answer);
}

/* To list a directory starts its sandbox, and makes one that is not there: a key must not. */
static bool is_running(const struct cursor *c, const char *id)
{
	struct sandbox_info info = {0};
	char path[SANDBOX_PATH_MAX];
	struct answer answer;
	struct arena arena;
	bool is_running;
	struct err err;

	answer_init(&answer);
	arena_init(&arena, SANDBOX_ARENA_MAX);
	is_running = sandbox_path(id, "", path, &err) == 0 &&
		     client_get(&c->globals, path, &answer, &err) == 0 &&
		     sandbox_parse(&arena, &answer, &info, &err) == 0 &&
		     str_eq(info.state, STR("running"));
	arena_close(&arena);
	answer_close(&answer);
	return is_running;
}

/* Whoever made the name may want to steer the terminal, or to end the line before its end. */
static bool is_showable(struct str name)
{
	for (size_t i = 0; i < name.len; i++) {
		unsigned char byte = (unsigned char)name.at[i];

		if (byte < ' ' || byte == 0x7f)
			return false;
		if (byte == 0xc2 && i + 1 < name.len && (unsigned char)name.at[i + 1] < 0xa0)
			return false;
	}
	return name.len > 0 && !memchr(name.at, '/', name.len);
}

static void offer_entry(struct cursor *c, const struct file_info *info)
{
	bool is_dir = str_eq(info->type, STR("directory"));
	bool is_link = str_eq(info->type, STR("symlink"));

	/* A name that is no text comes as base64, and cannot be typed. */
	if (is_showable(info->name))
		offer(c, is_dir || is_link ? GOES_ON : WHOLE, info->name, is_dir ? "/" : "");
}

static int make_target(const struct cursor *c, const struct remote *dir, struct str page,
		       struct buf *ret)
{
	int r;

	buf_consume(ret, buf_len(ret));
	r = remote_target(dir, "dir", ret);
	if (r == 0)
		r = buf_printf(ret, "?hidden=%d", c->typed[c->kept] == '.');
	if (r == 0 && page.len)
		r = buf_printf(ret, "&cursor=");
	if (r == 0)
		r = remote_encode(ret, page);
	return r < 0 ? r : buf_append(ret, "", 1);
}

/* 1: there is another page, and its target is made. */
static int offer_page(struct cursor *c, const struct remote *dir, struct buf *target)
{
	const struct file_info *entries;
	struct answer answer;
	struct file_list list;
	struct arena arena;
	struct err err;
	int r;

	answer_init(&answer);
	arena_init(&arena, REMOTE_LIST_MAX);
	r = client_get(&c->globals, buf_at(target), &answer, &err);
	if (r == 0)
		r = file_list_parse(&arena, &answer, &list, &err);
	if (r == 0) {
		entries = list.entries.items;
		for (size_t i = 0; i < list.entries.len; i++)
			offer_entry(c, &entries[i]);
		if (list.cursor.len && c->offers < OFFERS_MAX)
			r = make_target(c, dir, list.cursor, target) == 0;
	}
	arena_close(&arena);
	answer_close(&answer);
	return r;
}

static void offer_names(struct cursor *c)
{
	const char *path = c->typed + c->kept, *slash = strrchr(path, '/');
	char dir_text[REMOTE_PATH_MAX + 1];
	size_t len = (size_t)((slash ? slash : strchr(path, ':')) + 1 - path);
	struct remote dir;
	struct buf target;
	int r;

	if (len >= sizeof(dir_text))
		return;
	memcpy(dir_text, path, len);
	dir_text[len] = '\0';
	c->kept += len;
	if (remote_parse(dir_text, &dir) != EXIT_OK || !is_running(c, dir.id))
		return;
	buf_init(&target, REMOTE_TARGET_MAX);
	r = make_target(c, &dir, (struct str){NULL, 0}, &target) == 0;
	for (int i = 0; r == 1 && i < PAGES_MAX; i++)
		r = offer_page(c, &dir, &target);
	buf_close(&target);
}

static void offer_remote(struct cursor *c, enum value_kind kind)
{
	if (strchr(c->typed + c->kept, ':'))
		offer_names(c);
	else
		offer_ids(c, GOES_ON, kind == VALUE_REMOTE_DIR ? "" : ":");
}

/* Of two, one is here and one is in a sandbox. */
static void offer_either(struct cursor *c)
{
	const struct call *call = &c->line.call;
	bool may_be_local = call->arg_count == 0 || remote_is(call->args[0]);
	bool may_be_remote = call->arg_count == 0 || !remote_is(call->args[0]);
	const char *part = c->typed + c->kept;

	if (may_be_remote && (remote_is(part) || !strpbrk(part, "/:")))
		offer_remote(c, VALUE_REMOTE);
	if (may_be_local && !remote_is(part))
		puts("files");
}

static void offer_value(struct cursor *c, enum value_kind kind)
{
	switch (kind) {
	case VALUE_ANY:
		return;
	case VALUE_FILE:
		puts("files");
		return;
	case VALUE_DIR:
		puts("dirs");
		return;
	case VALUE_USER:
		offer_users(c);
		return;
	case VALUE_GROUP:
		offer_groups(c);
		return;
	case VALUE_LEVEL:
		offer_levels(c);
		return;
	case VALUE_WAY:
		offer_ways(c);
		return;
	case VALUE_TYPE:
		offer_types(c);
		return;
	case VALUE_LANGUAGE:
		offer_languages(c);
		return;
	case VALUE_STATUS:
		offer_statuses(c);
		return;
	case VALUE_VERB:
		offer_verbs(c);
		return;
	case VALUE_ID:
		offer_ids(c, WHOLE, "");
		return;
	case VALUE_PROCESS:
		offer_processes(c);
		return;
	case VALUE_PORT:
		offer_ports(c);
		return;
	case VALUE_REMOTE:
	case VALUE_REMOTE_DIR:
		offer_remote(c, kind);
		return;
	case VALUE_EITHER:
		offer_either(c);
		return;
	}
}

static void offer_flag_value(struct cursor *c, const struct flag *flag)
{
	const struct verb *verb = c->line.verb;
	enum value_kind kind = value_kind_of(str_of(flag->value));
	bool is_own = false;

	for (size_t i = 0; verb && verb->flags && verb->flags[i].name; i++)
		is_own = is_own || flag == &verb->flags[i];
	/* Where and as whom a command runs is said of its sandbox, not of this machine. */
	if (is_own && verb->has_command && (kind == VALUE_DIR || kind == VALUE_USER))
		return;
	offer_value(c, kind);
}

/* "[ID...]" is an ID, and it may be repeated. */
static struct str strip(struct str word, bool *ret_is_repeated)
{
	for (;;) {
		if (word.len > 2 && word.at[0] == '[' && word.at[word.len - 1] == ']') {
			word = (struct str){word.at + 1, word.len - 2};
		} else if (word.len > 3 && memcmp(word.at + word.len - 3, "...", 3) == 0) {
			*ret_is_repeated = true;
			word.len -= 3;
		} else {
			return word;
		}
	}
}

/* What the usage line says of the argument at this place. */
static enum value_kind argument_kind(const struct verb *verb, size_t at)
{
	struct str rest = str_of(verb->arguments);

	for (size_t i = 0; rest.len; i++) {
		bool is_repeated = false;
		struct str word = strip(str_cut(&rest, ' '), &is_repeated);

		if (i == at || is_repeated)
			return value_kind_of(word);
	}
	return VALUE_ANY;
}

static void offer_argument(struct cursor *c)
{
	const struct verb *verb = c->line.verb;

	/* What comes next is the command, and only its sandbox knows what there is. */
	if (c->line.call.arg_count < verb->arg_max)
		offer_value(c, argument_kind(verb, c->line.call.arg_count));
}

static void offer_any(struct cursor *c)
{
	const char *equals = strchr(c->typed, '=');
	const struct line *line = &c->line;
	const struct flag *flag;

	if (line->call.command)
		return;
	if (c->typed[0] != '-' || line->flags_over) {
		line->verb ? offer_argument(c) : offer_verbs(c);
	} else if (equals) {
		flag = line_flag(line, c->typed, (size_t)(equals - c->typed));
		c->kept = (size_t)(equals + 1 - c->typed);
		if (flag && flag->value)
			offer_flag_value(c, flag);
	} else {
		offer_flags(c, line->verb ? line->verb->flags : NULL);
		offer_flags(c, global_flags);
	}
}

static void on_alarm(int number)
{
	_exit(EXIT_FAILED);
}

static void complete(struct cursor *c, const struct call *call, char **argv)
{
	const char *const *places = c->line.globals;
	int argc = (int)call->arg_count;
	int code = line_parse(&c->line, argc, argv);

	c->globals = *call->globals;
	if (places[GLOBAL_SOCKET] || places[GLOBAL_URL] || places[GLOBAL_STATE_DIR] ||
	    places[GLOBAL_RUN_DIR]) {
		if (line_globals(&c->line, &c->globals) != EXIT_OK)
			return;
	}
	if (c->line.wanting)
		offer_flag_value(c, c->line.wanting);
	else if (code == EXIT_OK)
		offer_any(c);
}

static int run(const struct call *call)
{
	size_t before = call->arg_count ? call->arg_count - 1 : 0;
	struct cursor cursor = {.typed = call->arg_count ? call->args[before] : ""};
	cleanup_free char **argv = calloc(before + 2, sizeof(*argv));

	/* Whatever is wrong with the line, it is still being typed: the prompt stays clean. */
	if (!argv || !freopen("/dev/null", "we", stderr) ||
	    line_init(&cursor.line, (int)before + 1) < 0)
		return EXIT_FAILED;
	signal(SIGALRM, on_alarm);
	alarm(SECONDS_MAX);
	for (size_t i = 0; i < before; i++)
		argv[1 + i] = (char *)call->args[i];
	if (call->arg_count)
		complete(&cursor, call, argv);
	line_close(&cursor.line);
	return EXIT_OK;
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth complete -- exec we",       "prints =web if there is such a sandbox" },
	{ "berth complete -- cat web:src/",  "prints =web:src/a.c and +web:src/sub/, if it runs" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_complete = {
	.name = "complete",
	.summary = "print what a command line could go on with, for shells",
	.arguments = "[--] [WORD...]",
	.arg_max = VERB_ARGS_ANY,
	.description =
		"Prints what the last WORD could become, if those before it were typed behind\n"
		"`berth`: a line =WORD for a whole word, +WORD for one that goes on, and `files`\n"
		"or `dirs` where names of this machine are meant. IDs are asked of the daemon, "
		"and\n"
		"names of files of sandboxes that run. It starts nothing, keeps silent if nobody\n"
		"answers, and gives up after two seconds. Names with control characters are left\n"
		"out. The completion for bash is made of this.",
	.examples = examples,
	.run = run,
};
