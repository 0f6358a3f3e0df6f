#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/haul.h"
#include "cmd/berth/screen.h"

enum { PUT_MODE };

static bool is_mode(const char *text)
{
	size_t len = strspn(text, "01234567");

	return len && len <= 5 && !text[len] && strtoul(text, NULL, 8) <= 07777;
}

static int open_source(struct haul *haul, const char *name, int *ret_fd)
{
	struct stat st;

	*ret_fd = name ? haul_open(haul, name, O_RDONLY) : haul_open_stdin(haul);
	if (*ret_fd < 0 && !name)
		return *ret_fd;
	if (*ret_fd < 0 || fstat(*ret_fd, &st) < 0)
		return haul_fail(haul, *ret_fd < 0 ? *ret_fd : -errno, "cannot read %s: %s",
				 name ? screen_text(str_of(name)).text : "standard input",
				 strerror(*ret_fd < 0 ? -*ret_fd : errno));
	if (S_ISDIR(st.st_mode))
		return haul_fail(haul, -EISDIR, "%s is a directory: `berth cp -r` copies trees",
				 screen_text(str_of(name ? name : "standard input")).text);
	if (name)
		progress_start(&haul->progress, name, (uint64_t)st.st_size);
	return 0;
}

static int put(struct haul *haul, const struct remote *remote, const char *name, const char *mode)
{
	cleanup_fd int fd = -1;
	int r = open_source(haul, name, &fd);

	if (r == 0)
		r = remote_target(remote, "file", &haul->target);
	if (r == 0 && mode)
		r = buf_printf(&haul->target, "?mode=%s", mode);
	if (r == 0)
		r = haul_send(haul, "PUT", fd, NULL, NULL);
	if (r == 0 && haul->globals->json)
		printf("%.*s\n", (int)buf_len(&haul->answer.body), buf_at(&haul->answer.body));
	return r;
}

static int run(const struct call *call)
{
	const char *mode = call->values[PUT_MODE];
	struct remote remote;
	struct haul haul;
	int code;

	if (call->arg_count == 0)
		return usage_error("where to? berth put ID:PATH [FILE]");
	if (mode && !is_mode(mode))
		return usage_error("--mode wants an octal number such as 0644, 7777 at most");
	code = remote_parse_path("put", call->args[0], &remote);
	if (code != EXIT_OK)
		return code;
	if (remote.path[strlen(remote.path) - 1] == '/')
		return usage_error(
			"put writes a file, but the path ends with a slash: name the file");
	code = haul_init(&haul, call->globals);
	if (code != EXIT_OK)
		return code;
	code = haul_finish(&haul,
			   put(&haul, &remote, call->arg_count > 1 ? call->args[1] : NULL, mode));
	haul_close(&haul);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[PUT_MODE] = { "--mode", "MODE", "permissions in octal (0644, or those that it has)", "-m" },
	{ NULL },
};

static const struct example examples[] = {
	{ "echo hello | berth put box:notes.txt",     "standard input becomes a file of /workspace" },
	{ "berth put --mode 755 box:bin/run ./run.sh", "a local file; `bin` is made if need be" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_put = {
	.name = "put",
	.summary = "write standard input, or a file, to a sandbox's file",
	.arguments = "ID:PATH [FILE]",
	.arg_max = 2,
	.description =
		"Makes or replaces a file in a sandbox. It takes its place at once and only when\n"
		"all of it has arrived: whoever reads it sees the old bytes or the new ones, and\n"
		"Ctrl-C changes nothing. Directories above it are made.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
