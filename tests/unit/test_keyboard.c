#include "cmd/berth/keyboard.h"

#include <errno.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static struct keyboard keyboard;

static void test_names(void)
{
	/* clang-format off */
	static const struct { const char *names; struct str keys; } good[] = {
		{"ctrl-p,ctrl-q",     STR("\x10\x11")},
		{"CTRL-P,Ctrl-q",     STR("\x10\x11")},
		{"ctrl-@,ctrl-[",     STR("\0\x1b")},
		{"ctrl-],q",          STR("\x1dq")},
		{"ctrl-\\,ctrl-^,ctrl-_", STR("\x1c\x1e\x1f")},
		{"~,.",               STR("~.")},
		{"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p", STR("abcdefghijklmnop")},
		{"",                  STR("")},
	};
	static const char *const bad[] = {
		"ctrl-", "ctrl-pp", "ctrl-1", "ctrl-?", "ctrl- ", "ctrlp", "pq", ",", "a,,b", ",a", "\xc3\xa4",
		"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q",
	};
	/* clang-format on */

	for (size_t i = 0; i < array_len(good); i++) {
		check(keyboard_init(&keyboard, good[i].names) == 0);
		check(str_eq((struct str){keyboard.keys, keyboard.keys_len}, good[i].keys));
	}
	for (size_t i = 0; i < array_len(bad); i++)
		check(keyboard_init(&keyboard, bad[i]) == -EINVAL);
	check(keyboard_init(&keyboard, NULL) == 0 && keyboard.keys_len == 2);
	tap_ok("names of keys");
}

/* What is passed on of pieces, of which each is typed at once; '!' is what leaves. */
static const char *typed(const char *keys, const char *const pieces[], size_t len)
{
	static char all[256];
	char room[64 + KEYBOARD_KEYS_MAX];
	size_t n, at = 0;

	check(keyboard_init(&keyboard, keys) == 0);
	for (size_t i = 0; i < len; i++) {
		bool is_left = keyboard_filter(&keyboard, str_of(pieces[i]), room, &n);

		check(n <= strlen(pieces[i]) + KEYBOARD_KEYS_MAX);
		memcpy(all + at, room, n);
		at += n;
		if (is_left)
			all[at++] = '!';
	}
	all[at] = '\0';
	return all;
}

#define TYPED(keys, ...)                                                                           \
	typed(keys, (const char *const[]){__VA_ARGS__},                                            \
	      array_len(((const char *const[]){__VA_ARGS__})))

static void test_leaving(void)
{
	check_str(TYPED(NULL, "ls\r"), "ls\r");
	check_str(TYPED(NULL, "a\x10\x11z"), "a!");
	check_str(TYPED(NULL, "\x10", "\x11"), "!");
	check_str(TYPED(NULL, "\x10", "", "\x11"), "!");
	check_str(TYPED(NULL, "\x11\x10"), "\x11"); /* the rest waits for what may follow */
	check_str(TYPED(NULL, "\x10", "x"), "\x10x");
	check_str(TYPED(NULL, "\x10\x10\x11"), "\x10!");
	check_str(TYPED(NULL, "\x10", "\x10", "\x10", "x"), "\x10\x10\x10x");
	check_str(TYPED(NULL, "\x10\x11", "b"), "!b");
	check_str(TYPED("", "\x10\x11"), "\x10\x11");
	check_str(TYPED("q", "aqb"), "a!");
	tap_ok("the keys leave, and all others are the program's");
}

static void test_overlaps(void)
{
	check_str(TYPED("a,a,b", "aaab"), "a!");
	check_str(TYPED("a,a,b", "a", "a", "a", "a", "b"), "aa!");
	check_str(TYPED("a,b,a,c", "abab", "ac"), "ab!");
	check_str(TYPED("a,b,a,c", "abab", "ax"), "ababax");
	check_str(TYPED("a,b,a,b,c", "ababx"), "ababx");
	check_str(TYPED("\xc3,\xa4", "\xc3\xa4"), "!");
	tap_ok("keys that begin as they go on");
}

static void test_screens(void)
{
	const char *const pieces[] = {"text\x1b", "[?10", "49", "h"};

	check(keyboard_init(&keyboard, NULL) == 0);
	keyboard_watch(&keyboard, STR("[?1049h plain \xc3\xa4"));
	check(!keyboard.is_alternate && !keyboard.is_styled);
	for (size_t i = 0; i < array_len(pieces); i++) {
		check(!keyboard.is_alternate);
		keyboard_watch(&keyboard, str_of(pieces[i]));
	}
	check(keyboard.is_alternate && keyboard.is_styled);
	keyboard_watch(&keyboard, STR("\x1b[?1049l\x1b[?25h"));
	check(!keyboard.is_alternate && keyboard.is_styled);
	keyboard_watch(&keyboard, STR("\0\0\0\0\0\0\0h"));
	check(!keyboard.is_alternate);
	tap_ok("which screen the program shows");
}

int main(void)
{
	test_names();
	test_leaving();
	test_overlaps();
	test_screens();
	return tap_done();
}
