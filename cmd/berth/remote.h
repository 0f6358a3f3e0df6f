/* A path in a sandbox as the command line names it, ID:PATH, and what the API tells about one. */
#ifndef BERTH_CMD_REMOTE_H
#define BERTH_CMD_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "cmd/berth/client.h"
#include "cmd/berth/screen.h"
#include "proto/json.h"

#define REMOTE_PATH_MAX   4095
#define REMOTE_TARGET_MAX (128 * 1024) /* of an encoded path and its query */
#define REMOTE_LIST_MAX   (64 * 1024 * 1024)

struct remote {
	const char *text; /* as it was given, for sentences */
	char id[64];
	char path[REMOTE_PATH_MAX + 1]; /* absolute; one without a slash is below /workspace */
};

/* Is it ID:PATH? A local name with a colon is written ./a:b, as scp has it. */
bool remote_is(const char *text);

/* ID:PATH or ID alone, which means /workspace. EXIT_OK, or EXIT_USAGE with a sentence. */
int remote_parse(const char *text, struct remote *ret);

/* The same, but there must be a path. */
int remote_parse_path(const char *verb, const char *text, struct remote *ret);

/* `name` below it. -ENAMETOOLONG. */
int remote_join(const struct remote *dir, const char *name, struct remote *ret);

/* "/v1/sandbox/ID/file/PATH", without an end: more may be appended. */
int remote_target(const struct remote *remote, const char *kind, struct buf *ret);

/* "/v1/sandbox/ID/persist?path=PATH" */
int remote_tree_target(const struct remote *remote, const char *verb, struct buf *ret);

/* All but plain characters as %XX. */
int remote_encode(struct buf *out, struct str text);

/* What is at a path. Names that are no UTF-8 come as base64. */
struct file_info {
	struct str name, name_base64, path, path_base64, type, mode, mtime, target, target_base64;
	uint64_t size, uid, gid;
};

struct file_list {
	struct json_objects entries; /* struct file_info */
	struct str cursor;           /* empty: that was all */
};

/* Text lives in the arena. */
int file_info_parse(struct arena *arena, const struct answer *answer, struct file_info *ret,
		    struct err *err);
int file_list_parse(struct arena *arena, const struct answer *answer, struct file_list *ret,
		    struct err *err);

/* Bytes that are no text come as base64, and are shown as far as a screen may show them. */
struct screen_text remote_readable(struct str text, struct str base64);

/* Permissions; 0 for nonsense. */
unsigned file_info_mode(const struct file_info *info);

#endif
