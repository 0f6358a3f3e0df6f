/* What is said of a port that is to be exposed: the bodies of PUT .../port and POST .../tunnel. */
#ifndef BERTH_PROTO_PORT_REQUEST_H
#define BERTH_PROTO_PORT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define PORT_NAME_SIZE  64 /* with its NUL, as all of these */
#define PORT_TOKEN_SIZE 33 /* given ones have 8 to 32 of [a-z0-9]; made ones 16 */
#define PORT_TOKEN_MIN  8

/* What was not given stays as it is. */
struct port_request {
	bool name_given, token_given, public_given;
	bool is_public;
	char name[PORT_NAME_SIZE]; /* "": it has none */
	char token[PORT_TOKEN_SIZE];
};

/* An empty body is an empty object. Every error names the field. */
int port_request_parse(struct arena *arena, struct str body, struct port_request *ret,
		       struct err *err);
/* The bridge's: a name, and whatever else its clients send. */
int port_request_parse_tunnel(struct arena *arena, struct str body, struct port_request *ret,
			      struct err *err);

/* "1" to "65535", as a path holds it. */
int port_number_parse(struct str text, uint16_t *ret);

#endif
