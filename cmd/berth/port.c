#include "cmd/berth/port.h"

#include <errno.h>
#include <stdio.h>

#include "cmd/berth/screen.h"
#include "proto/port_request.h"

void port_call_init(struct port_call *c, const struct globals *globals)
{
	*c = (struct port_call){.globals = globals};
	answer_init(&c->answer);
	arena_init(&c->arena, SANDBOX_ARENA_MAX);
}

void port_call_close(struct port_call *c)
{
	arena_close(&c->arena);
	answer_close(&c->answer);
}

static int make_path(const char *const args[2], char ret[SANDBOX_PATH_MAX], struct err *err)
{
	char suffix[sizeof("/port/65535")];
	uint16_t number;

	if (port_number_parse(str_of(args[1]), &number) < 0)
		return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "`%s` is no port: a number from 1 to 65535",
			       screen_text(str_of(args[1])).text);
	snprintf(suffix, sizeof(suffix), "/port/%u", (unsigned)number);
	return sandbox_path(args[0], suffix, ret, err);
}

int port_ask(struct port_call *c, const char *method, const char *const args[2], struct str body)
{
	char path[SANDBOX_PATH_MAX];
	struct client_request request = {.method = method,
					 .path = path,
					 .body = body,
					 .timeout_ms = (unsigned)c->globals->timeout_ms};
	int r = make_path(args, path, &c->err);

	if (r == 0)
		r = client_send(c->globals, &request, &c->answer, &c->err);
	if (r == 0 && buf_len(&c->answer.body))
		r = sandbox_port_parse(&c->arena, &c->answer, &c->port, &c->err);
	return r;
}

void port_print_url(const struct port_call *c)
{
	char up[CLIENT_COMMAND_MAX], down[CLIENT_COMMAND_MAX];

	if (c->port.url.len)
		printf("%s\n", screen_text(c->port.url).text);
	else
		screen_error("berthd serves no previews, so there is no URL yet: `%s`, then `%s`",
			     client_command(c->globals, "down", down),
			     client_command(c->globals, "up", up));
}
