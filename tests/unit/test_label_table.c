#include "daemon/label_table.h"

#include <stdlib.h>

#include "tests/unit/tap.h"

#define MANY 1000

struct thing {
	struct label_entry entry;
	char label[LABEL_SIZE];
};

static void test_many(void)
{
	struct thing *things = calloc(MANY, sizeof(*things));
	struct label_table table;
	size_t found = 0;

	check(things && label_table_init(&table) == 0);
	for (int i = 0; i < MANY; i++) {
		snprintf(things[i].label, sizeof(things[i].label), "80-box%d-token", i);
		label_table_add(&table, &things[i].entry, things[i].label);
	}
	for (int i = 0; i < MANY; i++)
		found += label_table_find(&table, str_of(things[i].label)) == &things[i].entry;
	check(found == MANY && table.len == MANY);
	check(table.heads_len >= MANY / 2);
	for (int i = 0; i < MANY; i += 2)
		label_table_remove(&table, &things[i].entry);
	for (int i = 0; i < MANY; i++)
		found -= label_table_find(&table, str_of(things[i].label)) != NULL;
	check(found == MANY / 2 && table.len == MANY / 2);
	label_table_close(&table);
	free(things);
	tap_ok("many are found, until they are removed");
}

static void test_almost(void)
{
	struct thing thing = {.label = "8080-a-0123456789abcdef"};
	static const char *const wrong[] = {
		"",
		"8080-a-0123456789abcde",
		"8080-a-0123456789abcdef0",
		"8080-a-0123456789abcdeg",
		"8080-A-0123456789abcdef",
		"a234567890123456789012345678901234567890123456789012345678901234567890",
	};
	struct label_table table;

	check(label_table_init(&table) == 0);
	label_table_add(&table, &thing.entry, thing.label);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		check(!label_table_find(&table, str_of(wrong[i])));
	check(!label_table_find(&table, (struct str){thing.label, strlen(thing.label) + 1}));
	check(label_table_find(&table, str_of(thing.label)) == &thing.entry);
	label_table_close(&table);
	tap_ok("only the whole label is right");
}

int main(void)
{
	test_many();
	test_almost();
	return tap_done();
}
