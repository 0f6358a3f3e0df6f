/* A directory of a test's own, removed at exit together with what is in it. */
#ifndef BERTH_TESTS_SCRATCH_H
#define BERTH_TESTS_SCRATCH_H

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char scratch_dir[PATH_MAX];
static pid_t scratch_owner;

static inline int scratch_remove_one(const char *path, const struct stat *st, int type,
				     struct FTW *at)
{
	return remove(path);
}

static inline void scratch_remove(void)
{
	/* A child that leaves by exit() must not take the directory with it. */
	if (getpid() == scratch_owner)
		nftw(scratch_dir, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void scratch_make(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(scratch_dir, sizeof(scratch_dir), "%s/berth-test.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(scratch_dir)) {
		perror(scratch_dir);
		exit(1);
	}
	scratch_owner = getpid();
	atexit(scratch_remove);
}

/* Valid until the next but seven. */
static inline const char *scratch_path(const char *name)
{
	static char paths[8][PATH_MAX + 256];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", scratch_dir, name);
	return path;
}

static inline void scratch_write(const char *path, const void *bytes, size_t len)
{
	FILE *file = fopen(path, "wbe");

	if (!file || fwrite(bytes, 1, len, file) != len || fclose(file) != 0) {
		perror(path);
		exit(1);
	}
}

#endif
