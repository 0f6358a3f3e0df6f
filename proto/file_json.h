/* What a file is, as clients see it: the fields of one entry, and its tag. */
#ifndef BERTH_PROTO_FILE_JSON_H
#define BERTH_PROTO_FILE_JSON_H

#include "proto/file.h"
#include "proto/json.h"

#define FILE_ETAG_SIZE (2 + 5 * 17 + 1)

/* "file", "directory", "symlink" ... */
const char *file_type_name(uint32_t type);

/*
 * Into an object that the caller has opened. `name` is what `path` ends with, or all of it for "/";
 * what is no UTF-8 comes as name_base64 and path_base64. `link` is the target of a symbolic link.
 */
void file_json_write(struct json_writer *w, struct str path, const struct file_stat *stat,
		     struct str link);

/* Only `name` and `path`. */
void file_json_write_name(struct json_writer *w, struct str path);
/* As text if it is text, else under the other key. */
void file_json_write_bytes(struct json_writer *w, const char *key, const char *key_base64,
			   struct str bytes);

/* The same as long as nobody has changed the file: quoted, as HTTP wants it. */
void file_etag(const struct file_stat *stat, char ret[FILE_ETAG_SIZE]);

#endif
