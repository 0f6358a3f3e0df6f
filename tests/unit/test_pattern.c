#include "proto/pattern.h"

#include <regex.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

/* "text[start,end)" of what was found in the line, or "-"; a refusal as "!". */
static const char *find_in(const char *pattern, const char *line)
{
	static char answer[4096];
	struct pattern_search *search;
	struct pattern *p;
	struct err err;
	size_t start, end;

	p = pattern_new(str_of(pattern), &err);
	if (!p) {
		check(err.code == ERR_INVALID_REQUEST);
		return "!";
	}
	search = pattern_search_new(p);
	/* By the byte: that is how a process may print it. */
	for (const char *at = line; *at; at++)
		pattern_search_feed(search, (struct str){at, 1});
	pattern_search_end(search);
	if (pattern_search_found(search, &start, &end))
		snprintf(answer, sizeof(answer), "%.*s@%zu", (int)(end - start), line + start,
			 start);
	else
		snprintf(answer, sizeof(answer), "-");
	pattern_search_free(search);
	pattern_free(p);
	return answer;
}

static void test_found(void)
{
	static const struct {
		const char *pattern, *line, *found;
	} cases[] = {
		{"b", "abc", "b@1"},
		{"x", "abc", "-"},
		{"listening on port [0-9]+", "12:00 listening on port 8080.",
		 "listening on port 8080@6"},
		{"a|ab|abc", "xabcd", "abc@1"},
		{"(a|ab)(c|bcd)", "abcd", "abcd@0"},
		{"^abc$", "abc", "abc@0"},
		{"^bc", "abc", "-"},
		{"ab$", "abc", "-"},
		{"^$", "", "@0"},
		{"$", "ab", "@2"},
		{"^", "ab", "@0"},
		{"a*", "baaa", "@0"},
		{"a+", "baaa", "aaa@1"},
		{"ba?", "baaa", "ba@0"},
		{"a{2}", "baaa", "aa@1"},
		{"a{2,}", "baaaa", "aaaa@1"},
		{"a{1,2}$", "baaaa", "aa@3"},
		{"a{0}b", "aab", "b@2"},
		{"(ab){2,3}", "xabababab", "ababab@1"},
		{"(a*)*b", "aaab", "aaab@0"},
		{"(a*)+", "aa", "aa@0"},
		{"(|a)+b", "aab", "aab@0"},
		{"()", "a", "@0"},
		{"a.c", "xabc", "abc@1"},
		{"\\.\\*\\\\", "a.*\\", ".*\\@1"},
		{"[[:digit:]]+", "ab12c", "12@2"},
		{"[^[:space:]]+$", "a bc", "bc@2"},
		{"[]x]+", "a]x", "]x@1"},
		{"[^]]+", "]ab", "ab@1"},
		{"[a-]+", "b-a", "-a@1"},
		{"[[:alpha:]_][[:alnum:]_]*", "12 _a1", "_a1@3"},
		{"ä+", "aää", "ää@1"},
		{"(ä|ö)x", "öx", "öx@0"},
		{"(a|b)*c|(a|ab)*c", "abc", "abc@0"},
		{"x|^y$|z", "y", "y@0"},
		{"a^b", "a^b", "-"},
		{"(^a|b)c", "bc", "bc@0"},
		{"a]b}", "a]b}", "a]b}@0"},
	};

	for (size_t i = 0; i < array_len(cases); i++)
		check_str(find_in(cases[i].pattern, cases[i].line), cases[i].found);
	tap_ok("what is there is found, leftmost and longest");
}

static void test_refused(void)
{
	static const char *const bad[] = {
		"",
		"(",
		")",
		"a)",
		"[",
		"[a",
		"[]",
		"[^]",
		"*a",
		"a**",
		"a|*",
		"(+)",
		"a{",
		"a{1",
		"a{1,0}",
		"a{256}",
		"a{,1}",
		"a{1,2,3}",
		"\\",
		"\\1",
		"(a)\\1",
		"\\d",
		"\\w",
		"[z-a]",
		"[[:no:]]",
		"[[:alpha:]",
		"[[.a.]]",
		"[[=a=]]",
		"[ä]",
		"a\nb",
		"((a{255}){255}){255}",
		"(((((){255}){255}){255}){255}){255}",
		"(a{0,255}){0,255}",
	};
	char deep[2 * 40 + 2] = {0};

	for (size_t i = 0; i < array_len(bad); i++)
		if (strcmp(find_in(bad[i], "x"), "!") != 0)
			check_str(bad[i], "(refused)");
	memset(deep, '(', 40);
	memset(deep + 40, ')', 40);
	check_str(find_in(deep, "x"), "!");
	memset(deep, '(', sizeof(deep) - 1);
	check_str(find_in(deep, "x"), "!");
	tap_ok("what is malformed, or too much, is refused");
}

