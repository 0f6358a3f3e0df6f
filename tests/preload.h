/*
 * For libraries that are loaded before a program's own (LD_PRELOAD): a function is bound to the
 * name that it stands for by an asm label, and what it stands for is the next of that name.
 */
#ifndef BERTH_TESTS_PRELOAD_H
#define BERTH_TESTS_PRELOAD_H

#include <dlfcn.h>

#define INSTEAD_OF(name) __asm__(name) __attribute__((visibility("default")))
#define NEXT(name)                                                                                 \
	({                                                                                         \
		static void *next_;                                                                \
		if (!next_)                                                                        \
			next_ = dlsym(RTLD_NEXT, name);                                            \
		next_;                                                                             \
	})

#endif
