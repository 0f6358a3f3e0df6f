#include "proto/file_error.h"

#include <errno.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static const struct file_request request = {
	.op = FILE_OP_MOVE, .path = {"/a", 2}, .other = {"/b", 2}};

static void test_codes(void)
{
	/* clang-format off */
	static const struct {
		uint32_t error;
		enum err_code code;
	} cases[] = {
		{ENOENT, ERR_NOT_FOUND}, {EACCES, ERR_FORBIDDEN}, {EPERM, ERR_FORBIDDEN},
		{EROFS, ERR_FORBIDDEN}, {ENOTDIR, ERR_INVALID_REQUEST}, {EISDIR, ERR_INVALID_REQUEST},
		{ENAMETOOLONG, ERR_INVALID_REQUEST}, {ELOOP, ERR_INVALID_REQUEST},
		{EINVAL, ERR_INVALID_REQUEST}, {ENOTEMPTY, ERR_CONFLICT}, {EEXIST, ERR_CONFLICT},
		{EXDEV, ERR_CONFLICT}, {EBUSY, ERR_CONFLICT}, {ENOSPC, ERR_DISK_LIMIT},
		{EDQUOT, ERR_DISK_LIMIT}, {EFBIG, ERR_PAYLOAD_TOO_LARGE}, {ENOMEM, ERR_MEMORY_LIMIT},
		{EMFILE, ERR_EXEC_ERROR}, {EIO, ERR_EXEC_ERROR}, {4095, ERR_EXEC_ERROR},
	};
	/* clang-format on */

	for (size_t i = 0; i < array_len(cases); i++) {
		struct file_result result = {.error = cases[i].error, .stage = FILE_AT_PATH};
		struct err err = {.code = ERR_NONE};

		check(file_error_set(&err, &request, &result) == -(int)cases[i].error);
		check(err.code == cases[i].code);
		check(strncmp(err.sentence, "\"/a\": ", 6) == 0 && strlen(err.sentence) > 12);
	}
	tap_ok("every errno has a code, and a sentence with the path");
}

static void test_sentences(void)
{
	const struct file_request copy = {
		.op = FILE_OP_COPY, .path = STR("/a"), .other = STR("/b")};
	struct file_result result = {.error = ENOENT, .stage = FILE_AT_OTHER};
	struct err err;

	file_error_set(&err, &request, &result);
	check_str(err.sentence, "\"/b\": there is no such file or directory");
	result = (struct file_result){.error = EACCES, .stage = FILE_AT_ENTRY, .where = STR("x/y")};
	file_error_set(&err, &request, &result);
	check_str(err.sentence, "\"x/y\" in \"/a\": the sandbox's user may not do this");
	result = (struct file_result){.error = EOPNOTSUPP, .stat.type = FILE_TYPE_FIFO};
	file_error_set(&err, &request, &result);
	check(err.code == ERR_INVALID_REQUEST);
	check_str(err.sentence, "\"/a\": it is a fifo, not a regular file");
	result = (struct file_result){.error = ENOTEMPTY, .stage = FILE_AT_OTHER};
	file_error_set(&err, &request, &result);
	check(err.code == ERR_CONFLICT && !strstr(err.sentence, "recursive"));
	result.error = EEXIST;
	file_error_set(&err, &request, &result);
	check_str(err.sentence, "\"/b\": it is no directory, so no directory replaces it");
	result.error = EISDIR;
	file_error_set(&err, &copy, &result);
	check_str(err.sentence, "\"/b\": it is a directory, which no file replaces");
	result.stage = FILE_AT_PATH;
	file_error_set(&err, &copy, &result);
	check(strstr(err.sentence, "needs recursive"));
	tap_ok("the sentence says where, and what is there instead");
}

static void test_watch(void)
{
	const struct file_request watch = {.op = FILE_OP_WATCH, .path = STR("/a")};
	struct file_result result = {.error = EMFILE};
	struct err err;

	file_error_set(&err, &watch, &result);
	check(err.code == ERR_WATCH_LIMIT && strstr(err.sentence, "max_user_instances"));
	result.error = ENOSPC;
	file_error_set(&err, &watch, &result);
	check(err.code == ERR_WATCH_LIMIT && strstr(err.sentence, "\"/a\": more directories"));
	file_error_set(&err, &request, &result);
	check(err.code == ERR_DISK_LIMIT);
	tap_ok("what cannot be watched has its own code");
}

int main(void)
{
	test_codes();
	test_sentences();
	test_watch();
	return tap_done();
}
