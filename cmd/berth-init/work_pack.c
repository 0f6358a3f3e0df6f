#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/work.h"
#include "cmd/berth-init/work_file.h"
#include "cmd/berth-init/work_links.h"
#include "cmd/berth-init/work_match.h"

#define XATTR_NAMES_MAX 16384

/* One attribute as the entry has it: name NUL u32 length value. False: there is no room for it. */
static bool put_xattr(int fd, const char *name, char *bytes, size_t *used)
{
	size_t size = strlen(name) + 1;
	ssize_t len;

	if (*used + size + sizeof(uint32_t) > FILE_XATTRS_MAX)
		return false;
	len = fgetxattr(fd, name, bytes + *used + size + sizeof(uint32_t),
			FILE_XATTRS_MAX - *used - size - sizeof(uint32_t));
	if (len < 0)
		return errno != ERANGE; /* gone meanwhile, or not for us */
	memcpy(bytes + *used, name, size);
	*used += size;
	for (unsigned i = 0; i < sizeof(uint32_t); i++)
		bytes[(*used)++] = (char)((size_t)len >> (8 * i));
	*used += (size_t)len;
	return true;
}

/* The user's own, without those that an overlay keeps its notes in. */
static int get_xattrs(int fd, char bytes[FILE_XATTRS_MAX], struct str *ret)
{
	char names[XATTR_NAMES_MAX];
	ssize_t size = flistxattr(fd, names, sizeof(names));
	struct str list = {names, size > 0 ? (size_t)size : 0};
	const char *name;
	size_t used = 0;

	if (size < 0 && errno == ERANGE)
		return -E2BIG;
	while ((name = frame_list_next(&list))) {
		if (!str_starts_with(str_of(name), STR("user.")) ||
		    str_starts_with(str_of(name), STR("user.overlay.")))
			continue;
		if (!put_xattr(fd, name, bytes, &used))
			return -E2BIG;
	}
	*ret = (struct str){bytes, used};
	return 0;
}

/*
 * DATA and the bytes. They were promised, so no word about a file that became shorter or that
 * cannot be read fits behind a part of them: the stream ends within it, which says so.
 */
static int put_part(struct work *w, int fd, off_t at, off_t end)
{
	struct file_data part = {(uint64_t)(end - at)};
	uint64_t left = part.size;
	int error;

	if (!left)
		return 0;
	error = stream_put(&w->stream, FILE_DATA, file_data_fields, &part);
	if (error < 0)
		return error;
	error = stream_put_file(&w->stream, fd, &at, &left);
	if (error == 0 && !left)
		return 0;
	stream_flush(&w->stream);
	return -EPIPE;
}

static int put_hole(struct work *w, off_t at, off_t end)
{
	struct file_data part = {(uint64_t)(end - at)};

	return at < end ? stream_put(&w->stream, FILE_HOLE, file_data_fields, &part) : 0;
}

/* Little-endian, as frames have it. */
static void put_number(char *at, uint64_t value)
{
	for (unsigned i = 0; i < sizeof(value); i++)
		at[i] = (char)(value >> (8 * i));
}

static uint64_t get_number(const char *at)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < sizeof(value); i++)
		value |= (uint64_t)(uint8_t)at[i] << (8 * i);
	return value;
}

/* A part of a sparse file that is data; false past its end. */
static bool next_data(int fd, off_t size, off_t *at, off_t *ret_end)
{
	off_t data = lseek(fd, *at, SEEK_DATA);

	if (data < 0 && errno != ENXIO)
		data = *at; /* a file system that does not know */
	if (data < 0 || data >= size)
		return false;
	*at = data;
	*ret_end = lseek(fd, data, SEEK_HOLE);
	if (*ret_end <= data || *ret_end > size)
		*ret_end = size;
	return true;
}

/* Empty for a file without holes, and for one with more parts than an entry can name. */
static struct str make_map(int fd, const struct stat *st, char bytes[FILE_MAP_MAX])
{
	size_t used = 0;
	off_t at = 0, end;

	if (st->st_blocks * 512 >= st->st_size)
		return (struct str){NULL, 0};
	while (next_data(fd, st->st_size, &at, &end)) {
		if (used + 16 > FILE_MAP_MAX)
			return (struct str){NULL, 0};
		put_number(bytes + used, (uint64_t)at);
		put_number(bytes + used + 8, (uint64_t)(end - at));
		used += 16;
		at = end;
	}
	if (!used) { /* nothing but a hole */
		memset(bytes, 0, 16);
		used = 16;
	}
	return (struct str){bytes, used};
}

