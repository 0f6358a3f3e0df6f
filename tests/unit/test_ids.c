#include "container/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/dir.h"
#include "container/tree.h"
#include "tests/unit/tap.h"

static int new_sandbox(int sandboxes, const char *name)
{
	int fd = dir_make(sandboxes, name, 0700);

	check(fd >= 0);
	return fd;
}

static void test_property(int sandboxes)
{
	static bool taken[IDS_RANGES];
	struct ids *ids = NULL;
	struct err err;

	/* Sandboxes come and go, keepers too: what exists never overlaps. */
	srand(7);
	for (int step = 0; step < 600; step++) {
		char name[16];
		uint32_t range = IDS_RANGES, again = IDS_RANGES;
		cleanup_fd int fd = -1;

		if (step % 50 == 0) {
			ids_free(ids);
			check(ids_new(&ids, sandboxes, false, 0) == 0);
		}
		snprintf(name, sizeof(name), "s%d", rand() % 200);
		if (faccessat(sandboxes, name, F_OK, 0) == 0) {
			uint64_t known;

			fd = new_sandbox(sandboxes, name);
			check(dir_read_number(fd, "range", &known) == 0);
			check(ids_assign(ids, fd, name, &again, &err) == 0 && again == known);
			taken[known] = false;
			check(tree_remove(sandboxes, name) == 0);
			continue;
		}
		fd = new_sandbox(sandboxes, name);
		check(ids_assign(ids, fd, name, &range, &err) == 0);
		if (range >= IDS_RANGES) {
			check(!"in range");
			break;
		}
		check(!taken[range]);
		taken[range] = true;
		check(ids_map(ids, range).first >= IDS_FIRST);
		check(ids_map(ids, range).first % IDS_PER_RANGE == 0);
	}
	ids_free(ids);
	tap_ok("9: ranges of existing sandboxes never overlap");
}

static void test_trash(int sandboxes)
{
	struct ids *ids = NULL;
	struct err err;
	uint32_t range = 0, other = 0;
	cleanup_fd int fd = new_sandbox(sandboxes, "old"), next = new_sandbox(sandboxes, "new");

	check(ids_new(&ids, sandboxes, false, 0) == 0);
	check(ids_assign(ids, fd, "old", &range, &err) == 0);
	ids_free(ids);
	close(new_sandbox(sandboxes, ".trash"));
	check(renameat(sandboxes, "old", sandboxes, ".trash/old-0") == 0);
	check(ids_new(&ids, sandboxes, false, 0) == 0);
	check(ids_assign(ids, next, "new", &other, &err) == 0 && other != range);
	ids_free(ids);
	tap_ok("a disk that is being removed keeps its range");
}

static void test_lost(int sandboxes)
{
	struct ids *ids = NULL;
	struct err err = {0};
	uint32_t range;
	cleanup_fd int fd = new_sandbox(sandboxes, "lost");

	close(new_sandbox(fd, "upper"));
	check(ids_new(&ids, sandboxes, false, 0) == 0);
	check(ids_assign(ids, fd, "lost", &range, &err) == -EINVAL && err.code == ERR_START_FAILED);
	check(dir_replace(fd, "range", STR("99999\n"), 0600) == 0);
	check(ids_assign(ids, fd, "lost", &range, &err) == -EINVAL);
	check(dir_replace(fd, "range", STR("-1\n"), 0600) == 0);
	check(ids_assign(ids, fd, "lost", &range, &err) == -EINVAL);
	ids_free(ids);
	tap_ok("a disk without its range, or with nonsense, is refused");
}

