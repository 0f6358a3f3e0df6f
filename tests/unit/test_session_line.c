#include "cmd/berth-init/session_line.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/unit/tap.h"

static char line[64 * 1024];

static struct session_line usual(struct str text)
{
	return (struct session_line){
		.feeder = 7,
		.serial = 3,
		.fds = {-1, 9, 10},
		.status_fd = 5,
		.cwd_fd = -1,
		.back_fd = -1,
		.text = text,
	};
}

static const char *made(const struct session_line *l)
{
	int len = session_line_make(l, line, sizeof(line) - 1);

	line[len < 0 ? 0 : len] = '\0';
	return line;
}

static void test_lines(void)
{
	struct session_line l = usual(STR("echo 'a'"));

	check_str(made(&l), "\\command eval 'echo '\\''a'\\''' </dev/null >/proc/7/fd/9 "
			    "2>/proc/7/fd/10;\\command echo 3 \"$?\" >/proc/7/fd/5\n");
	l.text = STR("");
	l.env = (struct str){"A=it's\nx\0_b2=", 14};
	check_str(made(&l), "A='it'\\''s\nx' _b2='' \\command eval '' </dev/null >/proc/7/fd/9 "
			    "2>/proc/7/fd/10;\\command echo 3 \"$?\" >/proc/7/fd/5\n");
	l = usual(STR("pwd"));
	l.fds[0] = 8;
	l.cwd_fd = 11;
	l.back_fd = 12;
	check_str(made(&l),
		  "PWD=\"${PWD-}\" OLDPWD=\"${OLDPWD-}\" \\command eval '\\command cd -P -- "
		  "/proc/7/fd/11||\\exit 126\npwd' </proc/7/fd/8 >/proc/7/fd/9 "
		  "2>/proc/7/fd/10;S_=\"$?\" B_=\"${OLDPWD-}\" \\command eval "
		  "'\\command cd -- \"${PWD-/}\"||\\command cd -P -- /proc/7/fd/12||\\command :;"
		  "OLDPWD=$B_;\\command echo 3 \"$S_\" >/proc/7/fd/5'\n");
	tap_ok("a command, its variables, its directory");
}

static void test_refusals(void)
{
	static const struct str bad[] = {
		{"1A=x", 5},  {"A-B=x", 6}, {"=x", 3},     {"A", 2},
		{"A B=x", 6}, {"A=x", 3},   {"\xc3=x", 4},
	};
	struct session_line l = usual(STR("true"));

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		l.env = bad[i];
		check(session_line_make(&l, line, sizeof(line)) == -EINVAL);
	}
	l = usual(STR("true"));
	for (size_t room = 0; room < 90; room++)
		check(session_line_make(&l, line, room) == -E2BIG);
	check(session_line_make(&l, line, 128) > 0);
	tap_ok("names that a shell cannot have, and no room");
}

static void test_reports(void)
{
	static const struct {
		const char *text;
		int found, status;
	} cases[] = {
		{"3 0\n", 1, 0},      {"3 255\n", 1, 255},
		{"3 \n", 0, 0},       {"junk\n2 1\n3 7\n", 1, 7},
		{"3 7\n3 8\n", 1, 8}, {"3 7", 0, 0},
		{"", 0, 0},           {"\n", 0, 0},
		{"3\n", 0, 0},        {"33 1\n", 0, 0},
		{"3 256\n", 0, 0},    {"3 -1\n", 0, 0},
		{"3 0001\n", 0, 0},   {"3 1 \n", 0, 0},
		{" 3 1\n", 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status = 0;

		check(session_line_parse_report(str_of(cases[i].text), 3, &status) ==
		      cases[i].found);
		check(status == cases[i].status);
	}
	tap_ok("what the shell reports, and what others write there");
}

int main(void)
{
	test_lines();
	test_refusals();
	test_reports();
	return tap_done();
}
