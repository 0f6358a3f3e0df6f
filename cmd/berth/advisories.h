/*
 * Holes of runtimes and kernels that are known by number, and the versions that have them. A
 * version is all that is looked at: distributions mend programs without giving them a new one, so a
 * row also names the package that is known to be mended, where one is.
 */
#ifndef BERTH_CMD_ADVISORIES_H
#define BERTH_CMD_ADVISORIES_H

#include <stdbool.h>

#include "base/str.h"

#define ADVISORY_FIXES_MAX 7

/* "1.2", "1.0.0-rc93", "1.4.0-rc.3+dev": what follows that has no meaning here. */
struct release {
	unsigned number[3];
	unsigned candidate; /* of "rc"; UINT_MAX: none, it is the release itself */
};

struct advisory {
	const char *program; /* "runc", "crun", "linux" */
	const char *name;    /* "CVE-2024-21626" */
	const char *since;   /* the first version that has it; NULL: any */
	/* The first mended version of each branch (major.minor), ascending; older branches were
	 * not mended, newer ones never had it. */
	const char *fixed[ADVISORY_FIXES_MAX + 1];
	const char *package; /* Debian's that is mended, with a number at its end; or NULL */
	const char *feature; /* only programs whose --version tells this have it; or NULL */
	const char *what;    /* what it lets a sandbox do */
};

enum advisory_verdict {
	ADVISORY_CLEAR,
	ADVISORY_MENDED, /* by the package, although the version has it */
	ADVISORY_HIT,
};

/* A program as it tells of itself. */
struct subject {
	struct str program;
	struct release release;
	struct str package; /* "1.1.5+ds1-1+deb12u1", or empty */
	struct str told;    /* all that --version said */
};

extern const struct advisory advisories[]; /* ends with one whose name is NULL */

/* False, and nothing is set, if it does not begin with a number. */
bool release_parse(struct str text, struct release *ret);
/* < 0, 0, > 0 */
int release_compare(const struct release *a, const struct release *b);

/* From what a runtime's --version says; false if it tells no version. */
bool subject_of_runtime(struct str told, struct subject *ret);
/*
 * From uname's release and version. False where the release says nothing about what was mended:
 * distributions keep "5.15.0-91" over years. Debian's kernels tell it in the version.
 */
bool subject_of_kernel(struct str release, struct str version, struct subject *ret);

enum advisory_verdict advisory_judge(const struct advisory *advisory,
				     const struct subject *subject);

#endif
