#include "cmd/berth/tree.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/name_locale.h"
#include "cmd/berth/screen.h"

#define BLOCK_SIZE 10240 /* as tar has it */
#define PIPE_SIZE  (1024 * 1024)
#define READ_SIZE  (64 * 1024)
#define ZEROS_SIZE (64 * 1024)

static void writer_freep(struct archive **a)
{
	archive_write_free(*a);
}

static void reader_freep(struct archive **a)
{
	archive_read_free(*a);
}

static void entry_freep(struct archive_entry **e)
{
	archive_entry_free(*e);
}

static void resolver_freep(struct archive_entry_linkresolver **r)
{
	archive_entry_linkresolver_free(*r);
}

static void fts_closep(FTS **fts)
{
	if (*fts)
		fts_close(*fts);
}

static int archive_failed(struct err *err, struct archive *a, const char *what)
{
	const char *words = archive_error_string(a);

	return err_set(err, -EIO, ERR_INTERNAL, "%s: %s", what,
		       words ? screen_text(str_of(words)).text : "no reason given");
}

/* --- out --- */

struct packing {
	struct tree *tree;
	struct archive *disk, *out;
	struct archive_entry_linkresolver *links;
	struct err *err;
	int error;       /* of the pipe */
	bool is_dropped; /* nothing more goes out */
	char bytes[READ_SIZE];
};

/*
 * libarchive leaks its buffer once it has seen a failure: it sees none until it is closed, which
 * frees it whatever we say.
 */
static la_ssize_t on_output(struct archive *a, void *arg, const void *bytes, size_t len)
{
	struct packing *p = arg;
	size_t done = 0;

	while (!p->is_dropped && !p->error && done < len) {
		ssize_t n = write(p->tree->far_fd, (const char *)bytes + done, len - done);

		if (n < 0 && errno != EINTR)
			p->error = err_set(p->err, -errno, ERR_INTERNAL,
					   "the archive cannot be sent: %s", strerror(errno));
		done += n > 0 ? (size_t)n : 0;
	}
	return p->is_dropped ? -1 : (la_ssize_t)len;
}

static int write_zeros(struct packing *p, uint64_t len)
{
	static const char zeros[ZEROS_SIZE];

	while (len) {
		la_ssize_t n =
			archive_write_data(p->out, zeros, len < ZEROS_SIZE ? len : ZEROS_SIZE);

		if (n <= 0)
			return archive_failed(p->err, p->out, "the archive cannot be written");
		if (p->error < 0)
			break;
		len -= (uint64_t)n;
	}
	return p->error;
}

static int write_bytes(struct packing *p, struct str bytes)
{
	while (bytes.len) {
		la_ssize_t n = archive_write_data(p->out, bytes.at, bytes.len);

		if (n < 0)
			return archive_failed(p->err, p->out, "the archive cannot be written");
		if (n == 0 || p->error < 0) /* 0: it has grown, and what it was is told */
			break;
		bytes = (struct str){bytes.at + n, bytes.len - (size_t)n};
	}
	return p->error;
}

static int unreadable(struct packing *p, const char *path, int error)
{
	return err_set(p->err, error, ERR_INTERNAL, "cannot read `%.300s`: %s",
		       screen_text(str_of(path)).text, strerror(-error));
}

static int write_range(struct packing *p, const FTSENT *at, int fd, off_t from, off_t end)
{
	int r = 0;

	while (r == 0 && from < end) {
		size_t size = end - from < READ_SIZE ? (size_t)(end - from) : READ_SIZE;
		ssize_t n = pread(fd, p->bytes, size, from);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return unreadable(p, at->fts_path, -errno);
		if (n == 0)
			return err_set(p->err, -EIO, ERR_INTERNAL,
				       "`%.300s` became shorter while it was read",
				       screen_text(str_of(at->fts_path)).text);
		r = write_bytes(p, (struct str){p->bytes, (size_t)n});
		from += n;
	}
	return r;
}