static int put_content(struct work *w, int fd, off_t size, struct str map)
{
	off_t at = 0;
	int error = 0;

	if (!map.len)
		return put_part(w, fd, 0, size);
	for (size_t i = 0; i < map.len && error == 0; i += 16) {
		off_t data = (off_t)get_number(map.at + i);
		off_t end = data + (off_t)get_number(map.at + i + 8);

		error = put_hole(w, at, data);
		if (error == 0)
			error = put_part(w, fd, data, end);
		at = end;
	}
	return error < 0 ? error : put_hole(w, at, size);
}

/* A regular file or a directory, which is open; `entry` has all but what is known from that. */
static int put_open(struct work *w, struct file_entry *entry, int fd)
{
	char xattrs[FILE_XATTRS_MAX], map[FILE_MAP_MAX];
	struct stat st;
	int error;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_mode & S_IFMT) != S_IFREG && (st.st_mode & S_IFMT) != S_IFDIR)
		return -EAGAIN; /* not what it was a moment ago */
	work_set_stat(&entry->stat, &st);
	error = get_xattrs(fd, xattrs, &entry->xattrs);
	if (S_ISDIR(st.st_mode))
		entry->stat.size = 0;
	else if (error == 0 && st.st_nlink > 1)
		entry->original = links_find(&w->links, &st, entry->name);
	if ((w->request.flags & FILE_SPARSE) && S_ISREG(st.st_mode) && !entry->original.len)
		entry->map = make_map(fd, &st, map);
	if (error == 0)
		error = stream_put(&w->stream, FILE_ENTRY, file_entry_fields, entry);
	w->result.count++;
	if (error < 0 || S_ISDIR(st.st_mode) || entry->original.len)
		return error;
	w->result.bytes += entry->stat.size;
	return put_content(w, fd, st.st_size, entry->map);
}

static int put_link(struct work *w, struct file_entry *entry)
{
	char target[FILE_PATH_MAX];
	ssize_t len = readlinkat(w->walk.at.fd, w->walk.name, target, sizeof(target));

	if (len < 0)
		return -errno;
	work_set_stat(&entry->stat, &w->walk.st);
	entry->link = (struct str){target, (size_t)len};
	w->result.count++;
	return stream_put(&w->stream, FILE_ENTRY, file_entry_fields, entry);
}

static int put_entry(struct work *w, const char *name, size_t len)
{
	struct file_entry entry = {.name = {name, len}};
	mode_t type = w->walk.st.st_mode & S_IFMT;
	cleanup_fd int fd = -1;

	if (type == S_IFREG || type == S_IFDIR) {
		fd = path_open(w->walk.at.fd, w->walk.name,
			       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
		return fd < 0 ? fd : put_open(w, &entry, fd);
	}
	if (type == S_IFLNK)
		return put_link(w, &entry);
	if (type != S_IFIFO)
		return 0; /* sockets and devices are nothing that could be kept */
	work_set_stat(&entry.stat, &w->walk.st);
	w->result.count++;
	return stream_put(&w->stream, FILE_ENTRY, file_entry_fields, &entry);
}

static int pack_below(struct work *w)
{
	char path[FILE_PATH_MAX + 1];
	int r;

	while ((r = walk_next(&w->walk)) > 0) {
		int len = walk_path(&w->walk, path, sizeof(path));

		if (r != WALK_ENTRY)
			continue;
		if (len >= 0 && match_any(w->request.patterns, path, S_ISDIR(w->walk.st.st_mode))) {
			walk_skip(&w->walk);
			continue;
		}
		r = len < 0 ? len : put_entry(w, path, (size_t)len);
		/* What is gone was not there. */
		if (r == -ENOENT) {
			walk_skip(&w->walk);
			continue;
		}
		if (r < 0)
			break;
	}
	return r == 0 || r == -EPIPE ? r : work_at_entry(w, r);
}

int work_pack(struct work *w)
{
	struct file_entry root = {.name = STR("")};
	cleanup_fd int fd = -1;
	struct stat st = {0};
	int error = file_open(w->path, &st, &fd);

	if (error == -EISDIR) {
		fd = path_open(AT_FDCWD, w->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
		error = fd < 0 ? fd : 0;
	}
	work_set_stat(&w->result.stat, &st);
	/* What the kernel makes up would all be empty. */
	if (error == 0)
		error = file_has_no_size(fd);
	if (error != 0)
		return work_at(w, FILE_AT_PATH, error < 0 ? error : -EOPNOTSUPP);
	if (frame_list_count(w->request.patterns) < 0)
		return work_at(w, FILE_AT_REQUEST, -EINVAL);
	error = work_tell(w);
	if (error == 0)
		error = put_open(w, &root, fd);
	if (error < 0 || !S_ISDIR(st.st_mode))
		return work_at(w, FILE_AT_DATA, error);
	error = walk_init(&w->walk, take_fd(&fd));
	return error < 0 ? work_at(w, FILE_AT_PATH, error) : pack_below(w);
}
