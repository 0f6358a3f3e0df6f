/*
 * What berthd and a file worker say to each other. A worker is an exec whose program is berth-init
 * itself (AGENT_EXEC_WORKER): it works for one request, inside the sandbox, as the sandbox's user,
 * so that every path is looked up where it belongs and can only ever mean the sandbox's own files.
 * Its stdin and stdout carry frames, one behind the other; FILE_DATA is followed by as many raw
 * bytes as it says. What a worker says is hostile to berthd.
 *
 *	berthd                              worker
 *	REQUEST          ──────────>
 *	                 <──────────        RESULT                  every operation but:
 *
 *	REQUEST read     ──────────>
 *	                 <──────────        RESULT: the file is open, and this is what it is
 *	GO               ──────────>                                or the end of stdin: not wanted
 *	                 <──────────        DATA (one), its bytes
 *
 *	REQUEST write    ──────────>
 *	                 <──────────        RESULT: it can be written (or why not)
 *	DATA ..., END    ──────────>                                stdin's end before END: undone
 *	                 <──────────        RESULT: it is there
 *
 *	REQUEST list     ──────────>
 *	                 <──────────        ENTRY ..., RESULT
 *
 *	REQUEST pack     ──────────>
 *	                 <──────────        RESULT, { ENTRY, (DATA | HOLE) ... } ..., RESULT
 *
 *	REQUEST unpack   ──────────>
 *	                 <──────────        RESULT: entries can come (or why not)
 *	{ ENTRY, (DATA | HOLE) ... } ..., END ──>
 *	                 <──────────        RESULT: for all, or at the first entry that failed
 *
 * A worker that has said its last RESULT exits with 0. An entry's data is as long as its size says,
 * holes included; only regular files that are no hard link to an earlier entry have any.
 */
#ifndef BERTH_PROTO_FILE_H
#define BERTH_PROTO_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "proto/frame.h"

#define FILE_PATH_MAX     4096  /* bytes; longer paths are refused, as the kernel would */
#define FILE_XATTRS_MAX   32768 /* of one entry, names and values */
#define FILE_PATTERNS_MAX 16384
#define FILE_MAP_MAX      16384 /* of one entry: its parts, 16 bytes each */
#define FILE_LIST_MAX     10000 /* entries of one page */

enum file_frame {
	FILE_REQUEST = 1,
	FILE_GO,
	FILE_RESULT,
	FILE_ENTRY,
	FILE_DATA,
	FILE_HOLE,
	FILE_END,
};

/*
 * Paths are followed as the sandbox's user would, but for magic links of proc: ELOOP. What is no
 * regular file is EISDIR or EOPNOTSUPP to read, write and copy, and the result's stat says what it
 * is. A write goes through symbolic links to the file they stand for; move and remove take the link
 * itself. A directory is removed only with FILE_RECURSIVE (else EISDIR), and never a mount (EBUSY).
 * No file replaces a directory, and a copied tree nothing at all (EEXIST). A list leaves out what
 * is in directories that the user may not read; all others stop there.
 *
 * Trees: links are not followed; what the kernel makes up (proc, sysfs, cgroups, ...) is not
 * entered, other mounts are. A pack leaves out sockets and devices; of the patterns one without a
 * slash matches a name anywhere, one with a slash the path from the root, `**` also slashes.
 */
enum file_op {
	FILE_OP_READ = 1,
	FILE_OP_WRITE,
	FILE_OP_REMOVE,
	FILE_OP_STAT,
	FILE_OP_LIST,
	FILE_OP_MKDIR,
	FILE_OP_MOVE,
	FILE_OP_COPY,
	FILE_OP_CHMOD,
	FILE_OP_PACK,
	FILE_OP_UNPACK,
	FILE_OP_WATCH, /* stays: see proto/watch.h */
	FILE_OP_PROBE, /* no file: until a port is as it should be, or stdin ends */
	FILE_OP_COUNT,
};

enum file_flags {
	FILE_RECURSIVE = 1, /* remove, list, copy, chmod */
	FILE_HIDDEN = 2,    /* list: names that begin with a dot too */
	FILE_HAS_MODE = 4,  /* write, mkdir: `mode`; else the old file's, or 0644 and 0755 */
	FILE_NO_FOLLOW = 8, /* stat: of a link itself */
	FILE_OWNERS = 16,   /* unpack: the archive's owners, not the sandbox's user */
	FILE_SPARSE = 32,   /* pack: tell of holes; else they are zeros */
	FILE_HTTP = 64,     /* probe: a GET of `path` is answered with 200 to 399 */
};

