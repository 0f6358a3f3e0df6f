#include "cmd/berth/code_language.h"

#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/verb.h"
#include "proto/kernel.h"

#define BLANKS " \t\r"

/* clang-format off */
static const struct {
	const char *ending;
	enum kernel_language language;
} endings[] = {
	{ ".py",   KERNEL_PYTHON },     { ".js",  KERNEL_JAVASCRIPT },
	{ ".mjs",  KERNEL_JAVASCRIPT }, { ".cjs", KERNEL_JAVASCRIPT },
	{ ".ts",   KERNEL_TYPESCRIPT }, { ".mts", KERNEL_TYPESCRIPT },
	{ ".cts",  KERNEL_TYPESCRIPT },
	{ ".sh",   KERNEL_BASH },       { ".bash", KERNEL_BASH },
};

/* Of a #! line; numbers behind it, as of python3.11, are another version of the same. */
static const struct {
	const char *program;
	enum kernel_language language;
} interpreters[] = {
	{ "python",  KERNEL_PYTHON },     { "ts-node", KERNEL_TYPESCRIPT },
	{ "tsx",     KERNEL_TYPESCRIPT }, { "node",    KERNEL_JAVASCRIPT },
	{ "nodejs",  KERNEL_JAVASCRIPT }, { "bash",    KERNEL_BASH },
	{ "sh",      KERNEL_BASH },       { "dash",    KERNEL_BASH },
};
/* clang-format on */

/* ".rb", or "" if the name has none. */
static const char *ending_of(const char *file)
{
	const char *slash = file ? strrchr(file, '/') : NULL;
	const char *name = slash ? slash + 1 : file;
	const char *dot = name ? strrchr(name, '.') : NULL;

	return dot && dot > name && dot[1] ? dot : "";
}

static struct str next_word(struct str *line)
{
	struct str word;

	while (line->len && memchr(BLANKS, line->at[0], sizeof(BLANKS) - 1))
		*line = (struct str){line->at + 1, line->len - 1};
	word = (struct str){line->at, 0};
	while (word.len < line->len && !memchr(BLANKS, word.at[word.len], sizeof(BLANKS) - 1))
		word.len++;
	*line = (struct str){line->at + word.len, line->len - word.len};
	return word;
}

static struct str base_of(struct str path)
{
	const char *slash = path.len ? memrchr(path.at, '/', path.len) : NULL;
	size_t skipped = slash ? (size_t)(slash + 1 - path.at) : 0;

	return (struct str){path.at + skipped, path.len - skipped};
}

/* "" if there is no such line; behind env(1) its flags and variables are passed over. */
static struct str interpreter_of(struct str code)
{
	struct str line = str_cut(&code, '\n'), word;

	if (!str_starts_with(line, STR("#!")))
		return STR("");
	line = (struct str){line.at + 2, line.len - 2};
	word = base_of(next_word(&line));
	if (!str_eq(word, STR("env")))
		return word;
	do
		word = next_word(&line);
	while (word.len && (word.at[0] == '-' || memchr(word.at, '=', word.len)));
	return base_of(word);
}

static bool is_version_of(struct str program, const char *name)
{
	size_t len = strlen(name);

	if (!str_starts_with(program, str_of(name)))
		return false;
	for (; len < program.len; len++)
		if (!strchr("0123456789.", program.at[len]))
			return false;
	return true;
}

const char *code_language_told(const char *file, struct str code)
{
	const char *ending = ending_of(file);
	struct str program = interpreter_of(code);

	for (size_t i = 0; i < array_len(endings); i++)
		if (strcasecmp(ending, endings[i].ending) == 0)
			return kernel_language_name(endings[i].language);
	for (size_t i = 0; program.len && i < array_len(interpreters); i++)
		if (is_version_of(program, interpreters[i].program))
			return kernel_language_name(interpreters[i].language);
	return NULL;
}

const char *code_language(const char *file, struct str code)
{
	const char *told = code_language_told(file, code), *ending = ending_of(file);
	struct str program = interpreter_of(code);

	if (told)
		return told;
	if (!program.len && !*ending)
		return kernel_language_name(KERNEL_PYTHON);
	usage_error("no language is known by `%s`: say --lang python, javascript, typescript or "
		    "bash",
		    program.len ? screen_text(program).text : screen_text(str_of(ending)).text);
	return NULL;
}
