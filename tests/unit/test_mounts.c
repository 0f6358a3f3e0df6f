#include "proto/mounts.h"

#include <errno.h>

#include "base/cleanup.h"
#include "proto/mounts_allowed.h"
#include "tests/unit/tap.h"

/* A list in C: its last string's own NUL is the list's. */
#define LIST(text) ((struct str){(text), sizeof(text)})

static void test_paths(void)
{
	static const struct {
		const char *path;
		bool is_path, is_reserved;
	} cases[] = {
		{"/", true, true},           {"/a", true, false},
		{"/a/b.c/..d", true, false}, {"/usr", true, true},
		{"/usr/local", true, true},  {"/usrx", true, false},
		{"/proc/1", true, true},     {"/run/berth", true, true},
		{"/lib64", true, true},      {"/workspace", true, false},
		{"/etc/x", true, false},     {"", false, true},
		{"a", false, false},         {"/a/", false, false},
		{"//a", false, false},       {"/a//b", false, false},
		{"/a/.", false, false},      {"/..", false, false},
		{"/a/../b", false, false},   {"/a\n", false, false},
		{"/a\x7f", false, false},
	};
	char longest[MOUNTS_PATH_MAX + 2];

	for (size_t i = 0; i < array_len(cases); i++) {
		struct str path = str_of(cases[i].path);

		if (mounts_is_path(path) != cases[i].is_path)
			printf("# \"%s\"\n", cases[i].path);
		check(mounts_is_path(path) == cases[i].is_path);
		check(!cases[i].is_path || mounts_is_reserved(path) == cases[i].is_reserved);
	}
	memset(longest, 'x', sizeof(longest));
	for (size_t at = 0; at < sizeof(longest); at += MOUNTS_NAME_MAX + 1)
		longest[at] = '/';
	check(mounts_is_path((struct str){longest, MOUNTS_PATH_MAX}));
	check(mounts_is_path((struct str){longest, MOUNTS_NAME_MAX + 1}));
	longest[MOUNTS_NAME_MAX + 1] = 'x';
	check(!mounts_is_path((struct str){longest, MOUNTS_NAME_MAX + 2}));
	longest[MOUNTS_NAME_MAX + 1] = '/';
	check(!mounts_is_path((struct str){longest, MOUNTS_PATH_MAX + 1}));
	tap_ok("paths");
}

static void test_below(void)
{
	check(mounts_is_below(STR("/a/b"), STR("/a")) && mounts_is_below(STR("/a"), STR("/a")));
	check(!mounts_is_below(STR("/ab"), STR("/a")) && !mounts_is_below(STR("/a"), STR("/a/b")));
	check(mounts_is_below(STR("/a"), STR("/")));
	tap_ok("what is below what");
}

static void test_next(void)
{
	struct str list = LIST("bind\0ro\0/srv\0/mnt/a\0tmpfs\0rw\0"
			       "65536\0/mnt/b");
	struct mount_item item;

	check(mounts_next(&list, &item) == 1);
	check(item.kind == MOUNT_BIND && item.is_read_only);
	check_str(item.source, "/srv");
	check_str(item.target, "/mnt/a");
	check(mounts_next(&list, &item) == 1);
	check(item.kind == MOUNT_TMPFS && !item.is_read_only && item.size == 65536);
	check_str(item.target, "/mnt/b");
	check(mounts_next(&list, &item) == 0 && list.len == 0);
	tap_ok("one after the other");
}

static void test_check(void)
{
	/* clang-format off */
	static const struct {
		struct str list;
		int result;
		unsigned which;
	} cases[] = {
		{{"", 0}, 0, 0},
		{LIST("bind\0rw\0/srv\0/a"), 0, 0},
		{LIST("bind\0rw\0/srv\0/a\0" "bind\0rw\0/srv\0/b"), 0, 0},
		{LIST("bind\0rw\0/srv\0/a\0" "bind\0rw\0/srv\0/a"), -EEXIST, 1},
		{LIST("bind\0rw\0/srv\0/a/b\0" "bind\0rw\0/srv\0/a"), -EEXIST, 1},
		{LIST("bind\0rw\0/srv\0/a\0" "bind\0rw\0/srv\0/a/b"), -EEXIST, 1},
		{LIST("bind\0rw\0srv\0/a"), -EINVAL, 0},
		{LIST("bind\0rw\0/srv/../x\0/a"), -EINVAL, 0},
		{LIST("bind\0rw\0/srv\0a"), -EINVAL, 0},
		{LIST("bind\0rw\0/srv\0/usr/x"), -EPERM, 0},
		{LIST("bind\0rw\0/srv\0/"), -EPERM, 0},
		{LIST("bind\0rw\0/srv"), -EBADMSG, 0},
		{LIST("bind\0\0/srv\0/a"), -EBADMSG, 0},
		{LIST("disk\0rw\0/srv\0/a"), -EBADMSG, 0},
		{LIST("tmpfs\0rw\0" "65535\0/a"), -EBADMSG, 0},
		{LIST("tmpfs\0rw\0" "1125899906842625\0/a"), -EBADMSG, 0},
		{LIST("tmpfs\0rw\0" "-65536\0/a"), -EBADMSG, 0},
		{LIST("tmpfs\0rw\0" "\0/a"), -EBADMSG, 0},
		{{"bind\0rw\0/srv\0/a", 15}, -EBADMSG, 0},
	};
	/* clang-format on */

	for (size_t i = 0; i < array_len(cases); i++) {
		unsigned which = 77;
		int r = mounts_check(cases[i].list, &which);

		if (r != cases[i].result)
			printf("# case %zu: %d\n", i, r);
		check(r == cases[i].result);
		check(r == 0 || which == cases[i].which);
	}
	tap_ok("whole lists");
}

static void test_allowed(void)
{
	static const char *const bad[] = {"", "srv", "/srv/../etc", "/srv//x", "/a\n", ":ro"};
	static const char *const texts[] = {"/srv", "/srv/data/:ro", "/", "/srv:ro"};
	struct mounts_allowed allowed[array_len(texts)];

	for (size_t i = 0; i < array_len(bad); i++)
		check(mounts_allowed_parse(str_of(bad[i]), &allowed[0]) == -EINVAL);
	for (size_t i = 0; i < array_len(texts); i++)
		check(mounts_allowed_parse(str_of(texts[i]), &allowed[i]) == 0);
	check(!allowed[0].is_read_only && allowed[1].is_read_only && allowed[3].is_read_only);
	check(str_eq(allowed[1].path, STR("/srv/data")) && str_eq(allowed[2].path, STR("/")));
	check(mounts_allowed_find(allowed, 4, STR("/srv/data/x")) == 1);
	check(mounts_allowed_find(allowed, 4, STR("/srv/database")) == 0);
	check(mounts_allowed_find(allowed, 4, STR("/etc")) == 2);
	check(mounts_allowed_find(allowed, 2, STR("/etc")) == -1);
	check(mounts_allowed_find(allowed, 0, STR("/srv")) == -1);
	check(str_eq(mounts_allowed_suffix(STR("/a/b:rw")), STR("rw")));
	check(str_eq(mounts_allowed_suffix(STR("/a:b/c:d:e")), STR("e")));
	check(!mounts_allowed_suffix(STR("/a:b/c")).len && !mounts_allowed_suffix(STR("/a:")).len);
	tap_ok("folders that are allowed");
}

int main(void)
{
	test_paths();
	test_below();
	test_next();
	test_check();
	test_allowed();
	return tap_done();
}
