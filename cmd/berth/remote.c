#include "cmd/berth/remote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/berth/sandbox.h"
#include "proto/base64.h"
#include "proto/sandbox_id.h"

#define HOME "/workspace"

/* clang-format off */
static const struct json_field info_fields[] = {
	{ "name",          JSON_STRING, offsetof(struct file_info, name) },
	{ "name_base64",   JSON_STRING, offsetof(struct file_info, name_base64) },
	{ "path",          JSON_STRING, offsetof(struct file_info, path) },
	{ "path_base64",   JSON_STRING, offsetof(struct file_info, path_base64) },
	{ "type",          JSON_STRING, offsetof(struct file_info, type), true },
	{ "mode",          JSON_STRING, offsetof(struct file_info, mode) },
	{ "mtime",         JSON_STRING, offsetof(struct file_info, mtime) },
	{ "target",        JSON_STRING, offsetof(struct file_info, target) },
	{ "target_base64", JSON_STRING, offsetof(struct file_info, target_base64) },
	{ "size",          JSON_UINT,   offsetof(struct file_info, size) },
	{ "uid",           JSON_UINT,   offsetof(struct file_info, uid) },
	{ "gid",           JSON_UINT,   offsetof(struct file_info, gid) },
	{ "*",             JSON_IGNORED },
	{ NULL },
};

static const struct json_field list_fields[] = {
	{ "entries", JSON_OBJECTS, offsetof(struct file_list, entries), true,
	  .fields = info_fields, .size = sizeof(struct file_info) },
	{ "cursor",  JSON_STRING,  offsetof(struct file_list, cursor) },
	{ "*",       JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

bool remote_is(const char *text)
{
	size_t len = strcspn(text, ":/");

	return len && text[len] == ':';
}

int remote_parse(const char *text, struct remote *ret)
{
	size_t len = strcspn(text, ":");
	const char *path = text[len] ? text + len + 1 : "";
	struct sandbox_id id;

	if (sandbox_id_parse((struct str){text, len}, &id) < 0)
		return usage_error("`%s` is no sandbox's ID: 1 to 63 letters, digits and hyphens, "
				   "with no hyphen at its ends",
				   screen_text((struct str){text, len}).text);
	*ret = (struct remote){.text = text};
	snprintf(ret->id, sizeof(ret->id), "%s", id.text);
	if (snprintf(ret->path, sizeof(ret->path), "%s%s%s", *path == '/' ? "" : HOME,
		     *path && *path != '/' ? "/" : "", path) >= (int)sizeof(ret->path))
		return usage_error("`%s`: a path has at most %d bytes",
				   screen_text(str_of(text)).text, REMOTE_PATH_MAX);
	return EXIT_OK;
}

int remote_parse_path(const char *verb, const char *text, struct remote *ret)
{
	if (!remote_is(text) || !strchr(text, ':')[1])
		return usage_error(
			"berth %s wants ID:PATH, such as box:notes.txt or box:/etc/hosts, "
			"not `%s`",
			verb, screen_text(str_of(text)).text);
	return remote_parse(text, ret);
}

int remote_join(const struct remote *dir, const char *name, struct remote *ret)
{
	size_t len = strlen(dir->path);
	bool has_slash = dir->path[len - 1] == '/';

	if (len + !has_slash + strlen(name) > REMOTE_PATH_MAX)
		return -ENAMETOOLONG;
	*ret = *dir;
	snprintf(ret->path + len, sizeof(ret->path) - len, "%s%s", has_slash ? "" : "/", name);
	return 0;
}

int remote_encode(struct buf *out, struct str text)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < text.len; i++) {
		char c = text.at[i];
		bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
				(c >= '0' && c <= '9') || (c && strchr("-_.~/", c));

		r = is_plain ? buf_append(out, &c, 1)
			     : buf_printf(out, "%%%02X", (unsigned)(unsigned char)c);
	}
	return r;
}

int remote_target(const struct remote *remote, const char *kind, struct buf *ret)
{
	int r = buf_printf(ret, "/v1/sandbox/%s/%s/", remote->id, kind);

	return r < 0 ? r : remote_encode(ret, str_of(remote->path + 1));
}

int remote_tree_target(const struct remote *remote, const char *verb, struct buf *ret)
{
	int r = buf_printf(ret, "/v1/sandbox/%s/%s?path=", remote->id, verb);

	return r < 0 ? r : remote_encode(ret, str_of(remote->path));
}

static int parse(struct arena *arena, const struct answer *answer, const struct json_field *fields,
		 void *ret, struct err *err)
{
	struct str text = {buf_at(&answer->body), buf_len(&answer->body)};
	int r = json_parse(arena, text, fields, ret, err);

	return r < 0 ? err_wrap(err, r, "the answer cannot be understood (is it berthd's?)") : 0;
}

int file_info_parse(struct arena *arena, const struct answer *answer, struct file_info *ret,
		    struct err *err)
{
	*ret = (struct file_info){0};
	return parse(arena, answer, info_fields, ret, err);
}

int file_list_parse(struct arena *arena, const struct answer *answer, struct file_list *ret,
		    struct err *err)
{
	*ret = (struct file_list){0};
	return parse(arena, answer, list_fields, ret, err);
}

unsigned file_info_mode(const struct file_info *info)
{
	unsigned mode = 0;

	for (size_t i = 0; i < info->mode.len; i++) {
		if (info->mode.at[i] < '0' || info->mode.at[i] > '7')
			return 0;
		mode = mode << 3 | (unsigned)(info->mode.at[i] - '0');
	}
	return info->mode.len <= 5 ? mode & 07777 : 0;
}

struct screen_text remote_readable(struct str text, struct str base64)
{
	char bytes[BASE64_DECODE_ROOM(4 * REMOTE_PATH_MAX)];
	size_t len;

	if (!base64.len || base64.len > 4 * (size_t)REMOTE_PATH_MAX ||
	    base64_decode(base64, bytes, &len) < 0)
		return screen_text(text);
	return screen_text((struct str){bytes, len});
}
