#include "cmd/berth/code.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/berth/code_language.h"
#include "cmd/berth/run_follow.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/session.h"
#include "cmd/berth/settings.h"
#include "proto/kernel.h"
#include "proto/run_request.h"
#include "proto/units.h"

#define READ_MAX   (64 * 1024)
#define STDIN_NAME "standard input"

enum {
	CODE_LANG,
	CODE_CONTEXT,
	CODE_ENV,
	CODE_TIMEOUT,
	CODE_SAVE,
	CODE_RUN,
	CODE_INPUT,
	CODE_IMAGE,
	CODE_TRUST,
	CODE_MEMORY,
	CODE_CPUS,
	CODE_CPU_TIME,
	CODE_PIDS,
	CODE_DISK,
};

/* NULL: standard input. The buffer takes what is too long, by a read. */
static int read_source(const char *file, struct buf *out)
{
	cleanup_fd int opened = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
	int fd = file ? opened : STDIN_FILENO;
	struct screen_text name = screen_text(str_of(file ? file : STDIN_NAME));
	ssize_t n;

	do {
		char *room = buf_room(out, READ_MAX);

		if (!room)
			break;
		n = fd < 0 ? -1 : read(fd, room, READ_MAX);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			screen_error("cannot read %s: %m", name.text);
			return EXIT_NOT_RUN;
		}
		buf_added(out, (size_t)n);
	} while (n != 0);
	return EXIT_OK;
}

static int check_source(const char *file, bool is_run, struct str code)
{
	bool is_text = utf8_valid_len(code) == code.len;
	struct err err;

	if (is_text && code.len <= (is_run ? RUN_CODE_MAX : CODE_MAX))
		return EXIT_OK;
	code_refuse(&err, is_text ? -EMSGSIZE : -EILSEQ, file ? file : STDIN_NAME, is_run);
	screen_error("%s", err.sentence);
	return EXIT_NOT_RUN;
}

/* --- in a context --- */

static bool has_env(const struct call *call)
{
	for (size_t i = 0; i < call->given_count; i++)
		if (call->given[i].flag == CODE_ENV)
			return true;
	return false;
}

/*
 * Code that tells of another language than the context's is not run as that one. Of a context that
 * cannot be asked for the call itself tells. JavaScript is TypeScript, too.
 */
static int check_language(const struct code_call *code, const char *file)
{
	const char *told = code_language_told(file, code->code), *language;
	struct err err;

	if (!told ||
	    code_context_language(code->globals, code->id, code->context, &language, &err) < 0 ||
	    strcmp(told, language) == 0)
		return EXIT_OK;
	if (strcmp(told, kernel_language_name(KERNEL_JAVASCRIPT)) == 0 &&
	    strcmp(language, kernel_language_name(KERNEL_TYPESCRIPT)) == 0)
		return EXIT_OK;
	screen_error("%s is %s, and the context `%s` is of %s: name another context, or say --lang "
		     "%s if it is that",
		     screen_text(str_of(file ? file : STDIN_NAME)).text, told, code->context,
		     language, language);
	return EXIT_NOT_RUN;
}

static int run_in_context(const struct call *call, struct code_call *code)
{
	struct code_env env = {call, CODE_ENV};
	char own[CODE_CONTEXT_MAX];
	int r;

	if (!has_env(call))
		return code_call(code);
	/* A context has its variables from its beginning on: this one is for them. */
	r = code_context_new(call->globals, code->id,
			     &(struct code_context){.language = code->language, .env = &env}, own);
	if (r != EXIT_OK)
		return r;
	code->context = own;
	r = code_call(code);
	code_context_remove(call->globals, code->id, own);
	return r;
}

/* --- as a run --- */

