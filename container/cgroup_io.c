#include "container/cgroup_io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/dir.h"

#define V2_FILE   "io.max"
#define TEXT_SIZE 8192 /* a line has up to 120 bytes, and there are BLOCK_DEVICES_MAX */

static const char *const v1_files[] = {
	"blkio.throttle.read_bps_device",
	"blkio.throttle.write_bps_device",
	"blkio.throttle.read_iops_device",
	"blkio.throttle.write_iops_device",
};

/* The base may be the root of the hierarchy, which has no such file: only what is below it. */
bool cgroup_io_works(const struct cgroup_host *cg)
{
	cleanup_fd int dir = -1;
	bool works;

	if (!cg->is_v2)
		return cg->v1_fds[CGROUPS_BLKIO] >= 0 &&
		       faccessat(cg->v1_fds[CGROUPS_BLKIO], v1_files[0], F_OK, 0) == 0;
	if (mkdirat(cg->v2_fd, cg->name, 0755) < 0 && errno != EEXIST)
		return false;
	dir = dir_open(cg->v2_fd, cg->name);
	works = dir >= 0 && faccessat(dir, V2_FILE, F_OK, 0) == 0;
	unlinkat(cg->v2_fd, cg->name, AT_REMOVEDIR); /* unless sandboxes are in it */
	return works;
}

static int open_dir(const struct cgroup_host *cg, const char *id)
{
	return cgroup_open(cg, cg->is_v2 ? cg->v2_fd : cg->v1_fds[CGROUPS_BLKIO], id);
}

/* A runtime passes down all that there is, or only what it was asked for. */
static void pass_down(const struct cgroup_host *cg, int dir)
{
	char path[CGROUP_NAME_MAX + 32];

	if (faccessat(dir, V2_FILE, F_OK, 0) == 0)
		return;
	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", cg->name);
	dir_write(cg->v2_fd, path, "+io");
}

struct limit_text {
	char text[24];
};

static struct limit_text limit_text(uint64_t limit)
{
	struct limit_text ret = {"max"};

	if (limit)
		snprintf(ret.text, sizeof(ret.text), "%" PRIu64, limit);
	return ret;
}

static int set_v2(int dir, dev_t disk, const struct keeper_io *io)
{
	char text[160];

	snprintf(text, sizeof(text), "%u:%u rbps=%s wbps=%s riops=%s wiops=%s", major(disk),
		 minor(disk), limit_text(io->read_bytes).text, limit_text(io->write_bytes).text,
		 limit_text(io->read_ops).text, limit_text(io->write_ops).text);
	return dir_write(dir, V2_FILE, text);
}

/* There 0 is no limit. */
static int set_v1(int dir, dev_t disk, const struct keeper_io *io)
{
	const uint64_t limits[] = {io->read_bytes, io->write_bytes, io->read_ops, io->write_ops};
	char text[64];
	int r = 0;

	_Static_assert(array_len(limits) == array_len(v1_files), "a file for each");
	for (size_t i = 0; i < array_len(v1_files) && r == 0; i++) {
		snprintf(text, sizeof(text), "%u:%u %" PRIu64, major(disk), minor(disk), limits[i]);
		r = dir_write(dir, v1_files[i], text);
	}
	return r;
}

int cgroup_io_set(const struct cgroup_host *cg, const char *id, const struct block_devices *disks,
		  const struct keeper_io *io)
{
	cleanup_fd int dir = open_dir(cg, id);
	int r = dir < 0 ? dir : 0;

	if (r == 0 && cg->is_v2)
		pass_down(cg, dir);
	for (unsigned i = 0; i < disks->count && r == 0; i++)
		r = (cg->is_v2 ? set_v2 : set_v1)(dir, disks->of[i], io);
	return r;
}

/* Every line of what is set begins with its disk. */
static void lift(int dir, const char *file, int (*set)(int, dev_t, const struct keeper_io *))
{
	const struct keeper_io none = {0};
	char text[TEXT_SIZE];
	ssize_t len = dir_read(dir, file, text, sizeof(text));
	struct str rest = {text, len > 0 ? (size_t)len : 0};

	while (rest.len) {
		struct str line = str_cut(&rest, '\n');
		unsigned major, minor;

		if (sscanf(line.at, "%u:%u", &major, &minor) == 2)
			set(dir, makedev(major, minor), &none);
	}
}

void cgroup_io_lift(const struct cgroup_host *cg, const char *id)
{
	cleanup_fd int dir = cg->can_limit_io ? open_dir(cg, id) : -1;

	if (dir < 0)
		return;
	if (cg->is_v2)
		lift(dir, V2_FILE, set_v2);
	for (size_t i = 0; i < array_len(v1_files) && !cg->is_v2; i++)
		lift(dir, v1_files[i], set_v1);
}
