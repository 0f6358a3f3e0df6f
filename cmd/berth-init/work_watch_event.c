#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth-init/work_match.h"
#include "cmd/berth-init/work_path.h"
#include "cmd/berth-init/work_watch.h"

#define SEEN_PROBES 8

/* --- what was told when a directory was read --- */

static struct watch_seen *seen_slot(struct watcher *w, uint64_t hash, unsigned probe)
{
	return &w->seen[(hash + probe) % WATCH_SEEN_SLOTS];
}

static void seen_put(struct watcher *w, uint32_t node, const char *name)
{
	uint64_t hash = watch_hash(w->seed, node, name), until = watch_position(w);
	struct watch_seen *slot = seen_slot(w, hash, 0);

	if (until <= w->position)
		return;
	for (unsigned i = 0; i < SEEN_PROBES; i++) {
		if (seen_slot(w, hash, i)->until <= w->position) {
			slot = seen_slot(w, hash, i);
			break;
		}
	}
	*slot = (struct watch_seen){hash, until};
}

/* True: the event that is being looked at is older than that. It counts once. */
static bool seen_take(struct watcher *w, uint32_t node, const char *name)
{
	uint64_t hash = watch_hash(w->seed, node, name);

	for (unsigned i = 0; i < SEEN_PROBES; i++) {
		struct watch_seen *slot = seen_slot(w, hash, i);

		if (slot->hash == hash && slot->until > w->position) {
			slot->until = 0;
			return true;
		}
	}
	return false;
}

/* --- what a watch is about --- */

bool event_is_excluded(const struct watch_sub *sub, const char *path, bool is_directory)
{
	return match_any(sub->exclude, path, is_directory);
}

static bool is_included(const struct watch_sub *sub, const char *path, bool is_directory)
{
	return !sub->include.len || match_any(sub->include, path, is_directory);
}

/* A name as a watch sees it. */
struct sight {
	bool is_there;    /* within what is watched */
	bool is_included; /* and to be told */
	char path[FILE_PATH_MAX + 1];
};

static void look(struct watcher *w, uint32_t node, const char *name, bool is_directory,
		 struct sight *ret)
{
	const struct watch_sub *sub;

	ret->is_there = ret->is_included = false;
	ret->path[0] = '\0';
	if (!node)
		return;
	sub = sub_of(w, node);
	if (w->position < sub->since)
		return;
	if (sub->only[0]) {
		ret->is_there = ret->is_included = strcmp(name, sub->only) == 0;
		return;
	}
	/* Files on their way to their place are Berth's affair until they are there. */
	if (temp_is_name(name))
		return;
	if (tree_path(w, node, name, ret->path) < 0 ||
	    event_is_excluded(sub, ret->path, is_directory))
		return;
	ret->is_there = true;
	ret->is_included = is_included(sub, ret->path, is_directory);
}

static void tell(struct watcher *w, uint32_t node, enum watch_kind kind, const char *path,
		 bool is_directory)
{
	watch_tell(w, &(struct watch_event){.watch = sub_of(w, node)->number,
					    .kind = kind,
					    .is_directory = is_directory,
					    .path = str_of(path)});
}

/* There is something of that name, new or instead of another. */
static void tell_created(struct watcher *w, uint32_t node, const char *path, bool is_directory)
{
	struct watch_sub *sub = sub_of(w, node);
	/* Only of a single file it is known what was there before. */
	bool is_replaced = sub->only[0] && sub->has_target;

	sub->has_target = true;
	tell(w, node, is_replaced ? WATCH_MODIFY : WATCH_CREATE, path, is_directory);
}

/* By one of Berth's own files: temp_place() renames over what is there, as far as it can know. */
static void tell_replaced(struct watcher *w, uint32_t node, const char *path)
{
	sub_of(w, node)->has_target = true;
	tell(w, node, WATCH_MODIFY, path, false);
}

static void tell_deleted(struct watcher *w, uint32_t node, const char *path, bool is_directory)
{
	sub_of(w, node)->has_target = false;
	tell(w, node, WATCH_DELETE, path, is_directory);
}

void event_found(struct watcher *w, uint32_t node, const char *name, bool is_directory)
{
	struct sight sight;

	seen_put(w, node, name);
	/* To be closed after that is no news. */
	if (!is_directory)
		calm_created(w, w->nodes[node].wd, name);
	look(w, node, name, is_directory, &sight);
	if (sight.is_included)
		tell_created(w, node, sight.path, is_directory);
}

/* --- what happened --- */

static void cover(struct watcher *w, uint32_t node, const char *name)
{
	struct watch_sub *sub = sub_of(w, node);
	int error = sub->is_recursive ? watch_cover_new(w, node, name) : 0;

	if (error < 0)
		watch_fail(w, sub, error);
}

void event_created(struct watcher *w, uint32_t node, const struct inotify_event *event)
{
	bool is_directory = event->mask & IN_ISDIR;
	struct sight sight;

	look(w, node, event->name, is_directory, &sight);
	if (!sight.is_there || seen_take(w, node, event->name))
		return;
	if (sight.is_included)
		tell_created(w, node, sight.path, is_directory);
	if (is_directory)
		cover(w, node, event->name);
}

void event_deleted(struct watcher *w, uint32_t node, const struct inotify_event *event)
{
	bool is_directory = event->mask & IN_ISDIR;
	uint32_t child = tree_child(w, node, event->name);
	struct sight sight;

	/* What has that name now was found later. */
	if (w->position < sub_of(w, node)->since)
		return;
	look(w, node, event->name, is_directory, &sight);
	seen_take(w, node, event->name);
	if (child)
		tree_remove(w, child);
	if (sight.is_included)
		tell_deleted(w, node, sight.path, is_directory);
}

