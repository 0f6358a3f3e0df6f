/*
 * Locals own what they hold: a variable declared with one of these is released when it leaves its
 * scope, on every path. take() and take_fd() hand the value to somebody else, who then owns it.
 */
#ifndef BERTH_BASE_CLEANUP_H
#define BERTH_BASE_CLEANUP_H

#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>

#define cleanup(fn) __attribute__((cleanup(fn)))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define array_len(a) (sizeof(a) / sizeof((a)[0]))

#define take(ptr)                                                                                  \
	({                                                                                         \
		__auto_type take_ptr_ = &(ptr);                                                    \
		__auto_type take_value_ = *take_ptr_;                                              \
		*take_ptr_ = NULL;                                                                 \
		take_value_;                                                                       \
	})

static inline int take_fd(int *fd)
{
	int value = *fd;

	*fd = -1;
	return value;
}

static inline void close_fdp(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void free_ptrp(void *ptr)
{
	free(*(void **)ptr);
}

static inline void close_filep(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define cleanup_fd   cleanup(close_fdp)
#define cleanup_free cleanup(free_ptrp)
#define cleanup_file cleanup(close_filep)

#endif
