/*
 * Where Berth lives when nobody says otherwise; berthd and berth agree on it here.
 *
 *	          root              everybody else
 *	state     /var/lib/berth    $XDG_STATE_HOME/berth, else $HOME/.local/state/berth
 *	run       /run/berth        $XDG_RUNTIME_DIR/berth, else <state>/run
 *	socket    <run>/berthd/api.sock
 */
#ifndef BERTH_BASE_PATHS_H
#define BERTH_BASE_PATHS_H

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"

struct paths {
	char state_dir[PATH_MAX];
	char run_dir[PATH_MAX];
	char socket[PATH_MAX];
};

/* Fails when the environment leads to no directory (no HOME), or to one that is too long. */
int paths_default(struct paths *ret, struct err *err);

/* Fills in what is "" so that it fits to what is given: <state>/run of the given state, ... */
int paths_complete(struct paths *paths, struct err *err);

/* Would it break the line that tells of it: has it a new line or another control character? */
bool path_has_controls(const char *path);

#endif
