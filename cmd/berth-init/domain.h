/*
 * A domain of Landlock for each interpreter: whoever is in another one, as the code of another
 * context is, can neither trace it nor open what it has open through /proc, whatever user it is.
 * Nothing else is forbidden in there, but mounts, which are forbidden anyway.
 */
#ifndef BERTH_INIT_DOMAIN_H
#define BERTH_INIT_DOMAIN_H

/* In the child, before execve. 0 also where the kernel has no such domains. */
int domain_enter(void);

#endif