/* What came after we looked is left; holes are zeros here, and libarchive leaves them out. */
static int write_content(struct packing *p, const FTSENT *at, int fd, off_t size)
{
	off_t done = 0;
	int r = 0;

	while (r == 0 && done < size) {
		off_t data = lseek(fd, done, SEEK_DATA), hole;

		if (data < 0 && errno != ENXIO)
			data = done; /* a file system that knows no holes */
		if (data < 0 || data > size)
			data = size;
		r = write_zeros(p, (uint64_t)(data - done));
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole < 0 || hole > size)
			hole = size;
		if (r == 0)
			r = write_range(p, at, fd, data, hole);
		done = hole;
	}
	return r;
}

/* Relative to the source; "./" is the source itself. */
static int set_name(struct packing *p, const FTSENT *at, struct archive_entry *e)
{
	const char *path = at->fts_path + strlen(p->tree->source);
	char name[PATH_MAX];

	while (*path == '/')
		path++;
	/* Trees may be deeper than any path can say. */
	if (at->fts_errno == ENAMETOOLONG ||
	    snprintf(name, sizeof(name), "./%s", path) >= (int)sizeof(name))
		return err_set(p->err, -ENAMETOOLONG, ERR_INVALID_REQUEST,
			       "the path of `%.200s...` is too long: %d bytes at most, and with "
			       "that of SRC",
			       screen_text(str_of(path)).text, PATH_MAX - 3);
	archive_entry_copy_pathname(e, name);
	archive_entry_copy_sourcepath(e, at->fts_path);
	return 0;
}

/* All that is told about it, and nothing that is ours alone. */
static int describe(struct packing *p, const FTSENT *at, int fd, const struct stat *st,
		    struct archive_entry *e)
{
	if (archive_read_disk_entry_from_file(p->disk, e, fd, st) != ARCHIVE_OK)
		return err_set(p->err, -EIO, ERR_INTERNAL, "cannot read `%.300s`: %.200s",
			       screen_text(str_of(at->fts_path)).text,
			       archive_error_string(p->disk));
	archive_entry_set_uid(e, 0);
	archive_entry_set_gid(e, 0);
	archive_entry_unset_atime(e);
	archive_entry_unset_ctime(e);
	archive_entry_unset_birthtime(e);
	return 0;
}

static int write_header(struct packing *p, struct archive_entry *e)
{
	return archive_write_header(p->out, e) < ARCHIVE_WARN
		       ? archive_failed(p->err, p->out, "the archive cannot be written")
		       : p->error;
}

