/* GET /v1/sandbox: all of them, page by page. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/berthd.h"
#include "daemon/handle_process.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/survey.h"
#include "proto/uri.h"

#define LIST_MAX     1000
#define LIST_DEFAULT 100
#define LOOKS_MAX    10000 /* at sandboxes, for one page, whether they are listed or not */

static int list_limit(struct exchange *x, size_t *ret, struct err *err)
{
	struct str text;
	char *end;
	long limit;
	int r = uri_query(exchange_arena(x), exchange_head(x)->query, STR("limit"), &text);

	*ret = LIST_DEFAULT;
	if (r == 0)
		return 0;
	limit = r == 1 && text.len ? strtol(text.at, &end, 10) : 0;
	if (r < 0 || limit < 1 || limit > LIST_MAX || *end)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "limit must be a number from 1 to %d", LIST_MAX);
	*ret = (size_t)limit;
	return 0;
}

/* "name=value", or "name" for any value. */
static bool has_label(const struct sandbox *sb, struct str wanted)
{
	struct str list = sb->settings.labels;
	bool is_whole = memchr(wanted.at, '=', wanted.len) != NULL;
	const char *item;

	while ((item = frame_list_next(&list))) {
		size_t len = is_whole ? strlen(item) : strcspn(item, "=");

		if (str_eq((struct str){item, len}, wanted))
			return true;
	}
	return false;
}

/* A mistyped one would list nothing, and look as if there were nothing. */
static int check_wishes(struct str state, struct str cursor, struct err *err)
{
	struct sandbox_id id;

	if (state.len && !sandbox_state_is_known(state))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "state must be a sandbox's state, such as running or cold");
	if (cursor.len && sandbox_id_parse(cursor, &id) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "cursor must be one that an earlier answer gave");
	return 0;
}

static bool is_listed(const struct sandbox *sb, struct str state, struct str label)
{
	return sb->is_stored && (!state.len || str_eq(state, str_of(sandbox_state_name(sb)))) &&
	       (!label.len || has_label(sb, label));
}

static void list(struct exchange *x)
{
	struct berthd *b = server_arg(exchange_server(x));
	struct str cursor = STR(""), state = STR(""), label = STR("");
	struct str query = exchange_head(x)->query;
	struct sandbox *sb;
	struct json_writer w;
	struct err err;
	size_t limit, n = 0, looks = 0;

	if (list_limit(x, &limit, &err) < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	if (uri_query(exchange_arena(x), query, STR("cursor"), &cursor) < 0 ||
	    uri_query(exchange_arena(x), query, STR("state"), &state) < 0 ||
	    uri_query(exchange_arena(x), query, STR("label"), &label) < 0) {
		err_set(&err, -EINVAL, ERR_INVALID_REQUEST, "the query is malformed");
		exchange_reply_err(x, &err);
		return;
	}
	if (check_wishes(state, cursor, &err) < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "sandboxes");
	json_array(&w);
	for (sb = registry_next(b->registry, cursor.at); sb && n < limit && looks < LOOKS_MAX;
	     sb = registry_next(b->registry, sb->id.text), looks++) {
		cursor = str_of(sb->id.text);
		if (is_listed(sb, state, label)) {
			handle_write_sandbox(&w, sb);
			n++;
		}
	}
	json_array_end(&w);
	if (sb) {
		json_key(&w, "cursor");
		json_str(&w, cursor);
	}
	json_object_end(&w);
	exchange_reply_json(x, 200, &w);
	json_writer_close(&w);
}

/* One who wants to know what they use, in the exchange's arena. */
struct asking {
	struct exchange *x;
	struct survey_wait wait;
};

static void on_surveyed(struct survey_wait *wait)
{
	struct asking *asking = container_of(wait, struct asking, wait);

	exchange_on_gone(asking->x, NULL, NULL);
	list(asking->x);
}

static void on_gone(void *arg)
{
	struct asking *asking = arg;

	survey_cancel(&asking->wait);
	exchange_reply_gone(asking->x);
}

void handle_sandbox_list(struct exchange *x)
{
	struct berthd *b = server_arg(exchange_server(x));
	struct asking *asking = arena_alloc(exchange_arena(x), sizeof(*asking));
	bool usage_wanted = false;
	struct err err;

	if (handle_query_flag(x, "usage", &usage_wanted, &err) < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	if (!asking) {
		exchange_reply_no_memory(x);
		return;
	}
	*asking = (struct asking){.x = x, .wait.done = on_surveyed};
	if (usage_wanted && survey_begin(registry_survey(b->registry), true, &asking->wait) == 0)
		exchange_on_gone(x, on_gone, asking);
	else
		list(x);
}
