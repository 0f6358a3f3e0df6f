/* A piece of code for a context of a sandbox: given to it, and what comes of it shown. */
#ifndef BERTH_CMD_CODE_H
#define BERTH_CMD_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "cmd/berth/client.h"
#include "cmd/berth/rich.h"
#include "cmd/berth/verb.h"
#include "proto/code_request.h"
#include "proto/json.h"

#define CODE_MAX         CODE_BODY_MAX /* of a context; as JSON it is a little longer */
#define CODE_CONTEXT_MAX (EXEC_SESSION_ID_MAX + 1)

/* Of limits: as a shell tells of SIGKILL, SIGXCPU and SIGSYS. */
enum { CODE_EXIT_TIMEOUT = 124, CODE_EXIT_OOM = 137, CODE_EXIT_CPU = 152, CODE_EXIT_SYS = 159 };

/* What `berth code`, `repl` and `runs wait` exit with, for people. */
extern const struct example code_exit_codes[];

struct code_call {
	const struct globals *globals;
	const char *id;
	const char *context;  /* NULL: the language's own */
	const char *language; /* NULL: the context's */
	const char *file;     /* what errors call it; NULL: the daemon finds a name */
	struct str code;
	uint64_t timeout_ms; /* 0: none */
	const char *save;    /* see struct rich_place */
	char *ret_context; /* CODE_CONTEXT_MAX: where it ran, if that is told; NULL: of no interest
			    */
};

/* The exit code: 0, 1 after an error of the code's, and what stands in the manual. */
int code_call(const struct code_call *call);

/* Of code that is no UTF-8 (-EILSEQ), or too long. `name` is what it is called. */
int code_refuse(struct err *err, int error, const char *name, bool is_run);

/* "NAME=VALUE" each, as command.h has them. */
struct code_env {
	const struct call *call;
	size_t flag;
};

/* EXIT_OK, or what is wrong was said. */
int code_env_check(const struct code_env *env);
/* "env", if there are any. Of two with one name the last counts. */
void code_env_write(struct json_writer *w, const struct code_env *env);

/* What a new context is to be; NULL: as the daemon has it. */
struct code_context {
	const char *id;
	const char *language;
	const char *cwd;
	const char *user;
	const struct code_env *env;
	bool is_default; /* of one that is there: code that names none runs in it */
};

/* As the body of a request. -EINVAL: something is no UTF-8, or too long. */
int code_context_write(const struct code_context *context, struct buf *out);
/* Of the answer to it. */
int code_context_id(const struct answer *answer, char ret[CODE_CONTEXT_MAX], struct err *err);

/* A context of its own for what needs one; its ID in `ret`. EXIT_OK, or an exit code. */
int code_context_new(const struct globals *globals, const char *id,
		     const struct code_context *context, char ret[CODE_CONTEXT_MAX]);
/* What is known of one that is there; text in the arena. EXIT_OK, or an exit code and a sentence.
 */
int code_context_find(const struct globals *globals, const char *id, const char *wanted,
		      struct arena *arena, struct code_context *ret);
/* Its language alone. -EDESTADDRREQ: there is none of that ID, and `err` says so. */
int code_context_language(const struct globals *globals, const char *id, const char *wanted,
			  const char **ret, struct err *err);
/* EXIT_OK, or an exit code and a sentence. */
int code_context_remove(const struct globals *globals, const char *id, const char *context);

#endif
