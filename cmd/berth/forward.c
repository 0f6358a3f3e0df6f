#include <errno.h>
#include <stdio.h>

#include "cmd/berth/haul.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/tunnel.h"

/* "5432", "5432:15432" or "5432:0". */
static int parse_ports(const char *text, uint16_t *ret_port, uint16_t *ret_local)
{
	unsigned ports[2] = {0, 0};
	size_t digits[2] = {0, 0}, i = 0;

	for (const char *at = text; *at; at++) {
		if (*at == ':' && i == 0) {
			i = 1;
			continue;
		}
		if (*at < '0' || *at > '9' || ++digits[i] > 5)
			return -EINVAL;
		ports[i] = ports[i] * 10 + (unsigned)(*at - '0');
	}
	if (i == 0) {
		ports[1] = ports[0];
		digits[1] = digits[0];
	}
	if (!ports[0] || ports[0] > UINT16_MAX || ports[1] > UINT16_MAX || !digits[1])
		return -EINVAL;
	*ret_port = (uint16_t)ports[0];
	*ret_local = (uint16_t)ports[1];
	return 0;
}

static int announce(struct haul *haul, const struct tunnel_ends *ends)
{
	char text[256];
	int len;

	if (haul->globals->json)
		len = snprintf(text, sizeof(text),
			       "{\"id\":\"%s\",\"port\":%u,\"listen\":\"127.0.0.1:%u\"}\n",
			       ends->id, ends->port, ends->local);
	else
		len = snprintf(text, sizeof(text),
			       "port %u of %s is 127.0.0.1:%u here, until Ctrl-C\n", ends->port,
			       ends->id, ends->local);
	return haul_print(haul, (struct str){text, (size_t)len});
}

static int forward(struct haul *haul, struct tunnel_ends *ends)
{
	char path[SANDBOX_PATH_MAX];
	struct tunnel *tunnel;
	int r = sandbox_path(ends->id, "", path, &haul->err);

	/* Better now than with the first connection. It does not wake it. */
	if (r == 0)
		r = buf_printf(&haul->target, "%s", path);
	if (r == 0)
		r = haul_ask(haul, "GET");
	if (r == 0)
		r = tunnel_new(&tunnel, haul->globals, ends, &haul->own);
	if (r < 0)
		return r;
	r = announce(haul, ends);
	if (r == 0)
		r = tunnel_serve(tunnel, haul->interrupt_fd, &haul->own);
	tunnel_free(tunnel);
	return r;
}

static int run(const struct call *call)
{
	struct tunnel_ends ends;
	struct haul haul;
	int code;

	if (call->arg_count < 2)
		return usage_error("which port of which sandbox? berth forward ID PORT[:LOCAL]");
	ends.id = call->args[0];
	if (parse_ports(call->args[1], &ends.port, &ends.local) < 0)
		return usage_error("\"%s\" is no PORT[:LOCAL], such as 5432 or 5432:15432",
				   screen_text(str_of(call->args[1])).text);
	code = haul_init(&haul, call->globals);
	if (code != EXIT_OK)
		return code;
	code = haul_finish(&haul, forward(&haul, &ends));
	haul_close(&haul);
	return code;
}

/* clang-format off */
static const struct example examples[] = {
	{ "berth forward db 5432",          "port 5432 inside is 127.0.0.1:5432 here, until Ctrl-C" },
	{ "berth forward db 5432:15432",    "the same on another port of this machine" },
	{ "berth forward --json web 80:0",  "on any that is free, which the line on stdout tells" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_forward = {
	.name = "forward",
	.summary = "reach a port of a sandbox from this machine",
	.arguments = "ID PORT[:LOCAL]",
	.arg_max = 2,
	.description =
		"Listens on a port of this machine, on 127.0.0.1 only, and connects whoever\n"
		"comes to a port inside, byte for byte, as often as is wanted, until Ctrl-C. The\n"
		"sandbox needs no network for it. It is woken or started by the first\n"
		"connection and may sleep while nothing is sent; a connection that is open\n"
		"outlives a sleep by freezing. If nobody listens inside, the connection is\n"
		"closed again, and it is said who does.",
	.examples = examples,
	.run = run,
};
