#include "daemon/allowance_rule.h"

uint64_t allowance_look_ms(uint64_t left_us, uint64_t cpu_milli)
{
	uint64_t ms = left_us / (cpu_milli ? cpu_milli : 1);

	if (ms < ALLOWANCE_LOOK_MIN_MS)
		return ALLOWANCE_LOOK_MIN_MS;
	return ms < ALLOWANCE_LOOK_MAX_MS ? ms : ALLOWANCE_LOOK_MAX_MS;
}

bool allowance_crosses(bool *is_above, uint64_t held, uint64_t limit, uint32_t threshold_milli)
{
	/* No limit is so large that this would not fit. */
	uint64_t mark = limit / 1000 * threshold_milli + limit % 1000 * threshold_milli / 1000;
	bool was_above = *is_above;

	if (held >= mark)
		*is_above = true;
	else if (held < mark - mark / 10)
		*is_above = false;
	return *is_above && !was_above;
}
