/*
 * Paths, as the sandbox's user would find them, but never through a magic link of proc: those lead
 * to what other processes have open. A place is where something is or shall be: a directory and a
 * name in it.
 */
#ifndef BERTH_INIT_WORK_PATH_H
#define BERTH_INIT_WORK_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define PLACE_TEMP_SIZE 16

struct place {
	int fd;                  /* O_PATH */
	char name[NAME_MAX + 1]; /* never "." or "..", and "" only for the root itself */
};

void place_close(struct place *place);
#define cleanup_place cleanup(place_close)

/* openat2() with O_CLOEXEC; `resolve` beyond RESOLVE_NO_MAGICLINKS. */
int path_open(int from, const char *path, int flags, uint64_t resolve);

/*
 * Splits a path at its last name; slashes behind it mean nothing. -EINVAL when that is "." or "..".
 * With `is_made` the directories above are made, 0755, if they are missing.
 */
int place_find(const char *path, bool is_made, struct place *ret);

/*
 * Of a file that is to be replaced: as place_find(), then along symbolic links to the name that the
 * last of them stands for. -EISDIR where only a directory can be.
 */
int place_find_target(const char *path, struct place *ret);

/* lstat() of what is there. */
int place_stat(const struct place *place, struct stat *ret);

/*
 * A new file that nobody sees until it is put into its place at once, instead of what is there:
 * without a name if the file system can do that, else under one that a killed worker leaves behind.
 */
struct temp {
	int dir_fd, fd;             /* dir_fd: not its own */
	char name[PLACE_TEMP_SIZE]; /* or "" */
};

int temp_open(struct temp *ret, int dir_fd);
/* Removes what was not placed. */
void temp_close(struct temp *temp);
/* A file that is new there is linked; only one that replaces another comes by a rename. */
int temp_place(struct temp *temp, const char *name);
#define cleanup_temp cleanup(temp_close)

/* Tries names that nobody has, until `make` does not say -EEXIST. */
struct temp_maker {
	int (*make)(const struct temp_maker *maker, const char *name);
	int dir_fd;
	const char *from; /* whatever `make` needs */
	int from_fd;
};
int temp_make(const struct temp_maker *maker, char ret[PLACE_TEMP_SIZE]);
/* Such a name. */
bool temp_is_name(const char *name);

/* "/proc/self/fd/N", for calls that know no empty path. */
#define PATH_FD_SIZE 32
void path_of_fd(char ret[PATH_FD_SIZE], int fd);

#endif
