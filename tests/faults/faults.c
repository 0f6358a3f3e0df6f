/*
 * Loaded before a program's libraries (LD_PRELOAD), it lets one call of a kind fail, or all from
 * one on. Which, says a file that BERTH_FAULTS names and that test and program map: see faults.py,
 * whose picture of struct control must be the same. Processes that the program forks count along.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/preload.h"

enum kind {
	FAULT_NONE,
	FAULT_OPEN,
	FAULT_WRITE,
	FAULT_SYNC,
	FAULT_MOUNT,
	FAULT_FORK,
	FAULT_MEMORY,
	FAULT_MAKE,
	FAULT_UNMAKE
};

struct control {
	_Atomic int32_t kind; /* FAULT_NONE: all goes well */
	int32_t nth;          /* the one to fail, from 1 on */
	int32_t error;
	int32_t is_lasting; /* those after it fail too */
	_Atomic int32_t calls, hits;
	char program[32];
	char path[256]; /* only files with this in their names; "": any */
};

static struct control *control;
static uintptr_t program_begin, program_end; /* its own code: who else allocates does not count */

static int find_program(struct dl_phdr_info *info, size_t size, void *arg)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
			program_begin = info->dlpi_addr + part->p_vaddr;
			program_end = program_begin + part->p_memsz;
		}
	}
	return 1; /* it comes first */
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("BERTH_FAULTS");
	int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
	void *map;

	dl_iterate_phdr(find_program, NULL);
	if (fd < 0)
		return;
	map = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		control = map;
}

static bool is_meant(const char *path, int fd)
{
	char name[PATH_MAX], link[32];
	ssize_t n;

	if (!control->path[0])
		return true;
	if (path)
		return strstr(path, control->path);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof(name) - 1);
	name[n < 0 ? 0 : n] = '\0';
	return strstr(name, control->path);
}

static bool must_fail(enum kind kind, const char *path, int fd)
{
	int n, error = errno;

	if (!control || control->kind != (int)kind ||
	    strcmp(program_invocation_short_name, control->program) != 0 || !is_meant(path, fd)) {
		errno = error;
		return false;
	}
	n = atomic_fetch_add(&control->calls, 1) + 1;
	if (n < control->nth || (n > control->nth && !control->is_lasting)) {
		errno = error;
		return false;
	}
	control->hits++;
	errno = control->error;
	return true;
}

/* --- files --- */

typedef int openat_fn(int dir, const char *path, int flags, ...);
typedef int open_fn(const char *path, int flags, ...);
typedef ssize_t write_fn(int fd, const void *bytes, size_t size);
typedef ssize_t pwrite_fn(int fd, const void *bytes, size_t size, off_t at);
typedef int sync_fn(int fd);

static int open_next(open_fn *next, const char *path, int flags, mode_t mode)
{
	return must_fail(FAULT_OPEN, path, -1) ? -1 : next(path, flags, mode);
}

#define OPEN(function, name)                                                                       \
	int function(const char *path, int flags, ...) INSTEAD_OF(name);                           \
	int function(const char *path, int flags, ...)                                             \
	{                                                                                          \
		va_list args;                                                                      \
		mode_t mode;                                                                       \
                                                                                                   \
		va_start(args, flags);                                                             \
		mode = va_arg(args, mode_t);                                                       \
		va_end(args);                                                                      \
		return open_next((open_fn *)NEXT(name), path, flags, mode);                        \
	}
OPEN(fault_open, "open")
OPEN(fault_open64, "open64")

#define OPENAT(function, name)                                                                     \
	int function(int dir, const char *path, int flags, ...) INSTEAD_OF(name);                  \
	int function(int dir, const char *path, int flags, ...)                                    \
	{                                                                                          \
		va_list args;                                                                      \
		mode_t mode;                                                                       \
                                                                                                   \
		va_start(args, flags);                                                             \
		mode = va_arg(args, mode_t);                                                       \
		va_end(args);                                                                      \
		if (must_fail(FAULT_OPEN, path, -1))                                               \
			return -1;                                                                 \
		return ((openat_fn *)NEXT(name))(dir, path, flags, mode);                          \
	}
OPENAT(fault_openat, "openat")
OPENAT(fault_openat64, "openat64")

ssize_t fault_write(int fd, const void *bytes, size_t size) INSTEAD_OF("write");
ssize_t fault_write(int fd, const void *bytes, size_t size)
{
	return must_fail(FAULT_WRITE, NULL, fd) ? -1 : ((write_fn *)NEXT("write"))(fd, bytes, size);
}