static void test_unreadable(int sandboxes)
{
	struct ids *ids = NULL;
	cleanup_fd int fd = new_sandbox(sandboxes, "unreadable");

	/* Whatever is the matter with it: its range must not look free. */
	close(new_sandbox(fd, "range"));
	check(ids_new(&ids, sandboxes, false, 0) == -EISDIR);
	close(new_sandbox(sandboxes, ".trash"));
	check(renameat(sandboxes, "unreadable", sandboxes, ".trash/unreadable-0") == 0);
	check(ids_new(&ids, sandboxes, false, 0) == -EISDIR);
	check(tree_remove(sandboxes, ".trash") == 0);
	check(mkdirat(sandboxes, ".trash", 0700) == 0);
	check(symlinkat("/etc", sandboxes, ".trash/t0-0") == 0);
	check(dir_replace(sandboxes, "file", STR("1\n"), 0600) == 0);
	check(ids_new(&ids, sandboxes, false, 0) == 0);
	ids_free(ids);
	tap_ok("a range that cannot be read fails the scan; what is no disk has none");
}

static void test_adopted(int sandboxes)
{
	struct ids *ids = NULL;
	struct err err;
	uint32_t range;
	cleanup_fd int fd = new_sandbox(sandboxes, "adopted");

	/* Also when all others are taken, and it is looked again which are. */
	check(ids_new(&ids, sandboxes, false, 0) == 0);
	for (uint32_t i = 0; i < IDS_RANGES; i++)
		ids_take(ids, i);
	ids_take(ids, IDS_RANGES);
	check(ids_assign(ids, fd, "adopted", &range, &err) == -ENOSPC &&
	      err.code == ERR_CAPACITY_EXCEEDED);
	ids_free(ids);
	tap_ok("the range of one that runs is taken, wherever its folder is");
}

/* As after `cp -a`, or when one comes back whose number was given away. */
static void test_shared(int sandboxes)
{
	struct ids *ids = NULL;
	struct err err = {0};
	uint32_t range, again;
	cleanup_fd int fd = new_sandbox(sandboxes, "mine"), copy = new_sandbox(sandboxes, "copy");
	char text[16];

	check(ids_new(&ids, sandboxes, false, 0) == 0);
	check(ids_assign(ids, fd, "mine", &range, &err) == 0);
	snprintf(text, sizeof(text), "%u\n", range);
	check(dir_replace(copy, "range", str_of(text), 0600) == 0);
	check(ids_assign(ids, copy, "copy", &again, &err) < 0 && err.code == ERR_CONFLICT);
	check(strstr(err.sentence, "\"mine\""));
	check(ids_assign(ids, fd, "mine", &again, &err) == 0 && again == range);
	/* A keeper that finds both lets one of them start. */
	ids_free(ids);
	check(ids_new(&ids, sandboxes, false, 0) == 0);
	check((ids_assign(ids, fd, "mine", &again, &err) == 0) !=
	      (ids_assign(ids, copy, "copy", &again, &err) == 0));
	check(tree_remove(sandboxes, "mine") == 0);
	check(ids_assign(ids, copy, "copy", &again, &err) == 0 && again == range);
	ids_free(ids);
	tap_ok("no two sandboxes start with the same range");
}

static void test_rootless(int sandboxes)
{
	struct ids *ids = NULL;
	struct id_map map;

	check(ids_new(&ids, sandboxes, true, 65536) == 0);
	map = ids_map(ids, 0);
	check(map.first == 1 && map.count == 65535 && !ids_has_ranges(ids));
	ids_free(ids);
	check(ids_new(&ids, sandboxes, true, 1) == 0);
	map = ids_map(ids, 0);
	check(map.first == 0 && map.count == 1);
	ids_free(ids);
	check(ids_new(&ids, sandboxes, true, 1 << 20) == 0);
	check(ids_map(ids, 0).count == IDS_PER_RANGE);
	ids_free(ids);
	tap_ok("rootless: the user's own id is never root inside, unless there is no other");
}

int main(void)
{
	char dir[] = "/tmp/berth-ids-XXXXXX";
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC), sandboxes;

	if (!mkdtemp(dir))
		return 1;
	sandboxes = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_property(sandboxes);
	test_trash(sandboxes);
	test_lost(sandboxes);
	test_unreadable(sandboxes);
	test_adopted(sandboxes);
	test_shared(sandboxes);
	test_rootless(sandboxes);
	check(tree_remove(tmp, dir + strlen("/tmp/")) == 0);
	close(sandboxes);
	close(tmp);
	return tap_done();
}
