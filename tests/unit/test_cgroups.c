#include "base/cgroups.h"

#include "tests/unit/tap.h"

static const char v2[] =
	"22 1 0:20 / /proc rw - proc proc rw\n"
	"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

static const char hybrid[] =
	"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
	"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:1 master:2 - cgroup cgroup "
	"rw,cpu,cpuacct\n"
	"35 31 0:32 /docker/x /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory\n"
	"37 31 0:34 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
	"40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
	"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	"99 31 0:38 / /mnt/copy rw - cgroup2 cgroup2 rw\n";

static struct cgroups parsed;

static enum host_cgroups mode_of(const char *mountinfo)
{
	cgroups_parse(&parsed, str_of(mountinfo));
	return cgroups_mode(&parsed);
}

static void test_modes(void)
{
	check(mode_of("") == HOST_CGROUPS_NONE);
	check(mode_of("\n - cgroup2\n1 2 3 4 5 6 - cgroup2\n") == HOST_CGROUPS_NONE);
	check(mode_of("1 2 0:3 / /x rw - cgroup cgroup rw,name=systemd\n") == HOST_CGROUPS_V1);
	check(mode_of(v2) == HOST_CGROUPS_V2);
	check_str(parsed.of[CGROUPS_UNIFIED].mount, "/sys/fs/cgroup");
	tap_ok("the mode follows from what is mounted");
}

static void test_controllers(void)
{
	check(mode_of(hybrid) == HOST_CGROUPS_HYBRID);
	check_str(parsed.of[CGROUPS_UNIFIED].mount, "/sys/fs/cgroup/unified");
	check_str(parsed.of[CGROUPS_CPU].mount, "/sys/fs/cgroup/cpu,cpuacct");
	check_str(parsed.of[CGROUPS_CPUACCT].mount, "/sys/fs/cgroup/cpu,cpuacct");
	check_str(parsed.of[CGROUPS_MEMORY].mount, "/sys/fs/cgroup/mem ory");
	check_str(parsed.of[CGROUPS_PIDS].mount, "");
	check_str(parsed.of[CGROUPS_FREEZER].mount, "");
	tap_ok("v1 controllers are found by their whole name");
}

int main(void)
{
	test_modes();
	test_controllers();
	return tap_done();
}
