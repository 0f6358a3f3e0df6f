#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/work.h"
#include "cmd/berth-init/work_path.h"

int work_stat(struct work *w)
{
	bool is_followed = !(w->request.flags & FILE_NO_FOLLOW);
	cleanup_fd int fd =
		path_open(AT_FDCWD, w->path, O_PATH | (is_followed ? 0 : O_NOFOLLOW), 0);
	struct stat st;
	ssize_t len;

	if (fd < 0)
		return work_at(w, FILE_AT_PATH, fd);
	if (fstat(fd, &st) < 0)
		return work_at(w, FILE_AT_PATH, -errno);
	work_set_stat(&w->result.stat, &st);
	if (!S_ISLNK(st.st_mode))
		return 0;
	len = readlinkat(fd, "", w->where, FILE_PATH_MAX);
	if (len < 0)
		return work_at(w, FILE_AT_PATH, -errno);
	w->result.where = (struct str){w->where, (size_t)len};
	return 0;
}

static int put_entry(struct work *w)
{
	const struct walk *walk = &w->walk;
	struct file_entry entry = {0};
	char name[FILE_PATH_MAX + 1], link[FILE_PATH_MAX];
	int len = walk_path(walk, name, sizeof(name));

	if (len < 0)
		return len;
	entry.name = (struct str){name, (size_t)len};
	work_set_stat(&entry.stat, &walk->st);
	if (S_ISLNK(walk->st.st_mode)) {
		ssize_t size = readlinkat(walk->at.fd, walk->name, link, sizeof(link));

		if (size > 0) /* else it is gone, or another by now */
			entry.link = (struct str){link, (size_t)size};
	}
	w->result.count++;
	return stream_put(&w->stream, FILE_ENTRY, file_entry_fields, &entry);
}

static int list_tree(struct work *w)
{
	struct walk *walk = &w->walk;
	uint32_t limit = w->request.limit ? w->request.limit : FILE_LIST_MAX;
	int r;

	walk->cursor = w->request.cursor;
	walk->no_hidden = !(w->request.flags & FILE_HIDDEN);
	walk->is_flat = !(w->request.flags & FILE_RECURSIVE);
	walk->max = limit + 1;
	for (;;) {
		r = walk_next(walk);
		/* What the user may not see into is an entry like others. */
		if (r == -EACCES && !walk->is_lost)
			continue;
		if (r <= 0)
			return r;
		if (r != WALK_ENTRY)
			continue;
		if (w->result.count == limit) {
			w->result.has_more = 1;
			return 0;
		}
		r = put_entry(w);
		if (r < 0)
			return r;
	}
}

int work_list(struct work *w)
{
	int fd = path_open(AT_FDCWD, w->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
	struct stat st;
	int error;

	if (fd < 0)
		return work_at(w, FILE_AT_PATH, fd);
	if (memchr(w->request.cursor.at, '\0', w->request.cursor.len))
		return work_at(w, FILE_AT_REQUEST, -EINVAL);
	error = walk_init(&w->walk, fd);
	if (error == 0 && fstat(fd, &st) < 0)
		error = -errno;
	if (error < 0)
		return work_at(w, FILE_AT_PATH, error);
	work_set_stat(&w->result.stat, &st);
	error = list_tree(w);
	return error < 0 && error != -EPIPE ? work_at_entry(w, error) : error;
}
