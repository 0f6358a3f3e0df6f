#include "base/paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int join(char ret[PATH_MAX], const char *dir, const char *name, struct err *err)
{
	int n = snprintf(ret, PATH_MAX, "%s/%s", dir, name);

	if (n >= 0 && n < PATH_MAX)
		return 0;
	ret[0] = '\0';
	return err_set(err, -ENAMETOOLONG, ERR_INVALID_REQUEST,
		       "the path of \"%s\" would be longer than %d bytes", name, PATH_MAX - 1);
}

/* Relative values are ignored, as the XDG base directory specification asks. */
static const char *environment_dir(const char *name)
{
	const char *value = getenv(name);

	return value && value[0] == '/' ? value : NULL;
}

static int find_state_dir(char ret[PATH_MAX], struct err *err)
{
	const char *dir;

	if (geteuid() == 0)
		return join(ret, "/var/lib", "berth", err);
	dir = environment_dir("XDG_STATE_HOME");
	if (dir)
		return join(ret, dir, "berth", err);
	dir = environment_dir("HOME");
	if (dir)
		return join(ret, dir, ".local/state/berth", err);
	return err_set(err, -ENOENT, ERR_INVALID_REQUEST,
		       "there is no place for the state: set HOME or XDG_STATE_HOME to an absolute "
		       "path, or name a state directory");
}

static int find_run_dir(char ret[PATH_MAX], const char *state_dir, struct err *err)
{
	const char *dir;

	if (geteuid() == 0)
		return join(ret, "/run", "berth", err);
	dir = environment_dir("XDG_RUNTIME_DIR");
	if (dir)
		return join(ret, dir, "berth", err);
	return join(ret, state_dir, "run", err);
}

int paths_complete(struct paths *paths, struct err *err)
{
	int r;

	if (!paths->state_dir[0]) {
		r = find_state_dir(paths->state_dir, err);
		if (r < 0)
			return r;
	}
	if (!paths->run_dir[0]) {
		r = find_run_dir(paths->run_dir, paths->state_dir, err);
		if (r < 0)
			return r;
	}
	if (!paths->socket[0])
		return join(paths->socket, paths->run_dir, "berthd/api.sock", err);
	return 0;
}

bool path_has_controls(const char *path)
{
	for (; *path; path++)
		if ((unsigned char)*path < ' ' || *path == 0x7f)
			return true;
	return false;
}

int paths_default(struct paths *ret, struct err *err)
{
	memset(ret, 0, sizeof(*ret));
	return paths_complete(ret, err);
}
