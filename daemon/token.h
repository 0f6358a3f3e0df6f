/*
 * The tokens that open the TCP listener. Only their SHA-256 is kept; the file's text is wiped from
 * memory as soon as it has been read.
 */
#ifndef BERTH_DAEMON_TOKEN_H
#define BERTH_DAEMON_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

#define TOKENS_MAX          1024
#define TOKEN_FILE_SIZE_MAX (1024 * 1024)

struct tokens;

/*
 * Refuses a file that is missing, not a regular file, readable by everybody, too large, or without
 * a token: nothing that leaves the listener open by mistake.
 */
int tokens_load(struct tokens **ret, const char *path, struct err *err);
void tokens_free(struct tokens *tokens);

/* Takes the same time whatever the token is (its length aside) and whichever one it matches. */
bool tokens_match(const struct tokens *tokens, struct str token);

size_t tokens_count(const struct tokens *tokens);

#endif
