#include "cmd/places.h"

#include <stddef.h>

/* clang-format off */
const struct example places_table[] = {
	{ "/var/lib/berth",              "STATE of root: what outlives a reboot" },
	{ "$XDG_STATE_HOME/berth",       "of anybody else; without the variable ~/.local/state/berth" },
	{ "/run/berth",                  "RUN of root: what does not" },
	{ "$XDG_RUNTIME_DIR/berth",      "of anybody else; without the variable STATE/run" },
	{ "RUN/berthd/api.sock",         "the socket of the API" },
	{ "STATE/berthd/berthd.log",     "the log of a daemon that `berth up` started" },
	{ NULL },
};
/* clang-format on */
