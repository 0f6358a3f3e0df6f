/*
 * A file of access tokens: one per line; blank lines and lines that begin with '#' are skipped,
 * white space around a token is not part of it. A token is visible ASCII, TOKEN_MIN to TOKEN_MAX
 * characters. Sentences name the line and never the token.
 */
#ifndef BERTH_PROTO_TOKEN_FILE_H
#define BERTH_PROTO_TOKEN_FILE_H

#include "base/err.h"
#include "base/str.h"

#define TOKEN_MIN 16
#define TOKEN_MAX 512

/*
 * Takes the next token off the front of `rest` and counts `line` on (start with 0). 1: `ret` points
 * to it, inside `rest`. 0: there are no more. -EINVAL: the line is no token.
 */
int token_file_next(struct str *rest, unsigned *line, struct str *ret, struct err *err);

#endif
