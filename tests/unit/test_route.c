#include "proto/route.h"

#include "base/cleanup.h"
#include "tests/unit/tap.h"

/* clang-format off */
static const struct {
	const char *pattern, *path;
	bool matches;
	const char *captures[ROUTE_CAPTURES_MAX + 1];
} cases[] = {
	{"/health", "/health", true, {0}},
	{"/health", "/health/", false, {0}},
	{"/health", "/healt", false, {0}},
	{"/health", "/healthy", false, {0}},
	{"/health", "/Health", false, {0}},
	{"/health", "//health", false, {0}},
	{"/health", "/%68ealth", false, {0}},
	{"/health", "*", false, {0}},
	{"/health", "", false, {0}},
	{"/", "/", true, {0}},
	{"/v1/sandbox/{id}", "/v1/sandbox/a", true, {"a"}},
	{"/v1/sandbox/{id}", "/v1/sandbox/a%2Fb", true, {"a%2Fb"}},
	{"/v1/sandbox/{id}", "/v1/sandbox/", false, {0}},
	{"/v1/sandbox/{id}", "/v1/sandbox", false, {0}},
	{"/v1/sandbox/{id}", "/v1/sandbox/a/", false, {0}},
	{"/v1/sandbox/{id}", "/v1/sandbox//a", false, {0}},
	{"/v1/sandbox/{id}", "/v1/sandbox/a/b", false, {0}},
	{"/v1/sandbox/{id}/exec", "/v1/sandbox/x/exec", true, {"x"}},
	{"/v1/sandbox/{id}/exec", "/v1/sandbox//exec", false, {0}},
	{"/v1/sandbox/{id}/exec", "/v1/sandbox/x/exe", false, {0}},
	{"/v1/sandbox/{id}/exec", "/v1/sandbox/x/executed", false, {0}},
	{"/v1/sandbox/{id}/processes/{p}/kill", "/v1/sandbox/x/processes/1/kill", true, {"x", "1"}},
	{"/v1/sandbox/{id}/file/{path...}", "/v1/sandbox/x/file/a/b//c/", true, {"x", "a/b//c/"}},
	{"/v1/sandbox/{id}/file/{path...}", "/v1/sandbox/x/file/", true, {"x", ""}},
	{"/v1/sandbox/{id}/file/{path...}", "/v1/sandbox/x/file", false, {0}},
	{"/v1/sandbox/{id}/file/{path...}", "/v1/sandbox/x/files/a", false, {0}},
	{"/{a}/{b}/{c}/{d}", "/1/22/333/4444", true, {"1", "22", "333", "4444"}},
	{"/{a}", "/{a}", true, {"{a}"}},
	{"/{rest...}", "/", true, {""}},
};
/* clang-format on */

int main(void)
{
	for (size_t i = 0; i < array_len(cases); i++) {
		struct route_captures captures = {.len = 99};
		size_t len = 0;

		check(route_matches(cases[i].pattern, str_of(cases[i].path), &captures) ==
		      cases[i].matches);
		while (cases[i].captures[len])
			len++;
		check(captures.len == (cases[i].matches ? len : 99));
		for (size_t k = 0; k < len; k++)
			check(str_eq(captures.items[k], str_of(cases[i].captures[k])));
		if (tap_case_failed)
			printf("# %s with %s\n", cases[i].pattern, cases[i].path);
	}
	tap_ok("patterns match and capture");
	return tap_done();
}
