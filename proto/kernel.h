/*
 * The lines between berthd and a kernel: orders out, reports in (images/kernels/README.md says what
 * they mean). A report is the word of code that nobody trusts: its form is checked here, all of it,
 * and its size by whoever collects the line.
 */
#ifndef BERTH_PROTO_KERNEL_H
#define BERTH_PROTO_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "proto/json.h"

#define KERNEL_LINE_MAX (16 * 1024 * 1024) /* with its new line */

enum kernel_language {
	KERNEL_PYTHON,
	KERNEL_JAVASCRIPT,
	KERNEL_TYPESCRIPT,
	KERNEL_BASH,
	KERNEL_LANGUAGE_COUNT,
};

/* "python"; and back: negative if there is none of that name ("py", "js", "ts", "sh" and
 * "node" are names, too). */
const char *kernel_language_name(enum kernel_language language);
int kernel_language_find(struct str name);

enum kernel_order_kind { KERNEL_CODE, KERNEL_LOAD, KERNEL_INVOKE };

struct kernel_order {
	enum kernel_order_kind kind;
	uint64_t call;
	enum kernel_language language;
	struct str code;           /* of CODE and LOAD */
	struct str file, cwd;      /* "": none */
	struct json_map env;       /* what it sets */
	bool env_given;            /* of LOAD: it is told, also if it is empty */
	struct str input, request; /* of INVOKE, as JSON text; "": none was given */
};

/* Appends the whole line. -EMSGSIZE: it is longer than KERNEL_LINE_MAX. */
int kernel_order_write(const struct kernel_order *order, struct buf *out);

enum kernel_report_kind {
	KERNEL_READY,
	KERNEL_CHECKED,
	KERNEL_RESULT,
	KERNEL_LOG,
	KERNEL_VALUE,
	KERNEL_ERROR,
	KERNEL_DONE,
};

enum kernel_done { KERNEL_DONE_OK, KERNEL_DONE_ERROR, KERNEL_DONE_INTERRUPTED };

/* What is shown of a value, in as many forms as it has. */
struct kernel_result {
	struct str text, html, markdown, svg, png, jpeg, latex;
	struct str json, chart; /* JSON text */
	bool is_value;          /* of the last expression */
	bool is_truncated;      /* the text is cut, or a form was too large */
};

struct kernel_log {
	struct str level, message;
	double time; /* seconds since 1970; the kernel's own word */
};

struct kernel_error {
	struct str name, message;
	struct json_strings traceback;
	struct str file;
	uint64_t line, column; /* 0: it says none */
	bool is_syntax;
	bool exit_code_given; /* it asked for its end */
	uint64_t exit_code;   /* 1 to 255 */
	struct str blocked;   /* "network", or "" */
	bool is_too_long;     /* it is about a value that no line can hold */
};

struct kernel_report {
	enum kernel_report_kind kind;
	size_t size;   /* of its line */
	uint64_t call; /* 0 of READY */
	struct kernel_result result;
	struct kernel_log log;
	struct kernel_error error;
	struct str value; /* of VALUE: JSON text */
	bool is_nothing;  /* undefined, None */
	enum kernel_done done;
	uint64_t pid; /* of READY, inside */
};

/* One line without its new line; texts live in the arena. -EINVAL: it is not one of ours;
 * -EMSGSIZE: the arena is too small for it. */
int kernel_report_parse(struct arena *arena, struct str line, struct kernel_report *ret,
			struct err *err);

#endif
