#include <errno.h>
#include <string.h>

#include "cmd/berth-init/work_watch.h"

/* --- names: in blocks of a few sizes, which are used again --- */

static const uint32_t class_sizes[WATCH_CLASSES] = {32, 64, 128, NAME_MAX + 1};

static unsigned class_of(const char *name)
{
	size_t size = strlen(name) + 1;
	unsigned kind = 0;

	while (class_sizes[kind] < size)
		kind++;
	return kind;
}

/* Its place; 0: there is no room. */
static uint32_t name_new(struct watcher *w, const char *name)
{
	unsigned kind = class_of(name);
	uint32_t at = w->names_free[kind];

	if (at) {
		memcpy(&w->names_free[kind], w->names + at, sizeof(uint32_t));
	} else {
		if (!w->names_used)
			w->names_used = class_sizes[0]; /* 0 is none */
		if (WATCH_NAMES_SIZE - w->names_used < class_sizes[kind])
			return 0;
		at = w->names_used;
		w->names_used += class_sizes[kind];
	}
	memcpy(w->names + at, name, strlen(name) + 1);
	return at;
}

static void name_free(struct watcher *w, uint32_t at)
{
	unsigned kind = class_of(w->names + at);

	memcpy(w->names + at, &w->names_free[kind], sizeof(uint32_t));
	w->names_free[kind] = at;
}

/* --- buckets --- */

static uint32_t wd_bucket(int wd)
{
	return (uint32_t)wd % WATCH_BUCKETS;
}

static uint32_t name_bucket(uint32_t parent, const char *name)
{
	return (uint32_t)(watch_hash(WATCH_HASH_START, parent, name) % WATCH_BUCKETS);
}

static void link_name(struct watcher *w, uint32_t node, uint32_t parent)
{
	struct watch_node *n = &w->nodes[node];
	uint32_t *bucket = &w->by_name[name_bucket(parent, w->names + n->name)];

	n->same_name = *bucket;
	*bucket = node;
	n->parent = parent;
	n->prev = 0;
	n->next = w->nodes[parent].child;
	if (n->next)
		w->nodes[n->next].prev = node;
	w->nodes[parent].child = node;
}

static void unlink_name(struct watcher *w, uint32_t node)
{
	struct watch_node *n = &w->nodes[node];
	uint32_t *at = &w->by_name[name_bucket(n->parent, w->names + n->name)];

	while (*at != node)
		at = &w->nodes[*at].same_name;
	*at = n->same_name;
	if (n->prev)
		w->nodes[n->prev].next = n->next;
	else
		w->nodes[n->parent].child = n->next;
	if (n->next)
		w->nodes[n->next].prev = n->prev;
}

/* True: no other node stands for that directory. */
static bool unlink_wd(struct watcher *w, uint32_t node)
{
	int wd = w->nodes[node].wd;
	uint32_t *at = &w->by_wd[wd_bucket(wd)], same;

	while (*at != node)
		at = &w->nodes[*at].same_wd;
	*at = w->nodes[node].same_wd;
	w->nodes[node].wd = -1;
	for (same = w->by_wd[wd_bucket(wd)]; same; same = w->nodes[same].same_wd) {
		if (w->nodes[same].wd == wd)
			return false;
	}
	return true;
}

static void drop_wd(struct watcher *w, uint32_t node)
{
	int wd = w->nodes[node].wd;

	if (wd >= 0 && unlink_wd(w, node))
		inotify_rm_watch(w->fd, wd); /* or it is gone already */
}

/* --- nodes --- */

