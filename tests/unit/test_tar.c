/* What a hostile worker may tell of its files, and that nothing of it grows an archive by itself.
 */
#include "daemon/tar.h"

#include <errno.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/tap.h"

#define TIB (UINT64_C(1) << 40)

static size_t written;

static void count(void *arg, struct str bytes)
{
	written += bytes.len;
}

static struct tar_writer *begin(void)
{
	struct tar_writer *w = tar_writer_new("./", count, NULL);

	check(w != NULL);
	written = 0;
	return w;
}

static struct file_entry file(const char *name, uint64_t size)
{
	return (struct file_entry){.name = str_of(name),
				   .stat = {.type = FILE_TYPE_FILE, .mode = 0644, .size = size}};
}

/* Of one part: where its data is. */
static struct file_entry sparse(uint64_t size, char map[16], uint64_t at, uint64_t len)
{
	struct file_entry entry = file("sparse", size);

	for (unsigned i = 0; i < 8; i++) {
		map[i] = (char)(at >> (8 * i));
		map[8 + i] = (char)(len >> (8 * i));
	}
	entry.map = (struct str){map, 16};
	return entry;
}

static void test_honest(void)
{
	struct tar_writer *w = begin();
	struct file_entry root = {.stat = {.type = FILE_TYPE_DIRECTORY, .mode = 0755}};
	struct file_entry one = file("one", 3), none = file("none", 0);
	struct file_entry two = file("two", 3);
	struct err err;

	two.original = STR("one");
	check(tar_writer_entry(w, &root, &err) == 0);
	check(tar_writer_entry(w, &one, &err) == 0);
	check(tar_writer_bytes(w, STR("on"), &err) == 0);
	check(tar_writer_bytes(w, STR("e"), &err) == 0);
	check(tar_writer_entry(w, &none, &err) == 0);
	check(tar_writer_entry(w, &two, &err) == 0);
	check(tar_writer_end(w, &err) == 0);
	check(written >= 10240 && written % 10240 == 0);
	tar_writer_free(w);
	tap_ok("files, a directory and a hard link");
}

static void test_holes(void)
{
	struct tar_writer *w = begin();
	char map[16];
	struct file_entry entry = sparse(TIB, map, TIB / 2, 4);
	struct err err;

	check(tar_writer_entry(w, &entry, &err) == 0);
	check(tar_writer_hole(w, TIB / 2, &err) == 0);
	check(tar_writer_bytes(w, STR("data"), &err) == 0);
	check(tar_writer_hole(w, TIB / 2 - 4, &err) == 0);
	check(tar_writer_end(w, &err) == 0);
	check(written < 20480);
	tar_writer_free(w);
	tap_ok("a file of a TiB with four bytes in it is small");
}

static void test_many_holes(void)
{
	struct tar_writer *w = begin();
	char map[16];
	struct file_entry entry = sparse(16 * TIB, map, 16 * TIB - 1, 1);
	clock_t before = clock();
	struct err err;

	for (int i = 0; i < 200; i++) {
		check(tar_writer_entry(w, &entry, &err) == 0);
		check(tar_writer_hole(w, 16 * TIB - 1, &err) == 0);
		check(tar_writer_bytes(w, STR("x"), &err) == 0);
	}
	check(clock() - before < CLOCKS_PER_SEC);
	tar_writer_free(w);
	tap_ok("holes cost nearly nothing, as many and as large as they are");
}

static void test_missing(void)
{
	struct file_entry large = file("large", TIB), next = file("next", 0);
	struct tar_writer *w = begin();
	struct err err;

	check(tar_writer_entry(w, &large, &err) == 0);
	check(tar_writer_entry(w, &next, &err) == -EBADMSG);
	check(tar_writer_end(w, &err) == -EBADMSG);
	tar_writer_free(w);
	check(written < 20480);
	tap_ok("data that was told of and did not come is not made up, nor when all ends");
}

static void test_false_holes(void)
{
	struct file_entry large = file("large", TIB);
	struct tar_writer *w = begin();
	struct err err;
	char map[16];

	check(tar_writer_entry(w, &large, &err) == 0);
	check(tar_writer_hole(w, TIB, &err) == -EBADMSG);
	tar_writer_free(w);
	large = sparse(TIB, map, 100, TIB - 200);
	w = begin();
	check(tar_writer_entry(w, &large, &err) == 0);
	check(tar_writer_hole(w, 101, &err) == -EBADMSG);
	check(tar_writer_hole(w, 100, &err) == 0);
	check(tar_writer_hole(w, 1, &err) == -EBADMSG);
	check(tar_writer_hole(w, UINT64_MAX, &err) == -EBADMSG);
	tar_writer_free(w);
	check(written < 20480);
	tap_ok("holes are where the map has them, or nowhere");
}

static void test_too_much(void)
{
	struct file_entry small = file("small", 2);
	struct tar_writer *w = begin();
	struct err err;

	check(tar_writer_bytes(w, STR("x"), &err) == -EBADMSG);
	check(tar_writer_entry(w, &small, &err) == 0);
	check(tar_writer_bytes(w, STR("xxx"), &err) == -EBADMSG);
	tar_writer_free(w);
	tap_ok("more data than was told of is refused");
}

static void test_nonsense(void)
{
	static const char *const names[] = {"/absolute", "..", "a/../b", "../a"};
	struct file_entry entry = file("past", (UINT64_C(1) << 44) + 1);
	struct tar_writer *w = begin();
	struct err err;
	char map[16];

	check(tar_writer_entry(w, &entry, &err) == -EBADMSG);
	for (size_t i = 0; i < array_len(names); i++) {
		entry = file(names[i], 0);
		check(tar_writer_entry(w, &entry, &err) == -EBADMSG);
		entry = file("link", 0);
		entry.original = str_of(names[i]);
		check(tar_writer_entry(w, &entry, &err) == -EBADMSG);
	}
	entry = sparse(100, map, 50, 51);
	check(tar_writer_entry(w, &entry, &err) == -EBADMSG);
	entry.map.len = 15;
	check(tar_writer_entry(w, &entry, &err) == -EBADMSG);
	entry = file("xattrs", 0);
	entry.xattrs = STR("user.a\0\xff\xff\xff\xffx");
	check(tar_writer_entry(w, &entry, &err) == -EBADMSG);
	entry = (struct file_entry){.name = STR("s"), .stat = {.type = FILE_TYPE_SOCKET}};
	check(tar_writer_entry(w, &entry, &err) == -EBADMSG);
	tar_writer_free(w);
	tap_ok("names that lead out, false maps and attributes, sockets are refused");
}

static void test_damaged(void)
{
	cleanup_fd int in = memfd_create("in", MFD_CLOEXEC);
	cleanup_fd int out = memfd_create("out", MFD_CLOEXEC);
	struct err err;

	check(write(in, "no archive", 10) == 10 && lseek(in, 0, SEEK_SET) == 0);
	check(tar_read_entries(in, out, NULL, &err) == -EBADMSG && err.code == ERR_INVALID_REQUEST);
	check(lseek(out, 0, SEEK_CUR) == 0);
	tap_ok("what is no archive is refused");
}

int main(void)
{
	test_honest();
	test_holes();
	test_many_holes();
	test_missing();
	test_false_holes();
	test_too_much();
	test_nonsense();
	test_damaged();
	return tap_done();
}
