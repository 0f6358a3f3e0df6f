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
	{"bash.sh",           &kernel_bash},
	{"javascript.cjs",    &kernel_javascript},
	{"python.py",         &kernel_python},
	{"python_errors.py",  &kernel_python_errors},
	{"python_hooks.py",   &kernel_python_hooks},
	{"python_loop.py",    &kernel_python_loop},
	{"python_results.py", &kernel_python_results},
	{"python_runs.py",    &kernel_python_runs},
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
