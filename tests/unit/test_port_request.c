#include "proto/port_request.h"

#include <errno.h>

#include "tests/unit/tap.h"

static struct arena arena;
static struct err err;

static int parse(const char *text, struct port_request *ret)
{
	arena_close(&arena);
	err = (struct err){0};
	return port_request_parse(&arena, str_of(text), ret, &err);
}

static void test_bodies(void)
{
	struct port_request q;

	check(parse("", &q) == 0 && !q.name_given && !q.token_given && !q.public_given);
	check(parse("{\"name\":null,\"token\":null,\"public\":null}", &q) == 0);
	check(!q.name_given && !q.token_given && !q.public_given);
	check(parse("{\"name\":\"web \xc3\xa4\",\"token\":\"abc01234\"}", &q) == 0);
	check(q.name_given && q.token_given && !q.public_given);
	check_str(q.name, "web \xc3\xa4");
	check_str(q.token, "abc01234");
	check(parse("{\"name\":\"\",\"public\":true}", &q) == 0);
	check(q.name_given && !q.name[0] && q.public_given && q.is_public);
	check(parse("{\"public\":false,\"token\":\"0123456789abcdef0123456789abcdef\"}", &q) == 0);
	check(q.public_given && !q.is_public && strlen(q.token) == 32);
	tap_ok("bodies");
}

static void test_mistakes(void)
{
	static const struct {
		const char *body, *field;
	} bad[] = {
		{"{\"token\":\"\"}", "token"},
		{"{\"token\":\"abc0123\"}", "token"},
		{"{\"token\":\"ABC01234\"}", "token"},
		{"{\"token\":\"abc-1234\"}", "token"},
		{"{\"token\":\"0123456789abcdef0123456789abcdef0\"}", "token"},
		{"{\"token\":12345678}", "token"},
		{"{\"token\":\"abc01234\",\"public\":true}", "token"},
		{"{\"name\":\"a\\nb\"}", "name"},
		{"{\"name\":\"a\\u007fb\"}", "name"},
		{"{\"name\":\"a\\u0085b\"}", "name"},
		{"{\"name\":\"a23456789012345678901234567890123456789012345678901234567890123x\"}",
		 "name"},
		{"{\"public\":1}", "public"},
		{"{\"port\":1}", "port"},
		{"[]", ""},
	};
	struct port_request q;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		check(parse(bad[i].body, &q) < 0 && err.code == ERR_INVALID_REQUEST);
		check(strstr(err.sentence, bad[i].field) != NULL);
	}
	tap_ok("mistakes name the field");
}

static void test_tunnel(void)
{
	struct port_request q;

	arena_close(&arena);
	check(port_request_parse_tunnel(&arena, STR("{\"name\":\"x\",\"token\":1,\"y\":[]}"), &q,
					&err) == 0);
	check(q.name_given && !q.token_given);
	check(port_request_parse_tunnel(&arena, STR(""), &q, &err) == 0 && !q.name_given);
	check(port_request_parse_tunnel(&arena, STR("{\"name\":1}"), &q, &err) < 0);
	tap_ok("the bridge's clients send what they like");
}

static void test_numbers(void)
{
	static const char *const bad[] = {"",   "0",  "00",    "080",   "-1",     "+1",
					  "1a", " 1", "65536", "99999", "100000", "0x50"};
	uint16_t n = 7;

	check(port_number_parse(STR("1"), &n) == 0 && n == 1);
	check(port_number_parse(STR("65535"), &n) == 0 && n == 65535);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check(port_number_parse(str_of(bad[i]), &n) < 0);
	check(n == 65535);
	tap_ok("numbers");
}

int main(void)
{
	arena_init(&arena, 64 * 1024);
	test_bodies();
	test_mistakes();
	test_tunnel();
	test_numbers();
	arena_close(&arena);
	return tap_done();
}
