/* A copy between here and a sandbox, by the rules of `berth cp`. */
#ifndef BERTH_CMD_COPY_H
#define BERTH_CMD_COPY_H

#include "cmd/berth/haul.h"

struct copy {
	struct haul *haul;
	struct remote remote;
	const char *local; /* "-": standard input or output */
	bool is_recursive;
	bool keeps_links; /* out: also those that lead out of the tree */
};

/* 0, or negative (or 1: there is nothing at `remote`) for haul_finish(). */
int copy_out(struct copy *copy);
int copy_in(struct copy *copy);

/* Is it its contents that are meant, since a path has no name of its own: "/", "a/.", ".."? */
bool copy_is_contents(const char *path);

/* The last part of a path that has one, without slashes; -ENAMETOOLONG. */
int copy_name(const char *path, char ret[NAME_MAX + 1]);

/* Is it "-"? */
bool copy_is_standard(const struct copy *copy);

/* A directory, though trees were not asked for. */
int copy_needs_recursive(struct copy *copy, const char *what);

#endif
