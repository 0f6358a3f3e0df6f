#include "proto/file_json.h"

#include "tests/unit/tap.h"

static void check_written(struct str path, const struct file_stat *stat, struct str link,
			  const char *expected)
{
	struct json_writer w;
	struct buf text;

	buf_init(&text, 1 << 20);
	json_writer_init(&w, false);
	json_object(&w);
	file_json_write(&w, path, stat, link);
	json_object_end(&w);
	check(json_writer_end(&w, &text) == 0);
	check(buf_append(&text, "", 1) == 0);
	check_str(buf_at(&text), expected);
	json_writer_close(&w);
	buf_close(&text);
}

static void test_write(void)
{
	struct file_stat stat = {
		.type = FILE_TYPE_FILE, .mode = 0644, .uid = 1, .gid = 2, .size = 6, .mtime = 1};

	check_written(STR("/a/b"), &stat, STR(""),
		      "{\"name\":\"b\",\"path\":\"/a/b\",\"type\":\"file\",\"size\":6,"
		      "\"mode\":\"0644\",\"mtime\":\"1970-01-01T00:00:01.000Z\",\"uid\":1,"
		      "\"gid\":2}");
	stat.type = FILE_TYPE_LINK;
	stat.size = UINT64_MAX;
	check_written(STR("/a/\xff/"), &stat, STR("\xfe"),
		      "{\"name_base64\":\"/w==\",\"path_base64\":\"L2Ev/y8=\",\"type\":\"symlink\","
		      "\"size\":9223372036854775807,\"mode\":\"0644\","
		      "\"mtime\":\"1970-01-01T00:00:01.000Z\",\"uid\":1,\"gid\":2,"
		      "\"target_base64\":\"/g==\"}");
	stat.type = 99;
	check_written(STR("/"), &stat, STR(""),
		      "{\"name\":\"/\",\"path\":\"/\",\"type\":\"unknown\","
		      "\"size\":9223372036854775807,\"mode\":\"0644\","
		      "\"mtime\":\"1970-01-01T00:00:01.000Z\",\"uid\":1,\"gid\":2}");
	stat.mtime = -86400;
	check_written(STR("/"), &stat, STR(""),
		      "{\"name\":\"/\",\"path\":\"/\",\"type\":\"unknown\","
		      "\"size\":9223372036854775807,\"mode\":\"0644\","
		      "\"mtime\":\"1969-12-31T00:00:00.000Z\",\"uid\":1,\"gid\":2}");
	stat.mtime = INT64_MIN;
	check_written(STR("/"), &stat, STR(""),
		      "{\"name\":\"/\",\"path\":\"/\",\"type\":\"unknown\","
		      "\"size\":9223372036854775807,\"mode\":\"0644\","
		      "\"mtime\":null,\"uid\":1,\"gid\":2}");
	tap_ok("an entry is written, as base64 where it is no text");
}

static void test_etag(void)
{
	struct file_stat stat = {.dev = UINT64_MAX,
				 .ino = UINT64_MAX,
				 .size = UINT64_MAX,
				 .mtime = -1,
				 .mtime_nsec = 999999999,
				 .ctime_ns = UINT64_MAX};
	char etag[FILE_ETAG_SIZE];

	file_etag(&stat, etag);
	check(strlen(etag) == 2 + 5 * 16 + 4);
	check(etag[0] == '"' && etag[strlen(etag) - 1] == '"');
	stat = (struct file_stat){.dev = 1, .ino = 2, .size = 3, .mtime_nsec = 4, .ctime_ns = 0xab};
	file_etag(&stat, etag);
	check_str(etag, "\"1-2-3-4-ab\"");
	tap_ok("a tag is quoted, and whole for the largest file");
}

int main(void)
{
	test_write();
	test_etag();
	return tap_done();
}
