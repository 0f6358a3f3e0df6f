#include "daemon/token.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <nettle/memops.h>
#include <nettle/sha2.h>

#include "base/cleanup.h"
#include "daemon/file.h"
#include "proto/token_file.h"

struct digest {
	uint8_t bytes[SHA256_DIGEST_SIZE];
};

struct tokens {
	size_t count;
	struct digest digests[TOKENS_MAX];
};

/* What a file of tokens was read into; wiped when it goes. */
struct secret {
	char *bytes;
	size_t size;
};

static void secret_close(struct secret *secret)
{
	if (secret->bytes)
		explicit_bzero(secret->bytes, secret->size);
	free(secret->bytes);
}

static struct digest digest_of(struct str token)
{
	struct sha256_ctx ctx;
	struct digest digest;

	sha256_init(&ctx);
	sha256_update(&ctx, token.len, (const uint8_t *)token.at);
	sha256_digest(&ctx, sizeof(digest.bytes), digest.bytes);
	explicit_bzero(&ctx, sizeof(ctx));
	return digest;
}

static int parse(struct tokens *tokens, struct str text, struct err *err)
{
	struct str token;
	unsigned line = 0;
	int r;

	while ((r = token_file_next(&text, &line, &token, err)) > 0) {
		if (tokens->count == TOKENS_MAX)
			return err_set(err, -E2BIG, ERR_INVALID_REQUEST,
				       "it holds more than %d tokens", TOKENS_MAX);
		tokens->digests[tokens->count++] = digest_of(token);
	}
	if (r == 0 && tokens->count == 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "there is no token in it; write one per line");
	return r;
}

static int load(struct tokens *tokens, const char *path, struct err *err)
{
	cleanup(secret_close) struct secret secret = {.size = TOKEN_FILE_SIZE_MAX + 1};
	cleanup_fd int fd = -1;
	struct stat st;
	size_t len = 0;
	int r;

	r = file_open(path, &fd, &st, err);
	if (r < 0)
		return r;
	if (st.st_mode & S_IRWXO)
		return err_set(err, -EPERM, ERR_INVALID_REQUEST,
			       "everybody on this machine can get at it; run: chmod 600 %s", path);
	secret.bytes = malloc(secret.size);
	if (!secret.bytes)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	r = file_read(fd, secret.bytes, secret.size, &len, err);
	if (r < 0)
		return r;
	return parse(tokens, (struct str){secret.bytes, len}, err);
}

int tokens_load(struct tokens **ret, const char *path, struct err *err)
{
	struct tokens *tokens = calloc(1, sizeof(*tokens));
	int r;

	if (!tokens)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	r = load(tokens, path, err);
	if (r < 0) {
		tokens_free(tokens);
		return err_wrap(err, r, "the token file \"%s\"", path);
	}
	*ret = tokens;
	return 0;
}

void tokens_free(struct tokens *tokens)
{
	if (tokens)
		explicit_bzero(tokens, sizeof(*tokens));
	free(tokens);
}

bool tokens_match(const struct tokens *tokens, struct str token)
{
	struct digest digest = digest_of(token);
	int matches = 0;

	for (size_t i = 0; i < tokens->count; i++)
		matches |= memeql_sec(digest.bytes, tokens->digests[i].bytes, sizeof(digest.bytes));
	return matches != 0;
}

size_t tokens_count(const struct tokens *tokens)
{
	return tokens->count;
}
