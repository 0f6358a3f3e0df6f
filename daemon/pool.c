#include "daemon/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/capacity.h"
#include "daemon/config.h"
#include "daemon/handle_sandbox.h"
#include "daemon/registry.h"
#include "daemon/run_state.h"
#include "daemon/store_run.h"

#define LOOK_MS  1000 /* whether those that are warm still are, and others can be made */
#define AGAIN_MS 5000 /* after one that could not be made */

enum phase { STORING, STARTING, WARMING, WARM };

struct pooled {
	struct pool *pool;
	struct list link;
	struct sandbox_id id;
	enum phase phase;
	enum kernel_language language;
	char image[sizeof(((struct settings *)NULL)->image)];
	bool is_unwanted; /* it goes when it is stored */
	struct sandbox_wait use;
};

struct pool {
	struct runs *runs;
	struct list all;
	unsigned assigned;
	uint64_t taken;
	bool is_shut;
	uint64_t not_before_ms; /* by the loop's clock: one has failed */
	unsigned turn;          /* of kinds: one that fails is not the only one that is tried */
	uv_timer_t timer;
};

static const struct config *config_of(const struct pool *pool)
{
	return registry_daemon(pool->runs->registry);
}

/* --- the end of one --- */

static void discard(struct pooled *p)
{
	sandbox_cancel(&p->use);
	if (p->phase == STORING) {
		p->is_unwanted = true;
		return;
	}
	run_recover_left(p->pool->runs, &p->id);
	list_remove(&p->link);
	free(p);
}

static void fail(struct pooled *p, const char *why)
{
	struct pool *pool = p->pool;

	log_warn("sandbox=%s was to be kept warm, and cannot be: %s", p->id.text, why);
	pool->not_before_ms = uv_now(pool->timer.loop) + AGAIN_MS;
	pool->turn++;
	discard(p);
}

/* --- the beginning of one --- */

static void on_timer(uv_timer_t *timer);

static void look_in(struct pool *pool, uint64_t ms)
{
	if (!pool->runs->is_stopping)
		uv_timer_start(&pool->timer, on_timer, ms, 0);
}

/* Whoever calls this is in the middle of something: what follows is done on the loop. */
static void on_warm(void *arg, const struct err *err)
{
	look_in(arg, 0);
}

static void warm(struct pooled *p, struct sandbox *sb)
{
	struct context_settings settings = {.language = p->language, .is_quiet = true};
	struct err err;
	struct context *c = context_new(sb, &settings, &err);

	p->phase = WARMING;
	if (!c || context_warm(c, on_warm, p->pool, &err) < 0)
		fail(p, err.sentence);
}

static void on_running(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	struct pooled *p = container_of(wait, struct pooled, use);

	if (p->pool->runs->is_stopping)
		return;
	if (err)
		fail(p, err->sentence);
	else
		warm(p, sb);
}

static int make_settings(const struct pool *pool, const struct pooled *p, struct settings *ret,
			 struct err *err)
{
	char label[64];
	int n = snprintf(label, sizeof(label), SANDBOX_LABEL_POOL "=%s",
			 kernel_language_name(p->language));
	int r = run_sandbox_settings(ret, p->image, (struct str){label, (size_t)n});

	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "out of memory");
	ret->trust = config_of(pool)->run_trust;
	r = run_settle_limits(pool->runs, ret->trust, &ret->limits, err);
	ret->limits.output_bytes = 0; /* the run's to watch */
	if (r < 0)
		settings_close(ret);
	return r;
}

/* As sandbox_use(). */
static int start(struct pooled *p, struct err *err)
{
	struct settings settings;
	int r = make_settings(p->pool, p, &settings, err);

	return r < 0 ? r : run_sandbox_make(p->pool->runs, &p->id, &settings, &p->use, err);
}

static void on_stored(void *arg, int result, const struct err *err)
{
	struct pooled *p = arg;
	struct err why;

	if (p->pool->runs->is_stopping)
		return;
	p->phase = STARTING;
	if (p->is_unwanted)
		discard(p);
	else if (result < 0)
		fail(p, err->sentence);
	else if (start(p, &why) < 0)
		fail(p, why.sentence);
}

static void begin(struct pool *pool, const char *image, enum kernel_language language)
{
	struct pooled *p = calloc(1, sizeof(*p));

	if (!p)
		return;
	*p = (struct pooled){.pool = pool, .language = language, .use.done = on_running};
	snprintf(p->image, sizeof(p->image), "%s", image);
	list_init(&p->link);
	list_init(&p->use.link);
	if (run_make_id(&p->id) < 0 ||
	    store_run_pool(registry_store(pool->runs->registry), &p->id, on_stored, p) < 0) {
		free(p);
		return;
	}
	list_append(&pool->all, &p->link);
}

/* --- what is there, and what is missing --- */

static struct context *kernel_of(const struct pooled *p, struct sandbox **ret)
{
	struct sandbox *sb = registry_find(p->pool->runs->registry, &p->id);

	*ret = sb;
	if (!sb || sb->state != SANDBOX_RUNNING || sandbox_is_leaving(sb))
		return NULL;
	return context_quiet(sb, p->language);
}

