/* Whether what lives in the group of an exec leaves its sandbox no processes: a fork bomb. */
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/exec_state.h"
#include "daemon/registry.h"

#define INIT_TASKS 2 /* of a sandbox, in no group of an exec */

/* Threads are counted, as the kernel's limit counts them. 0: that cannot be known. */
static unsigned tasks_of(const struct exec *e)
{
	cleanup_fd int fd =
		e->group.fd < 0 ? -1 : sandbox_group_open(e->sb, e->group, "cgroup.threads");
	unsigned tasks = 0;
	char text[4096];
	ssize_t n;

	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			tasks += text[i] == '\n';
	}
	return tasks;
}

bool exec_crowds(const struct exec *exec)
{
	struct sandbox *sb = exec->sb;
	unsigned max = sb->settings.limits.pids;
	unsigned own = tasks_of(exec), all = INIT_TASKS, many;

	if (!max)
		max = keeper_defaults(registry_keeper(sb->registry)).pids;
	many = max - max / 8;
	if (!max || own < many / 2)
		return false;
	list_for_each (node, &sb->execs)
		all += tasks_of(list_entry(node, struct exec, link));
	return all >= many && own >= all / 2;
}
