#include "daemon/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"

#define BLOCK_SIZE 10240 /* as tar has it */
#define READ_SIZE  (64 * 1024)
#define ZEROS_SIZE (64UL * 1024 * 1024) /* mapped, never touched: what holes are said to be */
#define SIZE_MAX_OF_FILE                                                                           \
	(UINT64_C(1) << 44) /* 16 TiB; a hole of any size costs a turn of the loop */

/*
 * libarchive looks at the locale to know what names are, and berthd has none. To write them it must
 * take them for UTF-8; what is not goes out as bytes. To read them it must not, or it composes them
 * anew (NFC), and two may become one: in the plain locale it gives up, and keeps the bytes.
 */
static locale_t plain, utf8;

static void make_locales(void)
{
	plain = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
	utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

static locale_t use_locale(bool is_utf8)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT; /* archives are read on many threads */
	locale_t locale;

	pthread_once(&once, make_locales);
	locale = is_utf8 ? utf8 : plain;
	return uselocale(locale ? locale : LC_GLOBAL_LOCALE);
}

static void restore_p(locale_t *before)
{
	uselocale(*before);
}

#define with_locale(is_utf8)                                                                       \
	cleanup(restore_p) __attribute__((unused)) locale_t before = use_locale(is_utf8)

static void entry_free_p(struct archive_entry **entry)
{
	archive_entry_free(*entry);
}

static void reader_free_p(struct archive **reader)
{
	archive_read_free(*reader);
}

/* --- out --- */

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
	    archive_write_set_bytes_per_block(w->archive, BLOCK_SIZE) != ARCHIVE_OK ||
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
	archive_entry_set_mtime(e, (time_t)(s->mtime_ns / 1000000000),
				(long)(s->mtime_ns % 1000000000));
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
	with_locale(true);
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
	with_locale(true);

	if (w->at != w->size)
		return told_nonsense(err);
	return archive_write_close(w->archive) != ARCHIVE_OK ? wfail(w, err) : 0;
}

/* --- in --- */

struct reading {
	int in, out;
	struct archive *archive;
	char bytes[READ_SIZE];
	char frame[FRAME_MAX];
	char name[FILE_PATH_MAX + 1], original[FILE_PATH_MAX + 1], xattrs[FILE_XATTRS_MAX];
};

static la_ssize_t on_input(struct archive *a, void *arg, const void **ret)
{
	struct reading *r = arg;
	ssize_t n;

	do
		n = read(r->in, r->bytes, sizeof(r->bytes));
	while (n < 0 && errno == EINTR);
	*ret = r->bytes;
	if (n < 0)
		archive_set_error(a, errno, "reading failed");
	return n;
}

static int write_all(int fd, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

static int put(struct reading *r, uint16_t type, const struct frame_field *fields,
	       const void *value)
{
	struct frame_head head = {type, FRAME_VERSION, 0};
	int size = frame_encode(r->frame, sizeof(r->frame), &head, fields, value);

	return size < 0 ? size : write_all(r->out, r->frame, (size_t)size);
}

static int refuse(struct err *err, const char *name, const char *what)
{
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s in the archive: \"%.200s\"", what,
		       name ? name : "");
}

static int damaged(struct reading *r, struct err *err)
{
	const char *words = archive_error_string(r->archive);

	return err_set(err, -EBADMSG, ERR_INVALID_REQUEST, "the archive cannot be read: %s",
		       words ? words : "it is damaged");
}

/* Without "./", doubled and last slashes; -EINVAL for what leads elsewhere, -ENAMETOOLONG. */
static int clean_name(const char *from, char to[FILE_PATH_MAX + 1])
{
	size_t used = 0;

	if (from[0] == '/')
		return -EINVAL;
	while (*from) {
		size_t len = strcspn(from, "/");

		if (len == 2 && from[0] == '.' && from[1] == '.')
			return -EINVAL;
		if (len && !(len == 1 && from[0] == '.')) {
			if (used + len + 1 > FILE_PATH_MAX)
				return -ENAMETOOLONG;
			if (used)
				to[used++] = '/';
			memcpy(to + used, from, len);
			used += len;
		}
		from += len + (from[len] == '/');
	}
	to[used] = '\0';
	return 0;
}

static int take_name(const char *from, char to[FILE_PATH_MAX + 1], struct err *err)
{
	int r = from ? clean_name(from, to) : -EINVAL;

	if (r == -ENAMETOOLONG)
		return refuse(err, from, "a name that is too long");
	return r < 0 ? refuse(err, from, "a name that leads out of it") : 0;
}

static uint32_t type_in(struct archive_entry *e)
{
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return FILE_TYPE_FILE;
	case AE_IFDIR:
		return FILE_TYPE_DIRECTORY;
	case AE_IFLNK:
		return FILE_TYPE_LINK;
	case AE_IFIFO:
		return FILE_TYPE_FIFO;
	default:
		return FILE_TYPE_NONE;
	}
}

/* Those of users; others are not a sandbox's to set. What is past the room is left out. */
static struct str take_xattrs(struct reading *r, struct archive_entry *e)
{
	const char *name;
	const void *value;
	size_t used = 0, len;

