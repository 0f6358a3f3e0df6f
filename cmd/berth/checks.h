/*
 * What `berth doctor` looks at. Each check adds one finding; it works without a daemon and changes
 * nothing.
 */
#ifndef BERTH_CMD_CHECKS_H
#define BERTH_CMD_CHECKS_H

#include <stddef.h>

#include "base/host.h"
#include "base/paths.h"
#include "base/str.h"
#include "cmd/berth/info.h"
#include "cmd/berth/verb.h"

#define FINDINGS_MAX 64

enum finding_level {
	FINDING_OK,
	FINDING_WARN,    /* Berth works, with less */
	FINDING_NOTE,    /* it works, and could be safer */
	FINDING_MISSING, /* Berth, or its sandboxes, cannot work */
	FINDING_UNSAFE,  /* a note, for whoever wants none of them */
};

struct finding {
	const char *name;
	enum finding_level level;
	char what[512];
	char mend[512]; /* a command or a sentence; "" if there is nothing to do */
};

struct findings {
	struct finding items[FINDINGS_MAX];
	size_t count;
	bool is_strict;             /* what could be safer is a failure */
	struct abilities abilities; /* what the daemon says, if it does */
	bool abilities_given;
};

__attribute__((format(printf, 4, 5))) struct finding *finding_add(struct findings *findings,
								  const char *name,
								  enum finding_level level,
								  const char *format, ...);
__attribute__((format(printf, 2, 3))) void finding_mend(struct finding *finding, const char *format,
							...);

void check_machine(struct findings *findings, const struct host_facts *facts);
void check_isolation(struct findings *findings, const struct host_facts *facts);
void check_ids(struct findings *findings, const struct host_facts *facts);
void check_runtime(struct findings *findings, const struct host_facts *facts, const char *wanted);
/* What is known of a program by what its --version told. */
void check_runtime_holes(struct findings *findings, struct str told);
void check_kernel_holes(struct findings *findings);
void check_settings(struct findings *findings);
void check_state_mode(struct findings *findings, const char *dir);
/* Who can reach the daemon that tells this. */
void check_reach(struct findings *findings, const struct info *info);
/* A number of /proc/sys; -1 when there is no such setting. */
long long check_sysctl(const char *path);
void check_dirs(struct findings *findings, const struct paths *paths);
void check_daemon(struct findings *findings, const struct globals *globals);

#endif
