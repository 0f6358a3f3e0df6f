/* What the verbs of exposed ports share. */
#ifndef BERTH_CMD_PORT_H
#define BERTH_CMD_PORT_H

#include "cmd/berth/sandbox.h"

/* One request about a port, and what became of it. */
struct port_call {
	const struct globals *globals;
	struct answer answer;
	struct arena arena; /* of `port`'s text */
	struct sandbox_port port;
	struct err err;
};

void port_call_init(struct port_call *c, const struct globals *globals);
void port_call_close(struct port_call *c);

/*
 * Asks for "/v1/sandbox/<id>/port/<number>"; what is answered, if anything, is in `port`. As
 * client_send(), and -EDESTADDRREQ for a number that is no port.
 */
int port_ask(struct port_call *c, const char *method, const char *const args[2], struct str body);

/* Prints its URL; where berthd serves no previews there is none, and that is said. */
void port_print_url(const struct port_call *c);

#endif
