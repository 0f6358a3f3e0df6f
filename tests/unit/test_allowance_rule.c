#include "daemon/allowance_rule.h"

#include "tests/unit/tap.h"

#define MIB (1ULL << 20)

static void test_look(void)
{
	check(allowance_look_ms(1000000, 1000) == 1000);
	check(allowance_look_ms(1000000, 4000) == 250);
	check(allowance_look_ms(1000000, 500) == 2000);
	tap_ok("so long as it lasts if all are busy");

	check(allowance_look_ms(0, 1000) == ALLOWANCE_LOOK_MIN_MS);
	check(allowance_look_ms(1000, 64000) == ALLOWANCE_LOOK_MIN_MS);
	check(allowance_look_ms(UINT64_MAX, 10) == ALLOWANCE_LOOK_MAX_MS);
	check(allowance_look_ms(INT64_MAX, 0) == ALLOWANCE_LOOK_MAX_MS);
	tap_ok("neither too soon nor too late");
}

static void test_crossing(void)
{
	bool is_above = false;

	check(!allowance_crosses(&is_above, 79 * MIB, 100 * MIB, 800) && !is_above);
	check(allowance_crosses(&is_above, 80 * MIB, 100 * MIB, 800) && is_above);
	check(!allowance_crosses(&is_above, 100 * MIB, 100 * MIB, 800) && is_above);
	tap_ok("told once");

	check(!allowance_crosses(&is_above, 73 * MIB, 100 * MIB, 800) && is_above);
	check(!allowance_crosses(&is_above, 85 * MIB, 100 * MIB, 800));
	check(!allowance_crosses(&is_above, 71 * MIB, 100 * MIB, 800) && !is_above);
	check(allowance_crosses(&is_above, 85 * MIB, 100 * MIB, 800));
	tap_ok("and again only when less than nine tenths were held");

	check(!allowance_crosses(&is_above, 85 * MIB, 200 * MIB, 800) && !is_above);
	check(allowance_crosses(&is_above, 1ULL << 50, 1ULL << 50, 1000));
	check(!allowance_crosses(&is_above, 0, 1ULL << 50, 10) && !is_above);
	tap_ok("of any limit");
}

int main(void)
{
	test_look();
	test_crossing();
	return tap_done();
}
