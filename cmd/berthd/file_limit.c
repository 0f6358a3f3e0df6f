#include "cmd/berthd/file_limit.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/log.h"

#define SPARE_FDS 32 /* beside connections: the store, the loop, files under way */
#define ROOM_MIN  16 /* for the connections of one server; with less there is no sense in it */

/* Each connection is a file; take what the hard limit gives. */
static unsigned raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 1024;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > 1u << 20
		       ? 1u << 20
		       : (unsigned)limit.rlim_cur;
}

/*
 * One descriptor per connection: no more than there are, and said if that is less than wanted.
 * `shares`: the connections of each server, and those to ports of sandboxes.
 */
int file_limit_fit(struct server_limits *limits, unsigned shares, bool is_asked, struct err *err)
{
	unsigned files = raise_file_limit(), wanted = limits->connections;
	unsigned room = files > SPARE_FDS ? (files - SPARE_FDS) / shares : 0;

	if (room < ROOM_MIN)
		return err_set(
			err, -EMFILE, ERR_UNSUPPORTED,
			"only %u files may be open (RLIMIT_NOFILE), and at least %u are needed: "
			"raise the limit, for example with ulimit -n 1024",
			files, SPARE_FDS + shares * ROOM_MIN);
	if (wanted + limits->turned_away <= room)
		return 0;
	if (limits->turned_away > room / 8)
		limits->turned_away = room / 8;
	if (wanted <= room - limits->turned_away)
		return 0;
	limits->connections = room - limits->turned_away;
	/* A default that has to do with a little less is nobody's concern. */
	if (is_asked || limits->connections < wanted / 2)
		log_warn("max_connections lowered from %u to %u: RLIMIT_NOFILE is %u", wanted,
			 limits->connections, files);
	return 0;
}
