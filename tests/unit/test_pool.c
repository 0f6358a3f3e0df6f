#include "container/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/dir.h"
#include "container/pool_image.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

#define MIB (1ULL << 20)

static void test_mark(int top)
{
	cleanup_fd int all = dir_make(top, "sandboxes", 0700), disk = dir_make(all, "a", 0700);
	char made[POOL_NAME_SIZE], other[POOL_NAME_SIZE], read[POOL_NAME_SIZE];
	const char *token;
	uint32_t number;

	check(pool_has_disk(disk) == 0 && pool_has_disks(all) == 0);
	/* What cannot be seen is not "none". */
	check(pool_has_disk(-1) == -EBADF && pool_has_disks(-1) < 0);
	check(pool_mark_read(disk, read) == -ENOENT);
	check(dir_replace(disk, "range", str_of("7\n"), 0600) == 0);
	check(pool_mark_make(disk, 7, made) == 0);
	check(pool_has_disk(disk) == 1 && pool_has_disks(all) == 1);
	check(pool_mark_make(disk, 7, other) == -EEXIST);
	check(pool_mark_read(disk, read) == 0 && strcmp(read, made) == 0);
	check(pool_name_parse(made, &number, &token) == 0 && number == 7 && strlen(token) == 16);
	check(unlinkat(disk, "pooled", 0) == 0 && pool_mark_make(disk, 7, other) == 0);
	check(strcmp(made, other) != 0);
	/* Another range is another disk. */
	check(dir_replace(disk, "range", str_of("8\n"), 0600) == 0);
	check(pool_mark_read(disk, read) == 0 && strcmp(read, other) != 0);
	check(dir_replace(disk, "pooled", str_of(""), 0600) == 0);
	check(pool_mark_read(disk, read) == -EBADMSG && pool_has_disk(disk) == 1);
	check(dir_replace(disk, "pooled", str_of("../../0123456789\n"), 0600) == 0);
	check(pool_mark_read(disk, read) == -EBADMSG);
	tap_ok("a mark names one disk; one that cannot be seen or read is not taken for none");
}

/* A worker that removes the folder just when something is moved there. */
static void test_throw_away(int top)
{
	cleanup_fd int root = dir_make(top, "root", 0700), disk = dir_make(root, "0-a", 0700);
	cleanup_fd int upper = dir_make(disk, "upper", 0755);
	cleanup_free struct host_facts *facts = calloc(1, sizeof(*facts));
	const struct pool_place place = {top, top, top};
	struct pool *pool = NULL;
	pid_t pid;
	int stayed = 0;

	check(facts && pool_new(&pool, &place, facts) == 0);
	check(pool_throw_away(pool, disk, upper, "nothing") == 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pool_empty_gone(root);
	}
	for (int i = 0; i < 5000; i++) {
		int file = dir_open_file(upper, "f", O_WRONLY | O_CREAT, 0600);

		check(file >= 0 && close(file) == 0);
		/* It may be unlucky each time, but says so. */
		if (pool_throw_away(pool, disk, upper, "f") == 0)
			stayed += faccessat(upper, "f", F_OK, 0) == 0;
	}
	check(stayed == 0);
	check(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	pool_free(pool);
	tap_ok("what is thrown away is gone, or that is told");
}

static void test_grow(int top)
{
	const struct rlimit limit = {40 * MIB, RLIM_INFINITY},
			    none = {RLIM_INFINITY, RLIM_INFINITY};
	cleanup_fd int fd = dir_open_file(top, "image", O_RDWR | O_CREAT, 0600);
	struct stat st;

	signal(SIGXFSZ, SIG_IGN);
	check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	check(pool_image_grow(fd, 64 * MIB) == 0);
	check(fstat(fd, &st) == 0 && st.st_size == 32 * MIB);
	check(pool_image_grow(fd, 64 * MIB) == -EFBIG);
	check(fstat(fd, &st) == 0 && st.st_size == 32 * MIB);
	check(setrlimit(RLIMIT_FSIZE, &none) == 0);
	tap_ok("where there is no room for all, what there is comes, and stays");
}

int main(void)
{
	cleanup_fd int top = -1;

	scratch_make();
	top = open(scratch_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_mark(top);
	test_throw_away(top);
	test_grow(top);
	return tap_done();
}