static int write_input(struct json_writer *w, struct arena *arena, const char *input)
{
	static const struct json_field fields[] = {
		{"v", JSON_RAW, 0, false, 0, NULL, 0},
		{NULL, JSON_BOOL, 0, false, 0, NULL, 0},
	};
	cleanup(buf_close) struct buf wrapped;
	struct str value = {NULL, 0};

	buf_init(&wrapped, RUN_BODY_MAX);
	if (!input)
		return 0;
	/* The new line ends whatever is meant to end this before its end. */
	if (buf_printf(&wrapped, "{\"v\":%s\n}", input) < 0 ||
	    json_parse(arena, (struct str){buf_at(&wrapped), buf_len(&wrapped)}, fields, &value,
		       NULL) < 0)
		return -EINVAL;
	json_key(w, "input");
	json_raw(w, value.len ? value : STR("null"));
	return 0;
}

static int put_run(const struct call *call, const struct code_call *code, struct haul *haul,
		   struct arena *arena)
{
	const char *const *values = call->values;
	struct settings_flags settings = {
		.memory = values[CODE_MEMORY],
		.cpus = values[CODE_CPUS],
		.cpu_time = values[CODE_CPU_TIME],
		.pids = values[CODE_PIDS],
		.disk = values[CODE_DISK],
	};
	cleanup(json_writer_close) struct json_writer w;
	int r;

	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "code");
	json_str(&w, code->code);
	json_key(&w, "language");
	json_text(&w, code->language);
	if (write_input(&w, arena, values[CODE_INPUT]) < 0)
		return haul_fail(haul, -EINVAL,
				 "--input wants JSON, such as 42, [1, 2] or "
				 "'{\"a\": \"b\"}'");
	code_env_write(&w, &(struct code_env){call, CODE_ENV});
	if (values[CODE_TIMEOUT]) {
		json_key(&w, "timeout_ms");
		json_int(&w, (int64_t)code->timeout_ms);
	}
	if (!call->globals->json) {
		json_key(&w, "async");
		json_bool(&w, true);
	}
	if (values[CODE_IMAGE]) {
		json_key(&w, "image");
		json_text(&w, values[CODE_IMAGE]);
	}
	if (values[CODE_TRUST]) {
		json_key(&w, "trust");
		json_text(&w, values[CODE_TRUST]);
	}
	r = settings_limits_write(&w, &settings, &haul->err);
	if (r < 0)
		return r;
	json_object_end(&w);
	r = json_writer_end(&w, &haul->body);
	if (r == -EMSGSIZE)
		return haul_fail(haul, r,
				 "--input and variables are too long: with the code they may have "
				 "%d MiB, as JSON",
				 RUN_BODY_MAX / 1024 / 1024);
	return r < 0 ? settings_unwritten(r, &haul->err) : 0;
}

/* Whoever closes the connection cancels the run. */
static int ask_whole(struct haul *haul, struct arena *arena, struct run_info *ret)
{
	int r = buf_printf(&haul->target, "/v1/runs");

	if (r == 0)
		r = haul_ask_long(haul, "POST");
	if (r == 0)
		r = run_parse(haul, arena, ret);
	return r == 0 ? haul_print_answer(haul) : r;
}

/* What it says comes meanwhile; if that cannot be shown to its end, nobody wants the run. */
static int watch(struct haul *haul, struct arena *arena, struct run_info *ret)
{
	struct sandbox_id id;
	int r = run_begin(haul, &id);

	if (r < 0)
		return r;
	r = run_follow(haul, id.text);
	if (r < 0) {
		run_cancel(haul, id.text);
		return r;
	}
	r = run_target(haul, id.text, "");
	if (r == 0)
		r = haul_ask(haul, "GET");
	if (r == 0)
		r = run_parse(haul, arena, ret);
	return r == 0 ? run_show_end(haul, ret) : r;
}

static int run_alone(const struct call *call, const struct code_call *code)
{
	struct run_info run = {0};
	struct arena arena;
	struct haul haul;
	int r, exit_code;

	if (haul_init(&haul, call->globals) != EXIT_OK)
		return EXIT_NOT_RUN;
	arena_init(&arena, RUN_ARENA_MAX);
	buf_close(&haul.body);
	buf_init(&haul.body, RUN_BODY_MAX);
	r = put_run(call, code, &haul, &arena);
	if (r == 0)
		r = call->globals->json ? ask_whole(&haul, &arena, &run)
					: watch(&haul, &arena, &run);
	exit_code = haul_finish(&haul, r);
	if (exit_code != EXIT_OK)
		exit_code = exit_code > 128 ? exit_code : EXIT_NOT_RUN;
	else
		exit_code = run_exit_code(&run);
	arena_close(&arena);
	haul_close(&haul);
	return exit_code;
}

