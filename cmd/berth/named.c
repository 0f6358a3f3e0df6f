#include "cmd/berth/named.h"

#include <errno.h>

#include "base/cleanup.h"
#include "cmd/berth/screen.h"

#define LIST_ARENA_MAX (64 * 1024 * 1024)

static int print(struct haul *haul, const struct named *named)
{
	struct str body = {buf_at(&haul->answer.body), buf_len(&haul->answer.body)};
	cleanup_free char *text = NULL;
	struct json_objects list = {0};
	struct arena arena;
	size_t len = 0;
	FILE *out;
	int r;

	arena_init(&arena, LIST_ARENA_MAX);
	r = json_parse(&arena, body, named->fields, &list, NULL);
	out = r < 0 ? NULL : open_memstream(&text, &len);
	if (out)
		named->print(out, &list);
	arena_close(&arena);
	if (r < 0)
		return haul_fail(haul, -EPROTO,
				 "the answer cannot be understood (is it berthd's?)");
	if (!out || fclose(out) != 0)
		return haul_fail(haul, -ENOMEM, "out of memory");
	return haul_print(haul, (struct str){text, len});
}

int named_list(const struct call *call, const struct named *named)
{
	struct haul haul;
	int code = haul_init(&haul, call->globals), r;

	if (code != EXIT_OK)
		return code;
	r = named->target(&haul, call->args[1], NULL);
	if (r == 0)
		r = haul_ask(&haul, "GET");
	if (r == 0)
		r = call->globals->json ? haul_print_answer(&haul) : print(&haul, named);
	code = haul_finish(&haul, r);
	haul_close(&haul);
	return code;
}

int named_remove(const struct call *call, const struct named *named, const char *name, int code)
{
	struct haul haul;
	int one, r;

	if (code == EXIT_NO_DAEMON || code > 128)
		return code;
	one = haul_init(&haul, call->globals);
	if (one != EXIT_OK)
		return one;
	r = named->target(&haul, call->args[1], name);
	if (r == 0)
		r = haul_ask(&haul, "DELETE");
	if (r == 0 && !call->globals->json)
		printf("%s\n", name);
	one = haul_finish(&haul, r);
	haul_close(&haul);
	return one == EXIT_OK ? code : one;
}
