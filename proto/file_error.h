/* What a file worker's failure means to a client: a code, and a sentence with the path. */
#ifndef BERTH_PROTO_FILE_ERROR_H
#define BERTH_PROTO_FILE_ERROR_H

#include "base/err.h"
#include "proto/file.h"

/* `result` has an error; both may hold any bytes. Returns the negative errno. */
int file_error_set(struct err *err, const struct file_request *request,
		   const struct file_result *result);

#endif