static int pack_file(struct packing *p, const FTSENT *at, struct archive_entry *e)
{
	/* It may have become something else since it was looked at. */
	cleanup_fd int fd = open(at->fts_accpath, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct archive_entry *spare = NULL;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return unreadable(p, at->fts_path, -errno);
	if (!S_ISREG(st.st_mode))
		return unreadable(p, at->fts_path, -EAGAIN);
	r = describe(p, at, fd, &st, e);
	if (r < 0)
		return r;
	archive_entry_linkify(p->links, &e, &spare);
	r = write_header(p, e);
	/* A hard link to what went before has no size. */
	return r < 0 || archive_entry_hardlink(e) || !archive_entry_size_is_set(e)
		       ? r
		       : write_content(p, at, fd, st.st_size);
}

static int pack_entry(struct packing *p, const FTSENT *at, struct archive_entry *e)
{
	mode_t type = at->fts_statp->st_mode & S_IFMT;
	int r;

	if (at->fts_level == FTS_ROOTLEVEL && !p->tree->has_root)
		return 0;
	if (type != S_IFREG && type != S_IFDIR && type != S_IFLNK && type != S_IFIFO) {
		p->tree->left_out++;
		return 0;
	}
	r = set_name(p, at, e);
	if (r == 0 && type == S_IFREG)
		return pack_file(p, at, e);
	if (r == 0)
		r = describe(p, at, -1, at->fts_statp, e);
	return r < 0 ? r : write_header(p, e);
}

static int pack_one(struct packing *p, const FTSENT *at)
{
	cleanup(entry_freep) struct archive_entry *e = archive_entry_new();

	if (!e)
		return err_set(p->err, -ENOMEM, ERR_INTERNAL, "out of memory");
	switch (at->fts_info) {
	case FTS_DP:
		return 0;
	case FTS_DC:
		return unreadable(p, at->fts_path, -ELOOP);
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		return at->fts_errno == ENAMETOOLONG ? set_name(p, at, e)
						     : unreadable(p, at->fts_path, -at->fts_errno);
	default:
		return pack_entry(p, at, e);
	}
}

/* A directory, then all that is in it, then its neighbours: whoever unpacks can finish it then. */
static int pack_all(struct packing *p)
{
	char *const paths[] = {(char *)p->tree->source, NULL};
	cleanup(fts_closep) FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	const FTSENT *at;
	int r = 0;

	if (!fts)
		return unreadable(p, p->tree->source, -errno);
	while (r == 0) {
		errno = 0;
		at = fts_read(fts);
		if (!at)
			return errno ? unreadable(p, p->tree->source, -errno) : 0;
		r = pack_one(p, at);
	}
	return r;
}

static int pack(struct tree *tree)
{
	struct packing p = {.tree = tree, .err = &tree->err}; /* freeing `out` needs it */
	cleanup(reader_freep) struct archive *disk = archive_read_disk_new();
	cleanup(resolver_freep) struct archive_entry_linkresolver *links =
		archive_entry_linkresolver_new();
	cleanup(writer_freep) struct archive *out = archive_write_new();
	int r;

	if (!disk || !out || !links)
		return err_set(&tree->err, -ENOMEM, ERR_INTERNAL, "out of memory");
	archive_read_disk_set_symlink_physical(disk);
	archive_read_disk_set_behavior(disk, ARCHIVE_READDISK_NO_XATTR | ARCHIVE_READDISK_NO_ACL |
						     ARCHIVE_READDISK_NO_FFLAGS);
	/* BINARY: names are bytes, and are not composed anew. */
	if (archive_write_set_format_pax(out) != ARCHIVE_OK ||
	    archive_write_set_format_option(out, "pax", "hdrcharset", "BINARY") != ARCHIVE_OK ||
	    archive_write_add_filter_none(out) != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(out, BLOCK_SIZE) != ARCHIVE_OK ||
	    archive_write_open(out, &p, NULL, on_output, NULL) != ARCHIVE_OK)
		return archive_failed(&tree->err, out, "the archive cannot be written");
	archive_entry_linkresolver_set_strategy(links, archive_format(out));
	p.disk = disk;
	p.out = out;
	p.links = links;
	r = pack_all(&p);
	if (r == 0 && archive_write_close(out) != ARCHIVE_OK)
		r = archive_failed(&tree->err, out, "the archive cannot be written");
	if (r == 0)
		r = p.error;
	/* Closing it would fill up the file that it was at. */
	p.is_dropped = true;
	return r;
}

/* --- in --- */

static int damaged(struct tree *tree, struct archive *in)
{
	return archive_failed(&tree->err, in, "the archive that came cannot be read");
}

static int land_content(struct tree *tree, struct archive *in, uint64_t size)
{
	int r = 0;

	while (r == 0) {
		const void *bytes;
		la_int64_t offset;
		size_t len;
		int got = archive_read_data_block(in, &bytes, &len, &offset);

		if (got == ARCHIVE_EOF)
			break;
		if (got < ARCHIVE_WARN || offset < 0 || (uint64_t)offset > size ||
		    len > size - (uint64_t)offset)
			return damaged(tree, in);
		r = landing_write(tree->landing, (struct str){bytes, len}, (uint64_t)offset,
				  &tree->err);
	}
	return r;
}

static int land_file(struct tree *tree, struct archive *in, struct archive_entry *e)
{
	struct timespec mtime = {archive_entry_mtime(e), archive_entry_mtime_nsec(e)};
	uint64_t size = archive_entry_size(e) > 0 ? (uint64_t)archive_entry_size(e) : 0;
	int r = landing_begin_file(tree->landing, archive_entry_pathname(e), &tree->err);

	if (r == 0)
		r = land_content(tree, in, size);
	if (r == 0)
		r = landing_finish_file(tree->landing, archive_entry_perm(e), size, &mtime,
					&tree->err);
	return r;
}

static int land(struct tree *tree, struct archive *in, struct archive_entry *e)
{
	const char *name = archive_entry_pathname(e);

	if (!name)
		return damaged(tree, in);
	if (archive_entry_hardlink(e))
		return landing_make_hardlink(tree->landing, name, archive_entry_hardlink(e),
					     &tree->err);
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return land_file(tree, in, e);
	case AE_IFDIR:
		return landing_make_directory(
			tree->landing, name, archive_entry_perm(e),
			(struct timespec){archive_entry_mtime(e), archive_entry_mtime_nsec(e)},
			&tree->err);
	case AE_IFLNK:
		if (!archive_entry_symlink(e))
			return damaged(tree, in);
		return landing_make_symlink(tree->landing, name, archive_entry_symlink(e),
					    &tree->err);
	default:
		tree->landing->left_out++;
		return 0;
	}
}

