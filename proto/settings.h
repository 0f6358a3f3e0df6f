/*
 * A sandbox's settings as clients give them and as they are stored: a plain struct, and the JSON
 * that describes it.
 */
#ifndef BERTH_PROTO_SETTINGS_H
#define BERTH_PROTO_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "proto/json.h"
#include "proto/trust.h"

#define SETTINGS_ENV_MAX    (256 * 1024) /* names and values together */
#define SETTINGS_LABELS_MAX (16 * 1024)
#define SETTINGS_IMAGE_HOST "host"
#define SETTINGS_IMAGE_RULE                                                                        \
	"a name of 1 to 63 letters, digits, \".\", \"_\" and \"-\", beginning with a letter or a " \
	"digit"

struct settings_limits {
	uint64_t memory_bytes;           /* 0: the default */
	uint32_t memory_threshold_milli; /* of it: an event tells when so much is used; 0: none */
	uint64_t swap_bytes;
	uint32_t cpu_milli;
	uint64_t cpu_time_ms; /* from a start to the next; 0: as much as it likes */
	uint32_t pids;
	uint32_t files;
	uint64_t file_size;
	uint64_t disk_bytes, inodes; /* of all that it may change; 0: what the host has */
	uint64_t io_read, io_write;  /* bytes in a second; 0: as many as it likes */
	uint32_t io_read_ops, io_write_ops;
	uint64_t output_bytes; /* kept of each background process */
};

/* Those that the keeper can set while it runs. */
bool settings_limits_keep(const struct settings_limits *a, const struct settings_limits *b);
bool settings_limits_equal(const struct settings_limits *a, const struct settings_limits *b);

/* How a sandbox goes to sleep: SLEEP_AUTO freezes where that is possible, and else stops. */
enum sleep_mode { SLEEP_AUTO, SLEEP_FREEZE, SLEEP_STOP, SLEEP_MODES };

#define SETTINGS_NEVER UINT64_MAX

/* Each in milliseconds; SETTINGS_NEVER: it does not happen. */
struct settings_times {
	uint64_t sleep_after;  /* without any activity; 10 minutes unless it is said */
	uint64_t max_awake;    /* whatever happens; never */
	uint64_t stop_after;   /* frozen; then it is stopped; never */
	uint64_t delete_after; /* asleep or unused; never */
	uint64_t stop_grace;   /* that processes have to end by themselves; 10 seconds */
};

/*
 * `env`, `labels` and `mounts` are heap copies that belong to the struct: lists of "NAME=value",
 * and one of proto/mounts.h.
 */
struct settings {
	char image[64];
	enum trust trust; /* its limits are in `limits`, the rest is looked up at each start */
	bool is_read_only;
	bool is_ephemeral;      /* its disk is in memory, and new at each start */
	bool keep_alive;        /* never idle; only max_awake ends that */
	bool hold_open_sockets; /* of previews: also silent ones keep it awake */
	enum sleep_mode sleep_mode;
	struct settings_times times;
	struct settings_limits limits;
	struct str env, labels, mounts;
};

bool settings_is_image(struct str name);

void settings_init(struct settings *settings);
void settings_close(struct settings *settings);
/* A deep copy; -ENOMEM. */
int settings_copy(struct settings *ret, const struct settings *settings);

/* "auto", "freeze", "stop"; -EINVAL for any other word. */
const char *sleep_mode_name(enum sleep_mode mode);
int sleep_mode_parse(struct str word, enum sleep_mode *ret);

bool settings_equal(const struct settings *a, const struct settings *b);
/* Whether a sandbox that was started with the one would be started otherwise with the other. */
bool settings_start_alike(const struct settings *a, const struct settings *b);

/* What a client may send in POST and PUT /v1/sandbox: the settings, an id, whether to start. */
struct settings_request {
	struct str id; /* "" if none was given */
	bool start;
	/* Set by the caller. Not the bridge's own route: what only its clients send is unknown. */
	bool is_strict;
	struct settings settings;
};

/*
 * An empty body is an empty object. Reads over `ret->settings`, which holds the settings so far:
 * what the body does not name stays. On failure it is as it was. What is not yet there (network
 * modes, ...) is ERR_UNSUPPORTED with the field's name unless it asks for the default.
 */
int settings_read(struct arena *arena, struct str body, struct settings_request *ret,
		  struct err *err);

/*
 * The body of PUT .../env: variables that are set, or removed by null, and all others stay. On
 * failure the settings are as they were.
 */
int settings_change_env(struct arena *arena, struct str body, struct settings *settings,
			struct err *err);

/*
 * The fields of the settings, into an object that the caller has opened. Not `env`: secrets are put
 * there, and whoever may look need not know them.
 */
void settings_write(const struct settings *settings, struct json_writer *w);

/* Only "limits". */
void settings_write_limits(const struct settings *settings, struct json_writer *w);

/* Their stored form: JSON, and back. */
int settings_store(const struct settings *settings, struct buf *out);
int settings_restore(struct arena *arena, struct str text, struct settings *ret, struct err *err);

#endif
