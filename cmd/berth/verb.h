/*
 * What `berth` can be told to do. Each verb is one file that defines one struct verb; verbs.c lists
 * them. Help, the manual page and the shell's completion come from these tables alone: whatever a
 * person should know about a verb stands here as data. The words of `arguments` and of a flag's
 * `value` tell what can be typed there, as value.c knows them.
 */
#ifndef BERTH_CMD_VERB_H
#define BERTH_CMD_VERB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/example.h"

#define VERB_FLAGS_MAX 40
#define VERB_ARGS_ANY  SIZE_MAX

enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NO_DAEMON = 3,
	/* Of verbs that give their command's own code: everything that is not the command's. */
	EXIT_NOT_RUN = 125,
	EXIT_INTERRUPTED = 130, /* as the shell says it of Ctrl-C */
	EXIT_PIPE = 141,
};

/* A table of flags ends with a name of NULL. */
struct flag {
	const char *name;  /* "--state-dir" */
	const char *value; /* what follows it, "DIR"; NULL: a switch */
	const char *summary;
	const char *letter; /* "-e": the same in short; NULL: none */
	bool may_be_empty;  /* "" is a value of it */
};

/* What holds for every verb; from the flags before or after it, and the environment. */
struct globals {
	bool json;
	const char *state_dir, *run_dir, *socket; /* as given; NULL: the default of this user */
	const char *url;                          /* NULL: the Unix socket */
	const char *token;                        /* BERTH_TOKEN, for `url` */
	int timeout_ms;                           /* how long an answer may take */
};

/* A flag as it was given, for those that may be given more than once. */
struct given {
	size_t flag; /* its place in the table */
	const char *value;
};

struct call {
	const struct globals *globals;
	/* By the flag's place in the table, the last one given; a switch: "" */
	const char *values[VERB_FLAGS_MAX];
	struct given *given; /* all of them, in order */
	size_t given_count;
	const char **args;
	size_t arg_count;
	char *const *command; /* of verbs that have one: what is to be run */
	size_t command_len;
};

struct verb {
	const char *name;
	const char *summary;     /* one line, no full stop */
	const char *arguments;   /* for the usage line: "[VERB]"; "" for none */
	size_t arg_max;          /* or VERB_ARGS_ANY */
	bool has_command;        /* behind the arguments; all that follows belongs to it */
	bool gives_code;         /* of what runs inside: whatever Berth fails at is EXIT_NOT_RUN */
	const char *code_word;   /* that is so with this as the first argument only; NULL: always */
	const char *description; /* paragraphs, wrapped by hand */
	const struct flag *flags;
	const struct example *examples;
	const struct example *exit_codes;    /* NULL: as help_exit_codes has them */
	int (*run)(const struct call *call); /* gives the exit code */
};

extern const struct verb verb_alarm;
extern const struct verb verb_attach;
extern const struct verb verb_cat;
extern const struct verb verb_code;
extern const struct verb verb_complete;
extern const struct verb verb_context;
extern const struct verb verb_cp;
extern const struct verb verb_create;
extern const struct verb verb_debug;
extern const struct verb verb_doctor;
extern const struct verb verb_down;
extern const struct verb verb_events;
extern const struct verb verb_exec;
extern const struct verb verb_expose;
extern const struct verb verb_files;
extern const struct verb verb_forward;
extern const struct verb verb_help;
extern const struct verb verb_info;
extern const struct verb verb_inspect;
extern const struct verb verb_kill;
extern const struct verb verb_logs;
extern const struct verb verb_ls;
extern const struct verb verb_open;
extern const struct verb verb_ports;
extern const struct verb verb_prune;
extern const struct verb verb_ps;
extern const struct verb verb_put;
extern const struct verb verb_repl;
extern const struct verb verb_rm;
extern const struct verb verb_run;
extern const struct verb verb_runs;
extern const struct verb verb_selftest;
extern const struct verb verb_session;
extern const struct verb verb_shell;
extern const struct verb verb_sleep;
extern const struct verb verb_start;
extern const struct verb verb_stop;
extern const struct verb verb_tar;
extern const struct verb verb_top;
extern const struct verb verb_unexpose;
extern const struct verb verb_up;
extern const struct verb verb_version;
extern const struct verb verb_wait;
extern const struct verb verb_wake;
extern const struct verb verb_watch;

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
