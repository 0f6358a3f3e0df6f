/* What a sandbox uses: GET .../stats, and GET of the sandbox itself. Neither wakes it. */
#include <errno.h>

#include "base/cleanup.h"
#include "daemon/berthd.h"
#include "daemon/context.h"
#include "daemon/handle_process.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/usage.h"
#include "daemon/vigil.h"

/* In the exchange's arena. */
struct look {
	struct exchange *x;
	struct registry *registry;
	struct sandbox_id id;
	struct usage_wait measure, count;
	unsigned waits;
	void (*reply)(struct exchange *x, struct sandbox *sb);
};

static void end(struct look *look)
{
	exchange_on_gone(look->x, NULL, NULL);
	usage_cancel(&look->measure);
	usage_cancel(&look->count);
}

static void on_gone(void *arg)
{
	struct look *look = arg;

	end(look);
	exchange_reply_gone(look->x);
}

static void settle(struct look *look, const struct err *err)
{
	struct sandbox *sb = registry_find(look->registry, &look->id);
	struct err gone;

	if (!err && look->waits)
		return;
	end(look);
	if (!err && !sb) {
		err_set(&gone, -ENOENT, ERR_NOT_FOUND, "there is no sandbox \"%s\"", look->id.text);
		err = &gone;
	}
	if (err)
		exchange_reply_err(look->x, err);
	else
		look->reply(look->x, sb);
}

static void on_measured(struct usage_wait *wait, const struct err *err)
{
	struct look *look = container_of(wait, struct look, measure);

	look->waits--;
	settle(look, err);
}

static void on_counted(struct usage_wait *wait, const struct err *err)
{
	struct look *look = container_of(wait, struct look, count);

	look->waits--;
	settle(look, err);
}

static void look_at(struct exchange *x, bool disk_wanted,
		    void (*reply)(struct exchange *x, struct sandbox *sb))
{
	struct look *look = arena_alloc(exchange_arena(x), sizeof(*look));
	struct berthd *b = server_arg(exchange_server(x));
	struct sandbox *sb;
	struct err err;

	if (handle_find(x, false, &sb, &err) < 0) {
		exchange_reply_err(x, &err);
		return;
	}
	if (!look) {
		exchange_reply_no_memory(x);
		return;
	}
	*look = (struct look){.x = x, .registry = b->registry, .id = sb->id, .reply = reply};
	look->measure.done = on_measured;
	look->count.done = on_counted;
	list_init(&look->count.link);
	exchange_on_gone(x, on_gone, look);
	vigil_look(sb);
	look->waits = usage_measure(sb, &look->measure) == 0;
	if (disk_wanted)
		look->waits += usage_count_disk(sb, &look->count) == 0;
	settle(look, NULL);
}

static void reply_sandbox(struct exchange *x, struct sandbox *sb)
{
	handle_reply_sandbox(x, 200, sb);
}

void handle_sandbox_get(struct exchange *x)
{
	look_at(x, false, reply_sandbox);
}

static void write_contexts(struct json_writer *w, struct sandbox *sb)
{
	struct context *c = NULL;

	json_key(w, "contexts");
	json_array(w);
	while ((c = context_next(sb, c))) {
		struct context_view view = context_view(c);
		int64_t bytes = context_memory(c);

		if (!view.is_listed)
			continue;
		json_object(w);
		json_key(w, "id");
		json_str(w, view.id);
		json_key(w, "language");
		json_text(w, kernel_language_name(view.language));
		json_key(w, "memory_bytes");
		if (bytes < 0)
			json_null(w);
		else
			json_int(w, bytes);
		json_object_end(w);
	}
	json_array_end(w);
}

static void reply_stats(struct exchange *x, struct sandbox *sb)
{
	struct json_writer w;

	handle_generation(x, sb);
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "id");
	json_text(&w, sb->id.text);
	json_key(&w, "state");
	json_text(&w, sandbox_state_name(sb));
	json_key(&w, "generation");
	json_int(&w, (int64_t)sb->generation);
	usage_write(sb, &w);
	settings_write_limits(&sb->settings, &w);
	write_contexts(&w, sb);
	json_object_end(&w);
	exchange_reply_json(x, 200, &w);
	json_writer_close(&w);
}

void handle_sandbox_stats(struct exchange *x)
{
	bool disk_wanted = false;
	struct err err;

	if (handle_query_flag(x, "disk", &disk_wanted, &err) < 0)
		exchange_reply_err(x, &err);
	else
		look_at(x, disk_wanted, reply_stats);
}