static void test_bytes(void)
{
	struct err err;
	struct pattern *p = pattern_new(STR("[^a]\xc3?.x"), &err);
	struct pattern_search *s = pattern_search_new(p);
	size_t start, end;

	pattern_search_feed(s, (struct str){"a\0\xff\x80x", 5});
	check(pattern_search_found(s, &start, &end) && start == 2 && end == 5);
	pattern_search_begin(s);
	check(!pattern_search_found(s, &start, &end));
	pattern_search_feed(s, STR("abc"));
	check(!pattern_search_found(s, &start, &end));
	pattern_search_feed(s, STR("dx"));
	check(pattern_search_found(s, &start, &end) && start == 2 && end == 5);
	pattern_search_free(s);
	pattern_free(p);
	tap_ok("any bytes, piece by piece, line after line");
}

static size_t add_text(char *at, const char *text)
{
	size_t len = strlen(text);

	memcpy(at, text, len + 1);
	return len;
}

/* A pattern that POSIX defines, of a small alphabet. */
static size_t make_pattern(char *at, unsigned depth)
{
	static const char *const atoms[] = {"a",    "b",    "c",           ".",
					    "[ab]", "[^a]", "[[:alpha:]]", "\\."};
	static const char *const repeats[] = {"",  "",  "",    "",      "*",
					      "+", "?", "{2}", "{1,2}", "{0,3}"};
	size_t len = 0, count = 1 + (size_t)(rand() % 3);

	for (size_t i = 0; i < count; i++) {
		if (depth && rand() % 3 == 0) {
			at[len++] = '(';
			len += make_pattern(at + len, depth - 1);
			if (rand() % 2) {
				at[len++] = '|';
				len += make_pattern(at + len, depth - 1);
			}
			at[len++] = ')';
		} else {
			len += add_text(at + len, atoms[rand() % (int)array_len(atoms)]);
		}
		len += add_text(at + len, repeats[rand() % (int)array_len(repeats)]);
	}
	at[len] = '\0';
	return len;
}

/* glibc looks for the same, in its own way. */
static void test_same_as_libc(void)
{
	unsigned compared = 0;

	srand(4711);
	for (int i = 0; i < 4000; i++) {
		char pattern[4096], line[24], expected[64] = "-";
		regmatch_t match;
		size_t len = (size_t)(rand() % 12), anchor = 0;
		regex_t regex;

		if (rand() % 8 == 0)
			pattern[anchor++] = '^';
		len = anchor + make_pattern(pattern + anchor, 2);
		if (rand() % 8 == 0)
			add_text(pattern + len, "$");
		len = (size_t)(rand() % 12);
		for (size_t k = 0; k < len; k++)
			line[k] = "aaabbc.x"[rand() % 8];
		line[len] = '\0';
		if (regcomp(&regex, pattern, REG_EXTENDED) != 0)
			continue;
		if (regexec(&regex, line, 1, &match, 0) == 0)
			snprintf(expected, sizeof(expected), "%.*s@%d", match.rm_eo - match.rm_so,
				 line + match.rm_so, match.rm_so);
		regfree(&regex);
		compared++;
		if (strcmp(find_in(pattern, line), expected) != 0) {
			printf("# %s in \"%s\"\n", pattern, line);
			check_str(find_in(pattern, line), expected);
		}
	}
	check(compared > 3900);
	tap_ok("as the C library finds it");
}

static void test_time(void)
{
	static const char *const evil[] = {"(a*)*(a*)*(a*)*b", "(a|a|a|aa)*(a|aa)*b",
					   "(a?){100}a{100}b", "(.*)(.*)(.*)(.*)(.*)x$"};
	char *text = malloc(100 * 1000);
	clock_t begin = clock();

	memset(text, 'a', 100 * 1000);
	for (size_t i = 0; i < array_len(evil); i++) {
		struct err err;
		struct pattern *p = pattern_new(str_of(evil[i]), &err);
		struct pattern_search *s = pattern_search_new(p);
		size_t start, end;

		pattern_search_feed(s, (struct str){text, 100 * 1000});
		pattern_search_end(s);
		check(!pattern_search_found(s, &start, &end));
		pattern_search_free(s);
		pattern_free(p);
	}
	check((double)(clock() - begin) / CLOCKS_PER_SEC < 20);
	free(text);
	tap_ok("time grows with the text, not with what it could mean");
}

int main(void)
{
	test_found();
	test_refused();
	test_bytes();
	test_same_as_libc();
	test_time();
	return tap_done();
}
