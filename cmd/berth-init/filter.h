/*
 * The seccomp filter that every exec stacks on the sandbox's own: no clone3, no other ABI. A strict
 * one ends whoever tries what only an attack needs by SIGSYS, which nobody can send there: so the
 * status of a process says why it died.
 */
#ifndef BERTH_INIT_FILTER_H
#define BERTH_INIT_FILTER_H

#include <stdbool.h>

/* For the calling thread; it needs no_new_privs. */
int filter_apply(bool is_strict);

#endif