#define PWRITE(function, name)                                                                     \
	ssize_t function(int fd, const void *bytes, size_t size, off_t at) INSTEAD_OF(name);       \
	ssize_t function(int fd, const void *bytes, size_t size, off_t at)                         \
	{                                                                                          \
		if (must_fail(FAULT_WRITE, NULL, fd))                                              \
			return -1;                                                                 \
		return ((pwrite_fn *)NEXT(name))(fd, bytes, size, at);                             \
	}
PWRITE(fault_pwrite, "pwrite")
PWRITE(fault_pwrite64, "pwrite64")

#define SYNC(function, name)                                                                       \
	int function(int fd) INSTEAD_OF(name);                                                     \
	int function(int fd)                                                                       \
	{                                                                                          \
		return must_fail(FAULT_SYNC, NULL, fd) ? -1 : ((sync_fn *)NEXT(name))(fd);         \
	}
SYNC(fault_fsync, "fsync")
SYNC(fault_fdatasync, "fdatasync")

/* --- what is made of files and mounts: up to five words each, which is all that they take --- */

typedef long any_fn(long a, long b, long c, long d, long e);

#define ANY(function, name, kind)                                                                  \
	long function(long a, long b, long c, long d, long e) INSTEAD_OF(name);                    \
	long function(long a, long b, long c, long d, long e)                                      \
	{                                                                                          \
		return must_fail(kind, "", -1) ? -1 : ((any_fn *)NEXT(name))(a, b, c, d, e);       \
	}
ANY(fault_mount, "mount", FAULT_MOUNT)
ANY(fault_fsopen, "fsopen", FAULT_MOUNT)
ANY(fault_fsconfig, "fsconfig", FAULT_MOUNT)
ANY(fault_fsmount, "fsmount", FAULT_MOUNT)
ANY(fault_move_mount, "move_mount", FAULT_MOUNT)
ANY(fault_open_tree, "open_tree", FAULT_MOUNT)
ANY(fault_mount_setattr, "mount_setattr", FAULT_MOUNT)
ANY(fault_unshare, "unshare", FAULT_MOUNT)
ANY(fault_mkdirat, "mkdirat", FAULT_MAKE)
ANY(fault_mkdir, "mkdir", FAULT_MAKE)
ANY(fault_renameat, "renameat", FAULT_MAKE)
ANY(fault_fchown, "fchown", FAULT_MAKE)
ANY(fault_fchownat, "fchownat", FAULT_MAKE)
ANY(fault_fchmodat, "fchmodat", FAULT_MAKE)
ANY(fault_symlinkat, "symlinkat", FAULT_MAKE)
ANY(fault_bind, "bind", FAULT_MAKE)
ANY(fault_umount2, "umount2", FAULT_UNMAKE)
ANY(fault_unlinkat, "unlinkat", FAULT_UNMAKE)

/* --- processes --- */

pid_t fault_fork(void) INSTEAD_OF("fork");
pid_t fault_fork(void)
{
	return must_fail(FAULT_FORK, "", -1) ? -1 : ((pid_t(*)(void))NEXT("fork"))();
}

/* Those for which the C library has no function. */
long fault_syscall(long number, ...) INSTEAD_OF("syscall");
long fault_syscall(long number, ...)
{
	long words[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		words[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_clone3 && must_fail(FAULT_FORK, "", -1))
		return -1;
	if (number == SYS_openat2 && must_fail(FAULT_OPEN, (const char *)words[1], -1))
		return -1;
	return ((long (*)(long, ...))NEXT("syscall"))(number, words[0], words[1], words[2],
						      words[3], words[4], words[5]);
}

/* --- memory --- */

static bool is_out_of_memory(void *caller)
{
	uintptr_t at = (uintptr_t)caller;

	return at >= program_begin && at < program_end && must_fail(FAULT_MEMORY, "", -1);
}

void *fault_malloc(size_t size) INSTEAD_OF("malloc");
void *fault_malloc(size_t size)
{
	if (is_out_of_memory(__builtin_return_address(0)))
		return NULL;
	return ((void *(*)(size_t))NEXT("malloc"))(size);
}

void *fault_calloc(size_t count, size_t size) INSTEAD_OF("calloc");
void *fault_calloc(size_t count, size_t size)
{
	if (is_out_of_memory(__builtin_return_address(0)))
		return NULL;
	return ((void *(*)(size_t, size_t))NEXT("calloc"))(count, size);
}

void *fault_realloc(void *old, size_t size) INSTEAD_OF("realloc");
void *fault_realloc(void *old, size_t size)
{
	if (is_out_of_memory(__builtin_return_address(0)))
		return NULL;
	return ((void *(*)(void *, size_t))NEXT("realloc"))(old, size);
}
