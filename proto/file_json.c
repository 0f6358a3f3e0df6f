#include "proto/file_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "proto/base64.h"
#include "proto/time_text.h"

const char *file_type_name(uint32_t type)
{
	static const char *const names[FILE_TYPE_COUNT] = {
		[FILE_TYPE_NONE] = "unknown",
		[FILE_TYPE_FILE] = "file",
		[FILE_TYPE_DIRECTORY] = "directory",
		[FILE_TYPE_LINK] = "symlink",
		[FILE_TYPE_FIFO] = "fifo",
		[FILE_TYPE_SOCKET] = "socket",
		[FILE_TYPE_CHAR_DEVICE] = "char_device",
		[FILE_TYPE_BLOCK_DEVICE] = "block_device",
	};

	return names[type < FILE_TYPE_COUNT ? type : FILE_TYPE_NONE];
}

static struct str name_of(struct str path)
{
	size_t end = path.len, start;

	while (end > 1 && path.at[end - 1] == '/')
		end--;
	start = end;
	while (start > 0 && path.at[start - 1] != '/')
		start--;
	return start == end ? path : (struct str){path.at + start, end - start};
}

void file_json_write_bytes(struct json_writer *w, const char *key, const char *key_base64,
			   struct str bytes)
{
	struct buf text;

	if (utf8_is_valid(bytes)) {
		json_key(w, key);
		json_str(w, bytes);
		return;
	}
	buf_init(&text, 8 * FILE_PATH_MAX);
	base64_encode(&text, bytes);
	json_key(w, key_base64);
	json_str(w, (struct str){buf_at(&text), buf_len(&text)});
	buf_close(&text);
}

void file_json_write_name(struct json_writer *w, struct str path)
{
	file_json_write_bytes(w, "name", "name_base64", name_of(path));
	file_json_write_bytes(w, "path", "path_base64", path);
}

static void write_mtime(struct json_writer *w, const struct file_stat *stat)
{
	bool is_near = stat->mtime > INT64_MIN / 1000 && stat->mtime < INT64_MAX / 1000;
	char text[TIME_TEXT_SIZE];

	json_key(w, "mtime");
	if (!is_near || time_text_format(stat->mtime * 1000 + stat->mtime_nsec / 1000000, text) < 0)
		json_null(w);
	else
		json_text(w, text);
}

void file_json_write(struct json_writer *w, struct str path, const struct file_stat *stat,
		     struct str link)
{
	char mode[8];

	snprintf(mode, sizeof(mode), "%04o", stat->mode & 07777);
	file_json_write_name(w, path);
	json_key(w, "type");
	json_text(w, file_type_name(stat->type));
	json_key(w, "size");
	json_int(w, stat->size < INT64_MAX ? (int64_t)stat->size : INT64_MAX);
	json_key(w, "mode");
	json_text(w, mode);
	write_mtime(w, stat);
	json_key(w, "uid");
	json_int(w, stat->uid);
	json_key(w, "gid");
	json_int(w, stat->gid);
	if (stat->type == FILE_TYPE_LINK)
		file_json_write_bytes(w, "target", "target_base64", link);
}

void file_etag(const struct file_stat *stat, char ret[FILE_ETAG_SIZE])
{
	snprintf(ret, FILE_ETAG_SIZE,
		 "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"", stat->dev,
		 stat->ino, stat->size, (uint64_t)stat->mtime * 1000000000 + stat->mtime_nsec,
		 stat->ctime_ns);
}
