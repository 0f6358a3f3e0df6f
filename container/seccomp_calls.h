/* Which system calls a sandbox has, by name; both lists end with NULL. See seccomp.h. */
#ifndef BERTH_CONTAINER_SECCOMP_CALLS_H
#define BERTH_CONTAINER_SECCOMP_CALLS_H

extern const char *const seccomp_allowed[];
extern const char *const seccomp_refused[]; /* EPERM */

#endif
