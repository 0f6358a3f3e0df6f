/*
 * The system calls of a sandbox: a list of allowed ones, ENOSYS for what is not known here (so that
 * programs fall back, as on an older kernel), EPERM for what is known and withheld, death for other
 * ABIs. Compiled once; crun takes the program as it is, other runtimes get the rules.
 *
 * clone3 stays allowed: init needs it to start a process in a cgroup, and its flags lie in memory
 * where no filter sees them. Init itself takes it away from whatever it starts.
 */
#ifndef BERTH_CONTAINER_SECCOMP_H
#define BERTH_CONTAINER_SECCOMP_H

#include "base/buf.h"
#include "base/err.h"

/* The compiled filter in base64, malloced. */
int seccomp_compile(char **ret, struct err *err);

/* The same rules as the value of OCI's "linux.seccomp". */
int seccomp_write_json(struct buf *out);

#endif