/*
 * A directory that was read when things had moved on is in the tree with a place that it had not
 * yet at this event. Then the tree cannot follow it, and is looked at again.
 */
static bool can_follow(const struct watcher *w, const struct event_move *move, uint32_t node,
		       uint32_t replaced)
{
	return !(node && tree_is_within(w, move->to, node)) &&
	       !(replaced && replaced != node && tree_is_within(w, move->from, replaced));
}

/* A directory of a recursive watch has another place, or none: its node follows. */
static void follow(struct watcher *w, const struct event_move *move, bool is_wanted)
{
	uint32_t node = move->from ? tree_child(w, move->from, move->from_name) : 0;
	uint32_t replaced = move->to ? tree_child(w, move->to, move->to_name) : 0;
	struct watch_sub *sub = sub_of(w, move->to ? move->to : move->from);
	int error = 0;

	if (!can_follow(w, move, node, replaced)) {
		watch_lose(w);
		return;
	}
	if (replaced && replaced != node)
		tree_remove(w, replaced);
	if (node && !is_wanted) {
		tree_remove(w, node);
	} else if (node) {
		error = tree_move(w, node, move->to, move->to_name);
		if (error == 0)
			error = watch_check_moved(w, node, move->to_name);
		/* Exchanged, or made anew already: what has the old name now? */
		if (error == 0)
			error = watch_cover_found(w, move->from, move->from_name);
	} else if (is_wanted) {
		error = watch_cover_new(w, move->to, move->to_name);
	}
	if (error < 0)
		watch_fail(w, sub, error);
}

/* A move to where it was found already, when its directory was read: only the old name is news. */
static void leave(struct watcher *w, const struct event_move *move, const struct sight *from)
{
	uint32_t node = move->from ? tree_child(w, move->from, move->from_name) : 0;
	struct watch_sub *sub = sub_of(w, move->to);
	int error = 0;

	if (node)
		tree_remove(w, node);
	if (!from->is_there)
		return;
	if (from->is_included)
		tell_deleted(w, move->from, from->path, move->is_directory);
	if (move->is_directory && sub->is_recursive)
		error = watch_cover_found(w, move->from, move->from_name);
	if (error < 0)
		watch_fail(w, sub, error);
}

void event_moved(struct watcher *w, const struct event_move *move)
{
	struct watch_sub *sub = sub_of(w, move->to ? move->to : move->from);
	bool is_tree = move->is_directory && sub->is_recursive;
	struct sight from, to;

	look(w, move->from, move->from_name, move->is_directory, &from);
	look(w, move->to, move->to_name, move->is_directory, &to);
	if (from.is_there)
		seen_take(w, move->from, move->from_name);
	/* What is in a directory moves with it, and only its own move tells of that. */
	if (is_tree && from.is_there) {
		from.is_included = true;
		to.is_included = to.is_there;
	}
	if (to.is_there && seen_take(w, move->to, move->to_name)) {
		leave(w, move, &from);
		return;
	}
	if (from.is_included && to.is_included)
		watch_tell(w, &(struct watch_event){.watch = sub->number,
						    .kind = WATCH_MOVE,
						    .is_directory = move->is_directory,
						    .path = str_of(to.path),
						    .from = str_of(from.path)});
	else if (from.is_included)
		tell_deleted(w, move->from, from.path, move->is_directory);
	else if (to.is_included && !move->is_directory && move->from &&
		 temp_is_name(move->from_name))
		tell_replaced(w, move->to, to.path);
	else if (to.is_included)
		tell_created(w, move->to, to.path, move->is_directory);
	if (is_tree && (from.is_there || to.is_there))
		follow(w, move, to.is_there);
}

/*
 * A file that was opened without a name (O_TMPFILE) goes by "#" and its number in events. There may
 * be one that is really called so.
 */
static bool is_nameless(struct watch_sub *sub, const char *name, const char *path)
{
	cleanup_fd int fd = -1;
	struct stat st;

	if (sub->only[0] || name[0] != '#' || strspn(name + 1, "0123456789") != strlen(name + 1))
		return false;
	fd = watch_open_root(sub);
	return fd >= 0 && fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

void event_modified(struct watcher *w, int wd, const char *name)
{
	uint32_t nodes[WATCH_SAME_MAX];
	size_t count = tree_find(w, wd, nodes);
	struct sight sight;

	for (size_t i = 0; i < count; i++) {
		look(w, nodes[i], name, false, &sight);
		if (sight.is_included && !is_nameless(sub_of(w, nodes[i]), name, sight.path))
			tell(w, nodes[i], WATCH_MODIFY, sight.path, false);
	}
}

void event_self(struct watcher *w, uint32_t node, uint32_t mask)
{
	struct watch_sub *sub = sub_of(w, node);
	bool is_file = sub->only[0];

	if (node != sub->root) {
		/* Its parent tells of it; but of what was below a mount nobody does. */
		if (mask & IN_UNMOUNT)
			watch_lose(w);
		return;
	}
	if (w->position < sub->since)
		return;
	if (mask & IN_DELETE_SELF && (!is_file || sub->has_target))
		tell_deleted(w, node, "", !is_file);
	if (mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT))
		watch_gone(w, sub,
			   mask & IN_DELETE_SELF ? WATCH_REMOVED
			   : mask & IN_MOVE_SELF ? WATCH_MOVED
						 : WATCH_UNMOUNTED);
}
