/* The name of a session, as the command line gives it. */
#ifndef BERTH_CMD_SESSION_H
#define BERTH_CMD_SESSION_H

#include "base/err.h"

#define SESSION_ID_MAX 128

/* One that can be none is refused, -EDESTADDRREQ, before it can mean another path or header. */
int session_check(const char *session, struct err *err);

#endif