	archive_entry_xattr_reset(e);
	while (archive_entry_xattr_next(e, &name, &value, &len) == ARCHIVE_OK) {
		size_t name_size = strlen(name) + 1;

		if (strncmp(name, "user.", 5) != 0 || len > FILE_XATTRS_MAX ||
		    name_size + 4 + len > FILE_XATTRS_MAX - used)
			continue;
		memcpy(r->xattrs + used, name, name_size);
		used += name_size;
		for (unsigned i = 0; i < 4; i++)
			r->xattrs[used++] = (char)(len >> (8 * i));
		memcpy(r->xattrs + used, value, len);
		used += len;
	}
	return (struct str){r->xattrs, used};
}

static uint64_t nanoseconds(struct archive_entry *e)
{
	int64_t seconds = archive_entry_mtime(e);

	return seconds <= 0 || seconds > INT64_MAX / 1000000000 - 1
		       ? 0
		       : (uint64_t)seconds * 1000000000 + (uint64_t)archive_entry_mtime_nsec(e);
}

static int describe(struct reading *r, struct archive_entry *e, struct file_entry *ret,
		    struct err *err)
{
	const char *hardlink = archive_entry_hardlink(e);
	const char *symlink = archive_entry_symlink(e);

	*ret = (struct file_entry){.stat = {.type = hardlink ? FILE_TYPE_FILE : type_in(e)}};
	if (take_name(archive_entry_pathname(e), r->name, err) < 0 ||
	    (hardlink && take_name(hardlink, r->original, err) < 0))
		return -EINVAL;
	if (ret->stat.type == FILE_TYPE_NONE)
		return refuse(err, r->name, "a device or something else that cannot be made");
	if (symlink && strlen(symlink) > FILE_PATH_MAX)
		return refuse(err, r->name, "a link that is too long");
	ret->name = str_of(r->name);
	if (hardlink)
		ret->original = str_of(r->original);
	if (symlink)
		ret->link = str_of(symlink);
	ret->stat.mode = archive_entry_perm(e) & 07777;
	ret->stat.uid = (uint32_t)archive_entry_uid(e);
	ret->stat.gid = (uint32_t)archive_entry_gid(e);
	ret->stat.mtime_ns = nanoseconds(e);
	if (ret->stat.type == FILE_TYPE_FILE && !hardlink)
		ret->stat.size = (uint64_t)archive_entry_size(e);
	ret->xattrs = take_xattrs(r, e);
	return 0;
}

static int put_hole(struct reading *r, uint64_t size)
{
	struct file_data hole = {size};

	return size ? put(r, FILE_HOLE, file_data_fields, &hole) : 0;
}

/* Exactly `size` bytes, with holes where the archive has none. */
static int put_data(struct reading *r, uint64_t size, struct err *err)
{
	uint64_t at = 0;
	int error = 0;

	while (error == 0) {
		const void *bytes;
		la_int64_t offset;
		struct file_data data;
		size_t len;
		int got = archive_read_data_block(r->archive, &bytes, &len, &offset);

		if (got == ARCHIVE_EOF)
			break;
		if (got < ARCHIVE_WARN || offset < 0 || (uint64_t)offset < at ||
		    (uint64_t)offset > size || len > size - (uint64_t)offset)
			return damaged(r, err);
		error = put_hole(r, (uint64_t)offset - at);
		data.size = len;
		if (error == 0 && len)
			error = put(r, FILE_DATA, file_data_fields, &data);
		if (error == 0)
			error = write_all(r->out, bytes, len);
		at = (uint64_t)offset + len;
	}
	return error < 0 ? error : put_hole(r, size - at);
}

static int put_entry(struct reading *r, struct archive_entry *e, struct err *err)
{
	struct file_entry entry;
	int error = describe(r, e, &entry, err);

	if (error == 0)
		error = put(r, FILE_ENTRY, file_entry_fields, &entry);
	if (error == 0 && entry.stat.size)
		error = put_data(r, entry.stat.size, err);
	return error;
}

static int read_all(struct reading *r, struct err *err)
{
	struct archive_entry *e;
	int got, error = 0;

	if (archive_read_support_format_tar(r->archive) != ARCHIVE_OK ||
	    archive_read_support_format_empty(r->archive) != ARCHIVE_OK ||
	    archive_read_support_filter_gzip(r->archive) < ARCHIVE_WARN ||
	    archive_read_support_filter_xz(r->archive) < ARCHIVE_WARN ||
	    archive_read_support_filter_zstd(r->archive) < ARCHIVE_WARN ||
	    archive_read_open(r->archive, r, NULL, on_input, NULL) != ARCHIVE_OK)
		return damaged(r, err);
	while (error == 0 && (got = archive_read_next_header(r->archive, &e)) != ARCHIVE_EOF) {
		/* ARCHIVE_RETRY is a header that makes no sense, with an entry that is empty. */
		if (got != ARCHIVE_OK && got != ARCHIVE_WARN)
			return damaged(r, err);
		error = put_entry(r, e, err);
	}
	return error;
}

int tar_read_entries(int in, int out, struct err *err)
{
	with_locale(false);
	cleanup_free struct reading *r = calloc(1, sizeof(*r));
	cleanup(reader_free_p) struct archive *archive = archive_read_new();
	int error;

	if (!r || !archive)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	r->in = in;
	r->out = out;
	r->archive = archive;
	err->code = ERR_NONE;
	error = read_all(r, err);
	if (error < 0 && err->code == ERR_NONE)
		err_set(err, error, ERR_EXEC_TRANSPORT_ERROR,
			"what the archive holds could not be handed on: %s", strerror(-error));
	/* Padding, or what stands behind the archive's end, is not ours to judge. */
	while (error == 0 && read(in, r->bytes, sizeof(r->bytes)) > 0)
		;
	return error;
}
