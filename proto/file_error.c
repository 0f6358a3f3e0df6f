#include "proto/file_error.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/file_json.h"
#include "proto/watch.h"

/* clang-format off */
static const struct meaning {
	int error;
	enum err_code code;
	const char *text;
} meanings[] = {
	{ENOENT,       ERR_NOT_FOUND,         "there is no such file or directory"},
	{EACCES,       ERR_FORBIDDEN,         "the sandbox's user may not do this"},
	{EPERM,        ERR_FORBIDDEN,         "the sandbox's user may not do this"},
	{EROFS,        ERR_FORBIDDEN,         "it is on a read-only file system"},
	{ENOTDIR,      ERR_INVALID_REQUEST,   "part of the path is not a directory"},
	{EISDIR,       ERR_INVALID_REQUEST,   "it is a directory"},
	{ENAMETOOLONG, ERR_INVALID_REQUEST,   "the name, or one above it, is too long"},
	{ELOOP,        ERR_INVALID_REQUEST,   "too many symbolic links, or one of proc that is not followed"},
	{EINVAL,       ERR_INVALID_REQUEST,   "this makes no sense for it"},
	{ENOTEMPTY,    ERR_CONFLICT,          "the directory is not empty (recursive=1 removes what is in it)"},
	{EEXIST,       ERR_CONFLICT,          "there is something already"},
	{EXDEV,        ERR_CONFLICT,          "it is on another file system"},
	{EBUSY,        ERR_CONFLICT,          "it is in use"},
	{ETXTBSY,      ERR_CONFLICT,          "it is a program that is running"},
	{ENOSPC,       ERR_DISK_LIMIT,        "there is no space left"},
	{EDQUOT,       ERR_DISK_LIMIT,        "the sandbox's disk is full"},
	{EFBIG,        ERR_PAYLOAD_TOO_LARGE, "the file would be larger than is allowed"},
	{ENOMEM,       ERR_MEMORY_LIMIT,      "the sandbox has no memory left"},
	{ENOSYS,       ERR_UNSUPPORTED,       "this is not there yet"},
};
/* clang-format on */

static struct meaning meaning_of(int error)
{
	for (size_t i = 0; i < array_len(meanings); i++) {
		if (meanings[i].error == error)
			return meanings[i];
	}
	return (struct meaning){error, ERR_EXEC_ERROR, strerror(error)};
}

/* The kernel says these in its own way. */
static int set_watch_limit(struct err *err, int error, struct str path)
{
	if (error == -EMFILE || error == -ENFILE)
		return err_set(err, error, ERR_WATCH_LIMIT,
			       "nothing can be watched: all inotify instances that one user may "
			       "have on this host are in use (fs.inotify.max_user_instances; berth "
			       "doctor says how to raise it)");
	return err_set(err, error, ERR_WATCH_LIMIT,
		       "\"%.*s\": more directories than can be watched: exclude some, or raise the "
		       "host's fs.inotify.max_user_watches (a sandbox may have %d)",
		       STR_ARGS(path), WATCH_NODES_MAX);
}

int file_error_set(struct err *err, const struct file_request *request,
		   const struct file_result *result)
{
	struct meaning m = meaning_of((int)result->error);
	struct str path = result->stage == FILE_AT_OTHER ? request->other : request->path;
	const char *part = result->stage == FILE_AT_PARENT && m.error != ENAMETOOLONG
				   ? "a directory above it: "
				   : "";
	int error = -(int)result->error;

	if (m.error == EOPNOTSUPP &&
	    (result->stat.type == FILE_TYPE_FILE || result->stat.type == FILE_TYPE_DIRECTORY))
		return err_set(err, error, ERR_INVALID_REQUEST,
			       "\"%.*s\": the kernel makes up what is there when it is read, so it "
			       "can be read and listed, but not copied or packed",
			       STR_ARGS(path));
	if (request->op == FILE_OP_WATCH &&
	    (m.error == EMFILE || m.error == ENFILE || m.error == ENOSPC))
		return set_watch_limit(err, error, path);
	if (m.error == EOPNOTSUPP && result->stat.type != FILE_TYPE_NONE)
		return err_set(err, error, ERR_INVALID_REQUEST,
			       "\"%.*s\": it is a %s, not a regular file", STR_ARGS(path),
			       file_type_name(result->stat.type));
	if (request->op == FILE_OP_UNPACK && m.error == EXDEV)
		m = (struct meaning){EXDEV, ERR_INVALID_REQUEST,
				     "a link leads out of the tree, or to another file system"};
	if (result->stage == FILE_AT_OTHER && m.error == EISDIR)
		m.text = "it is a directory, which no file replaces";
	else if (request->op == FILE_OP_MOVE && m.error == ENOTEMPTY)
		m.text = "the directory is not empty, so nothing replaces it";
	else if (request->op == FILE_OP_MOVE && m.error == EEXIST)
		m.text = "it is no directory, so no directory replaces it";
	else if (m.error == EISDIR &&
		 (request->op == FILE_OP_REMOVE || request->op == FILE_OP_COPY))
		m.text = "it is a directory: that needs recursive";
	if (m.error == EINVAL && (request->op == FILE_OP_MOVE || request->op == FILE_OP_COPY))
		m.text = "it cannot go into itself";
	if (result->stage == FILE_AT_ENTRY && result->where.len)
		return err_set(err, error, m.code, "\"%.*s\" in \"%.*s\": %s",
			       STR_ARGS(result->where), STR_ARGS(path), m.text);
	return err_set(err, error, m.code, "\"%.*s\": %s%s", STR_ARGS(path), part, m.text);
}