/* --- the line --- */

static int check(const struct call *call, struct code_call *code)
{
	static const size_t for_runs[] = {CODE_INPUT, CODE_IMAGE,    CODE_TRUST, CODE_MEMORY,
					  CODE_CPUS,  CODE_CPU_TIME, CODE_PIDS,  CODE_DISK};
	const char *const *values = call->values;
	struct stat st;
	struct err err;
	int language;

	if (!values[CODE_RUN] && !call->arg_count)
		return usage_error("in which sandbox? berth code ID [FILE], or berth code --run "
				   "[FILE] for one of its own");
	if (values[CODE_RUN] && (call->arg_count > 1 || values[CODE_CONTEXT] || values[CODE_SAVE]))
		return usage_error("a run has a sandbox of its own: no ID, --context or --save");
	for (size_t i = 0; i < array_len(for_runs); i++)
		if (!values[CODE_RUN] && values[for_runs[i]])
			return usage_error("--input, --image, --trust and limits are for --run");
	if (values[CODE_TIMEOUT] &&
	    duration_parse(str_of(values[CODE_TIMEOUT]), &code->timeout_ms) < 0)
		return usage_error("--timeout wants a duration such as 30s, 10m or 500ms; 0s is "
				   "none");
	if (values[CODE_CONTEXT] && session_check(values[CODE_CONTEXT], &err) < 0)
		return usage_error("`%s` is no context's ID",
				   screen_text(str_of(values[CODE_CONTEXT])).text);
	if (values[CODE_SAVE] && stat(values[CODE_SAVE], &st) == 0 && !S_ISDIR(st.st_mode))
		return usage_error("--save wants a folder, and %s is none",
				   screen_text(str_of(values[CODE_SAVE])).text);
	language = values[CODE_LANG] ? kernel_language_find(str_of(values[CODE_LANG])) : 0;
	if (language < 0)
		return usage_error("--lang wants python, javascript, typescript or bash");
	if (values[CODE_LANG])
		code->language = kernel_language_name((enum kernel_language)language);
	return EXIT_OK;
}

static int run(const struct call *call)
{
	bool is_run = call->values[CODE_RUN];
	size_t at = is_run ? 0 : 1;
	const char *file = call->arg_count > at ? call->args[at] : NULL;
	struct code_call code = {
		.globals = call->globals,
		.id = is_run ? NULL : call->args[0],
		.context = call->values[CODE_CONTEXT],
		.save = call->values[CODE_SAVE],
	};
	cleanup(buf_close) struct buf source;
	int r;

	/* buf_room() wants room for a whole read. */
	buf_init(&source, (is_run ? RUN_CODE_MAX : CODE_MAX) + READ_MAX);
	if (file && strcmp(file, "-") == 0)
		file = NULL;
	if (check(call, &code) != EXIT_OK ||
	    code_env_check(&(struct code_env){call, CODE_ENV}) != EXIT_OK)
		return EXIT_NOT_RUN;
	if (code.context && has_env(call)) {
		usage_error("a context has its variables from its beginning on: --env or "
			    "--context");
		return EXIT_NOT_RUN;
	}
	r = read_source(file, &source);
	if (r == EXIT_OK)
		r = check_source(file, is_run, (struct str){buf_at(&source), buf_len(&source)});
	if (r != EXIT_OK)
		return r;
	code.code = (struct str){buf_at(&source), buf_len(&source)};
	if (!code.language && code.context && check_language(&code, file) != EXIT_OK)
		return EXIT_NOT_RUN;
	if (!code.language && !code.context)
		code.language = code_language(file, code.code);
	if (!code.language && !code.context)
		return EXIT_NOT_RUN;
	if (file)
		code.file = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
	return is_run ? run_alone(call, &code) : run_in_context(call, &code);
}

