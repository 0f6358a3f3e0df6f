#include "container/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "container/dir.h"
#include "tests/unit/tap.h"

static void make_chain(int dir, const char *name, int depth)
{
	int at = dir_open(dir, ".");

	for (int i = 0; i < depth; i++) {
		int next;

		check(mkdirat(at, name, 0700) == 0);
		next = dir_open(at, name);
		close(at);
		at = next;
		if (depth < 1000)
			check(dir_replace(at, "file", STR("x"), 0600) == 0);
	}
	close(at);
}

static void test_deep(int dir)
{
	struct tree_usage usage;

	make_chain(dir, "deep", 150);
	/* Names that the removal itself would like to use. */
	check(mkdirat(dir, "deep/.deep-0", 0700) == 0);
	check(dir_replace(dir, "outside", STR("safe"), 0600) == 0);
	check(symlinkat("../outside", dir, "deep/link") == 0);
	check(symlinkat("/", dir, "deep/slash") == 0);
	check(tree_measure(dir, "deep", &usage) == 0 && usage.files == 149 + 150 + 3);
	check(tree_remove(dir, "deep") == 0);
	check(faccessat(dir, "deep", F_OK, 0) < 0);
	check(faccessat(dir, "outside", F_OK, 0) == 0);
	check(tree_remove(dir, "deep") == 0);
	tap_ok("150 folders deep, with links out of it");
}

static void test_too_deep(int dir)
{
	struct tree_usage usage;
	struct rlimit files;

	/* One for each folder on the way: a user's usual 1024 would end first. */
	check(getrlimit(RLIMIT_NOFILE, &files) == 0);
	files.rlim_cur = files.rlim_max;
	check(setrlimit(RLIMIT_NOFILE, &files) == 0);
	make_chain(dir, "abyss", 1100);
	check(mkdirat(dir, "abyss/beside", 0700) == 0);
	check(tree_measure(dir, "abyss", &usage) == 0 && usage.files == 1024 + 1);
	files.rlim_cur = 128;
	check(setrlimit(RLIMIT_NOFILE, &files) == 0);
	check(tree_measure(dir, "abyss", &usage) == 0 && usage.files > 64 && usage.files < 160);
	check(tree_remove(dir, "abyss") == 0);
	tap_ok("too deep to count all of it, not too deep to remove");
}

static void test_kinds(int dir)
{
	struct tree_usage usage;

	check(mkdirat(dir, "kinds", 0700) == 0);
	check(mkfifoat(dir, "kinds/fifo", 0600) == 0);
	check(dir_replace(dir, "data", STR("0123456789"), 0600) == 0);
	check(linkat(dir, "data", dir, "kinds/one", 0) == 0);
	check(linkat(dir, "data", dir, "kinds/two", 0) == 0);
	check(tree_measure(dir, "kinds", &usage) == 0 && usage.files == 3 && usage.bytes < 4096);
	check(tree_measure(dir, "absent", &usage) == -ENOENT);
	check(symlinkat("kinds", dir, "link") == 0);
	check(tree_measure(dir, "link", &usage) < 0);
	/* Of a link only the link goes. */
	check(tree_remove(dir, "link") == 0 && faccessat(dir, "kinds/one", F_OK, 0) == 0);
	check(tree_remove(dir, "kinds") == 0 && faccessat(dir, "data", F_OK, 0) == 0);
	tap_ok("fifos, hard links, symlinks");
}

static void test_many(int dir)
{
	char name[32];

	check(mkdirat(dir, "many", 0700) == 0);
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "many/%d", i);
		check(mkdirat(dir, name, 0700) == 0);
		snprintf(name, sizeof(name), "many/%d/sub", i);
		check(mkdirat(dir, name, 0) == 0);
	}
	check(tree_remove(dir, "many") == 0);
	tap_ok("hundreds of folders");
}

int main(void)
{
	char path[] = "/tmp/berth-tree-XXXXXX";
	int dir;

	if (!mkdtemp(path))
		return 1;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_deep(dir);
	test_too_deep(dir);
	test_kinds(dir);
	test_many(dir);
	unlinkat(dir, "outside", 0);
	unlinkat(dir, "data", 0);
	check(rmdir(path) == 0);
	close(dir);
	return tap_done();
}
