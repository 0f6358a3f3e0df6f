#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cmd/berth-init/clock.h"
#include "cmd/berth-init/work_watch.h"

/*
 * Both halves of a move are put into the queue one right behind the other, but for what other
 * processes do in that moment. So the second comes within a few events or milliseconds, or never:
 * then it went to where nobody watches.
 */
#define PAIR_EVENTS 32
#define PAIR_MS     10

void queue_read(struct watcher *w)
{
	ssize_t n;

	if (w->queue_at) {
		memmove(w->queue, w->queue + w->queue_at, w->queue_len - w->queue_at);
		w->queue_len -= w->queue_at;
		w->queue_at = 0;
	}
	n = read(w->fd, w->queue + w->queue_len, sizeof(w->queue) - w->queue_len);
	if (n <= 0)
		return;
	w->queue_len += (size_t)n;
	w->read += (uint64_t)n;
}

static struct inotify_event *event_at(struct watcher *w, size_t at)
{
	return (struct inotify_event *)(w->queue + at);
}

static size_t size_of(const struct inotify_event *event)
{
	return sizeof(*event) + event->len;
}

/* The other half; or NULL, and whether it may still come. */
static struct inotify_event *find_pair(struct watcher *w, const struct inotify_event *from,
				       bool *ret_waits)
{
	size_t at = w->queue_at + size_of(from);
	uint64_t now = clock_ms();
	unsigned count = 0;

	*ret_waits = false;
	for (; at < w->queue_len && count < PAIR_EVENTS; count++) {
		struct inotify_event *event = event_at(w, at);

		if (event->mask & IN_MOVED_TO && event->cookie == from->cookie)
			return event;
		at += size_of(event);
	}
	if (w->wait_cookie != from->cookie || !w->wait_ms) {
		w->wait_cookie = from->cookie;
		w->wait_ms = now + PAIR_MS;
	}
	*ret_waits = count < PAIR_EVENTS && now < w->wait_ms;
	return NULL;
}

/* Nodes change under these loops: one that is gone, or another by now, has another number. */
static bool is_still(const struct watcher *w, uint32_t node, int wd)
{
	return w->nodes[node].sub && w->nodes[node].wd == wd;
}

static void run_move(struct watcher *w, const struct inotify_event *from, struct inotify_event *to)
{
	uint32_t sources[WATCH_SAME_MAX], targets[WATCH_SAME_MAX];
	size_t sources_len = tree_find(w, from->wd, sources);
	size_t targets_len = to ? tree_find(w, to->wd, targets) : 0;
	struct event_move move = {.from_name = from->name,
				  .to_name = to ? to->name : NULL,
				  .is_directory = from->mask & IN_ISDIR};
	bool was_written = calm_leave(w, from->wd, from->name);

	if (to)
		calm_drop(w, to->wd, to->name);
	if (to && was_written)
		calm_created(w, to->wd, to->name);
	for (size_t i = 0; i < targets_len; i++) {
		if (!is_still(w, targets[i], to->wd))
			continue;
		move.to = targets[i];
		move.from = 0;
		for (size_t k = 0; k < sources_len && !move.from; k++) {
			if (sources[k] && is_still(w, sources[k], from->wd) &&
			    w->nodes[sources[k]].sub == w->nodes[move.to].sub) {
				move.from = sources[k];
				sources[k] = 0;
			}
		}
		event_moved(w, &move);
	}
	move.to = 0;
	for (size_t k = 0; k < sources_len; k++) {
		move.from = sources[k];
		if (move.from && is_still(w, move.from, from->wd))
			event_moved(w, &move);
	}
	if (to)
		to->mask = 0; /* done */
}

static void run_nodes(struct watcher *w, const struct inotify_event *event)
{
	uint32_t nodes[WATCH_SAME_MAX];
	size_t count = tree_find(w, event->wd, nodes);

	for (size_t i = 0; i < count; i++) {
		struct event_move came = {.to = nodes[i],
					  .to_name = event->name,
					  .is_directory = event->mask & IN_ISDIR};

		if (!is_still(w, nodes[i], event->wd))
			continue;
		if (event->mask & IN_CREATE)
			event_created(w, nodes[i], event);
		else if (event->mask & IN_DELETE)
			event_deleted(w, nodes[i], event);
		else if (event->mask & IN_MOVED_TO)
			event_moved(w, &came);
		else
			event_self(w, nodes[i], event->mask);
	}
}

static void run_event(struct watcher *w, const struct inotify_event *event)
{
	bool is_file = event->len && !(event->mask & IN_ISDIR);

	if (event->mask & IN_Q_OVERFLOW) {
		watch_lose(w);
		return;
	}
	if (event->mask & IN_IGNORED) {
		tree_forget_wd(w, event->wd);
		return;
	}
	if (event->mask & IN_MODIFY && is_file)
		calm_modified(w, event->wd, event->name);
	if (event->mask & IN_CLOSE_WRITE && is_file)
		calm_closed(w, event->wd, event->name);
	if (event->mask & (IN_DELETE | IN_MOVED_TO) && is_file)
		calm_drop(w, event->wd, event->name);
	if (event->mask & IN_CREATE && is_file)
		calm_created(w, event->wd, event->name);
	if (event->mask & ~(uint32_t)(IN_MODIFY | IN_CLOSE_WRITE | IN_ISDIR))
		run_nodes(w, event);
}

void queue_run(struct watcher *w)
{
	while (w->queue_at < w->queue_len && !w->is_broken) {
		struct inotify_event *event = event_at(w, w->queue_at), *to;
		bool waits;

		w->position = w->read - (w->queue_len - w->queue_at);
		if (event->mask & IN_MOVED_FROM) {
			to = find_pair(w, event, &waits);
			if (!to && waits)
				return;
			w->wait_ms = 0;
			run_move(w, event, to);
		} else if (event->mask) {
			run_event(w, event);
		}
		w->queue_at += size_of(event);
	}
}

uint64_t queue_wait(const struct watcher *w)
{
	return w->queue_at < w->queue_len ? w->wait_ms : 0;
}
