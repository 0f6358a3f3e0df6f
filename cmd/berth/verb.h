/*
 * What `berth` can be told to do. Each verb is one file that defines one struct verb; main.c lists
 * them. Help is printed from these tables alone, and so will be the manual pages and the shell's
 * completion: whatever a person should know about a verb stands here as data.
 */
#ifndef BERTH_CMD_VERB_H
#define BERTH_CMD_VERB_H

#include <stdbool.h>
#include <stddef.h>

#define VERB_FLAGS_MAX 12
#define VERB_ARGS_MAX  8

enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NO_DAEMON = 3,
	EXIT_INTERRUPTED = 130, /* as the shell says it of Ctrl-C */
};

/* A table of flags ends with a name of NULL. */
struct flag {
	const char *name;  /* "--state-dir" */
	const char *value; /* what follows it, "DIR"; NULL: a switch */
	const char *summary;
};

/* A table of examples ends with a line of NULL. */
struct example {
	const char *line;
	const char *meaning;
};

/* What holds for every verb; from the flags before or after it, and the environment. */
struct globals {
	bool json;
	const char *state_dir, *run_dir, *socket; /* as given; NULL: the default of this user */
	const char *url;                          /* NULL: the Unix socket */
	const char *token;                        /* BERTH_TOKEN, for `url` */
	int timeout_ms;                           /* how long an answer may take */
};

struct call {
	const struct globals *globals;
	const char *values[VERB_FLAGS_MAX]; /* by the flag's place in the table; a switch: "" */
	const char *args[VERB_ARGS_MAX];
	size_t arg_count;
};

struct verb {
	const char *name;
	const char *summary;     /* one line, no full stop */
	const char *arguments;   /* for the usage line: "[VERB]"; "" for none */
	size_t arg_max;          /* <= VERB_ARGS_MAX */
	const char *description; /* paragraphs, wrapped by hand */
	const struct flag *flags;
	const struct example *examples;
	int (*run)(const struct call *call); /* gives the exit code */
};

extern const struct verb verb_doctor;
extern const struct verb verb_down;
extern const struct verb verb_help;
extern const struct verb verb_info;
extern const struct verb verb_up;
extern const struct verb verb_version;

/* All verbs in the order in which help shows them; ends with NULL. */
extern const struct verb *const verbs[];
extern const struct flag global_flags[];

const struct verb *verb_find(const char *name);

/* Prints "berth: <sentence>" on stderr and returns EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int usage_error(const char *format, ...);

/* The name closest to what was typed, for "did you mean"; NULL if none is close. */
const char *nearest_verb(const char *typed);
const char *nearest_flag(const char *typed, const struct flag *flags);

#endif
