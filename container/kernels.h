/*
 * The kernels of images/kernels: what runs code in a context, see the README there. They are part
 * of this program, so that they are always those that berthd knows how to speak to, and nobody can
 * put others in their place.
 */
#ifndef BERTH_CONTAINER_KERNELS_H
#define BERTH_CONTAINER_KERNELS_H

#include "base/str.h"

/* Of kernels_data.c, which is made from them. */
extern const struct str kernel_bash, kernel_javascript, kernel_javascript_calls,
	kernel_javascript_channel, kernel_javascript_console, kernel_javascript_errors,
	kernel_javascript_evaluate, kernel_javascript_exit, kernel_javascript_json,
	kernel_javascript_logs, kernel_javascript_modules, kernel_javascript_orders,
	kernel_javascript_owners, kernel_javascript_positions, kernel_javascript_prepare,
	kernel_javascript_results, kernel_javascript_runs, kernel_javascript_saved,
	kernel_javascript_signals, kernel_javascript_state, kernel_javascript_streams,
	kernel_javascript_texts, kernel_javascript_typescript, kernel_python, kernel_python_errors,
	kernel_python_hooks, kernel_python_loop, kernel_python_results, kernel_python_runs;

/* Makes the folder `name` with all of them below `dir`. */
int kernels_write(int dir, const char *name);

#endif
