/*
 * The kernels of images/kernels: what runs code in a context, see the README there. They are part
 * of this program, so that they are always those that berthd knows how to speak to, and nobody can
 * put others in their place.
 */
#ifndef BERTH_CONTAINER_KERNELS_H
#define BERTH_CONTAINER_KERNELS_H

#include "base/str.h"

/* Of kernels_data.c, which is made from them. */
extern const struct str kernel_bash, kernel_javascript, kernel_python, kernel_python_errors,
	kernel_python_hooks, kernel_python_loop, kernel_python_results, kernel_python_runs;

/* Makes the folder `name` with all of them below `dir`. */
int kernels_write(int dir, const char *name);

#endif
