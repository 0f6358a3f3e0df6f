/*
 * An archive that anybody made: whatever comes out are frames that decode, names that lead nowhere
 * else, and of each file exactly the data that its entry told of, unless the archive was refused.
 */
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUT_MAX (1 << 20) /* a bomb ends there, as with a worker that reads no more */

static void check_name(struct str name)
{
	assert(!name.len || name.at[0] != '/');
	while (name.len)
		assert(!str_eq(str_cut(&name, '/'), STR("..")));
}

static void check_entry(const struct file_entry *entry)
{
	check_name(entry->name);
	check_name(entry->original);
	assert(entry->stat.type == FILE_TYPE_FILE || entry->stat.type == FILE_TYPE_DIRECTORY ||
	       entry->stat.type == FILE_TYPE_LINK || entry->stat.type == FILE_TYPE_FIFO);
	assert(!entry->stat.size || (entry->stat.type == FILE_TYPE_FILE && !entry->original.len));
}

/* What is left of the last entry's data. */
static uint64_t check_frame(const struct file_piece *piece, uint64_t left)
{
	struct file_entry entry;
	struct file_data part;

	if (piece->head.type == FILE_ENTRY) {
		assert(left == 0 && frame_decode(piece->message, file_entry_fields, &entry) == 0);
		check_entry(&entry);
		return entry.stat.size;
	}
	assert(piece->head.type == FILE_DATA || piece->head.type == FILE_HOLE);
	assert(frame_decode(piece->message, file_data_fields, &part) == 0 && part.size <= left);
	return left - part.size;
}

static void check_frames(struct str bytes, bool is_whole)
{
	struct file_reader reader;
	struct file_piece piece;
	uint64_t left = 0;
	int got;

	file_reader_init(&reader);
	while ((got = file_reader_next(&reader, &bytes, &piece)) > 0) {
		if (got == FILE_FOUND_FRAME)
			left = check_frame(&piece, left);
	}
	assert(got == 0 && (!is_whole || (left == 0 && file_reader_is_clean(&reader))));
	file_reader_close(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_fd int in = memfd_create("in", MFD_CLOEXEC);
	cleanup_fd int out = memfd_create("out", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct err err;
	off_t len;
	void *bytes;
	int r;

	assert(in >= 0 && write(in, data, size) == (ssize_t)size && lseek(in, 0, SEEK_SET) == 0);
	assert(out >= 0 && ftruncate(out, OUT_MAX) == 0 &&
	       fcntl(out, F_ADD_SEALS, F_SEAL_GROW) == 0);
	r = tar_read_entries(in, out, NULL, &err);
	len = lseek(out, 0, SEEK_CUR);
	assert(r == 0 || (r < 0 && err.code != ERR_NONE && err.sentence[0]));
	bytes = mmap(NULL, OUT_MAX, PROT_READ, MAP_SHARED, out, 0);
	assert(bytes != MAP_FAILED && len >= 0 && len <= OUT_MAX);
	check_frames((struct str){bytes, (size_t)len}, r == 0);
	munmap(bytes, OUT_MAX);
	return 0;
}
