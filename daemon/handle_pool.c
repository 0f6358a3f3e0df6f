/* Routes of /v1/pool: how many sandboxes are warm, make them so, remove them. */
#include <errno.h>

#include "daemon/berthd.h"
#include "daemon/exchange.h"
#include "daemon/pool.h"
#include "daemon/routes.h"
#include "daemon/run.h"

static void reply(struct exchange *x, const struct berthd *b)
{
	struct pool_stats stats = pool_stats(runs_pool(b->runs));
	struct json_writer w;

	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "warm");
	json_int(&w, stats.warm);
	json_key(&w, "assigned");
	json_int(&w, stats.assigned);
	json_key(&w, "total");
	json_int(&w, stats.total);
	json_key(&w, "config");
	pool_settings_write(&b->config.pool, &w);
	json_key(&w, "maxInstances");
	json_int(&w, pool_settings_most(&b->config.pool));
	json_object_end(&w);
	exchange_reply_json(x, 200, &w);
	json_writer_close(&w);
}

void handle_pool_stats(struct exchange *x)
{
	reply(x, server_arg(exchange_server(x)));
}

void handle_pool_prime(struct exchange *x)
{
	const struct berthd *b = server_arg(exchange_server(x));

	if (!pool_settings_most(&b->config.pool)) {
		exchange_reply_error(x, -EINVAL, ERR_CONFLICT,
				     "there is no pool here: set pool.size in the configuration, "
				     "and send berthd SIGHUP");
		return;
	}
	pool_prime(runs_pool(b->runs));
	reply(x, b);
}

void handle_pool_shutdown(struct exchange *x)
{
	const struct berthd *b = server_arg(exchange_server(x));

	pool_shut(runs_pool(b->runs));
	reply(x, b);
}
