#include "proto/frame.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/agent.h"
#include "proto/keeper.h"
#include "tests/unit/tap.h"

struct sample {
	uint32_t small;
	uint64_t large;
	struct str first, second;
};

static const struct frame_field sample_fields[] = {
	{FRAME_U32, offsetof(struct sample, small), 100},
	{FRAME_U64, offsetof(struct sample, large), 0},
	{FRAME_BYTES, offsetof(struct sample, first), 8},
	{FRAME_BYTES, offsetof(struct sample, second), FRAME_MAX},
	{FRAME_END, 0, 0},
};

static const struct frame_head head = {0x1234, 7, 0xdeadbeef};

static int encode(char *bytes, size_t size, const struct sample *value)
{
	return frame_encode(bytes, size, &head, sample_fields, value);
}

static int decode(const char *bytes, int size, struct sample *ret)
{
	/* A copy of just that size, so that the sanitizer sees a step beyond it. */
	char *copy = malloc((size_t)size);
	struct str message = {memcpy(copy, bytes, (size_t)size), (size_t)size};
	struct frame_head got;
	int error = frame_decode_head(message, &got);

	if (error == 0)
		error = frame_decode(message, sample_fields, ret);
	free(copy);
	return error;
}

static void test_layout(void)
{
	static const char expected[] = "\x2f\0\0\0\x34\x12\x07\0\xef\xbe\xad\xde\0\0\0\0"
				       "\x64\0\0\0"
				       "\x08\x07\x06\x05\x04\x03\x02\x01"
				       "\x03\0\0\0a\0c"
				       "\x08\0\0\0aaaaaaaa";
	struct sample value = {100, 0x0102030405060708, {"a\0c", 3}, {"aaaaaaaa", 8}}, got = {0};
	char bytes[128];
	int size = encode(bytes, sizeof(bytes), &value);
	struct frame_head got_head = {0};
	struct str message = {bytes, 47};

	check(size == (int)sizeof(expected) - 1 && memcmp(bytes, expected, (size_t)size) == 0);
	check(frame_decode_head(message, &got_head) == 0);
	check(got_head.type == head.type && got_head.version == head.version &&
	      got_head.tag == head.tag);
	check(frame_decode(message, sample_fields, &got) == 0);
	check(got.small == value.small && got.large == value.large);
	check(str_eq(got.first, value.first) && str_eq(got.second, value.second));
	check(got.first.at > bytes && got.second.at + 8 == bytes + size);
	tap_ok("numbers are little-endian, runs stand behind their length");
}

static void test_encode_limits(void)
{
	static char big[FRAME_MAX], bytes[FRAME_MAX + 100];
	struct sample value = {100, UINT64_MAX, {"12345678", 8}, {NULL, 0}};
	int size = encode(bytes, sizeof(bytes), &value);

	check(size == 16 + 4 + 8 + 12 + 4);
	for (int i = 0; i < size; i++)
		check(encode(bytes, (size_t)i, &value) == -EMSGSIZE);
	check(encode(bytes, (size_t)size, &value) == size);
	value.small = 101;
	check(encode(bytes, sizeof(bytes), &value) == -EMSGSIZE);
	value.small = 0;
	value.first = (struct str){"123456789", 9};
	check(encode(bytes, sizeof(bytes), &value) == -EMSGSIZE);
	value.first = (struct str){NULL, 0};
	value.second = (struct str){big, FRAME_MAX - 36};
	check(encode(bytes, sizeof(bytes), &value) == FRAME_MAX);
	value.second.len++;
	check(encode(bytes, sizeof(bytes), &value) == -EMSGSIZE);
	value.second.len = SIZE_MAX;
	check(encode(bytes, sizeof(bytes), &value) == -EMSGSIZE);
	tap_ok("encoding keeps to the table's limits, the buffer and FRAME_MAX");
}

static void test_bad_frames(void)
{
	struct sample value = {1, 2, {"abc", 3}, {"defg", 4}}, got;
	char good[128], bad[128];
	int size = encode(good, sizeof(good), &value);

	check(decode(good, size, &got) == 0);
	for (int i = 0; i < size; i++) {
		check(decode(good, i, &got) == -EBADMSG);
		/* Cut, with a length that says so. */
		memcpy(bad, good, (size_t)size);
		bad[0] = (char)i;
		check(decode(bad, i, &got) == -EBADMSG);
	}
	memcpy(bad, good, (size_t)size);
	bad[0] = (char)(size + 1);
	check(decode(bad, size + 1, &got) == -EBADMSG);
	for (int i = 12; i < 16; i++) {
		memcpy(bad, good, (size_t)size);
		bad[i] = 1;
		check(decode(bad, size, &got) == -EBADMSG);
	}
	for (int at = 28; at < 36; at += 7) {
		for (unsigned byte = 0; byte < 4; byte++) {
			memcpy(bad, good, (size_t)size);
			bad[at + (int)byte] = (char)0xff;
			check(decode(bad, size, &got) == -EBADMSG);
		}
	}
	memcpy(bad, good, (size_t)size);
	bad[16] = 101;
	check(decode(bad, size, &got) == -EBADMSG);
	tap_ok("what is cut, too long or past a limit is no frame");
}