uint32_t tree_new(struct watcher *w, struct watch_sub *sub, uint32_t parent, const char *name)
{
	uint32_t node = w->nodes_free, at = 0;

	if (!node && w->nodes_used == WATCH_NODES_MAX)
		return 0;
	if (parent) {
		at = name_new(w, name);
		if (!at)
			return 0;
	}
	if (node)
		w->nodes_free = w->nodes[node].next;
	else
		node = ++w->nodes_used;
	w->nodes[node] = (struct watch_node){
		.wd = -1, .name = at, .stamp = w->stamp, .sub = (uint32_t)(sub - w->subs) + 1};
	if (parent)
		link_name(w, node, parent);
	sub->count++;
	return node;
}

uint32_t tree_child(const struct watcher *w, uint32_t parent, const char *name)
{
	uint32_t node = w->by_name[name_bucket(parent, name)];

	while (node && (w->nodes[node].parent != parent ||
			strcmp(w->names + w->nodes[node].name, name) != 0))
		node = w->nodes[node].same_name;
	return node;
}

int tree_set_wd(struct watcher *w, uint32_t node, int wd)
{
	uint32_t *bucket = &w->by_wd[wd_bucket(wd)];

	if (w->nodes[node].wd == wd)
		return 1;
	drop_wd(w, node);
	w->nodes[node].wd = wd;
	w->nodes[node].same_wd = *bucket;
	*bucket = node;
	return 0;
}

void tree_forget_wd(struct watcher *w, int wd)
{
	uint32_t nodes[WATCH_SAME_MAX];
	size_t count = tree_find(w, wd, nodes);

	while (count)
		unlink_wd(w, nodes[--count]);
}

size_t tree_find(const struct watcher *w, int wd, uint32_t ret[WATCH_SAME_MAX])
{
	uint32_t node = w->by_wd[wd_bucket(wd)];
	size_t count = 0;

	for (; node && count < WATCH_SAME_MAX; node = w->nodes[node].same_wd) {
		if (w->nodes[node].wd == wd)
			ret[count++] = node;
	}
	return count;
}

/* One that has nothing below it. */
static void drop(struct watcher *w, uint32_t node)
{
	struct watch_node *n = &w->nodes[node];

	drop_wd(w, node);
	sub_of(w, node)->count--;
	if (n->parent) {
		unlink_name(w, node);
		name_free(w, n->name);
	}
	*n = (struct watch_node){.wd = -1, .next = w->nodes_free};
	w->nodes_free = node;
}

void tree_clear(struct watcher *w, uint32_t node)
{
	uint32_t at = node;

	for (;;) {
		uint32_t parent;

		while (w->nodes[at].child)
			at = w->nodes[at].child;
		if (at == node)
			return;
		parent = w->nodes[at].parent;
		drop(w, at);
		at = parent;
	}
}

void tree_remove(struct watcher *w, uint32_t node)
{
	tree_clear(w, node);
	drop(w, node);
}

bool tree_is_within(const struct watcher *w, uint32_t node, uint32_t above)
{
	while (node && node != above)
		node = w->nodes[node].parent;
	return node == above;
}

int tree_move(struct watcher *w, uint32_t node, uint32_t parent, const char *name)
{
	uint32_t at = name_new(w, name);

	if (!at)
		return -ENOSPC;
	unlink_name(w, node);
	name_free(w, w->nodes[node].name);
	w->nodes[node].name = at;
	link_name(w, node, parent);
	return 0;
}

int tree_path(const struct watcher *w, uint32_t node, const char *name, char ret[FILE_PATH_MAX + 1])
{
	char path[FILE_PATH_MAX];
	size_t at = sizeof(path), len = strlen(name);

	/* From its end to its beginning. */
	for (;;) {
		if (len + 1 > at)
			return -ENAMETOOLONG;
		at -= len;
		memcpy(path + at, name, len);
		if (!w->nodes[node].parent)
			break;
		path[--at] = '/';
		name = w->names + w->nodes[node].name;
		len = strlen(name);
		node = w->nodes[node].parent;
	}
	memcpy(ret, path + at, sizeof(path) - at);
	ret[sizeof(path) - at] = '\0';
	return (int)(sizeof(path) - at);
}
