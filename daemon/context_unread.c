/*
 * Reports that are not complete yet: how much of them is held. They are the word of code that
 * nobody trusts, so whoever holds the most has to give way, and never the one that says a little
 * more when there is no room.
 */
#include <string.h>

#include "base/cleanup.h"
#include "daemon/context_state.h"
#include "daemon/counts.h"
#include "daemon/registry.h"

/* As memory: in all contexts of a sandbox, and in all there are. Short ones are no matter of
 * others: each has that much for itself. */
#define UNREAD_MAX     ((size_t)3 * KERNEL_LINE_MAX)
#define UNREAD_ALL_MAX (4 * UNREAD_MAX)
#define UNREAD_SHORT   ((size_t)64 * 1024)

#define LATE_MS 5000 /* the longest line of a kernel that goes on writing comes in less */

bool kernel_is_heard(const struct kernel *k)
{
	return k->context && k->context->kernel == k && !k->is_over;
}

static uint64_t now_of(const struct kernel *k)
{
	return uv_now(registry_loop(k->sb->registry));
}

static void count(struct kernel *k)
{
	struct counts *counts = registry_counts(k->sb->registry);

	k->sb->unread_bytes += k->line.size - k->unread;
	counts->unread_bytes += k->line.size - k->unread;
	k->unread = k->line.size;
}

int kernel_keep_line(struct kernel *k, struct str bytes)
{
	int r;

	if (!buf_len(&k->line))
		k->line_since_ms = now_of(k);
	r = buf_append_str(&k->line, bytes);
	count(k);
	return r;
}

struct buf kernel_take_line(struct kernel *k)
{
	struct buf line = k->line;

	buf_init(&k->line, line.limit);
	count(k);
	return line;
}

void kernel_drop_line(struct kernel *k)
{
	buf_close(&k->line);
	count(k);
}

/*
 * Many that hold a little each, and never end it, must not be the end of one that has much to say:
 * a line that should have come by now goes first.
 */
static bool is_greedier(const struct kernel *a, const struct kernel *b)
{
	uint64_t now = now_of(a);
	bool is_a_late = now - a->line_since_ms > LATE_MS;
	bool is_b_late = now - b->line_since_ms > LATE_MS;

	if (is_a_late != is_b_late)
		return is_a_late;
	if (a->sb->unread_bytes != b->sb->unread_bytes)
		return a->sb->unread_bytes > b->sb->unread_bytes;
	if (a->unread != b->unread)
		return a->unread > b->unread;
	return a->line_since_ms < b->line_since_ms;
}

static struct kernel *greediest_of(const struct sandbox *sb, struct kernel *best)
{
	list_for_each (node, &sb->kernels) {
		struct kernel *k = list_entry(node, struct kernel, link);

		if (k->unread > UNREAD_SHORT && kernel_is_heard(k) &&
		    (!best || is_greedier(k, best)))
			best = k;
	}
	return best;
}

struct kernel *kernel_find_greedy(const struct kernel *k)
{
	struct registry *registry = k->sb->registry;
	struct kernel *best = NULL;
	struct sandbox *sb;
	const char *at = "";

	if (k->sb->unread_bytes > UNREAD_MAX)
		return greediest_of(k->sb, NULL);
	if (k->unread <= UNREAD_SHORT || registry_counts(registry)->unread_bytes <= UNREAD_ALL_MAX)
		return NULL;
	for (; (sb = registry_next(registry, at)); at = sb->id.text)
		best = greediest_of(sb, best);
	return best;
}
