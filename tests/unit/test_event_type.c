#include "proto/event_type.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

static void test_known(void)
{
	size_t count = 0;

	for (; event_type_name(count); count++) {
		check(event_type_is_known(str_of(event_type_name(count))));
		check(event_type_index(str_of(event_type_name(count))) == count);
	}
	check(count == EVENT_TYPE_COUNT && !event_type_name(count + 1));
	check(event_type_index(STR("sleptt")) == EVENT_TYPE_COUNT);
	check(!event_type_is_known(STR("")) && !event_type_is_known(STR("sleptt")));
	check(!event_type_is_known(STR("live")) && !event_type_is_known(STR("alarm_")));
	tap_ok("each is known by its name, and nothing else is");
}

static void test_lists(void)
{
	static const char *const good[] = {"slept", "slept,woke", "woke,woke,alarm_failed"};
	static const char *const bad[] = {
		"", ",", "slept,", ",slept", "slept,,woke", "Slept", "slept, woke", "slept,\xff"};
	struct err err;

	for (size_t i = 0; i < array_len(good); i++)
		check(event_types_check(str_of(good[i]), &err) == 0);
	for (size_t i = 0; i < array_len(bad); i++)
		check(event_types_check(str_of(bad[i]), &err) == -EINVAL);
	check(event_types_check(STR("slept,mispelt,woke"), &err) == -EINVAL);
	check(err.code == ERR_INVALID_REQUEST);
	check_str(err.sentence, "type: there is no kind of event \"mispelt\"; there are created, "
				"changed, started, slept, woke, alarm, alarm_failed, port_exposed, "
				"port_unexposed, memory_threshold, oom, failed, exited, destroyed");
	tap_ok("lists of them, and what is wrong with one");
}

int main(void)
{
	test_known();
	test_lists();
	return tap_done();
}