static void test_fuzzy(void)
{
	struct sample value = {1, 2, {"abc", 3}, {"defg", 4}}, got;
	char good[128], bad[128], again[128];
	int size = encode(good, sizeof(good), &value), decoded = 0;

	srand(1);
	for (int i = 0; i < 20000; i++) {
		memcpy(bad, good, (size_t)size);
		for (int j = rand() % 3; j >= 0; j--)
			bad[16 + rand() % (size - 16)] = (char)rand();
		if (decode(bad, size, &got) < 0)
			continue;
		/* The strs point into a copy that is gone; the numbers must come out the same. */
		got.first = got.second = (struct str){NULL, 0};
		check(got.small <= 100);
		check(encode(again, sizeof(again), &got) > 0);
		check(memcmp(again + 16, bad + 16, 12) == 0);
		decoded++;
	}
	check(decoded > 100);
	tap_ok("changed bytes are refused or mean what they say");
}

static void test_lists(void)
{
	struct str list = {"one\0\0three", 11};

	check(frame_list_count((struct str){NULL, 0}) == 0);
	check(frame_list_count((struct str){"", 1}) == 1);
	check(frame_list_count((struct str){"\0\0", 3}) == 3);
	check(frame_list_count((struct str){"one", 3}) == -EBADMSG);
	check(frame_list_count((struct str){"one\0two", 7}) == -EBADMSG);
	check(frame_list_count(list) == 3);
	check_str(frame_list_next(&list), "one");
	check_str(frame_list_next(&list), "");
	check_str(frame_list_next(&list), "three");
	check(list.len == 0 && frame_list_next(&list) == NULL);
	tap_ok("lists of strings");
}

/* init sends from a buffer of 64 bytes. */
static void test_agent_sizes(void)
{
	struct agent_exited exited = {1, 0xffff, 2, 3, 4};
	struct agent_exec exec = {.cwd = {NULL, AGENT_CWD_MAX + 1}};
	struct agent_refused refused = {1, AGENT_STAGE_COUNT, 2};
	struct agent_usage usage = {1};
	char bytes[64];

	check(frame_encode(bytes, sizeof(bytes), &head, agent_exited_fields, &exited) == 52);
	check(frame_encode(bytes, sizeof(bytes), &head, agent_refused_fields, &refused) ==
	      -EMSGSIZE);
	check(frame_encode(bytes, sizeof(bytes), &head, agent_exec_fields, &exec) == -EMSGSIZE);
	check(frame_encode(bytes, sizeof(bytes), &head, agent_usage_fields, &usage) == 24);
	check(frame_decode((struct str){bytes, 24}, agent_empty_fields, NULL) == -EBADMSG);
	check(frame_encode(bytes, sizeof(bytes), &head, agent_empty_fields, NULL) ==
	      FRAME_HEADER_SIZE);
	check(frame_decode((struct str){bytes, FRAME_HEADER_SIZE}, agent_empty_fields, NULL) == 0);
	check(frame_decode((struct str){bytes, FRAME_HEADER_SIZE}, agent_usage_fields, &usage) ==
	      -EBADMSG);
	tap_ok("the agent's tables hold their limits");
}

static void test_keeper_flags(void)
{
	struct keeper_running running = {{"one", 3}, 7, 42, 1, 0, 1}, got = {0};
	struct keeper_started started = {42, 0, 1, 2};
	struct keeper_adopted adopted = {0, 1};
	char bytes[64];
	int size = frame_encode(bytes, sizeof(bytes), &head, keeper_running_fields, &running);

	check(size == 16 + 7 + 8 + 4 + 4 + 4 + 4);
	check(frame_decode((struct str){bytes, (size_t)size}, keeper_running_fields, &got) == 0);
	check(got.generation == 7 && got.pid == 42 && got.is_frozen == 1);
	bytes[size - 12] = 2; /* neither frozen nor not */
	check(frame_decode((struct str){bytes, (size_t)size}, keeper_running_fields, &got) < 0);
	check(frame_encode(bytes, sizeof(bytes), &head, keeper_started_fields, &started) ==
	      -EMSGSIZE);
	started.has_usage = 1;
	check(frame_encode(bytes, sizeof(bytes), &head, keeper_started_fields, &started) == 32);
	check(frame_encode(bytes, sizeof(bytes), &head, keeper_adopted_fields, &adopted) == 24);
	tap_ok("the keeper's tables: what is frozen, and which files come along");
}

int main(void)
{
	test_layout();
	test_encode_limits();
	test_bad_frames();
	test_fuzzy();
	test_lists();
	test_agent_sizes();
	test_keeper_flags();
	return tap_done();
}
