#include <string.h>

#include "cmd/berth-init/clock.h"
#include "cmd/berth-init/work_watch.h"

/* A file that is written again and again is told of so often. */
#define CALM_MS 100

static struct watch_calm *find(struct watcher *w, int wd, const char *name)
{
	for (size_t i = 0; i < WATCH_CALM_MAX; i++) {
		if (w->calm[i].wd == wd && strcmp(w->calm[i].name, name) == 0)
			return &w->calm[i];
	}
	return NULL;
}

static void tell(struct watcher *w, struct watch_calm *c, uint64_t now_ms)
{
	c->is_pending = false;
	c->is_told = true;
	c->since_ms = now_ms;
	event_modified(w, c->wd, c->name);
}

/* A free one, or the one that has been quiet longest; or the next that is due, told now. */
static struct watch_calm *make(struct watcher *w, int wd, const char *name)
{
	struct watch_calm *best = &w->calm[0];

	for (size_t i = 0; i < WATCH_CALM_MAX && best->wd >= 0; i++) {
		struct watch_calm *c = &w->calm[i];
		bool is_better = best->is_pending ? !c->is_pending || c->due_ms < best->due_ms
						  : !c->is_pending && c->since_ms < best->since_ms;

		if (c->wd < 0 || is_better)
			best = c;
	}
	if (best->wd >= 0 && best->is_pending)
		tell(w, best, 0);
	*best = (struct watch_calm){.wd = wd};
	memcpy(best->name, name, strnlen(name, NAME_MAX));
	return best;
}

static void wait_until(struct watcher *w, struct watch_calm *c, uint64_t due_ms)
{
	c->is_pending = true;
	c->due_ms = due_ms;
	if (!w->calm_due_ms || due_ms < w->calm_due_ms)
		w->calm_due_ms = due_ms;
}

void calm_created(struct watcher *w, int wd, const char *name)
{
	struct watch_calm *c = find(w, wd, name);

	if (!c)
		c = make(w, wd, name);
	c->is_pending = c->is_told = false;
	c->since_ms = clock_ms();
}

void calm_modified(struct watcher *w, int wd, const char *name)
{
	struct watch_calm *c = find(w, wd, name);

	if (!c)
		c = make(w, wd, name);
	if (!c->is_pending)
		wait_until(w, c, clock_ms() + CALM_MS);
}

void calm_closed(struct watcher *w, int wd, const char *name)
{
	struct watch_calm *c = find(w, wd, name);
	uint64_t now = clock_ms();
	bool is_recent = c && now - c->since_ms < CALM_MS;

	if (is_recent && !c->is_pending)
		return; /* nothing was written since */
	if (!c)
		c = make(w, wd, name);
	if (is_recent && c->is_told)
		wait_until(w, c, c->since_ms + CALM_MS);
	else
		tell(w, c, now);
}

bool calm_leave(struct watcher *w, int wd, const char *name)
{
	struct watch_calm *c = find(w, wd, name);

	if (!c)
		return false;
	if (c->is_pending)
		tell(w, c, 0);
	c->wd = -1;
	return true;
}

void calm_drop(struct watcher *w, int wd, const char *name)
{
	struct watch_calm *c = find(w, wd, name);

	if (c)
		c->wd = -1;
}

void calm_run(struct watcher *w, uint64_t now_ms)
{
	if (!w->calm_due_ms || w->calm_due_ms > now_ms)
		return;
	w->calm_due_ms = 0;
	for (size_t i = 0; i < WATCH_CALM_MAX; i++) {
		struct watch_calm *c = &w->calm[i];

		if (c->wd < 0)
			continue;
		if (c->is_pending && c->due_ms <= now_ms)
			tell(w, c, now_ms);
		else if (c->is_pending)
			wait_until(w, c, c->due_ms);
		else if (now_ms - c->since_ms >= CALM_MS)
			c->wd = -1;
	}
}
