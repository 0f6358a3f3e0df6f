/* Arrays of objects. */
#include "proto/json.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

struct item {
	int64_t number;
	struct str name;
	struct json_strings words;
	struct json_objects items;
};

struct list {
	struct json_objects items;
	bool items_given;
	struct str cursor;
};

/* clang-format off */
static const struct json_field leaf_fields[] = {
	{ "number", JSON_INT, offsetof(struct item, number), true },
	{ NULL },
};

static const struct json_field item_fields[] = {
	{ "number", JSON_INT,     offsetof(struct item, number) },
	{ "name",   JSON_STRING,  offsetof(struct item, name) },
	{ "words",  JSON_STRINGS, offsetof(struct item, words) },
	{ "items",  JSON_OBJECTS, offsetof(struct item, items), .fields = leaf_fields,
	  .size = sizeof(struct item) },
	{ "*",      JSON_IGNORED },
	{ NULL },
};

static const struct json_field list_fields[] = {
	{ "items",  JSON_OBJECTS, offsetof(struct list, items), false,
	  offsetof(struct list, items_given), item_fields, sizeof(struct item) },
	{ "cursor", JSON_STRING,  offsetof(struct list, cursor) },
	{ NULL },
};
/* clang-format on */

static struct arena arena;
static struct err err;

static int parse(const char *text, struct list *ret)
{
	arena_close(&arena);
	*ret = (struct list){0};
	err = (struct err){0};
	return json_parse(&arena, str_of(text), list_fields, ret, &err);
}

static void test_read(void)
{
	const struct item *items, *inner;
	struct list list;

	check(parse("{\"items\":[{\"number\":1,\"words\":[\"a\",\"b\"],\"x\":{\"y\":[{}]}},{},"
		    "{\"items\":[{\"number\":7},{\"number\":8}],\"name\":\"n\"}],\"cursor\":\"c\"}",
		    &list) == 0);
	check_str(err.sentence, "");
	items = list.items.items;
	check(list.items.len == 3 && list.items_given && str_eq(list.cursor, STR("c")));
	check(items[0].number == 1 && items[0].words.len == 2 && !items[0].items.len);
	check(items[1].number == 0 && !items[1].name.at && !items[1].words.items);
	inner = items[2].items.items;
	check(items[2].items.len == 2 && inner[0].number == 7 && inner[1].number == 8);
	check_str(items[2].name.at, "n");
	check(parse("{\"items\":[]}", &list) == 0 && list.items_given && !list.items.len);
	check(parse("{\"items\":null}", &list) == 0 && !list.items_given);
	tap_ok("objects land in an array of structs");
}

static void test_refused(void)
{
	static const struct {
		const char *text, *sentence;
	} bad[] = {
		{"{\"items\":{}}", "items must be an array of objects"},
		{"{\"items\":\"\"}", "items must be an array of objects"},
		{"{\"items\":[1]}", "items[0] must be an object"},
		{"{\"items\":[{},null]}", "items[1] must be an object"},
		{"{\"items\":[{},\"x\"]}", "items[1] must be an object"},
		{"{\"items\":[{},true]}", "items[1] must be an object"},
		{"{\"items\":[[]]}", "items[0] must be an object"},
		{"{\"items\":[{},{\"number\":\"x\"}]}", "items[1].number must be an integer"},
		{"{\"items\":[{\"items\":[{\"n\":1}]}]}", "unknown field \"items[0].items[0].n\""},
		{"{\"items\":[{\"items\":[{}]}]}", "\"items[0].items[0].number\" is missing"},
		{"{\"items\":[{\"number\":1,\"number\":1}]}", "items[0].number\" is given twice"},
		{"{\"items\":[{\"words\":[\"\",1]}]}", "items[0].words[1] must be a string"},
	};
	struct list list;

	for (size_t i = 0; i < array_len(bad); i++) {
		check(parse(bad[i].text, &list) == -EINVAL);
		if (!strstr(err.sentence, bad[i].sentence))
			printf("# %s: %s\n", bad[i].text, err.sentence);
		check(strstr(err.sentence, bad[i].sentence));
	}
	tap_ok("errors name the element");
}

static void test_many(void)
{
	size_t count = JSON_ITEMS_MAX + 1;
	cleanup_free char *text = malloc(3 * count + 32);
	char *at = mempcpy(text, "{\"items\":[", 10);
	struct list list;

	for (size_t i = 0; i < count; i++)
		at = mempcpy(at, "{},", 3);
	memcpy(at - 1, "]}", 3);
	check(parse(text, &list) == -EINVAL);
	check_str(err.sentence, "items has more than 65536 elements");
	memcpy(at - 4, "]}", 3);
	check(parse(text, &list) == 0 && list.items.len == JSON_ITEMS_MAX);
	arena_close(&arena);
	arena.limit = 1 << 20;
	check(parse(text, &list) == -EMSGSIZE && err.code == ERR_PAYLOAD_TOO_LARGE);
	tap_ok("many elements");
}

int main(void)
{
	arena_init(&arena, 32 << 20);
	test_read();
	test_refused();
	test_many();
	arena_close(&arena);
	return tap_done();
}
