#include "cmd/berth/tree.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
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

static int archive_failed(struct err *err, struct archive *a, const char *what)
{
	const char *words = archive_error_string(a);

	return err_set(err, -EIO, ERR_INTERNAL, "%s: %s", what,
		       words ? screen_text(str_of(words)).text : "no reason given");
}

/* --- out --- */

struct packing {
	const struct tree *tree;
	struct archive *disk, *out;
	struct err *err;
	int error;       /* of the pipe */
	bool is_dropped; /* nothing more goes out */
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

static int unreadable(struct packing *p, struct archive_entry *e)
{
	const char *name = archive_entry_pathname(e), *words = archive_error_string(p->disk);

	return err_set(p->err, -EIO, ERR_INTERNAL, "cannot read %.200s: %.200s",
		       screen_text(str_of(name ? name : p->tree->source)).text,
		       words ? screen_text(str_of(words)).text : "no reason given");
}

static int write_content(struct packing *p, struct archive_entry *e)
{
	uint64_t at = 0, size = (uint64_t)archive_entry_size(e);
	int r = 0;

	while (r == 0) {
		const void *bytes;
		la_int64_t offset;
		size_t len;
		int got = archive_read_data_block(p->disk, &bytes, &len, &offset);

		if (got == ARCHIVE_EOF)
			break;
		if (got < ARCHIVE_WARN)
			return unreadable(p, e);
		/* The hole at its end, or what came after we looked. */
		if ((uint64_t)offset >= size)
			break;
		r = write_zeros(p, (uint64_t)offset - at);
		if (r == 0)
			r = write_bytes(p, (struct str){bytes, len});
		at = (uint64_t)offset + len;
	}
	/* A hole at the end, or a file that became shorter: libarchive knows the difference. */
	if (r == 0 && at < size && archive_entry_sparse_count(e) == 0)
		return err_set(p->err, -EIO, ERR_INTERNAL,
			       "`%.200s` became shorter while it was read",
			       screen_text(str_of(archive_entry_pathname(e))).text);
	return r < 0 || at >= size ? r : write_zeros(p, size - at);
}

static int write_entry(struct packing *p, struct archive_entry *e)
{
	if (archive_write_header(p->out, e) < ARCHIVE_WARN)
		return archive_failed(p->err, p->out, "the archive cannot be written");
	/* A symbolic link has a size too. */
	return archive_entry_filetype(e) == AE_IFREG && archive_entry_size(e) > 0
		       ? write_content(p, e)
		       : p->error;
}

/* Relative to the source, and nothing that is ours alone. 0: it stays here. */
static int prepare(struct packing *p, struct archive_entry *e)
{
	const char *path = archive_entry_pathname(e) + strlen(p->tree->source);
	mode_t type = archive_entry_filetype(e);
	char name[PATH_MAX];

	while (*path == '/')
		path++;
	if (!*path && !p->tree->has_root)
		return 0;
	/* Trees may be deeper than any path can say. */
	if (snprintf(name, sizeof(name), "./%s", path) >= (int)sizeof(name))
		return err_set(p->err, -ENAMETOOLONG, ERR_INVALID_REQUEST,
			       "the path of `%.200s...` is too long: %d bytes at most",
			       screen_text(str_of(path)).text, PATH_MAX - 3);
	archive_entry_copy_pathname(e, name);
	archive_entry_set_uid(e, 0);
	archive_entry_set_gid(e, 0);
	archive_entry_unset_atime(e);
	archive_entry_unset_ctime(e);
	archive_entry_unset_birthtime(e);
	return type == AE_IFREG || type == AE_IFDIR || type == AE_IFLNK || type == AE_IFIFO;
}

static int pack_all(struct packing *p)
{
	cleanup(entry_freep) struct archive_entry *entry = archive_entry_new();
	cleanup(resolver_freep) struct archive_entry_linkresolver *links =
		archive_entry_linkresolver_new();
	int r = 0;

	if (!entry || !links)
		return err_set(p->err, -ENOMEM, ERR_INTERNAL, "out of memory");
	archive_entry_linkresolver_set_strategy(links, archive_format(p->out));
	while (r == 0) {
		struct archive_entry *e = entry, *spare = NULL;
		int got;

		archive_entry_clear(entry);
		got = archive_read_next_header2(p->disk, entry);
		if (got == ARCHIVE_EOF)
			break;
		if (got < ARCHIVE_OK)
			return unreadable(p, e);
		archive_read_disk_descend(p->disk);
		r = prepare(p, entry);
		if (r <= 0)
			continue;
		archive_entry_linkify(links, &e, &spare);
		r = write_entry(p, e);
	}
	return r;
}

static int pack(struct tree *tree)
{
	struct packing p = {.tree = tree, .err = &tree->err}; /* freeing `out` needs it */
	cleanup(reader_freep) struct archive *disk = archive_read_disk_new();
	cleanup(writer_freep) struct archive *out = archive_write_new();
	int r;

	if (!disk || !out)
		return err_set(&tree->err, -ENOMEM, ERR_INTERNAL, "out of memory");
	archive_read_disk_set_symlink_physical(disk);
	archive_read_disk_set_behavior(disk, ARCHIVE_READDISK_NO_XATTR | ARCHIVE_READDISK_NO_ACL |
						     ARCHIVE_READDISK_NO_FFLAGS);
	if (archive_read_disk_open(disk, tree->source) != ARCHIVE_OK)
		return archive_failed(&tree->err, disk, "the directory cannot be read");
	/* BINARY: names are bytes, and are not composed anew. */
	if (archive_write_set_format_pax(out) != ARCHIVE_OK ||
	    archive_write_set_format_option(out, "pax", "hdrcharset", "BINARY") != ARCHIVE_OK ||
	    archive_write_add_filter_none(out) != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(out, BLOCK_SIZE) != ARCHIVE_OK ||
	    archive_write_open(out, &p, NULL, on_output, NULL) != ARCHIVE_OK)
		return archive_failed(&tree->err, out, "the archive cannot be written");
	p.disk = disk;
	p.out = out;
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
		return landing_make_directory(tree->landing, name, archive_entry_perm(e),
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
	char rest[4096];
	int got, r = 0;

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
	return r;
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
