#include "container/block_device.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static struct block_mount mount;

static bool parse(const char *line)
{
	return block_mount_parse(str_of(line), &mount);
}

static void test_lines(void)
{
	check(parse("27 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw,discard"));
	check(mount.id == 27 && mount.major == 254 && mount.minor == 1);
	check(str_eq(mount.type, STR("ext4")) && str_eq(mount.source, STR("/dev/vda1")));
	check(parse("1234 27 0:45 /@home /a\\040b rw shared:1 master:2 - btrfs /dev/mapper/x rw"));
	check(mount.id == 1234 && mount.major == 0 && mount.minor == 45);
	check(str_eq(mount.type, STR("btrfs")) && str_eq(mount.source, STR("/dev/mapper/x")));
	/* One that was given no name. */
	check(parse("5 4 0:3 / /x rw - tmpfs  rw") && mount.source.len == 0);
	tap_ok("a line of mountinfo tells file system and device");
}

static void test_no_lines(void)
{
	static const char *const none[] = {
		"",
		"27",
		"27 1 254:1 / / rw - ext4",
		"27 1 254:1 / / rw ext4 /dev/vda1 rw",
		"x 1 254:1 / / rw - ext4 /dev/vda1 rw",
		"27 1 254 / / rw - ext4 /dev/vda1 rw",
		"27 1 254:x / / rw - ext4 /dev/vda1 rw",
		"27 1 :1 / / rw - ext4 /dev/vda1 rw",
		"27 1 4294967296:1 / / rw - ext4 /dev/vda1 rw",
		"99999999999999999999 1 254:1 / / rw - ext4 /dev/vda1 rw",
	};

	for (size_t i = 0; i < array_len(none); i++)
		check(!parse(none[i]));
	tap_ok("what is none is not taken for one");
}

static void test_set(void)
{
	struct block_devices set = {0};

	for (unsigned i = 0; i < BLOCK_DEVICES_MAX; i++)
		check(block_devices_add(&set, makedev(8, 16 * i)) == 0);
	check(block_devices_add(&set, makedev(8, 16)) == 0 && set.count == BLOCK_DEVICES_MAX);
	check(block_devices_add(&set, makedev(9, 1)) == -E2BIG && set.count == BLOCK_DEVICES_MAX);
	tap_ok("each disk is there once, and there are only so many");
}

static void test_places(void)
{
	struct block_place place;
	struct block_devices set;
	cleanup_fd int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	block_place_find(proc, &place);
	check(place.disk == 0 && !place.names_writers);
	check_str(place.type, "proc");
	block_place_find(-1, &place);
	check(place.disk == 0);
	check_str(place.type, "");
	check(block_devices_of(getpid(), &set) == 0 && block_devices_of(-1, &set) == -ENOENT);
	tap_ok("what is on no disk is known to be so");
}

int main(void)
{
	test_lines();
	test_no_lines();
	test_set();
	test_places();
	return tap_done();
}
