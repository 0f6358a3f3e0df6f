#include "daemon/trust.h"

#include <errno.h>
#include <string.h>

#include "daemon/keeper.h"
#include "daemon/config.h"
#include "daemon/registry.h"
#include "daemon/sandbox.h"
#include "proto/trust_table.h"

static int check_runtime(const struct registry *registry, enum trust trust, struct err *err)
{
	const char *path = keeper_runtime(registry_keeper(registry));
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *wanted = registry_daemon(registry)->trust.presets[trust].runtime;

	if (!wanted[0] || strcmp(wanted, name) == 0)
		return 0;
	return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
		       "trust \"%s\" wants the runtime %s, and this daemon starts all sandboxes "
		       "with %s: start it with --runtime %s, or take `runtime` out of the preset",
		       trust_name(trust), wanted, name, wanted);
}

/* A disk that was made without a limit cannot get one. */
static bool is_disk_open(const struct sandbox *sb)
{
	return !sb || !sb->has_disk || sb->settings.limits.disk_bytes;
}

static struct trust_means means_of(const struct keeper *keeper, const struct sandbox *sb,
				   const struct settings *settings)
{
	uint32_t can = keeper_abilities(keeper);

	return (struct trust_means){
		.memory = can & KEEPER_CAN_LIMIT_MEMORY,
		.swap = can & KEEPER_CAN_LIMIT_SWAP,
		.cpus = can & KEEPER_CAN_LIMIT_CPU,
		.cpu_time = can & KEEPER_COUNTS_CPU,
		.disk = settings->is_ephemeral || (can & KEEPER_CAN_LIMIT_DISK && is_disk_open(sb)),
		.inodes = settings->is_ephemeral,
		/* Of one in memory these are for its image, and for what is mounted. */
		.reads = can & KEEPER_CAN_LIMIT_READS,
		.writes = can & KEEPER_CAN_LIMIT_WRITES,
		.files = keeper_defaults(keeper).files,
	};
}

int trust_settle(const struct registry *registry, const struct sandbox *sb,
		 struct settings *settings, struct err *err)
{
	const struct keeper *keeper = registry_keeper(registry);
	struct trust_means means;
	int r;

	if (settings->trust == TRUST_UNSAID)
		return 0;
	/* Limits that are left out now would be missing for good. */
	if (!keeper_is_ready(keeper))
		return err_set(err, -EAGAIN, ERR_UNAVAILABLE,
			       "berth-keeper has not said yet what this host can limit: try again");
	r = check_runtime(registry, settings->trust, err);
	if (r < 0)
		return r;
	means = means_of(keeper, sb, settings);
	return trust_apply(&registry_daemon(registry)->trust, settings->trust, &means,
			   &settings->limits, err);
}

int trust_start(const struct registry *registry, enum trust trust, struct keeper_start *start,
		struct err *err)
{
	const struct trust_preset *preset = &registry_daemon(registry)->trust.presets[trust];

	start->capabilities = preset->capabilities;
	start->flags |= preset->is_strict ? KEEPER_START_STRICT : 0;
	return check_runtime(registry, trust, err);
}