struct file_request {
	uint32_t op;
	uint32_t flags;
	uint32_t mode;       /* permission bits, 07777 at most */
	uint32_t limit;      /* list: entries */
	struct str path;     /* absolute, without NUL */
	struct str other;    /* move, copy: where to; probe: the port, in digits */
	struct str cursor;   /* list: the last path that was seen, relative to `path` */
	struct str patterns; /* pack: what is left out; a frame list */
};

/* Of what was asked for, an open file is read. */
struct file_go {
	uint64_t offset, length;
};

enum file_type {
	FILE_TYPE_NONE,
	FILE_TYPE_FILE,
	FILE_TYPE_DIRECTORY,
	FILE_TYPE_LINK,
	FILE_TYPE_FIFO,
	FILE_TYPE_SOCKET,
	FILE_TYPE_CHAR_DEVICE,
	FILE_TYPE_BLOCK_DEVICE,
	FILE_TYPE_COUNT,
};

/* Where an operation failed, for the sentence that is made of it. */
enum file_stage {
	FILE_AT_REQUEST,
	FILE_AT_PATH,   /* looking up, opening, or making `path` */
	FILE_AT_PARENT, /* making the directories above it */
	FILE_AT_OTHER,  /* looking up or making `other` */
	FILE_AT_DATA,   /* reading or writing bytes */
	FILE_AT_ENTRY,  /* of a tree: `where` names it */
	FILE_STAGE_COUNT,
};

struct file_stat {
	uint32_t type, mode; /* the permission bits alone */
	uint32_t uid, gid;   /* inside */
	uint32_t links;
	uint64_t size;
	int64_t mtime;       /* in seconds since 1970, before it too */
	uint32_t mtime_nsec; /* ... and so much later */
	uint64_t ctime_ns;   /* tells one change from another, nothing else */
	uint64_t dev, ino;
};

struct file_result {
	uint32_t error; /* an errno; 0: done */
	uint32_t stage;
	uint32_t is_new; /* write, mkdir: it was not there before */
	struct file_stat stat;
	/* Pack, unpack, copy, remove: entries, and what is in them. Probe: the status. */
	uint64_t count, bytes;
	uint32_t has_more; /* list: the last entry is the cursor for the next page */
	struct str where;  /* the link's target, or with an error the name of the entry */
};

struct file_entry {
	struct str name; /* relative; "" is the tree's own root */
	struct file_stat stat;
	struct str link;     /* the target of a symbolic link */
	struct str original; /* pack, unpack: the earlier name that this is a hard link to */
	struct str xattrs;   /* pack, unpack: name NUL u32 length value, one behind the other */
	/* pack: where its data is, as pairs of u64 offset and length; the rest are holes. Empty:
	 * data everywhere. */
	struct str map;
};

struct file_data {
	uint64_t size; /* raw bytes that follow; or of the hole */
};

struct file_end {
	uint32_t zero;
};

extern const struct frame_field file_request_fields[], file_go_fields[], file_result_fields[],
	file_entry_fields[], file_data_fields[], file_end_fields[];

/*
 * Takes a stream of bytes apart, piece by piece: it holds at most one frame, in memory of its own.
 * Each call takes bytes from the front of `in` and says what was found.
 */
struct file_reader {
	char *frame; /* FRAME_MAX bytes, from the first incomplete frame on; or NULL */
	size_t have;
	uint64_t raw; /* bytes of FILE_DATA still to come */
};

enum file_found {
	FILE_FOUND_NOTHING, /* `in` is used up */
	FILE_FOUND_FRAME,   /* `message`; its strs live until the next call, or as long as `in` */
	FILE_FOUND_BYTES,   /* `bytes`, of the last FILE_DATA */
};

struct file_piece {
	struct frame_head head;
	struct str message;
	struct str bytes;
};

void file_reader_init(struct file_reader *reader);
void file_reader_close(struct file_reader *reader);

/* An enum file_found, -EBADMSG, or -ENOMEM. */
int file_reader_next(struct file_reader *reader, struct str *in, struct file_piece *ret);
/* So many raw bytes of FILE_DATA, no more than are still to come, were taken elsewhere. */
void file_reader_skip(struct file_reader *reader, size_t size);
/* True between frames: an end of the stream here cuts nothing off. */
bool file_reader_is_clean(const struct file_reader *reader);

#endif
