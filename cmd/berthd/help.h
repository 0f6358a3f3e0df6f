/* What --help and the manual page tell about berthd besides its flags. Tables end with NULL. */
#ifndef BERTH_CMD_BERTHD_HELP_H
#define BERTH_CMD_BERTHD_HELP_H

#include "cmd/example.h"
#include "daemon/config.h"

/* A setting that has no flag. */
struct help_setting {
	enum config_setting setting;
	const char *meaning;
};

extern const char help_about[];
extern const struct help_setting help_settings[]; /* ends with CONFIG_SETTING_COUNT */
extern const struct example help_examples[];
extern const struct example help_environment[];
extern const struct example help_signals[];
extern const struct example help_exit_codes[];

#endif
