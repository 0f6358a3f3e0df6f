/* Which controllers a cgroup of v2 passes on to those below it. */
#ifndef BERTH_CONTAINER_CGROUP_PASS_H
#define BERTH_CONTAINER_CGROUP_PASS_H

#include <stdbool.h>

/*
 * Has it do so, and looks whether it does. The runtime would do the same at the first start, and
 * fail it where that cannot be: in a container whose processes are in the cgroup that it sees as
 * the root.
 */
bool cgroup_pass_down(int dir, const char *controller);

#endif
