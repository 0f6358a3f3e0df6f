#include <stdio.h>

#include "cmd/berth/port.h"

static int run(const struct call *call)
{
	struct port_call c;
	int code = EXIT_OK, r;

	if (call->arg_count < 2)
		return usage_error("which port of which sandbox? berth unexpose ID PORT");
	port_call_init(&c, call->globals);
	r = port_ask(&c, "DELETE", call->args, (struct str){NULL, 0});
	if (r < 0)
		code = client_failed(call->globals, &c.answer, r, &c.err);
	else if (!call->globals->json)
		printf("%s\n", call->args[1]);
	port_call_close(&c);
	return code;
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth unexpose web 8080", "its URL leads nowhere any more" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_unexpose = {
	.name = "unexpose",
	.summary = "take a port's URL away",
	.arguments = "ID PORT",
	.arg_max = 2,
	.description =
		"The port's URL leads nowhere any more, and its token is forgotten: exposed\n"
		"again, it gets another. A port that is not exposed is fine. Nothing is started.",
	.examples = examples,
	.run = run,
};
