/* How a struct err looks to a client: the status, and {"error": sentence, "code": code}. */
#ifndef BERTH_PROTO_API_ERROR_H
#define BERTH_PROTO_API_ERROR_H

#include "base/buf.h"
#include "base/err.h"

int api_status(enum err_code code);

/* What is not UTF-8 in the sentence becomes "?". */
int api_error_write(struct buf *out, const struct err *err);

#endif
