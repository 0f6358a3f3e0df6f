/* The folders of the host that sandboxes may mount, as the configuration names them. */
#include <errno.h>
#include <string.h>

#include "daemon/config.h"
#include "proto/mounts.h"

unsigned config_binds(const struct config *config, const char *ret[MOUNTS_ALLOWED_MAX])
{
	const char *at = config->allow_bind;
	unsigned count = 0;

	for (; *at && count < MOUNTS_ALLOWED_MAX; at += strlen(at) + 1)
		ret[count++] = at;
	return count;
}

int config_check_binds(const struct config *config, struct str mounts, struct err *err)
{
	const char *texts[MOUNTS_ALLOWED_MAX];
	struct mounts_allowed allowed[MOUNTS_ALLOWED_MAX];
	unsigned count = config_binds(config, texts);
	struct mount_item item;

	for (unsigned i = 0; i < count; i++)
		mounts_allowed_parse(str_of(texts[i]), &allowed[i]);
	while (!config->keeper_is_awaited && mounts_next(&mounts, &item) > 0) {
		int found = item.kind == MOUNT_BIND
				    ? mounts_allowed_find(allowed, count, str_of(item.source))
				    : -1;

		if (item.kind == MOUNT_BIND && found < 0)
			return err_set(err, -EPERM, ERR_FORBIDDEN,
				       "the folder %s of the host may not be mounted: allow_bind "
				       "does not allow it",
				       item.source);
		if (found >= 0 && allowed[found].is_read_only && !item.is_read_only)
			return err_set(err, -EPERM, ERR_FORBIDDEN,
				       "the folder %s may be mounted with \"read_only\": true "
				       "alone: allow_bind allows %.*s for reading",
				       item.source, STR_ARGS(allowed[found].path));
	}
	return 0;
}
