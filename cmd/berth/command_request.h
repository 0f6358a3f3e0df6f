/*
 * The request for a command: a JSON body, or, when our standard input is the body, a query that
 * says the same.
 */
#ifndef BERTH_CMD_COMMAND_REQUEST_H
#define BERTH_CMD_COMMAND_REQUEST_H

#include "base/buf.h"
#include "base/err.h"
#include "cmd/berth/command.h"
#include "cmd/berth/session.h"

struct command_request {
	struct buf path; /* terminated */
	struct buf body;
	bool is_query;                    /* the body is the command's standard input */
	char header[SESSION_ID_MAX + 16]; /* that names the session; "": none */
};

/* To be closed after a failure too. */
int command_request_make(struct command_request *ret, const struct command *command,
			 struct err *err);
void command_request_close(struct command_request *request);

#endif
