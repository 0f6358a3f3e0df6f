#include "cmd/berth/repl_prompt.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
#include <wchar.h>

#include <histedit.h>

#include "base/cleanup.h"

#define HISTORY_MAX 1000

struct prompt {
	EditLine *edit; /* NULL: no terminal */
	History *history;
	const char *file, *mark;
	bool was_cancelled;
	char *line; /* getline()'s */
	size_t line_size;
};

static char *mark_of(EditLine *edit)
{
	struct prompt *prompt = NULL;

	el_get(edit, EL_CLIENTDATA, &prompt);
	return (char *)prompt->mark;
}

/* Bound to Ctrl-C: what was typed is dropped. */
static unsigned char on_cancel(EditLine *edit, wint_t c)
{
	struct prompt *prompt = NULL;

	el_get(edit, EL_CLIENTDATA, &prompt);
	prompt->was_cancelled = true;
	return CC_NEWLINE;
}

/* Ctrl-C between two lines: there is nothing to drop. */
static void on_interrupt(int number)
{
}

static void open_terminal(struct prompt *prompt)
{
	HistEvent event;

	signal(SIGINT, on_interrupt);
	setlocale(LC_CTYPE, "");
	prompt->edit = el_init("berth", stdin, stdout, stderr);
	prompt->history = prompt->edit ? history_init() : NULL;
	if (!prompt->history)
		return;
	el_set(prompt->edit, EL_CLIENTDATA, prompt);
	el_set(prompt->edit, EL_PROMPT, mark_of);
	el_set(prompt->edit, EL_EDITOR, "emacs");
	/* The other one, of plain characters, makes copies that nobody frees. */
	el_wset(prompt->edit, EL_ADDFN, L"berth-cancel", L"Drop the input", on_cancel);
	el_set(prompt->edit, EL_BIND, "^C", "berth-cancel", NULL);
	el_set(prompt->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
	/* While a line is edited the key is a key, and no signal. */
	el_set(prompt->edit, EL_SETTY, "-d", "-isig", NULL);
	history(prompt->history, &event, H_SETSIZE, HISTORY_MAX);
	history(prompt->history, &event, H_SETUNIQUE, 1);
	el_set(prompt->edit, EL_HIST, history, prompt->history);
	if (prompt->file)
		history(prompt->history, &event, H_LOAD, prompt->file);
}

struct prompt *prompt_new(const char *file)
{
	struct prompt *prompt = calloc(1, sizeof(*prompt));

	if (!prompt)
		return NULL;
	prompt->file = file;
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		open_terminal(prompt);
	return prompt;
}

void prompt_free(struct prompt *prompt)
{
	HistEvent event;

	if (prompt->history && prompt->file)
		history(prompt->history, &event, H_SAVE, prompt->file);
	if (prompt->history)
		history_end(prompt->history);
	if (prompt->edit)
		el_end(prompt->edit);
	free(prompt->line);
	free(prompt);
}

bool prompt_is_terminal(const struct prompt *prompt)
{
	return prompt->edit;
}

static int read_edited(struct prompt *prompt, struct buf *out)
{
	const char *line;
	HistEvent event;
	int count = 0;

	prompt->was_cancelled = false;
	/* It would do so itself, but only behind the mark: whoever types then is heard twice. */
	el_set(prompt->edit, EL_PREP_TERM, 1);
	line = el_gets(prompt->edit, &count);
	if (prompt->was_cancelled)
		return -EINTR;
	if (!line || count <= 0)
		return 0;
	if (strspn(line, " \t\n") < (size_t)count)
		history(prompt->history, &event, H_ENTER, line);
	return buf_append(out, line, (size_t)count) < 0 ? -EMSGSIZE : 1;
}

int prompt_read(struct prompt *prompt, const char *mark, struct buf *out)
{
	ssize_t n;

	prompt->mark = mark;
	fflush(stdout);
	if (prompt->edit && prompt->history)
		return read_edited(prompt, out);
	n = getline(&prompt->line, &prompt->line_size, stdin);
	if (n <= 0)
		return 0;
	if (buf_append(out, prompt->line, (size_t)n) < 0)
		return -EMSGSIZE;
	/* The last one may have no end. */
	if (prompt->line[n - 1] != '\n' && buf_append(out, "\n", 1) < 0)
		return -EMSGSIZE;
	return 1;
}
