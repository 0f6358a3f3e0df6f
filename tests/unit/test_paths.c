#include "base/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/tap.h"

/* The rules differ for root; a child that gave up root shows those of everybody else. */
static void as_user(void (*body)(void), const char *name)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
			_exit(2);
		clearenv();
		body();
		fflush(stdout);
		_exit(tap_case_failed);
	}
	check(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	tap_ok(name);
}

static void from_home(void)
{
	struct paths p;
	struct err err;

	setenv("HOME", "/home/kim", 1);
	setenv("XDG_STATE_HOME", "relative", 1);
	check(paths_default(&p, &err) == 0);
	check_str(p.state_dir, "/home/kim/.local/state/berth");
	check_str(p.run_dir, "/home/kim/.local/state/berth/run");
	check_str(p.socket, "/home/kim/.local/state/berth/run/berthd/api.sock");
}

static void from_xdg(void)
{
	struct paths p;
	struct err err;

	setenv("HOME", "/home/kim", 1);
	setenv("XDG_STATE_HOME", "/x/state", 1);
	setenv("XDG_RUNTIME_DIR", "/x/run", 1);
	check(paths_default(&p, &err) == 0);
	check_str(p.state_dir, "/x/state/berth");
	check_str(p.run_dir, "/x/run/berth");
	check_str(p.socket, "/x/run/berth/berthd/api.sock");
}

static void without_home(void)
{
	struct paths p;
	struct err err = {0};

	check(paths_default(&p, &err) == -ENOENT);
	check(strstr(err.sentence, "HOME"));
}

static void completed(void)
{
	struct paths p = {.state_dir = "/s"};
	struct err err;

	check(paths_complete(&p, &err) == 0);
	check_str(p.state_dir, "/s");
	check_str(p.run_dir, "/s/run");
	check_str(p.socket, "/s/run/berthd/api.sock");
}

static void too_long(void)
{
	struct paths p = {0};
	struct err err = {0};

	memset(p.state_dir, 'x', sizeof(p.state_dir) - 2);
	p.state_dir[0] = '/';
	check(paths_complete(&p, &err) == -ENAMETOOLONG);
	check(err.code == ERR_INVALID_REQUEST);
}

static void test_root(void)
{
	struct paths p;
	struct err err;

	if (geteuid() == 0) {
		check(paths_default(&p, &err) == 0);
		check_str(p.state_dir, "/var/lib/berth");
		check_str(p.run_dir, "/run/berth");
		check_str(p.socket, "/run/berth/berthd/api.sock");
		tap_ok("root's paths are the system's");
	}
}

int main(void)
{
	as_user(from_home, "without XDG variables everything is below HOME");
	as_user(from_xdg, "the XDG variables are followed");
	as_user(without_home, "no HOME is said");
	as_user(completed, "what is given leads to the rest");
	as_user(too_long, "a path that does not fit is refused");
	test_root();
	return tap_done();
}