/* clang-format off */
static const struct flag flags[] = {
	[CODE_LANG]     = { "--lang",     "LANGUAGE",   "python, javascript, typescript or bash, if neither name nor #! line tells", "-l" },
	[CODE_CONTEXT]  = { "--context",  "CONTEXT",    "in this context (the language's own)", "-c" },
	[CODE_ENV]      = { "--env",      "NAME=VALUE", "set a variable, in a context made for this call; NAME alone passes ours on", "-e" },
	[CODE_TIMEOUT]  = { "--timeout",  "DURATION",   "interrupt it after so long: 500ms, 10m (of a run 30s); 0s: never" },
	[CODE_SAVE]     = { "--save",     "DIR",        "what can be a file goes there, and pictures are not shown" },
	[CODE_RUN]      = { "--run",      NULL,         "in a sandbox of its own, of which nothing stays" },
	[CODE_INPUT]    = { "--input",    "JSON",       "with --run: what its function is called with; an array are its arguments" },
	[CODE_IMAGE]    = { "--image",    "NAME",       "with --run: what it is made of (default: host)" },
	[CODE_TRUST]    = { "--trust",    "TRUST",      "with --run: how much it is trusted" },
	[CODE_MEMORY]   = { "--memory",   "SIZE",       "with --run: the most memory: 512M, 2G" },
	[CODE_CPUS]     = { "--cpus",     "NUMBER",     "with --run: the most processors: 1.5" },
	[CODE_CPU_TIME] = { "--cpu-time", "DURATION",   "with --run: the most processor time: 30s, 10m" },
	[CODE_PIDS]     = { "--pids",     "NUMBER",     "with --run: the most processes" },
	[CODE_DISK]     = { "--disk",     "SIZE",       "with --run: the most that its disk may hold" },
	{ NULL },
};

const struct example code_exit_codes[] = {
	{ "0",   "it completed" },
	{ "1",   "the code failed: an error; of a run also a limit not named here, or a test" },
	{ "124", "its time was over, or that of `runs wait --timeout`" },
	{ "130", "it was interrupted, as by Ctrl-C" },
	{ "137", "it ran out of memory" },
	{ "152", "it used all its processor time" },
	{ "159", "it was killed for a forbidden system call" },
	{ "125", "Berth could not: no daemon, a wrong line, no such run, a limit that this" },
	{ "",    "machine cannot hold; or it was cancelled, stopped or lost, or its result is" },
	{ "",    "gone" },
	{ "other", "its own, if it ended its interpreter in a context; 128 + a signal's number" },
	{ NULL },
};

static const struct example examples[] = {
	{ "echo 'x = 6 * 7' | berth code box",         "Python, if there is no name with an ending and no #! line" },
	{ "echo 'x' | berth code box",                 "42: what was defined lasts" },
	{ "berth code box plot.py",                    "a figure is shown, or saved as result-1.png" },
	{ "berth code -l js -c work box -",            "in a context of your own" },
	{ "berth code --run --input '[1, 2]' add.js",  "calls what add.js exports, and prints the result" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_code = {
	.name = "code",
	.summary = "run code in a live interpreter of a sandbox, or by itself",
	.arguments = "ID [FILE]",
	.arg_max = 2,
	.gives_code = true,
	.description =
		"Runs a file, or standard input, in a context: an interpreter that lives on in "
		"the\n"
		"sandbox, with what was defined there. What it prints comes as it is written, the\n"
		"value of its last expression last. A picture is shown inline by terminals that "
		"can\n"
		"(kitty's and iTerm2's ways), and is saved as result-1.png or the next name that "
		"is\n"
		"free elsewhere, 50 of a call at most. An error goes to standard error.\n"
		"\n"
		"With --run there is no ID: the code runs in a fresh sandbox, of which nothing\n"
		"stays but what `berth runs` tells. What it exports as a function (Python: "
		"`main`)\n"
		"is called with --input; else the value of its last expression is the result. "
		"What\n"
		"it prints and logs comes line by line, while it runs. Ctrl-C cancels it.",
	.flags = flags,
	.examples = examples,
	.exit_codes = code_exit_codes,
	.run = run,
};
