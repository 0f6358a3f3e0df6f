#include "container/freezer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/cgroup.h"
#include "container/dir.h"

#define PATH_SIZE 160      /* "berth-<hash>/<id>" */
#define PROBE     ".probe" /* no sandbox has such a name */

static bool is_v2(const struct cgroup_host *cg)
{
	return cg->v2_fd >= 0;
}

int freezer_fd(const struct cgroup_host *cg)
{
	return is_v2(cg) ? cg->v2_fd : cg->v1_fds[CGROUPS_FREEZER];
}

static const char *path_of(char path[PATH_SIZE], const struct cgroup_host *cg, const char *id)
{
	snprintf(path, PATH_SIZE, "%s/%s", cg->name, id);
	return path;
}

/* --- v2 --- */

static int is_frozen_v2(int dir)
{
	uint64_t is_frozen;
	int r = dir_read_key(dir, "cgroup.events", "frozen", &is_frozen);

	return r < 0 ? r : is_frozen != 0;
}

struct pass {
	unsigned unfrozen;
	int error; /* the first one */
};

static void note(struct pass *pass, int r)
{
	/* It was just removed. */
	if (r < 0 && r != -ENOENT && r != -ENODEV && pass->error == 0)
		pass->error = r;
	if (r == 0)
		pass->unfrozen++;
}

static void freeze_group(int sandbox, const char *name, void *data)
{
	cleanup_fd int group = dir_open(sandbox, name);
	int r = group < 0 ? group : is_frozen_v2(group);

	if (r == 0)
		r = dir_write(group, "cgroup.freeze", "1");
	if (r == 0)
		r = is_frozen_v2(group);
	note(data, r);
}

static void thaw_group(int sandbox, const char *name, void *data)
{
	cleanup_fd int group = dir_open(sandbox, name);

	note(data, group < 0 ? group : dir_write(group, "cgroup.freeze", "0"));
}

static void see_group(int sandbox, const char *name, void *data)
{
	cleanup_fd int group = dir_open(sandbox, name);

	note(data, group < 0 ? group : is_frozen_v2(group));
}

static int freeze_v2(int sandbox)
{
	struct pass pass = {0};
	int r;

	cgroup_for_groups(sandbox, freeze_group, &pass);
	if (pass.error || pass.unfrozen)
		return pass.error;
	r = dir_write(sandbox, "cgroup.freeze", "1");
	return r < 0 ? r : is_frozen_v2(sandbox);
}

/* The groups wait for <id>, so that all of them go on at once. */
static int thaw_v2(int sandbox)
{
	struct pass pass = {0};
	int r;

	cgroup_for_groups(sandbox, thaw_group, &pass);
	r = dir_write(sandbox, "cgroup.freeze", "0");
	return r < 0 ? r : pass.error;
}

static int see_v2(int sandbox)
{
	struct pass pass = {0};
	int r = is_frozen_v2(sandbox);

	if (r <= 0)
		return r;
	cgroup_for_groups(sandbox, see_group, &pass);
	return pass.error ? pass.error : pass.unfrozen == 0;
}

struct others {
	struct pass pass;
	char besides[CGROUP_GROUP_NAME]; /* the name of the group that goes on */
};

static void freeze_other(int sandbox, const char *name, void *data)
{
	struct others *others = data;
	cleanup_fd int group = dir_open(sandbox, name);
	uint64_t is_populated = 0;

	if (group < 0 || strcmp(name, others->besides) == 0)
		return;
	if (dir_read_key(group, "cgroup.events", "populated", &is_populated) == 0 && is_populated)
		freeze_group(sandbox, name, &others->pass);
}

/* Init, and nobody else: it is its first process, and more than a few lines are more than one. */
static bool is_alone(int sandbox)
{
	char text[64];
	ssize_t len = dir_read(sandbox, "cgroup.procs", text, sizeof(text));
	const char *end = len > 0 ? strchr(text, '\n') : NULL;

	return end && end[1] == '\0';
}

int freezer_freeze_others(const struct cgroup_host *cg, const char *id, uint32_t group)
{
	char path[PATH_SIZE];
	struct others others = {0};
	cleanup_fd int sandbox =
		is_v2(cg) ? dir_open(cg->v2_fd, path_of(path, cg, id)) : -EOPNOTSUPP;

	if (sandbox < 0)
		return sandbox;
	cgroup_group_name(others.besides, group);
	cgroup_for_groups(sandbox, freeze_other, &others);
	if (others.pass.error || others.pass.unfrozen)
		return others.pass.error;
	return is_alone(sandbox) ? 1 : -EBUSY;
}

/* --- v1 --- */

static int see_v1(int sandbox)
{
	char text[32];
	ssize_t len = dir_read(sandbox, "freezer.state", text, sizeof(text));

	return len < 0 ? (int)len : strcmp(text, "FROZEN\n") == 0;
}

/* As long as it says FREEZING it may have to be told again. */
static int freeze_v1(int sandbox)
{
	int r = dir_write(sandbox, "freezer.state", "FROZEN");

	return r < 0 ? r : see_v1(sandbox);
}

static int thaw_v1(int sandbox)
{
	return dir_write(sandbox, "freezer.state", "THAWED");
}

/* --- either --- */

static int apply(const struct cgroup_host *cg, const char *id, int (*v2)(int sandbox),
		 int (*v1)(int sandbox))
{
	char path[PATH_SIZE];
	int root = freezer_fd(cg);
	cleanup_fd int sandbox = root < 0 ? -EOPNOTSUPP : dir_open(root, path_of(path, cg, id));

	if (sandbox < 0)
		return sandbox;
	return is_v2(cg) ? v2(sandbox) : v1(sandbox);
}

int freezer_freeze(const struct cgroup_host *cg, const char *id)
{
	return apply(cg, id, freeze_v2, freeze_v1);
}

int freezer_thaw(const struct cgroup_host *cg, const char *id)
{
	return apply(cg, id, thaw_v2, thaw_v1);
}

int freezer_is_frozen(const struct cgroup_host *cg, const char *id)
{
	return apply(cg, id, see_v2, see_v1);
}

static bool is_made(int root, const char *path)
{
	return mkdirat(root, path, 0755) == 0 || errno == EEXIST;
}

bool freezer_works(const struct cgroup_host *cg)
{
	char path[PATH_SIZE];
	int root = freezer_fd(cg);
	bool works;

	if (root < 0 || !is_made(root, cg->name))
		return false;
	/* Nobody is in there, so that it is frozen at once. */
	works = is_made(root, path_of(path, cg, PROBE)) && freezer_freeze(cg, PROBE) == 1 &&
		freezer_thaw(cg, PROBE) == 0 && freezer_is_frozen(cg, PROBE) == 0;
	unlinkat(root, path, AT_REMOVEDIR);
	unlinkat(root, cg->name, AT_REMOVEDIR); /* unless sandboxes are in it */
	return works;
}
