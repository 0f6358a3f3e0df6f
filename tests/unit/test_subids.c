#include "base/subids.h"

#include "tests/unit/tap.h"

static uint32_t count(const char *text)
{
	return subids_count(str_of(text), "anna", 1000);
}

static void test_lines(void)
{
	check(count("") == 0);
	check(count("anna:100000:65536\n") == 65536);
	check(count("anna:100000:65536") == 65536);
	check(count("root:1:5\nanna:100000:65536\nbob:200000:65536\n") == 65536);
	check(count("anna:100000:10\n1000:200000:5\n") == 15);
	check(subids_count(STR("1000:1:7\n:1:8\n"), NULL, 1000) == 7);
	tap_ok("ranges by name and by number are added up");
}

static void test_nonsense(void)
{
	static const char *const texts[] = {
		"anna",
		"anna:",
		"anna:1",
		"anna:1:",
		"anna::5",
		"anna:1:5:9",
		"anna:x:5",
		"anna:1:-5",
		"anna:1: 5",
		"anna:1:99999999999999999999",
		"anna:4294967295:1",
		"anna:4294967294:2",
		"annabel:1:5",
		"ann:1:5",
		"#anna:1:5",
		"\n\n:::\n",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		check(count(texts[i]) == 0);
		if (count(texts[i]))
			printf("# in \"%s\"\n", texts[i]);
	}
	tap_ok("lines that make no sense give nothing");
}

static void test_sum(void)
{
	check(count("anna:0:4294967295\nanna:0:4294967295\n") == UINT32_MAX);
	tap_ok("the sum does not overflow");
}

static void test_ranges(void)
{
	struct subids_range ranges[2];
	struct str text = STR("anna:5:6\nbob:1:1\n1000:100:0\n1000:100:20\nanna:7:8\n");

	check(subids_ranges(text, "anna", 1000, ranges, 2) == 2);
	check(ranges[0].first == 5 && ranges[0].count == 6);
	check(ranges[1].first == 100 && ranges[1].count == 20);
	check(subids_ranges(text, "carl", 1001, ranges, 2) == 0);
	tap_ok("the ranges come in the order of the text");
}

int main(void)
{
	test_lines();
	test_nonsense();
	test_sum();
	test_ranges();
	return tap_done();
}
