#include "cmd/berthd/help.h"

const char help_about[] =
	"Serves the Berth API in the foreground, and prints one line that begins with `ready`\n"
	"when it does. Needs no configuration; `berth up` starts it in the background. Started by\n"
	"root it goes on as another user, who has no privileges; berth-keeper keeps those.";

/* clang-format off */
const struct help_setting help_settings[] = {
	{ CONFIG_STORE_SYNC,      "\"normal\" survives any crash of Berth, \"full\" a power failure too" },
	{ CONFIG_DRAIN,           "how long requests may take when it stops, such as \"30s\"" },
	{ CONFIG_MAX_CONNECTIONS, "how many at once; a number" },
	{ CONFIG_VIEWER_TIMEOUT,  "how long a terminal waits for a viewer that takes nothing (30s)" },
	{ CONFIG_AUTOSTART,       "true: start again what ran with autostart when the machine went down" },
	{ CONFIG_INIT_TIMEOUT,    "how long a sandbox's init may be silent that is waited for (30s)" },
	{ CONFIG_TRUST,           "what \"high\", \"medium\", \"low\" and \"untrusted\" mean: limits, capabilities, seccomp" },
	{ CONFIG_RUN_TRUST,       "which of these a run has that names none (\"untrusted\")" },
	{ CONFIG_POOL,            "how many sandboxes are kept warm for runs: {\"size\", \"languages\", \"images\"}" },
	{ CONFIG_SETTING_COUNT },
};

const struct example help_examples[] = {
	{ "berthd", "with this user's directories" },
	{ "berthd --config /etc/berth/berth.json", "with settings from a file" },
	{ "berthd --listen 127.0.0.1:8080 --token-file tokens", "on TCP too" },
	{ NULL },
};

const struct example help_environment[] = {
	{ "XDG_STATE_HOME",              "where STATE is, if not root's" },
	{ "XDG_RUNTIME_DIR",             "where RUN is, if not root's" },
	{ "PATH",                        "where the runtime is looked for" },
	{ "LISTEN_FDS, NOTIFY_SOCKET",   "as systemd sets them: sockets to serve, and whom to tell" },
	{ NULL },
};

const struct example help_signals[] = {
	{ "SIGTERM, SIGINT", "take no new connections, finish what is under way, end; again: end at once" },
	{ "SIGHUP",          "read the configuration and the tokens again; open the access log anew" },
	{ NULL },
};

const struct example help_exit_codes[] = {
	{ "0", "stopped as asked" },
	{ "1", "it could not start; a sentence on stderr says why" },
	{ "2", "the command line or the configuration file was wrong" },
	{ NULL },
};
/* clang-format on */
