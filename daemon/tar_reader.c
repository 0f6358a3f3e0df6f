#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/name_locale.h"
#include "daemon/inflate.h"
#include "daemon/tar.h"

/* Of headers, and of the map of a sparse file: libarchive keeps what they tell, and a map takes
 * twelve times the memory that its text has bytes. */
#define ABOUT_MAX  (2 * 1024 * 1024)
#define BLOCK_SIZE 512
#define REST_SIZE  (64 * 1024)

static void reader_free_p(struct archive **reader)
{
	archive_read_free(*reader);
}

static void inflate_free_p(struct inflate **inflate)
{
	if (*inflate)
		inflate_free(*inflate);
}

struct reading {
	int out;
	const atomic_bool *stop;
	struct inflate *inflate;
	struct archive *archive;
	uint64_t may_take; /* bytes, until libarchive says what it made of them */
	struct err *err;   /* of the input, if it has failed */
	char frame[FRAME_MAX];
	char name[FILE_PATH_MAX + 1], original[FILE_PATH_MAX + 1], xattrs[FILE_XATTRS_MAX];
};

/* The archive's plain bytes, of which no call of libarchive gets more than it may need. */
static la_ssize_t on_input(struct archive *a, void *arg, const void **ret)
{
	struct reading *r = arg;
	ssize_t n;

	if (r->stop && atomic_load(r->stop))
		n = err_set(r->err, -ECANCELED, ERR_REQUEST_TIMEOUT, "nobody waits for it");
	else if (!r->may_take)
		n = err_set(r->err, -E2BIG, ERR_INVALID_REQUEST,
			    "the archive cannot be read: it tells more about one file than %d "
			    "bytes",
			    ABOUT_MAX);
	else
		n = inflate_next(r->inflate, ret, r->err);
	if (n < 0)
		archive_set_error(a, (int)-n, "reading failed");
	else
		r->may_take -= (uint64_t)n < r->may_take ? (uint64_t)n : r->may_take;
	return n < 0 ? -1 : n;
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

	if (r->err->code != ERR_NONE) /* the input's own failure says more */
		return -EBADMSG;
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
	ret->stat.mtime = archive_entry_mtime(e); /* what its file system cannot keep, it cuts */
	ret->stat.mtime_nsec = (uint32_t)archive_entry_mtime_nsec(e) % 1000000000;
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
		int got;

		r->may_take = ABOUT_MAX;
		got = archive_read_data_block(r->archive, &bytes, &len, &offset);
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

/* Whatever data it still has, then the next header. */
static int next_header(struct reading *r, struct archive_entry **e, bool is_first)
{
	r->may_take = UINT64_MAX;
	if (!is_first && archive_read_data_skip(r->archive) < ARCHIVE_WARN)
		return ARCHIVE_FATAL;
	r->may_take = ABOUT_MAX;
	return archive_read_next_header(r->archive, e);
}

/*
 * An archive ends with blocks of zeros. Other readers take its mere end for it, and so the half
 * that a pipe brought whose other side died for the whole.
 */
static int check_end(struct reading *r, struct err *err)
{
	la_int64_t behind = archive_filter_bytes(r->archive, 0);

	if (behind - archive_read_header_position(r->archive) >= BLOCK_SIZE)
		return 0;
	return err_set(err, -EBADMSG, ERR_INVALID_REQUEST,
		       "the archive is cut: it stops where a file may end, but without the zeros "
		       "that end a tar archive");
}

static int read_all(struct reading *r, struct err *err)
{
	struct archive_entry *e;
	bool is_first = true;
	int got, error = 0;

	if (archive_read_support_format_tar(r->archive) != ARCHIVE_OK ||
	    archive_read_support_format_empty(r->archive) != ARCHIVE_OK ||
	    archive_read_open(r->archive, r, NULL, on_input, NULL) != ARCHIVE_OK)
		return damaged(r, err);
	while (error == 0 && (got = next_header(r, &e, is_first)) != ARCHIVE_EOF) {
		/* ARCHIVE_RETRY is a header that makes no sense, with an entry that is empty. */
		if (got != ARCHIVE_OK && got != ARCHIVE_WARN)
			return damaged(r, err);
		is_first = false;
		error = put_entry(r, e, err);
	}
	return error < 0 ? error : check_end(r, err);
}

/* Padding, or what stands behind the archive's end, is not ours to judge. */
static void drain(int fd)
{
	char rest[REST_SIZE];

	while (read(fd, rest, sizeof(rest)) > 0)
		;
}

int tar_read_entries(int in, int out, const atomic_bool *stop, struct err *err)
{
	with_name_locale(false);
	cleanup_free struct reading *r = calloc(1, sizeof(*r));
	cleanup(inflate_free_p) struct inflate *inflate = inflate_new(in);
	cleanup(reader_free_p) struct archive *archive = archive_read_new();
	int error;

	if (!r || !inflate || !archive)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	r->out = out;
	r->stop = stop;
	r->err = err;
	r->inflate = inflate;
	r->archive = archive;
	r->may_take = ABOUT_MAX;
	err->code = ERR_NONE;
	error = read_all(r, err);
	if (error < 0 && err->code == ERR_NONE)
		err_set(err, error, ERR_EXEC_TRANSPORT_ERROR,
			"what the archive holds could not be handed on: %s", strerror(-error));
	if (error == 0)
		drain(in);
	return error;
}
