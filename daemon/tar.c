#include "daemon/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/name_locale.h"

#define BLOCK_SIZE 10240 /* as tar has it; so many are handed on at once */
#define BLOCKS     6
/* Mapped, never touched: what holes are said to be. As much as libarchive takes at once, for each
 * time costs, and a hostile worker tells of a thousand holes in one read. */
#define ZEROS_SIZE ((size_t)INT_MAX)
#define SIZE_MAX_OF_FILE                                                                           \
	(UINT64_C(1) << 44) /* 16 TiB; a hole of any size costs a turn of the loop */

static void entry_free_p(struct archive_entry **entry)
{
	archive_entry_free(*entry);
}

struct tar_writer {
	struct archive *archive;
	tar_sink_fn *sink;
	void *arg;
	void *zeros;
	bool is_over; /* nothing more goes out */
	/* What the last entry still has to get, and where its data is: libarchive fills up what is
	 * missing at once, and a hole that is not in the map is written as zeros. Both may be as
	 * long as a hostile worker likes. */
	uint64_t size, at;
	size_t map_len, map_next;
	char map[FILE_MAP_MAX];
	char root[FILE_PATH_MAX + 1];
};

static la_ssize_t on_output(struct archive *a, void *arg, const void *bytes, size_t len)
{
	struct tar_writer *w = arg;

	if (w->is_over)
		return -1;
	w->sink(w->arg, (struct str){bytes, len});
	return (la_ssize_t)len;
}

static int wfail(struct tar_writer *w, struct err *err)
{
	const char *words = archive_error_string(w->archive);

	return err_set(err, -EIO, ERR_INTERNAL, "the archive cannot be written: %s",
		       words ? words : "no reason given");
}

struct tar_writer *tar_writer_new(const char *root, tar_sink_fn *sink, void *arg)
{
	struct tar_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->sink = sink;
	w->arg = arg;
	snprintf(w->root, sizeof(w->root), "%s", root);
	w->zeros = mmap(NULL, ZEROS_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			-1, 0);
	w->archive = archive_write_new();
	if (w->zeros == MAP_FAILED || !w->archive ||
	    /* Not the restricted one, which has whole seconds only. */
	    archive_write_set_format_pax(w->archive) != ARCHIVE_OK ||
	    /* Else libarchive composes names anew (NFC) when it reads them, and two may become one.
	     */
	    archive_write_add_filter_none(w->archive) != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(w->archive, BLOCKS * BLOCK_SIZE) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(w->archive, BLOCK_SIZE) != ARCHIVE_OK ||
	    archive_write_open(w->archive, w, NULL, on_output, NULL) != ARCHIVE_OK) {
		tar_writer_free(w);
		return NULL;
	}
	return w;
}

void tar_writer_free(struct tar_writer *w)
{
	/* It is closed, if need be, and its first write fails: after archive_write_fail() it would
	 * not be, and lose the memory that it only frees there. */
	w->is_over = true;
	if (w->archive)
		archive_write_free(w->archive);
	if (w->zeros != MAP_FAILED)
		munmap(w->zeros, ZEROS_SIZE);
	free(w);
}

/* By one of libarchive's setters, which take bytes as they are. */
static void set_text(struct archive_entry *e, struct str text,
		     void (*set)(struct archive_entry *, const char *))
{
	char copy[FILE_PATH_MAX + 1];

	memcpy(copy, text.at, text.len);
	copy[text.len] = '\0';
	set(e, copy);
}

static mode_t type_of(uint32_t type)
{
	switch (type) {
	case FILE_TYPE_FILE:
		return AE_IFREG;
	case FILE_TYPE_DIRECTORY:
		return AE_IFDIR;
	case FILE_TYPE_LINK:
		return AE_IFLNK;
	case FILE_TYPE_FIFO:
		return AE_IFIFO;
	default:
		return 0;
	}
}

/* Little-endian, as frames have it. */
static uint64_t number_at(const char *at, unsigned size)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < size; i++)
		value |= (uint64_t)(uint8_t)at[i] << (8 * i);
	return value;
}

/* name NUL u32 length value, as told by a worker: nothing of it is sure. */
static int set_xattrs(struct archive_entry *e, struct str list)
{
	while (list.len) {
		const char *end = memchr(list.at, '\0', list.len);
		size_t name_len = end ? (size_t)(end - list.at) + 1 : 0;
		size_t rest = list.len - name_len, len;

		if (!end || rest < 4)
			return -EBADMSG;
		len = (size_t)number_at(end + 1, 4);
		if (len > rest - 4)
			return -EBADMSG;
		archive_entry_xattr_add_entry(e, list.at, end + 5, len);
		list = (struct str){end + 5 + len, rest - 4 - len};
	}
	return 0;
}

