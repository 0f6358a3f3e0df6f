/* The body of POST .../exec, and its query and headers when stdin is streamed; the end of an exec.
 */
#ifndef BERTH_PROTO_EXEC_REQUEST_H
#define BERTH_PROTO_EXEC_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "proto/json.h"

#define EXEC_OUTPUT_DEFAULT (4 * 1024 * 1024) /* kept of each stream in a JSON answer */
#define EXEC_OUTPUT_MAX     (5 * 1024 * 1024) /* both as base64 fit an answer */
#define EXEC_STDIN_MAX      (4 * 1024 * 1024) /* inline */

struct exec_shell; /* daemon/exec.h */

struct exec_request {
	struct str argv; /* frame lists (NUL behind each), from argv or ["sh", "-c", command] */
	struct str env;  /* "NAME=value" each; names checked */
	struct str cwd;  /* absolute; "/workspace" if none was given */
	struct str user; /* "" if none was given */
	struct str stdin_bytes; /* decoded */
	bool has_stdin;
	bool detach;
	bool is_worker;   /* no program of the client's: a file worker, see proto/file.h */
	bool is_kept;     /* it outlives berthd, see daemon/exec.h */
	bool is_session;  /* it is the shell of a session, without streams */
	bool is_quiet;    /* that it runs does not keep its sandbox awake */
	bool is_text;     /* argv is ["sh", "-c", command] */
	bool has_cwd;     /* one was given */
	bool is_owned;    /* kept, but it ends with its client */
	bool is_terminal; /* kept, on a pty of this size; 0: the usual */
	uint32_t cols, rows;
	struct exec_shell *shell; /* argv's one string is a command for it */
	uint64_t timeout_ms;      /* 0: none */
	uint64_t max_output_bytes;
};

/* argv or command, exactly one; every error names the field. Results live in the arena. */
int exec_request_parse(struct arena *arena, struct str body, struct exec_request *ret,
		       struct err *err);

/* stdin is the body: argv=...&argv=... or command=, cwd, user, timeout_ms, env=NAME=value&env=...
 */
int exec_request_from_query(struct arena *arena, struct str query, struct exec_request *ret,
			    struct err *err);

/* The body of POST .../processes. */
struct process_request {
	struct exec_request exec; /* no stdin, no bound of output */
	struct str id;            /* "" if none was given */
	bool autostart;
};

int process_request_parse(struct arena *arena, struct str body, struct process_request *ret,
			  struct err *err);
/* The body of POST .../terminals. */
int terminal_request_parse(struct arena *arena, struct str body, struct process_request *ret,
			   struct err *err);
/* The shell of a terminal, as a frame list: `shell`, or if that is empty the best that is there. */
int terminal_request_shell(struct arena *arena, struct str shell, struct str *ret);
/* Its stored form: a body that process_request_parse() reads. */
int process_request_store(const struct process_request *request, struct buf *out);

#define EXEC_SESSION_ID_MAX 128

/* The body of POST .../session: what all of its commands share. */
struct session_request {
	struct str id;            /* "" if none was given */
	struct str shell;         /* "": bash, or sh where there is none */
	struct exec_request exec; /* cwd, env, user */
};

int session_request_parse(struct arena *arena, struct str body, struct session_request *ret,
			  struct err *err);
/* Letters, digits, and "-", "_", ".", ":" behind the first: up to EXEC_SESSION_ID_MAX of them. */
bool session_id_is_valid(struct str id);
/* The argv of a session: bash where there is one, unless `shell` was asked for. NULL: no memory. */
struct str session_shells(struct arena *arena, struct str shell);
/*
 * Makes of a request one for a session's shell: argv becomes one string for it. Names in env that
 * a shell cannot have, and a user, are refused: the session has its own.
 */
int exec_request_for_shell(struct arena *arena, struct exec_request *request, struct err *err);

enum exec_reason {
	EXEC_EXITED,
	EXEC_SIGNALED,
	EXEC_TIMEOUT,
	EXEC_OOM,
	EXEC_KILLED,
	EXEC_NOT_STARTED,
	EXEC_LOST,
	EXEC_CPU_LIMIT,
	EXEC_VIOLATION, /* numbers are stored: the last stays the last */
	EXEC_REASON_COUNT,
};

struct exec_end {
	enum exec_reason reason;
	int exit_code; /* -1: null */
	int signal;    /* 0: none */
	uint64_t duration_ms;
	bool is_measured; /* false: what it has used is not known */
	uint64_t cpu_ms, max_rss_bytes;
	bool oom_suspected;
	bool output_dropped; /* the client did not keep up while it was being ended */
	bool is_tree_lost;   /* kept, and whether anything of it is left cannot be known */
	bool in_session;     /* of a session's command, and then: */
	bool session_restarted, is_fresh;
	char message[256]; /* why it did not start or was lost, or what its end took; or "" */
};

/* "exited", "signaled", ... */
const char *exec_reason_name(enum exec_reason reason);

/* The fields of an `exit` event, into an object that the caller has opened. */
void exec_end_write(const struct exec_end *end, struct json_writer *w);

/* How many bytes at the end of `s` may be the beginning of a UTF-8 character: 0 to 3. */
size_t exec_utf8_tail(struct str s);

#endif
