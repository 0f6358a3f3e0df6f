#include "container/kernels.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "container/dir.h"

/* clang-format off */
static const struct {
	const char *name;
	const struct str *text;
} kernels[] = {
	{"bash.sh",                   &kernel_bash},
	{"javascript.cjs",            &kernel_javascript},
	{"javascript_calls.cjs",      &kernel_javascript_calls},
	{"javascript_channel.cjs",    &kernel_javascript_channel},
	{"javascript_console.cjs",    &kernel_javascript_console},
	{"javascript_errors.cjs",     &kernel_javascript_errors},
	{"javascript_evaluate.cjs",   &kernel_javascript_evaluate},
	{"javascript_exit.cjs",       &kernel_javascript_exit},
	{"javascript_json.cjs",       &kernel_javascript_json},
	{"javascript_logs.cjs",       &kernel_javascript_logs},
	{"javascript_modules.cjs",    &kernel_javascript_modules},
	{"javascript_orders.cjs",     &kernel_javascript_orders},
	{"javascript_owners.cjs",     &kernel_javascript_owners},
	{"javascript_positions.cjs",  &kernel_javascript_positions},
	{"javascript_prepare.cjs",    &kernel_javascript_prepare},
	{"javascript_results.cjs",    &kernel_javascript_results},
	{"javascript_runs.cjs",       &kernel_javascript_runs},
	{"javascript_saved.cjs",      &kernel_javascript_saved},
	{"javascript_signals.cjs",    &kernel_javascript_signals},
	{"javascript_state.cjs",      &kernel_javascript_state},
	{"javascript_streams.cjs",    &kernel_javascript_streams},
	{"javascript_texts.cjs",      &kernel_javascript_texts},
	{"javascript_typescript.cjs", &kernel_javascript_typescript},
	{"python.py",                 &kernel_python},
	{"python_errors.py",          &kernel_python_errors},
	{"python_hooks.py",           &kernel_python_hooks},
	{"python_loop.py",            &kernel_python_loop},
	{"python_results.py",         &kernel_python_results},
	{"python_runs.py",            &kernel_python_runs},
};
/* clang-format on */

static int write_one(int dir, const char *name, struct str text)
{
	cleanup_fd int fd = dir_open_file(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0444);
	int r = fd < 0 ? fd : dir_write_all(fd, text);

	/* Whatever the umask was. */
	if (r == 0 && fchmod(fd, 0444) < 0)
		r = -errno;
	return r;
}

int kernels_write(int dir, const char *name)
{
	cleanup_fd int folder = dir_make(dir, name, 0755);
	int r = folder < 0 ? folder : fchmod(folder, 0755) < 0 ? -errno : 0;

	for (size_t i = 0; i < array_len(kernels) && r == 0; i++)
		r = write_one(folder, kernels[i].name, *kernels[i].text);
	return r;
}