static void look_at(struct pooled *p)
{
	struct sandbox *sb;
	struct context *c;
	const char *state;

	if (p->phase != WARMING && p->phase != WARM)
		return;
	c = kernel_of(p, &sb);
	state = c ? context_view(c).state : "absent";
	if (!sb || sandbox_is_leaving(sb))
		discard(p); /* somebody has deleted it, and nothing has failed */
	else if (strcmp(state, "ready") == 0)
		p->phase = WARM;
	else if (p->phase == WARM || strcmp(state, "absent") == 0)
		fail(p, "its interpreter has ended");
}

static unsigned count(const struct pool *pool, const char *image, enum kernel_language language)
{
	unsigned n = 0;

	list_for_each (node, &pool->all) {
		const struct pooled *p = list_entry(node, struct pooled, link);

		n += p->language == language && strcmp(p->image, image) == 0;
	}
	return n;
}

static bool is_making(const struct pool *pool)
{
	list_for_each (node, &pool->all) {
		if (list_entry(node, struct pooled, link)->phase != WARM)
			return true;
	}
	return false;
}

static void replenish(struct pool *pool)
{
	const struct pool_settings *wanted = &config_of(pool)->pool;
	unsigned kinds = wanted->images_len * KERNEL_LANGUAGE_COUNT;

	if (pool->is_shut || is_making(pool) || uv_now(pool->timer.loop) < pool->not_before_ms ||
	    !capacity_has_spare(registry_capacity(pool->runs->registry)))
		return;
	for (unsigned i = 0; i < kinds; i++) {
		unsigned kind = (pool->turn + i) % kinds;
		const char *image = wanted->images[kind / KERNEL_LANGUAGE_COUNT];
		unsigned language = kind % KERNEL_LANGUAGE_COUNT;

		if (wanted->languages & 1u << language &&
		    count(pool, image, language) < wanted->size) {
			begin(pool, image, language);
			return;
		}
	}
}

static void on_timer(uv_timer_t *timer)
{
	struct pool *pool = timer->data;

	if (pool->runs->is_stopping)
		return;
	look_in(pool, LOOK_MS);
	list_for_each_safe (node, &pool->all)
		look_at(list_entry(node, struct pooled, link));
	replenish(pool);
	if (!config_of(pool)->pool.size && list_is_empty(&pool->all))
		uv_timer_stop(timer);
}

/* --- for runs --- */

/* Files, their size and the disk are set when it starts; V8 reads its memory once. */
static bool fits(const struct settings *has, const struct settings *wanted,
		 enum kernel_language language)
{
	const struct settings_limits *a = &has->limits, *b = &wanted->limits;
	bool is_node = language == KERNEL_JAVASCRIPT || language == KERNEL_TYPESCRIPT;

	return strcmp(has->image, wanted->image) == 0 && has->trust == wanted->trust &&
	       a->files == b->files && a->file_size == b->file_size && a->inodes == b->inodes &&
	       a->disk_bytes == b->disk_bytes && (!is_node || a->memory_bytes == b->memory_bytes);
}

bool pool_take(struct pool *pool, enum kernel_language language, const struct settings *wanted,
	       struct sandbox_id *ret)
{
	list_for_each_safe (node, &pool->all) {
		struct pooled *p = list_entry(node, struct pooled, link);
		struct sandbox *sb;
		struct context *c;

		if (p->phase != WARM || p->language != language)
			continue;
		c = kernel_of(p, &sb);
		if (!c || strcmp(context_view(c).state, "ready") != 0 ||
		    !fits(&sb->settings, wanted, language))
			continue;
		*ret = p->id;
		list_remove(&p->link);
		free(p);
		pool->assigned++;
		pool->taken++;
		return true;
	}
	return false;
}

void pool_gone(struct pool *pool)
{
	pool->assigned--;
	look_in(pool, 0); /* not when it was taken: a start beside it would hold it up */
}

/* --- all of them --- */

static void discard_all(struct pool *pool)
{
	list_for_each_safe (node, &pool->all)
		discard(list_entry(node, struct pooled, link));
}

void pool_renew(struct pool *pool)
{
	discard_all(pool);
	look_in(pool, 0);
}

void pool_shut(struct pool *pool)
{
	pool->is_shut = true;
	discard_all(pool);
}

void pool_prime(struct pool *pool)
{
	pool->is_shut = false;
	pool->not_before_ms = 0;
	look_in(pool, 0);
}

struct pool_stats pool_stats(const struct pool *pool)
{
	struct pool_stats stats = {.assigned = pool->assigned, .total = pool->assigned};

	stats.taken = pool->taken;
	list_for_each (node, &pool->all) {
		const struct pooled *p = list_entry(node, struct pooled, link);

		stats.warm += p->phase == WARM;
		stats.total++;
	}
	return stats;
}

struct pool *pool_new(struct runs *runs)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->runs = runs;
	list_init(&pool->all);
	uv_timer_init(registry_loop(runs->registry), &pool->timer);
	pool->timer.data = pool;
	look_in(pool, 0);
	return pool;
}

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void pool_free(struct pool *pool)
{
	list_for_each_safe (node, &pool->all)
		free(list_entry(node, struct pooled, link));
	uv_close((uv_handle_t *)&pool->timer, on_closed);
}
