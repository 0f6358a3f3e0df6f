/*
 * One line for each request through a preview, in a file of its own:
 *
 *	2026-01-31T12:00:00.250Z client=192.0.2.7 sandbox=box port=8000 method=GET path=/a
 *		status=200 bytes_in=0 bytes_out=512 duration_us=1830 upgrade=0
 *
 * What clients and sandboxes send is written so that it can neither forge a line nor reach a
 * terminal (base/log.h). What may be secret is not written at all: queries, and host names, which
 * hold the tokens of previews.
 *
 * Lines are kept in memory for a second, or until there are many. What cannot be written, as on a
 * full disk, is dropped; berthd's own log says so once, and how many they were when it is over.
 */
#ifndef BERTH_DAEMON_ACCESS_LOG_H
#define BERTH_DAEMON_ACCESS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "base/str.h"

#define ACCESS_LINE_MAX   2048
#define ACCESS_BUFFER_MAX (64 * 1024)
#define ACCESS_FLUSH_MS   1000

struct access_log;

/* One request, when its answer is complete, or will never be. */
struct access_entry {
	struct str client; /* its address */
	struct str sandbox;
	uint16_t port;
	struct str method;
	struct str
		path; /* what follows a "?" is left out, and so is what does not begin with "/" */
	int status;   /* 0: it was not answered */
	uint64_t bytes_in, bytes_out; /* of the bodies, to and from the sandbox */
	uint64_t duration_us;
	bool is_upgrade;
};

/* An absolute path. Made with mode 0640 if it is not there; what is no regular file is refused. */
int access_log_open(struct access_log **ret, uv_loop_t *loop, const char *path, struct err *err);
/*
 * The same file, or another one, opened anew: for whoever has moved it away. If that fails all is
 * as it was.
 */
int access_log_reopen(struct access_log *log, const char *path, struct err *err);
/* Writes what it holds. The loop must turn once more. */
void access_log_close(struct access_log *log);

/* NULL: there is none, and nothing is done. */
void access_log_add(struct access_log *log, const struct access_entry *e);
/* Lines, since it was opened. */
uint64_t access_log_dropped(const struct access_log *log);

/* The line, with its end and without a NUL; how long it is. */
size_t access_entry_format(const struct access_entry *e, int64_t at_ms, char ret[ACCESS_LINE_MAX]);

#endif
