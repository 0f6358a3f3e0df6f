#include "cmd/berth-init/work.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"

#define NS_PER_S 1000000000ULL

int work_at(struct work *w, enum file_stage stage, int error)
{
	w->result.stage = stage;
	return error;
}

int work_at_entry(struct work *w, int error)
{
	/* If it is cut, it still says where. */
	walk_path(&w->walk, w->where, sizeof(w->where));
	w->result.where = str_of(w->where);
	return work_at(w, FILE_AT_ENTRY, error);
}

int work_tell(struct work *w)
{
	int error = stream_put(&w->stream, FILE_RESULT, file_result_fields, &w->result);

	return error < 0 ? -EPIPE : stream_flush(&w->stream);
}

int work_expect(struct work *w, enum file_frame type, const struct frame_field *fields, void *ret)
{
	struct frame_head head;
	struct str message;
	int r = stream_next(&w->stream, &head, &message);

	if (r <= 0)
		return r;
	return head.type == type && frame_decode(message, fields, ret) == 0 ? 1 : -EPIPE;
}

static uint32_t type_of(mode_t mode)
{
	/* clang-format off */
	static const uint8_t types[] = {
		[S_IFREG  >> 12] = FILE_TYPE_FILE,
		[S_IFDIR  >> 12] = FILE_TYPE_DIRECTORY,
		[S_IFLNK  >> 12] = FILE_TYPE_LINK,
		[S_IFIFO  >> 12] = FILE_TYPE_FIFO,
		[S_IFSOCK >> 12] = FILE_TYPE_SOCKET,
		[S_IFCHR  >> 12] = FILE_TYPE_CHAR_DEVICE,
		[S_IFBLK  >> 12] = FILE_TYPE_BLOCK_DEVICE,
	};
	/* clang-format on */
	unsigned kind = (mode & S_IFMT) >> 12;

	return kind < array_len(types) ? types[kind] : FILE_TYPE_NONE;
}

static uint64_t time_ns(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

void work_set_stat(struct file_stat *ret, const struct stat *st)
{
	*ret = (struct file_stat){
		.type = type_of(st->st_mode),
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.links = (uint32_t)st->st_nlink,
		.size = (uint64_t)st->st_size,
		.mtime = st->st_mtim.tv_sec,
		.mtime_nsec = (uint32_t)st->st_mtim.tv_nsec,
		.ctime_ns = time_ns(&st->st_ctim),
		.dev = st->st_dev,
		.ino = st->st_ino,
	};
}

/* Absolute and without NUL, and as the kernel takes it. */
static int copy_path(char ret[FILE_PATH_MAX + 1], struct str path)
{
	if (path.len >= FILE_PATH_MAX)
		return -ENAMETOOLONG;
	if (!path.len || path.at[0] != '/' || memchr(path.at, '\0', path.len))
		return -EINVAL;
	memcpy(ret, path.at, path.len);
	ret[path.len] = '\0';
	return 0;
}

static int take_request(struct work *w)
{
	struct frame_head head;
	struct str message;
	int r = stream_next(&w->stream, &head, &message);

	if (r <= 0 || head.type != FILE_REQUEST || head.version != FRAME_VERSION)
		return -EPIPE;
	/* The stream's memory is the next frame's. */
	memcpy(w->frame, message.at, message.len);
	message.at = w->frame;
	if (frame_decode(message, file_request_fields, &w->request) < 0)
		return -EPIPE;
	w->stream.tag = head.tag;
	return 0;
}

static int run(struct work *w)
{
	/* clang-format off */
	static const struct {
		int (*run)(struct work *);
		bool has_other;
	} ops[FILE_OP_COUNT] = {
		[FILE_OP_READ]   = {work_read,   false},
		[FILE_OP_WRITE]  = {work_write,  false},
		[FILE_OP_REMOVE] = {work_remove, false},
		[FILE_OP_STAT]   = {work_stat,   false},
		[FILE_OP_LIST]   = {work_list,   false},
		[FILE_OP_MKDIR]  = {work_mkdir,  false},
		[FILE_OP_MOVE]   = {work_move,   true},
		[FILE_OP_COPY]   = {work_copy,   true},
		[FILE_OP_CHMOD]  = {work_chmod,  false},
		[FILE_OP_PACK]   = {work_pack,   false},
		[FILE_OP_UNPACK] = {work_unpack, false},
		[FILE_OP_WATCH]  = {work_watch,  false},
		[FILE_OP_PROBE]  = {work_probe,  false},
	};
	/* clang-format on */
	uint32_t op = w->request.op;
	int error;

	if (!ops[op].run)
		return work_at(w, FILE_AT_REQUEST, -ENOSYS);
	error = copy_path(w->path, w->request.path);
	if (error < 0)
		return work_at(w, FILE_AT_PATH, error);
	error = ops[op].has_other ? copy_path(w->other, w->request.other) : 0;
	if (error < 0)
		return work_at(w, FILE_AT_OTHER, error);
	return ops[op].run(w);
}

/* The end of a read is its last byte, of all others a result. */
static int finish(struct work *w, int error)
{
	if (error == -EPIPE || (error == 0 && w->request.op == FILE_OP_READ))
		return error;
	w->result.error = (uint32_t)-error;
	return work_tell(w);
}

int work_run(void)
{
	struct sigaction ignored = {.sa_handler = SIG_IGN};
	struct work *w;
	int error;

	/* Before anything else: whoever may trace us could speak for us. */
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || sigaction(SIGPIPE, &ignored, NULL) < 0 ||
	    sigaction(SIGXFSZ, &ignored, NULL) < 0)
		return 1;
	umask(0);
	w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (w == MAP_FAILED)
		return 1;
	stream_init(&w->stream);
	error = take_request(w);
	if (error == 0)
		error = finish(w, run(w));
	return error < 0 ? 1 : 0;
}
