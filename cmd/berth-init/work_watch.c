#include "cmd/berth-init/work_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/clock.h"
#include "cmd/berth-init/work_path.h"

#define AGAIN_MS 250 /* between an overflow and the next look at everything, at least */

/* --- what berthd is told --- */

static void put(struct watcher *w, enum watch_frame type, const struct frame_field *fields,
		const void *value)
{
	if (stream_put(&w->work->stream, (uint16_t)type, fields, value) < 0)
		w->is_broken = true;
}

void watch_tell(struct watcher *w, const struct watch_event *event)
{
	put(w, WATCH_EVENT, watch_event_fields, event);
}

static void sub_close(struct watcher *w, struct watch_sub *sub)
{
	if (sub->root)
		tree_remove(w, sub->root);
	sub->root = 0;
	sub->is_used = false;
}

static void end(struct watcher *w, struct watch_sub *sub, enum watch_why why, int error)
{
	struct watch_gone gone = {sub->number, why, (uint32_t)-error};

	if (!sub->is_used)
		return;
	put(w, WATCH_GONE, watch_gone_fields, &gone);
	sub_close(w, sub);
}

void watch_gone(struct watcher *w, struct watch_sub *sub, enum watch_why why)
{
	end(w, sub, why, 0);
}

void watch_fail(struct watcher *w, struct watch_sub *sub, int error)
{
	end(w, sub, WATCH_FAILED, error);
}

/* --- what it asks for --- */

static int copy_patterns(char to[FILE_PATTERNS_MAX], struct str from, struct str *ret)
{
	if (frame_list_count(from) < 0)
		return -EINVAL;
	if (from.len)
		memcpy(to, from.at, from.len);
	*ret = (struct str){to, from.len};
	return 0;
}

static int take_add(struct watch_sub *sub, const struct watch_add *add)
{
	int error;

	if (add->path.len >= FILE_PATH_MAX)
		return -ENAMETOOLONG;
	if (!add->path.len || add->path.at[0] != '/' || memchr(add->path.at, '\0', add->path.len))
		return -EINVAL;
	memcpy(sub->path, add->path.at, add->path.len);
	sub->path[add->path.len] = '\0';
	sub->only[0] = '\0';
	sub->is_recursive = add->flags & FILE_RECURSIVE;
	error = copy_patterns(sub->patterns[0], add->include, &sub->include);
	return error < 0 ? error : copy_patterns(sub->patterns[1], add->exclude, &sub->exclude);
}

