#include "daemon/inflate.h"

#include <archive.h>
#include <errno.h>
#include <lzma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

#define READ_SIZE (64 * 1024)
#define HEAD_SIZE 10 /* tells formats apart */

static const char xz_magic[] = {'\xfd', '7', 'z', 'X', 'Z', '\0'};

struct inflate {
	int fd;
	bool is_begun, is_xz;
	bool is_ended; /* the fd */
	lzma_stream xz;
	lzma_ret xz_said; /* what came before a failure is handed out before it */
	/* All but xz: libarchive gives that one up to 1 GiB, and cannot be told otherwise. */
	struct archive *archive;
	size_t held; /* bytes that were read before it was known what they are */
	char bytes[READ_SIZE], plain[READ_SIZE];
};

struct inflate *inflate_new(int fd)
{
	struct inflate *in = calloc(1, sizeof(*in));

	if (!in)
		return NULL;
	in->fd = fd;
	in->xz = (lzma_stream)LZMA_STREAM_INIT;
	in->archive = archive_read_new();
	if (in->archive)
		return in;
	free(in);
	return NULL;
}

void inflate_free(struct inflate *in)
{
	archive_read_free(in->archive);
	lzma_end(&in->xz);
	free(in);
}

static ssize_t read_more(struct inflate *in, char *bytes, size_t size)
{
	ssize_t n;

	do
		n = read(in->fd, bytes, size);
	while (n < 0 && errno == EINTR);
	in->is_ended = n == 0;
	return n < 0 ? -errno : n;
}

static int damaged(struct err *err, const char *words)
{
	return err_set(err, -EBADMSG, ERR_INVALID_REQUEST, "the archive cannot be read: %s",
		       words ? words : "it is damaged");
}

static int unreadable(struct err *err, ssize_t error)
{
	return err_set(err, (int)error, ERR_INTERNAL, "the archive could not be received: %s",
		       strerror((int)-error));
}

/* --- xz --- */

static const char *xz_words(lzma_ret said)
{
	switch (said) {
	case LZMA_MEMLIMIT_ERROR:
		return "this xz needs more memory than 128 MiB to be unpacked: make it with -9 or "
		       "less";
	case LZMA_BUF_ERROR:
		return "its xz is cut";
	case LZMA_MEM_ERROR:
		return "there is no memory for its xz";
	default:
		return "its xz is damaged";
	}
}

static ssize_t next_of_xz(struct inflate *in, const void **ret, struct err *err)
{
	size_t len;

	in->xz.next_out = (uint8_t *)in->plain;
	in->xz.avail_out = sizeof(in->plain);
	while (in->xz_said == LZMA_OK && in->xz.avail_out) {
		if (!in->xz.avail_in && !in->is_ended) {
			ssize_t n = read_more(in, in->bytes, sizeof(in->bytes));

			if (n < 0)
				return unreadable(err, n);
			in->xz.next_in = (const uint8_t *)in->bytes;
			in->xz.avail_in = (size_t)n;
		}
		in->xz_said = lzma_code(&in->xz, in->is_ended ? LZMA_FINISH : LZMA_RUN);
	}
	len = sizeof(in->plain) - in->xz.avail_out;
	if (!len && in->xz_said != LZMA_OK && in->xz_said != LZMA_STREAM_END)
		return damaged(err, xz_words(in->xz_said));
	*ret = in->plain;
	return (ssize_t)len;
}

static int begin_xz(struct inflate *in, struct err *err)
{
	in->xz_said = lzma_stream_decoder(&in->xz, INFLATE_MEMORY_MAX, LZMA_CONCATENATED);
	in->is_xz = true;
	in->xz.next_in = (const uint8_t *)in->bytes;
	in->xz.avail_in = in->held;
	return in->xz_said == LZMA_OK ? 0 : damaged(err, xz_words(in->xz_said));
}

/* --- the others --- */

static la_ssize_t on_input(struct archive *a, void *arg, const void **ret)
{
	struct inflate *in = arg;
	ssize_t n = (ssize_t)in->held;

	*ret = in->bytes;
	in->held = 0;
	if (n == 0 && !in->is_ended)
		n = read_more(in, in->bytes, sizeof(in->bytes));
	if (n < 0)
		archive_set_error(a, (int)-n, "reading failed");
	return n < 0 ? -1 : n;
}

static int begin_other(struct inflate *in, struct err *err)
{
	struct archive *a = in->archive;
	struct archive_entry *entry;
	int got;

	if (archive_read_support_format_raw(a) != ARCHIVE_OK ||
	    archive_read_support_format_empty(a) != ARCHIVE_OK ||
	    archive_read_support_filter_gzip(a) < ARCHIVE_WARN ||
	    archive_read_support_filter_zstd(a) < ARCHIVE_WARN ||
	    archive_read_open(a, in, NULL, on_input, NULL) != ARCHIVE_OK)
		return damaged(err, archive_error_string(a));
	got = archive_read_next_header(a, &entry);
	return got == ARCHIVE_OK || got == ARCHIVE_EOF ? got
						       : damaged(err, archive_error_string(a));
}

static ssize_t next_of_other(struct inflate *in, const void **ret, struct err *err)
{
	la_int64_t offset;
	size_t len = 0;
	int got;

	do
		got = archive_read_data_block(in->archive, ret, &len, &offset);
	while (got == ARCHIVE_OK && !len);
	if (got == ARCHIVE_EOF)
		return 0;
	return got == ARCHIVE_OK ? (ssize_t)len : damaged(err, archive_error_string(in->archive));
}

/* Formats that people try, and that would only look like damage. */
static bool is_other_format(const struct inflate *in)
{
	const struct str bytes = {in->bytes, in->held};

	if (str_starts_with(bytes, STR("PK\3\4")) || str_starts_with(bytes, STR("7z\xbc\xaf\x27")))
		return true;
	/* A name may begin with BZh too; what follows is the number pi. */
	return bytes.len >= HEAD_SIZE && str_starts_with(bytes, STR("BZh")) &&
	       memcmp(bytes.at + 4, "1AY&SY", 6) == 0;
}

/* 0, ARCHIVE_EOF (there is nothing), or negative. */
static int begin(struct inflate *in, struct err *err)
{
	in->is_begun = true;
	while (in->held < HEAD_SIZE && !in->is_ended) {
		ssize_t n = read_more(in, in->bytes + in->held, sizeof(in->bytes) - in->held);

		if (n < 0)
			return unreadable(err, n);
		in->held += (size_t)n;
	}
	/* Even an archive of nothing has an end. Whoever made this one has failed. */
	if (!in->held)
		return damaged(err, "it is cut, not one byte has come");
	if (is_other_format(in))
		return damaged(err, "it is bzip2, zip or 7z; tar is taken, as it is or packed with "
				    "gzip, xz or zstd");
	if (in->held >= sizeof(xz_magic) && memcmp(in->bytes, xz_magic, sizeof(xz_magic)) == 0)
		return begin_xz(in, err);
	return begin_other(in, err);
}

ssize_t inflate_next(struct inflate *in, const void **ret, struct err *err)
{
	if (!in->is_begun) {
		int r = begin(in, err);

		if (r != 0)
			return r < 0 ? r : 0;
	}
	return in->is_xz ? next_of_xz(in, ret, err) : next_of_other(in, ret, err);
}
