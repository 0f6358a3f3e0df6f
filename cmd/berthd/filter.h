/*
 * The system calls that berthd makes once it serves; every other one is refused.
 *
 * Refused is not killed: a call that a library begins to make with its next version would else end
 * the daemon, and with it everybody's service. What nobody but an attacker would try answers EPERM,
 * what is not known here ENOSYS, as from an older kernel, so that libraries do without it.
 *
 * With the address sanitizer a few more are let through, which leak checking needs at the end.
 */
#ifndef BERTH_CMD_BERTHD_FILTER_H
#define BERTH_CMD_BERTHD_FILTER_H

/* For all threads, also those to come. no_new_privs must be set. 0 or a negative errno. */
int filter_load(void);

#endif
