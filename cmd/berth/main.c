#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/berth/help.h"
#include "cmd/berth/line.h"
#include "cmd/berth/screen.h"

/* Of a verb that gives its command's code 1, 2 and 3 would be the command's own. */
static int own_failure(const struct line *line, int code)
{
	const struct verb *verb = line->verb;
	const char *word = line->call.arg_count ? line->call.args[0] : "";

	if (!verb || !verb->gives_code || (verb->code_word && strcmp(word, verb->code_word) != 0))
		return code;
	return EXIT_NOT_RUN;
}

static int act(struct line *line)
{
	struct globals globals;
	int code;

	if (line->globals[GLOBAL_HELP]) {
		if (line->verb)
			help_print_verb(line->verb);
		else
			help_print();
		return EXIT_OK;
	}
	if (line->globals[GLOBAL_VERSION]) {
		printf("berth %s\n", BERTH_VERSION);
		return EXIT_OK;
	}
	if (!line->verb)
		return usage_error("what should be done? `berth help` lists the verbs");
	code = line_globals(line, &globals);
	if (code != EXIT_OK)
		return own_failure(line, code);
	line->call.globals = &globals;
	return line->verb->run(&line->call);
}

/*
 * With 0, 1 or 2 closed, the next file we open would become our output. Not for writing: what is
 * written to a closed output must fail.
 */
static void open_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	struct line line;
	int code;

	open_standard_fds();
	/* Whoever started us may ignore it, and then no child could be waited for. */
	signal(SIGCHLD, SIG_DFL);
	if (line_init(&line, argc) < 0)
		return usage_error("out of memory");
	code = line_parse(&line, argc, argv);
	if (code == EXIT_OK)
		code = act(&line);
	else
		code = own_failure(&line, code);
	/* An answer that could not be written (full disk, closed pipe) is no answer. */
	if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_OK) {
		screen_error("cannot write the answer: %m");
		code = own_failure(&line, EXIT_FAILED);
	}
	line_close(&line);
	return code;
}
