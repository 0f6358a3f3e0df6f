#include "container/cgroup_limits.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/dir.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

#define MIB (1ULL << 20)

/* Files that look like those of v2, which many a host of the tests does not have. */
static struct cgroup_host make_host(void)
{
	struct cgroup_host cg = {.is_used = true,
				 .is_v2 = true,
				 .can_limit_memory = true,
				 .can_limit_pids = true,
				 .name = "berth-test"};

	check(mkdir(scratch_path("berth-test"), 0700) == 0);
	check(mkdir(scratch_path("berth-test/a"), 0700) == 0);
	cg.v2_fd = open(scratch_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < array_len(cg.v1_fds); i++)
		cg.v1_fds[i] = -1;
	return cg;
}

static void fill(const char *name, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "berth-test/a/%s", name);
	scratch_write(scratch_path(path), text, strlen(text));
}

static bool is_max(const struct cgroup_files *files)
{
	char text[64];

	return dir_read(files->memory, "memory.high", text, sizeof(text)) > 0 &&
	       strncmp(text, "max", 3) == 0;
}

static uint64_t number_in(const struct cgroup_files *files, const char *name)
{
	uint64_t number = 0;

	check(dir_read_number(files->memory, name, &number) == 0);
	return number;
}

int main(void)
{
	const struct cgroup_limits limits = {.memory_bytes = 256 * MIB, .pids = 100};
	const struct cgroup_limits less = {.memory_bytes = 128 * MIB, .pids = 100};
	const struct cgroup_change change = {limits, limits};
	cleanup(cgroup_files_close) struct cgroup_files files = {-1, -1, -1};
	struct cgroup_host cg;
	struct err err;

	scratch_make();
	cg = make_host();
	fill("memory.max", "268435456\n");
	fill("memory.high", "67108864\n");
	fill("pids.max", "100\n");
	check(cgroup_files_open(&cg, "a", &files) == 0 && files.cpu < 0);
	check(!cgroup_limit_takes_long(&cg, &files, &limits));
	check(cgroup_limit_takes_long(&cg, &files, &less));
	tap_ok("less memory takes long, as much does not");

	check(cgroup_limit(&cg, &files, &change, &err) == 0);
	check(is_max(&files));
	tap_ok("what was left low is undone, though nothing changes");

	fill("memory.high", "67108864\n");
	check(unlink(scratch_path("berth-test/a/pids.max")) == 0);
	check(cgroup_limit(&cg, &files, &change, &err) < 0 && err.code == ERR_INTERNAL);
	check(is_max(&files));
	tap_ok("also where something fails");

	/* On the loop: nobody waits for memory to be taken back. */
	fill("pids.max", "7\n");
	fill("memory.high", "67108864\n");
	fill("memory.current", "200000000\n");
	cgroup_limit_restore(&cg, &files, &less);
	check(number_in(&files, "memory.max") == 256 * MIB && is_max(&files));
	check(number_in(&files, "pids.max") == 100);
	fill("memory.current", "1000000\n");
	cgroup_limit_restore(&cg, &files, &less);
	check(number_in(&files, "memory.max") == 128 * MIB);
	fill("memory.current", "200000000\n");
	cgroup_limit_restore(&cg, &files, &limits);
	check(number_in(&files, "memory.max") == 256 * MIB);
	tap_ok("what held before is put back, unless that takes memory away");
	close(cg.v2_fd);
	return tap_done();
}
