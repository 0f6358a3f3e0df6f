/* GET /v1/runs: the newest first, page by page. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/berthd.h"
#include "daemon/exchange.h"
#include "daemon/routes.h"
#include "daemon/run.h"
#include "daemon/store_run.h"
#include "proto/run_request.h"
#include "proto/uri.h"

#define LIST_DEFAULT 50
#define PAGE_BYTES   (8 * 1024 * 1024) /* then it ends with the record that is being written */
static_assert(PAGE_BYTES + RUN_METADATA_MAX + RUN_ERROR_MAX + 8 * 1024 < EXCHANGE_ARENA_MAX,
	      "every page can be told");

struct list_call {
	struct exchange *x; /* NULL: the client is gone */
	struct runs *runs;
	struct json_writer w;
	int status; /* of those that are wanted; negative: any */
	unsigned limit, count;
	uint64_t last; /* number of the last one that was looked at */
	bool has_more;
};

/* A number of the query, `ret` as it was if there is none. */
static int read_number(struct exchange *x, const char *name, uint64_t max, uint64_t *ret,
		       struct err *err)
{
	struct str text;
	char *end = NULL;
	int r = uri_query(exchange_arena(x), exchange_head(x)->query, str_of(name), &text);
	unsigned long long value;

	if (r == 0)
		return 0;
	value = r == 1 && text.len && text.len < 19 && text.at[0] != '-'
			? strtoull(text.at, &end, 10)
			: 0;
	if (!value || value > max || !end || *end)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "%s must be a number from 1 to %" PRIu64, name, max);
	*ret = value;
	return 0;
}

static int read_status(struct exchange *x, int *ret, struct err *err)
{
	struct str text;
	int r = uri_query(exchange_arena(x), exchange_head(x)->query, STR("status"), &text);

	*ret = -1;
	if (r == 0)
		return 0;
	if (r == 1)
		*ret = run_status_find(text);
	if (*ret < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "status must be one of queued, running, completed, failed, "
			       "timed_out, cancelled and lost");
	return 0;
}

static void on_record(void *arg, const struct run_record *record, uint64_t number)
{
	struct list_call *c = arg;
	struct run_record known = run_as_known(c->runs, record);

	if (c->count == c->limit || buf_len(&c->w.text) >= PAGE_BYTES) {
		c->has_more = true;
		return;
	}
	c->count++;
	c->last = number;
	if (c->status < 0 || c->status == (int)known.status)
		run_record_write(&known, false, &c->w);
}

static void on_read(void *arg, int result, const struct err *err)
{
	struct list_call *c = arg;
	char cursor[24];

	if (c->x)
		exchange_on_gone(c->x, NULL, NULL);
	if (c->x && result < 0) {
		exchange_reply_err(c->x, err);
	} else if (c->x) {
		json_array_end(&c->w);
		if (c->has_more) {
			snprintf(cursor, sizeof(cursor), "%" PRIu64, c->last);
			json_key(&c->w, "cursor");
			json_text(&c->w, cursor);
		}
		json_object_end(&c->w);
		exchange_reply_json(c->x, 200, &c->w);
	}
	json_writer_close(&c->w);
	free(c);
}

static void on_gone(void *arg)
{
	struct list_call *c = arg;

	exchange_reply_gone(take(c->x));
}

static void list(struct exchange *x, const struct store_run_query *query)
{
	struct berthd *b = server_arg(exchange_server(x));
	struct list_call *c = calloc(1, sizeof(*c));

	if (!c) {
		exchange_reply_no_memory(x);
		return;
	}
	c->x = x;
	c->runs = b->runs;
	c->status = query->status;
	c->limit = query->limit - 1;
	json_writer_init(&c->w, false);
	json_object(&c->w);
	json_key(&c->w, "runs");
	json_array(&c->w);
	exchange_on_gone(x, on_gone, c);
	if (store_run_read(b->store, query, on_record, on_read, c) == 0)
		return;
	exchange_on_gone(x, NULL, NULL);
	exchange_reply_error(x, -EBUSY, ERR_UNAVAILABLE, "too much is being stored: try again");
	json_writer_close(&c->w);
	free(c);
}

void handle_run_list(struct exchange *x)
{
	struct store_run_query query = {.status = -1};
	uint64_t limit = LIST_DEFAULT;
	struct err err;
	int r = read_number(x, "limit", RUNS_LIST_MAX, &limit, &err);

	if (r == 0)
		r = read_number(x, "cursor", INT64_MAX, &query.before, &err);
	if (r == 0)
		r = read_status(x, &query.status, &err);
	if (r < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	query.limit = (unsigned)limit + 1; /* one more tells whether there are more */
	query.bytes = 2 * PAGE_BYTES;      /* so does this: as JSON they are no shorter */
	list(x, &query);
}