static int unpack(struct tree *tree)
{
	cleanup(reader_freep) struct archive *in = archive_read_new();
	struct archive_entry *e;
	struct err unheard;
	char rest[4096];
	int got, finished, r = 0;

	if (!in)
		return err_set(&tree->err, -ENOMEM, ERR_INTERNAL, "out of memory");
	if (archive_read_support_format_tar(in) != ARCHIVE_OK ||
	    archive_read_open_fd(in, tree->far_fd, READ_SIZE) != ARCHIVE_OK)
		return damaged(tree, in);
	while (r == 0 && (got = archive_read_next_header(in, &e)) != ARCHIVE_EOF)
		r = got < ARCHIVE_WARN ? damaged(tree, in) : land(tree, in, e);
	/* Padding is left: whoever writes it must not find the pipe closed. */
	while (r == 0 && read(tree->far_fd, rest, sizeof(rest)) > 0)
		;
	/* Also after a failure: what is there shall not stay unfinished. */
	finished = landing_finish(tree->landing, r < 0 ? &unheard : &tree->err);
	return r < 0 ? r : finished;
}

/* --- both --- */

static void *run(void *arg)
{
	struct tree *tree = arg;
	with_name_locale(tree->source != NULL);

	tree->result = tree->source ? pack(tree) : unpack(tree);
	close(take_fd(&tree->far_fd));
	return NULL;
}

static int start(struct tree *tree, struct err *err)
{
	int fds[2], error;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "no pipe: %s", strerror(errno));
	fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE);
	tree->fd = tree->source ? fds[0] : fds[1];
	tree->far_fd = tree->source ? fds[1] : fds[0];
	error = pthread_create(&tree->thread, NULL, run, tree);
	tree->is_running = error == 0;
	if (tree->is_running)
		return 0;
	close(take_fd(&tree->fd));
	close(take_fd(&tree->far_fd));
	return err_set(err, -error, ERR_INTERNAL, "no thread: %s", strerror(error));
}

int tree_pack(struct tree *tree, const char *source, bool has_root, struct err *err)
{
	*tree = (struct tree){.source = source, .has_root = has_root, .fd = -1, .far_fd = -1};
	return start(tree, err);
}

int tree_unpack(struct tree *tree, struct landing *landing, struct err *err)
{
	*tree = (struct tree){.landing = landing, .fd = -1, .far_fd = -1};
	return start(tree, err);
}

int tree_join(struct tree *tree)
{
	if (tree->is_running)
		pthread_join(tree->thread, NULL);
	tree->is_running = false;
	return tree->result;
}

int tree_end(struct tree *tree)
{
	if (tree->fd >= 0)
		close(take_fd(&tree->fd));
	return tree_join(tree);
}
