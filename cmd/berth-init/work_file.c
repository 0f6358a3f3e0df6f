#include "cmd/berth-init/work_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/work.h"
#include "cmd/berth-init/work_path.h"

#define SYSFS_TYPE   0x62656572 /* SYSFS_MAGIC */
#define DEFAULT_MODE 0644

static int check_regular(const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return -EISDIR;
	return S_ISREG(st->st_mode) ? 0 : -EOPNOTSUPP;
}

/* Looked at before it is opened, which does things to a device; and again, for it may change. */
int file_open(const char *path, struct stat *ret_st, int *ret_fd)
{
	cleanup_fd int seen = path_open(AT_FDCWD, path, O_PATH, 0);
	cleanup_fd int fd = -1;
	int error;

	if (seen < 0)
		return seen;
	if (fstat(seen, ret_st) < 0)
		return -errno;
	error = check_regular(ret_st);
	if (error < 0)
		return error;
	fd = path_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, ret_st) < 0)
		return -errno;
	error = check_regular(ret_st);
	if (error == 0)
		*ret_fd = take_fd(&fd);
	return error;
}

/* Of these file systems a size says nothing: 1. */
int file_has_no_size(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return -errno;
	return fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_TYPE ||
	       fs.f_type == CGROUP2_SUPER_MAGIC || fs.f_type == CGROUP_SUPER_MAGIC;
}

static ssize_t read_text(struct work *w, int fd)
{
	size_t used = 0;

	while (used < sizeof(w->text)) {
		ssize_t n = read(fd, w->text + used, sizeof(w->text) - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return (ssize_t)used;
		used += (size_t)n;
	}
	return -EFBIG;
}

/* What of it is wanted. -ECANCELED: nothing. */
static int await_go(struct work *w, struct file_data *ret_data, off_t *ret_offset)
{
	uint64_t size = w->result.stat.size;
	struct file_go go;
	int r = work_tell(w);

	if (r == 0)
		r = work_expect(w, FILE_GO, file_go_fields, &go);
	if (r <= 0)
		return r < 0 ? r : -ECANCELED;
	if (go.offset > size)
		go.offset = size;
	ret_data->size = go.length < size - go.offset ? go.length : size - go.offset;
	*ret_offset = (off_t)go.offset;
	return stream_put(&w->stream, FILE_DATA, file_data_fields, ret_data);
}

int work_read(struct work *w)
{
	cleanup_fd int fd = -1;
	struct file_data data;
	struct stat st = {0};
	ssize_t text = 0;
	off_t offset;
	int error = file_open(w->path, &st, &fd);
	bool is_text;

	work_set_stat(&w->result.stat, &st);
	if (error < 0)
		return work_at(w, FILE_AT_PATH, error);
	error = file_has_no_size(fd);
	is_text = error > 0;
	if (is_text)
		text = read_text(w, fd);
	if (error < 0 || text < 0)
		return work_at(w, FILE_AT_DATA, error < 0 ? error : (int)text);
	if (is_text)
		w->result.stat.size = (uint64_t)text;
	error = await_go(w, &data, &offset);
	if (error == 0 && is_text)
		error = stream_put_bytes(&w->stream, w->text + offset, (size_t)data.size);
	else if (error == 0)
		error = stream_put_file(&w->stream, fd, &offset, &data.size);
	if (error == -ECANCELED)
		return 0;
	/* The size was promised: a file that became shorter can only be cut. */
	if (error == 0 && !is_text && data.size)
		error = -ENODATA;
	if (stream_flush(&w->stream) < 0)
		error = -EPIPE;
	return error < 0 ? -EPIPE : 0;
}

/* What is to be replaced: `is_new` if nothing, else a regular file that the user may write. */
int file_check_target(const struct place *place, struct stat *ret_st)
{
	int error = place_stat(place, ret_st);

	if (error == -ENOENT)
		return 1;
	if (error == 0)
		error = check_regular(ret_st);
	if (error == 0 && faccessat(place->fd, place->name, W_OK, AT_EACCESS) < 0)
		error = -errno;
	return error;
}

/* Until END. -EPIPE without it. */
static int receive_data(struct work *w, int fd)
{
	struct stream *s = &w->stream;
	struct frame_head head;
	struct file_data data;
	struct file_end end;
	struct str message;
	int r;

	for (;;) {
		r = stream_next(s, &head, &message);
		if (r <= 0)
			return -EPIPE;
		if (head.type == FILE_END)
			return frame_decode(message, file_end_fields, &end) < 0 ? -EPIPE : 0;
		if (head.type != FILE_DATA || frame_decode(message, file_data_fields, &data) < 0)
			return -EPIPE;
		r = stream_read_into(s, fd, data.size);
		if (r < 0)
			return r;
	}
}

int work_write(struct work *w)
{
	cleanup_place struct place place = {.fd = -1};
	cleanup_temp struct temp temp = {.fd = -1};
	struct stat st = {0};
	mode_t mode = DEFAULT_MODE;
	int r = place_find_target(w->path, &place);

	if (r < 0)
		return work_at(w, place.fd < 0 && r != -EISDIR ? FILE_AT_PARENT : FILE_AT_PATH, r);
	r = file_check_target(&place, &st);
	if (r <= 0)
		work_set_stat(&w->result.stat, &st);
	if (r == 0)
		mode = st.st_mode & 0777; /* as a write by its user would leave it */
	w->result.is_new = r > 0;
	if (w->request.flags & FILE_HAS_MODE)
		mode = w->request.mode;
	if (r >= 0)
		r = temp_open(&temp, place.fd);
	if (r < 0)
		return work_at(w, FILE_AT_PATH, r);
	r = work_tell(w);
	if (r == 0)
		r = receive_data(w, temp.fd);
	if (r == 0 && fchmod(temp.fd, mode) < 0)
		r = -errno;
	if (r < 0)
		return work_at(w, FILE_AT_DATA, r);
	r = temp_place(&temp, place.name);
	if (r == 0 && fstat(temp.fd, &st) < 0)
		r = -errno;
	work_set_stat(&w->result.stat, &st);
	return r < 0 ? work_at(w, FILE_AT_PATH, r) : 0;
}
