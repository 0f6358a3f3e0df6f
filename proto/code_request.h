/* The bodies of POST .../context and POST .../code; results and errors as JSON. */
#ifndef BERTH_PROTO_CODE_REQUEST_H
#define BERTH_PROTO_CODE_REQUEST_H

#include "proto/exec_request.h"
#include "proto/kernel.h"

#define CODE_BODY_MAX (4 * 1024 * 1024) /* of POST .../code */

struct context_request {
	struct str id; /* "" if none was given */
	enum kernel_language language;
	struct exec_request exec; /* cwd, env, user */
};

int context_request_parse(struct arena *arena, struct str body, struct context_request *ret,
			  struct err *err);

struct code_request {
	struct str code;
	struct str context; /* "": the default one of its language */
	bool has_language;  /* one was given; without that and a context it is Python */
	enum kernel_language language;
	struct str file; /* what errors call it; "": none was given */
	uint64_t timeout_ms;
};

int code_request_parse(struct arena *arena, struct str body, struct code_request *ret,
		       struct err *err);

/* Each an object. */
void code_result_write(const struct kernel_result *result, struct json_writer *w);
void code_error_write(const struct kernel_error *error, struct json_writer *w);

#endif
