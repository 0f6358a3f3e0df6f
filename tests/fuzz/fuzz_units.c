/* What a unit parser accepts must be within its promises, and it must accept what it accepted. */
#include "proto/units.h"

#include <assert.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_host_port(struct str text)
{
	struct host_port hp, again;
	char back[HOST_MAX + 16];

	if (host_port_parse(text, &hp) != 0)
		return;
	assert(hp.host[0] && strlen(hp.host) < HOST_MAX);
	snprintf(back, sizeof(back), strchr(hp.host, ':') ? "[%s]:%u" : "%s:%u", hp.host, hp.port);
	assert(host_port_parse(str_of(back), &again) == 0);
	assert(strcmp(hp.host, again.host) == 0 && hp.port == again.port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = {(const char *)data, size};
	uint64_t value, again;
	char back[DURATION_TEXT_SIZE];

	if (duration_parse(text, &value) == 0) {
		assert(value <= INT64_MAX);
		duration_format(value, back);
		assert(duration_parse(str_of(back), &again) == 0 && again == value);
	}
	if (size_parse(text, &value) == 0) {
		assert(value <= INT64_MAX);
		snprintf(back, sizeof(back), "%llu", (unsigned long long)value);
		assert(size_parse(str_of(back), &again) == 0 && again == value);
	}
	check_host_port(text);
	return 0;
}
