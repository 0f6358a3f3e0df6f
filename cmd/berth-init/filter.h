/* The seccomp filter that every exec stacks on the sandbox's own: no clone3, no other ABI. */
#ifndef BERTH_INIT_FILTER_H
#define BERTH_INIT_FILTER_H

/* For the calling thread; it needs no_new_privs. */
int filter_apply(void);

#endif
