/*
 * The ground that tests of container/ stand on: a place of its own, the namespaces that the keeper
 * would make, a container driven through its life, and a way to ask the probe inside.
 */
#ifndef BERTH_TESTS_GROUND_H
#define BERTH_TESTS_GROUND_H

#include <stdbool.h>

#include "container/container.h"

enum ground_mode { GROUND_ROOT, GROUND_ROOTLESS, GROUND_ONE_ID };

struct ground {
	enum ground_mode mode;
	const char *runtime, *probe;
	char dir[64]; /* state, run */
	char state[96], run[96];
	char bait[96]; /* a folder for all, where nothing may ever be made */
	struct container_host *host;
};

/*
 * Runs `body` in a child that has the keeper's namespaces, and afterwards removes whatever it left:
 * processes, cgroups, directories. The body's answer, or 1 if it died.
 */
int ground_run(struct ground *ground, int (*body)(struct ground *ground));

/* main() of such a test. usage: PROGRAM root|rootless|one-id RUNTIME PROBE */
int ground_main(int argc, char **argv, int (*body)(struct ground *ground));

int ground_open_host(struct ground *ground, struct err *err);

/* prepare, create, created. */
int ground_start(struct ground *ground, struct container *c, const struct container_spec *spec,
		 struct err *err);
/* kill, take_down; the worker's exit status. */
int ground_stop(struct ground *ground, struct container *c);
/* Waits for a worker: its exit status, or -1. */
int ground_wait(pid_t pid, int pidfd);

/* A connection to the probe. */
int ground_connect(const struct ground *ground, const struct container *c);
/* The answer, in a static buffer. `fd` is sent along if it is not negative. */
const char *ground_ask(int peer, int fd, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

bool ground_has_line(const char *text, const char *line);

#endif