/* The directory to be watched: itself, or that of a file. */
static int open_target(struct watch_sub *sub)
{
	cleanup_fd int fd = path_open(AT_FDCWD, sub->path, O_PATH, 0);
	cleanup_place struct place place = {.fd = -1};
	struct stat st;
	int error;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return path_open(fd, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
	error = place_find_target(sub->path, &place);
	if (error < 0)
		return error;
	memcpy(sub->only, place.name, sizeof(sub->only));
	sub->has_target = true;
	sub->is_recursive = false;
	return path_open(place.fd, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
}

static int begin(struct watcher *w, struct watch_sub *sub, const struct watch_add *add)
{
	int error = take_add(sub, add), fd;
	struct stat st;

	if (error < 0)
		return error;
	sub->since = watch_position(w);
	fd = open_target(sub);
	if (fd < 0)
		return fd;
	sub->root = tree_new(w, sub, 0, "");
	if (!sub->root || fstat(fd, &st) < 0) {
		close(fd);
		return sub->root ? -errno : -ENOSPC;
	}
	sub->dev = st.st_dev;
	sub->ino = st.st_ino;
	return watch_cover(w, sub->root, fd, false);
}

static void add(struct watcher *w, const struct watch_add *add)
{
	struct watch_ready ready = {.watch = add->watch};
	struct watch_sub *sub = w->subs;
	int error = -EAGAIN;

	while (sub < w->subs + WATCH_SUBS_MAX && sub->is_used)
		sub++;
	if (sub < w->subs + WATCH_SUBS_MAX) {
		sub->is_used = true;
		sub->number = add->watch;
		sub->root = sub->count = 0;
		error = begin(w, sub, add);
		ready.directories = sub->count;
		if (error < 0)
			sub_close(w, sub);
	}
	ready.error = (uint32_t)-error;
	put(w, WATCH_READY, watch_ready_fields, &ready);
}

static void drop(struct watcher *w, uint32_t number)
{
	for (struct watch_sub *sub = w->subs; sub < w->subs + WATCH_SUBS_MAX; sub++) {
		if (sub->is_used && sub->number == number)
			sub_close(w, sub);
	}
}

/* All that was sent. */
static void take_frames(struct watcher *w)
{
	struct stream *stream = &w->work->stream;
	struct frame_head head;
	struct str message;
	union {
		struct watch_add add;
		struct watch_number number;
	} u;

	do {
		if (stream_next(stream, &head, &message) <= 0)
			w->is_broken = true; /* that was all */
		else if (head.type == WATCH_ADD && frame_decode(message, watch_add_fields, &u) == 0)
			add(w, &u.add);
		else if (head.type == WATCH_REMOVE &&
			 frame_decode(message, watch_number_fields, &u) == 0)
			drop(w, u.number.watch);
		else
			w->is_broken = true;
	} while (!w->is_broken && stream_has_more(stream));
}

/* --- after an overflow --- */

void watch_lose(struct watcher *w)
{
	uint64_t soon = clock_ms() + AGAIN_MS;

	if (!w->is_lost && w->again_ms < soon)
		w->again_ms = soon;
	w->is_lost = true;
}

static void sweep(struct watcher *w)
{
	for (uint32_t node = 1; node <= w->nodes_used; node++) {
		if (w->nodes[node].sub && w->nodes[node].stamp != w->stamp)
			tree_remove(w, node);
	}
}

static void look_again(struct watcher *w, struct watch_sub *sub)
{
	struct watch_number number = {sub->number};
	int fd, error;

	sub->since = watch_position(w); /* what is older is seen by looking */
	fd = watch_open_root(sub);
	error = fd < 0 ? fd : watch_cover(w, sub->root, fd, false);

	if (error == -ENOSPC || error == -ENOMEM || error == -EMFILE) {
		watch_fail(w, sub, error);
	} else if (error < 0) {
		watch_gone(w, sub, WATCH_REMOVED);
	} else {
		put(w, WATCH_OVERFLOW, watch_number_fields, &number);
	}
}

/* Watches are set where they are missing; only then berthd hears of it, so that whoever looks at
 * everything then misses nothing. */
static void find_again(struct watcher *w)
{
	uint64_t started_ms = clock_ms();

	w->is_lost = false;
	w->stamp++;
	for (struct watch_sub *sub = w->subs; sub < w->subs + WATCH_SUBS_MAX; sub++) {
		if (sub->is_used)
			look_again(w, sub);
	}
	sweep(w);
	/* However much there is, half of the time is for events. */
	w->again_ms = clock_ms() + AGAIN_MS + (clock_ms() - started_ms);
}

/* --- the loop --- */

static int timeout_of(const struct watcher *w)
{
	uint64_t times[] = {w->calm_due_ms, queue_wait(w), w->is_lost ? w->again_ms : 0};
	uint64_t now = clock_ms(), first = UINT64_MAX;

	for (size_t i = 0; i < array_len(times); i++) {
		if (times[i] && times[i] < first)
			first = times[i];
	}
	if (first == UINT64_MAX)
		return -1;
	return first > now ? (int)(first - now) : 0;
}

static void run(struct watcher *w)
{
	/* What came with the request. */
	if (stream_has_more(&w->work->stream))
		take_frames(w);
	if (stream_flush(&w->work->stream) < 0)
		return;
	while (!w->is_broken) {
		struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
				       {.fd = w->fd, .events = POLLIN}};

		if (poll(fds, array_len(fds), timeout_of(w)) < 0 && errno != EINTR)
			return;
		if (fds[1].revents)
			queue_read(w);
		queue_run(w);
		calm_run(w, clock_ms());
		if (w->is_lost && w->again_ms <= clock_ms())
			find_again(w);
		if (fds[0].revents)
			take_frames(w);
		if (stream_flush(&w->work->stream) < 0)
			return;
	}
}

int work_watch(struct work *work)
{
	struct watcher *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (w == MAP_FAILED)
		return work_at(work, FILE_AT_REQUEST, -ENOMEM);
	w->work = work;
	w->seed = WATCH_HASH_START;
	if (getrandom(&w->seed, sizeof(w->seed), GRND_NONBLOCK) < 0)
		w->seed ^= (uint64_t)(uintptr_t)w;
	for (size_t i = 0; i < WATCH_CALM_MAX; i++)
		w->calm[i].wd = -1;
	w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->fd < 0)
		return work_at(work, FILE_AT_REQUEST, -errno);
	if (work_tell(work) == 0)
		run(w);
	return -EPIPE;
}
