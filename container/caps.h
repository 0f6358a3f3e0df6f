/* Which of the capabilities of proto/capability.h a sandbox can have here. */
#ifndef BERTH_CONTAINER_CAPS_H
#define BERTH_CONTAINER_CAPS_H

#include <stdint.h>

/* A set of them, less those that we do not have ourselves. */
uint32_t caps_of_sandbox(void);

#endif
