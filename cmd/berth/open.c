#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/port.h"
#include "cmd/berth/screen.h"
#include "proto/preview_url.h"

extern char **environ;

/* The first of a list, as others read it too; NULL: there is none. */
static char *browser_name(void)
{
	const char *list = getenv("BROWSER");
	struct str rest = str_of(list ? list : "");
	struct str first = str_cut(&rest, ':');

	return strndup(first.len ? first.at : "xdg-open", first.len ? first.len : SIZE_MAX);
}

/* Not a shell's business: the URL is one argument, whatever it holds. */
static int browse(const char *url)
{
	cleanup_free char *program = browser_name();
	char *argv[] = {program, (char *)url, NULL};
	int status = 0;
	pid_t pid;

	if (!program || posix_spawnp(&pid, program, NULL, NULL, argv, environ) != 0)
		return -ENOENT;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static int show(const struct port_call *c)
{
	char url[PREVIEW_URL_SIZE];

	port_print_url(c);
	if (!c->port.url.len)
		return EXIT_FAILED;
	if (!isatty(STDOUT_FILENO))
		return EXIT_OK;
	fflush(stdout);
	snprintf(url, sizeof(url), "%.*s", STR_ARGS(c->port.url));
	/* Nobody's terminal is a reason to fail: the URL is there. */
	if (browse(url) < 0)
		screen_error("no browser could be started: open the URL yourself, or set BROWSER");
	return EXIT_OK;
}

static int run(const struct call *call)
{
	struct port_call c;
	int code, r;

	if (call->arg_count < 2)
		return usage_error("which port of which sandbox? berth open ID PORT");
	port_call_init(&c, call->globals);
	r = port_ask(&c, "GET", call->args, (struct str){NULL, 0});
	if (r == -EREMOTEIO && c.answer.status == 404)
		err_set(&c.err, r, ERR_NOT_FOUND,
			"port %s of `%s` is not exposed: `berth expose %s %s` does that",
			call->args[1], call->args[0], call->args[0], call->args[1]);
	if (r < 0) {
		code = client_failed(call->globals, &c.answer, r, &c.err);
	} else if (call->globals->json) {
		printf("%.*s\n", (int)buf_len(&c.answer.body), buf_at(&c.answer.body));
		code = EXIT_OK;
	} else {
		code = show(&c);
	}
	port_call_close(&c);
	return code;
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth open web 8080",                  "in a browser" },
	{ "BROWSER=firefox berth open web 8080",  "in this one" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_open = {
	.name = "open",
	.summary = "open an exposed port in a browser",
	.arguments = "ID PORT",
	.arg_max = 2,
	.description =
		"Prints the URL of an exposed port and, on a terminal, opens it with the program\n"
		"that BROWSER names, or with xdg-open. It does not expose the port: `berth "
		"expose`\n"
		"does. The sandbox is woken by the browser's request.",
	.examples = examples,
	.run = run,
};