static int set_map(struct archive_entry *e, const struct file_entry *entry)
{
	uint64_t past = 0;

	if (entry->map.len % 16)
		return -EBADMSG;
	for (size_t i = 0; i < entry->map.len; i += 16) {
		uint64_t at = number_at(entry->map.at + i, 8);
		uint64_t len = number_at(entry->map.at + i + 8, 8);

		if (at < past || at > entry->stat.size || len > entry->stat.size - at)
			return -EBADMSG;
		archive_entry_sparse_add_entry(e, (la_int64_t)at, (la_int64_t)len);
		past = at + len;
	}
	return 0;
}

/* As a walk below one directory gives it. */
static bool is_inside(struct str name)
{
	if (name.len && name.at[0] == '/')
		return false;
	while (name.len) {
		if (str_eq(str_cut(&name, '/'), STR("..")))
			return false;
	}
	return true;
}

static int fill(struct tar_writer *w, struct archive_entry *e, const struct file_entry *entry)
{
	const struct file_stat *s = &entry->stat;
	struct str name = entry->name.len ? entry->name : str_of(w->root);
	bool has_data = s->type == FILE_TYPE_FILE && !entry->original.len;

	if (!type_of(s->type) || memchr(name.at, '\0', name.len) || s->size > SIZE_MAX_OF_FILE ||
	    !is_inside(name) || !is_inside(entry->original) || w->at != w->size)
		return -EBADMSG;
	set_text(e, name, archive_entry_copy_pathname);
	archive_entry_set_filetype(e, type_of(s->type));
	archive_entry_set_perm(e, s->mode);
	archive_entry_set_uid(e, s->uid);
	archive_entry_set_gid(e, s->gid);
	archive_entry_set_mtime(e, s->mtime, s->mtime_nsec);
	archive_entry_set_size(e, has_data ? (la_int64_t)s->size : 0);
	if (s->type == FILE_TYPE_LINK)
		set_text(e, entry->link, archive_entry_copy_symlink);
	if (entry->original.len)
		set_text(e, entry->original, archive_entry_copy_hardlink);
	if (has_data && set_map(e, entry) < 0)
		return -EBADMSG;
	w->at = 0;
	w->size = has_data ? s->size : 0;
	w->map_next = 0;
	w->map_len = has_data ? entry->map.len : 0;
	if (w->map_len)
		memcpy(w->map, entry->map.at, w->map_len);
	return set_xattrs(e, entry->xattrs);
}

static int told_nonsense(struct err *err)
{
	return err_set(err, -EBADMSG, ERR_EXEC_TRANSPORT_ERROR,
		       "the sandbox told nonsense about its files, or of one past 16 TiB");
}

int tar_writer_entry(struct tar_writer *w, const struct file_entry *entry, struct err *err)
{
	with_name_locale(true);
	cleanup(entry_free_p) struct archive_entry *e = archive_entry_new();

	if (!e)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	if (fill(w, e, entry) < 0)
		return told_nonsense(err);
	return archive_write_header(w->archive, e) < ARCHIVE_WARN ? wfail(w, err) : 0;
}

static int put_bytes(struct tar_writer *w, struct str bytes, struct err *err)
{
	while (bytes.len) {
		la_ssize_t n = archive_write_data(w->archive, bytes.at, bytes.len);

		if (n <= 0)
			return wfail(w, err);
		bytes = (struct str){bytes.at + n, bytes.len - (size_t)n};
	}
	return 0;
}

int tar_writer_bytes(struct tar_writer *w, struct str bytes, struct err *err)
{
	if (bytes.len > w->size - w->at)
		return told_nonsense(err);
	w->at += bytes.len;
	return put_bytes(w, bytes, err);
}

/* Of the last entry, from where it is now: nothing of it is data. */
static bool is_hole(struct tar_writer *w, uint64_t size)
{
	if (!w->map_len || size > w->size - w->at)
		return false;
	for (; w->map_next < w->map_len; w->map_next += 16) {
		uint64_t start = number_at(w->map + w->map_next, 8);
		uint64_t len = number_at(w->map + w->map_next + 8, 8);

		if (start + len > w->at)
			return w->at + size <= start;
	}
	return true;
}

int tar_writer_hole(struct tar_writer *w, uint64_t size, struct err *err)
{
	int r = 0;

	if (!is_hole(w, size))
		return told_nonsense(err);
	w->at += size;
	while (size && r == 0) {
		size_t len = size < ZEROS_SIZE ? (size_t)size : ZEROS_SIZE;

		r = put_bytes(w, (struct str){w->zeros, len}, err);
		size -= len;
	}
	return r;
}

int tar_writer_end(struct tar_writer *w, struct err *err)
{
	with_name_locale(true);

	if (w->at != w->size)
		return told_nonsense(err);
	return archive_write_close(w->archive) != ARCHIVE_OK ? wfail(w, err) : 0;
}
