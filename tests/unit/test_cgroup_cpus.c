#include "container/cgroup_cpus.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/tap.h"

static void is(const char *list, unsigned count, const char *but_one)
{
	struct cgroup_cpus cpus;

	check(cgroup_cpus_parse(&cpus, list) == 0);
	check(strcmp(cpus.all, list) == 0);
	check(cpus.count == count);
	check(strcmp(cpus.but_one, but_one) == 0);
}

int main(void)
{
	static const char *const bad[] = {"",   ",",    "a",    "-1",     "1-",           "3-1",
					  "0 ", "0-3x", "0,,1", "0,1-0x", "0-4000000000", " 1"};
	struct cgroup_cpus cpus = {.count = 7};
	char *longest = malloc(4096);
	size_t len = 0;

	is("0", 1, "");
	is("0-1", 2, "0");
	is("0-3", 4, "0-2");
	is("9-11", 3, "9-10");
	is("0,2-5", 5, "0,2-4");
	is("3-4,8", 3, "3-4");
	is("2,4,6-7,65535", 5, "2,4,6-7");
	is("2,6-7", 3, "2,6");
	tap_ok("all, and all but the last");

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check(cgroup_cpus_parse(&cpus, bad[i]) == -EINVAL);
	check(cpus.count == 7);
	tap_ok("what is no list is refused, and leaves nothing");

	check(longest);
	for (unsigned cpu = 0; cpu < 600; cpu++)
		len += (size_t)snprintf(longest + len, 4096 - len, "%s%u", cpu ? "," : "", 2 * cpu);
	check(cgroup_cpus_parse(&cpus, longest) < 0 && cpus.count == 7);
	free(longest);
	tap_ok("so is one that has no room");
	return tap_done();
}
