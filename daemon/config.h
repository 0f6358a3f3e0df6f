/*
 * All settings of berthd, in one plain struct that may be copied. They come from a JSON file and
 * from flags; flags are set last. The order of calls:
 *
 *	config_init, config_read (if there is a file), config_set (each flag), config_finish
 */
#ifndef BERTH_DAEMON_CONFIG_H
#define BERTH_DAEMON_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/str.h"
#include "daemon/store.h"
#include "proto/mounts_allowed.h"
#include "proto/pool_settings.h"
#include "proto/preview_url.h"
#include "proto/trust_table.h"
#include "proto/units.h"

#define CONFIG_FILE_SIZE_MAX   (64 * 1024)
#define CONFIG_CONNECTIONS_MAX 1000000
#define CONFIG_DRAIN_MS_MAX    (24 * 3600 * 1000)
#define CONFIG_TIMEOUT_MS_MIN  1000
#define CONFIG_SANDBOXES_MAX   1000000
#define CONFIG_PREVIEW_AUTO    "127.0.0.1:8620"
#define CONFIG_ALLOW_BIND_MAX  16384      /* bytes of all of them */
#define CONFIG_FLOOR_DEFAULT   UINT64_MAX /* by how much memory there is: capacity.h */

enum config_setting {
	CONFIG_SOCKET,
	CONFIG_SOCKET_GROUP,
	CONFIG_USER,
	CONFIG_STATE_DIR,
	CONFIG_RUN_DIR,
	CONFIG_RUNTIME,
	CONFIG_KEEPER,
	CONFIG_LISTEN,
	CONFIG_TOKEN_FILE,
	CONFIG_PREVIEW,
	CONFIG_ACCESS_LOG,
	CONFIG_PREVIEW_URL,
	CONFIG_STORE_SYNC,
	CONFIG_LOG_LEVEL,
	CONFIG_DRAIN,
	CONFIG_MAX_CONNECTIONS,
	CONFIG_VIEWER_TIMEOUT,
	CONFIG_MAX_SANDBOXES,
	CONFIG_MAX_RUNNING,
	CONFIG_MEMORY_FLOOR,
	CONFIG_MAX_RUNS,
	CONFIG_INIT_TIMEOUT,
	CONFIG_AUTOSTART,
	CONFIG_ALLOW_BIND,
	CONFIG_TRUST,
	CONFIG_RUN_TRUST,
	CONFIG_POOL,
	CONFIG_SETTING_COUNT,
};

/* Strings that were not given are "" and so is the host of an address that was not given. */
struct config {
	char file[PATH_MAX]; /* absolute; what SIGHUP reads again */
	struct paths paths;  /* state_dir, run_dir, socket: absolute */
	char socket_group[64];
	gid_t socket_gid; /* of socket_group; (gid_t)-1 without one */
	char user[64];    /* whom berthd becomes when root starts it */
	char runtime[PATH_MAX];
	bool keeper_is_awaited; /* "keeper": another starts it */
	char token_file[PATH_MAX];
	char access_log[PATH_MAX];
	struct host_port listen, preview;
	bool preview_is_given;          /* also as "none" */
	bool preview_is_auto;           /* if its port is taken, any other will do */
	struct preview_url preview_url; /* domain "": by the preview's port, on localhost */
	enum store_sync store_sync;
	enum log_level log_level;
	unsigned drain_ms;        /* "drain" */
	unsigned max_connections; /* 0: as the server thinks best */
	unsigned viewer_timeout_ms, init_timeout_ms;
	bool is_unconfined; /* by a flag only, for debugging: cmd/berthd/confine.h */
	bool autostart;     /* when berthd starts: daemon/autostart.h */
	unsigned max_sandboxes, max_running; /* 0: any number */
	unsigned max_runs;                   /* at once; 0: by the processors, see run.h */
	uint64_t memory_floor;               /* in bytes; 0: none */
	/* "DIR[:ro]" each, one behind the other, and "" at the end: config_binds() reads them. */
	char allow_bind[CONFIG_ALLOW_BIND_MAX];
	struct trust_table trust;
	enum trust run_trust; /* of runs that name none */
	struct pool_settings pool;
};

void config_init(struct config *config);

/* The setting's name in the file, such as "state_dir". */
const char *config_setting_name(enum config_setting setting);

/* Reads the file over what is there. The sentence names the file and the field. */
int config_read(struct config *config, const char *path, struct err *err);

/*
 * One setting from its text; of `allow_bind` one more, and never `trust` or `pool`, which are none.
 * A relative path counts from `base_dir`, NULL being the current directory. The sentence says what
 * is wrong with the value, not whose value it is.
 */
int config_set(struct config *config, enum config_setting setting, struct str value,
	       const char *base_dir, struct err *err);

/* Fills in the default paths and checks what only all settings together can tell. */
int config_finish(struct config *config, struct err *err);

/* The folders of `allow_bind`: how many, MOUNTS_ALLOWED_MAX at most. Texts point into `config`. */
unsigned config_binds(const struct config *config, const char *ret[MOUNTS_ALLOWED_MAX]);
/*
 * What the keeper would refuse by its name alone is refused at once, where we know its list: one
 * that a service has started has its own. ERR_FORBIDDEN.
 */
int config_check_binds(const struct config *config, struct str mounts, struct err *err);

/* The mode of the API socket: 0660 with a group, else 0600. */
static inline mode_t config_socket_mode(const struct config *config)
{
	return config->socket_group[0] ? 0660 : 0600;
}

/*
 * For SIGHUP: brings the running settings up to `next`, as far as they can change while berthd
 * runs. Returns the others, a bit (1u << setting) for each one that waits for a restart.
 */
unsigned config_apply(struct config *running, const struct config *next);

#endif
