#include "cmd/berth-init/user.h"

#include <errno.h>

#include "tests/unit/tap.h"

static int parse(const char *text, struct user *user)
{
	return user_parse(str_of(text), user);
}

static void test_forms(void)
{
	static const char *const bad[] = {
		":",   "1:",         ":1",         "1:2:3",       "1:0x", "0x1", "-1",
		"1 ",  " 1",         "1a",         "a b",         "a:1",  "a,b", "a/b",
		"a\n", "4294967295", "4294967296", "99999999999", "-root"};
	struct user user;

	check(parse("", &user) == 0 && user.kind == USER_OWN);
	check(parse("name", &user) == 0 && user.kind == USER_NAMED &&
	      str_eq(user.name, STR("name")));
	check(parse("4294967294", &user) == 0 && user.kind == USER_UID && user.uid == 4294967294);
	check(parse("12:34", &user) == 0 && user.kind == USER_UID_GID && user.uid == 12 &&
	      user.gid == 34);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check(parse(bad[i], &user) == -EINVAL);
	check(user_parse((struct str){"a\0b", 3}, &user) == -EINVAL);
	tap_ok("the four forms, and nothing else");
}

static void test_passwd(void)
{
	struct str passwd =
		STR("# comment\n\n:x:1:1:\nbad:x:x:1:\nshort:x:5\n"
		    "one:x:1:11::/home/one:\none:x:2:22:::\ntwo:x:2:22\nodd:x:3:3::home:");
	struct user user;

	check(parse("one", &user) == 0 && user_find(&user, passwd) == 0);
	check(user.uid == 1 && user.gid == 11 && str_eq(user.home, STR("/home/one")));
	check(parse("1:5", &user) == 0 && user_find(&user, passwd) == 0 && user.gid == 5);
	check(str_eq(user.home, STR("/home/one")));
	check(parse("odd", &user) == 0 && user_find(&user, passwd) == 0);
	check(str_eq(user.home, STR("/")));
	check(parse("77:5", &user) == 0 && user_find(&user, passwd) == 0 && user.gid == 5);
	check(str_eq(user.home, STR("/")));
	check(parse("two", &user) == 0 && user_find(&user, passwd) == 0 && user.gid == 22);
	check(parse("2", &user) == 0 && user_find(&user, passwd) == 0 && user.gid == 22);
	check(parse("5", &user) == 0 && user_find(&user, passwd) == 0 && user.gid == 5);
	check(parse("bad", &user) == 0 && user_find(&user, passwd) == -ENOENT);
	check(parse("short", &user) == 0 && user_find(&user, passwd) == -ENOENT);
	check(parse("on", &user) == 0 && user_find(&user, passwd) == -ENOENT);
	check(parse("one", &user) == 0 && user_find(&user, (struct str){NULL, 0}) == -ENOENT);
	tap_ok("passwd: the first line that fits, and only whole ones");
}

static void test_groups(void)
{
	struct str group = STR("a:x:5:one\nb:x:6:two,one\nc:x:7:onex,xone\nd:x:y:one\n"
			       "e:x:11:one\nf:x:5:one\n:x:8:one\ng:x:9:one,\nh:x:10:");
	struct user user;

	check(parse("one", &user) == 0);
	user.gid = 11;
	check(user_add_groups(&user, group) == 0 && user.group_count == 4);
	check(user.groups[0] == 11 && user.groups[1] == 5 && user.groups[2] == 6 &&
	      user.groups[3] == 9);
	check(parse("1:11", &user) == 0 && user_add_groups(&user, group) == 0);
	check(user.group_count == 1 && user.groups[0] == 11);
	tap_ok("group: those that name the user, once each");
}

static void test_many_groups(void)
{
	static char text[64 * USER_GROUPS_MAX];
	struct user user;
	int used = 0;

	for (int i = 0; i < USER_GROUPS_MAX - 1; i++)
		used += snprintf(text + used, sizeof(text) - (size_t)used, "g:x:%d:one\n", i + 1);
	check(parse("one", &user) == 0);
	user.gid = 0;
	check(user_add_groups(&user, (struct str){text, (size_t)used}) == 0);
	check(user.group_count == USER_GROUPS_MAX);
	used += snprintf(text + used, sizeof(text) - (size_t)used, "g:x:99999:one\n");
	check(parse("one", &user) == 0);
	user.gid = 0;
	check(user_add_groups(&user, (struct str){text, (size_t)used}) == -E2BIG);
	tap_ok("as many groups as there is room for, never fewer than there are");
}

int main(void)
{
	test_forms();
	test_passwd();
	test_groups();
	test_many_groups();
	return tap_done();
}
