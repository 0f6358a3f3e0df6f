/*
 * berth-keeper: the hands. This file sets up the namespaces, in the order in which that can fail,
 * becomes the monitor, and decides the exit code: 0 after an orderly end, 1 when it could not
 * start, 2 for bad flags.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cmd/berth-keeper/options.h"
#include "cmd/berth-keeper/places.h"
#include "container/confine.h"
#include "container/keeper.h"
#include "container/keeper_adopt.h"
#include "container/monitor.h"
#include "container/namespaces.h"
#include "container/userns.h"

struct program {
	struct options options;
	struct keeper_config config;
	struct err warning;
	int ready_fd; /* -1: everything was said */
};

/* One line to whoever started us, and then no more: it may wait for the end of the pipe. */
static void say(struct program *p, const char *line)
{
	if (p->ready_fd < 0)
		return;
	dprintf(p->ready_fd, "%s\n", line);
	if (p->ready_fd > STDERR_FILENO)
		close(p->ready_fd);
	p->ready_fd = -1;
}

static void let_go(void *arg)
{
	struct program *p = arg;
	cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (p->ready_fd > STDERR_FILENO)
		close(p->ready_fd);
	p->ready_fd = -1;
	if (null >= 0)
		dup2(null, STDOUT_FILENO);
}

static void on_serving(void *arg)
{
	say(arg, "ready");
	let_go(arg);
}

static int fail(struct program *p, const struct err *err, int code)
{
	char line[sizeof(err->sentence) + 8];

	/* Whoever waits for the line says it to whom it matters. */
	if (p->ready_fd <= STDERR_FILENO)
		fprintf(stderr, "berth-keeper: %s\n", err->sentence);
	snprintf(line, sizeof(line), "%s%s", err->code == ERR_CONFLICT ? "busy " : "",
		 err->sentence);
	say(p, line);
	return code;
}

static int run_keeper(void *arg, int link_fd)
{
	struct program *p = arg;
	struct err err = {0};
	int r = namespaces_copy_mounts(&err);

	if (r == 0)
		r = keeper_run(&p->config, link_fd, &err);
	return r < 0 ? fail(p, &err, 1) : 0;
}

/*
 * Without root: into the user namespace of sandboxes that an earlier keeper left running, else into
 * a new one. Inside, our own user, which is berthd's too, is root.
 */
static int enter_userns(struct program *p, struct err *err)
{
	struct container_host_config *host = &p->config.host;
	pid_t init;
	int r = keeper_adopt_find_init(host->run_dir, &init, err);

	if (r < 0)
		return r;
	r = -ESRCH;
	if (init > 0) {
		r = userns_join(init, &host->ids_mapped, err);
		if (r < 0)
			log_error("running sandboxes cannot be adopted: %s", err->sentence);
	}
	if (r < 0)
		r = userns_create(&host->ids_mapped, &p->warning, err);
	host->daemon_uid = 0;
	host->daemon_gid = 0;
	return r;
}

static int set_up(struct program *p, int *ret_lock_fd, struct err *err)
{
	struct container_host_config *host = &p->config.host;
	int r = places_make(&p->options, err);

	if (r == 0)
		r = places_lock(&p->options, ret_lock_fd, err);
	if (r == 0)
		r = places_tell(&p->options, err);
	if (r < 0)
		return r;
	host->ids_mapped = userns_ids();
	/* Root of a user namespace that somebody else made can do no more than a rootless one. */
	host->is_rootless = geteuid() != 0 || host->ids_mapped != UINT32_MAX;
	if (geteuid() != 0)
		r = enter_userns(p, err);
	if (r == 0)
		r = namespaces_enter_mounts(host->is_rootless, &host->cgroup2_fd, err);
	return r < 0 ? r : confine_keeper(err);
}

static int run(struct program *p)
{
	const struct monitor_config monitor = {run_keeper, let_go, p};
	cleanup_fd int lock_fd = -1;
	struct err err = {0};
	int r = set_up(p, &lock_fd, &err);

	if (r == 0)
		r = monitor_run(&monitor, &err);
	return r < 0 ? fail(p, &err, 1) : r;
}

int main(int argc, char **argv)
{
	static struct program p;
	const struct options *options = &p.options;
	enum options_action action;
	struct err err;

	if (options_parse(argc, argv, &p.options, &action, &err) < 0) {
		fprintf(stderr, "berth-keeper: %s\n", err.sentence);
		return 2;
	}
	if (action != OPTIONS_RUN) {
		action == OPTIONS_HELP ? options_print_help(stdout)
				       : (void)puts("berth-keeper " BERTH_VERSION);
		return 0;
	}
	log_set_level(options->log_level);
	p.ready_fd = options->ready_fd;
	if (p.ready_fd > STDERR_FILENO)
		fcntl(p.ready_fd, F_SETFD, FD_CLOEXEC);
	p.config = (struct keeper_config){
		.host = {.state_dir = options->state_dir,
			 .run_dir = options->run_dir,
			 .runtime = options->runtime,
			 .init_path = options->init_path,
			 .cgroup = options->cgroup,
			 .allow_bind = options->allow_bind,
			 .allow_bind_count = options->allow_bind_count,
			 .daemon_uid = options->daemon_uid,
			 .daemon_gid = options->daemon_gid,
			 .cgroup2_fd = -1},
		.warning = p.warning.sentence,
		.idle_ms = options->idle_ms,
		.on_ready = on_serving,
		.arg = &p,
	};
	return run(&p);
}
