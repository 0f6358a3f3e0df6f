/* A WebSocket to the daemon, by its Unix socket or its URL. Nothing here waits but link_open(). */
#ifndef BERTH_CMD_LINK_H
#define BERTH_CMD_LINK_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "cmd/berth/verb.h"

#define LINK_MESSAGE_MAX (1024 * 1024)
#define LINK_QUEUE_MAX   (64 * 1024) /* unsent: then no more should be given */

struct link;

/* Negative: give up with that. */
typedef int link_message_fn(void *arg, bool is_text, struct str bytes);

/* `path` and query, encoded. An answer that tells of a failure is -EREMOTEIO with its sentence. */
int link_open(struct link **ret, const struct globals *globals, const char *path, struct err *err);
void link_close(struct link *link);

/* What to poll it for. */
int link_fd(const struct link *link);
short link_events(struct link *link);
/* The last link_work() stopped in the midst of it: what is left may be nowhere to be polled. */
bool link_has_more(const struct link *link);
/* What the other end said when it closed it, or "". */
const char *link_reason(const struct link *link);

/* Sends and receives what can be now. 0, -EPIPE at its end, or what the message said. */
int link_work(struct link *link, link_message_fn *message, void *arg);
int link_send(struct link *link, bool is_text, struct str bytes);
bool link_is_full(struct link *link);

#endif
