#include "cmd/berth-init/domain.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Without it, files cannot be moved from one directory to another: it must be there to be allowed.
 */
#define FS_REFER (1ULL << 13)
#define ABI_MIN  2

int domain_enter(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_ruleset_attr set = {.handled_access_fs = FS_REFER};
	struct landlock_path_beneath_attr all = {.allowed_access = FS_REFER};
	cleanup_fd int root = -1, fd = -1;

	if (abi < ABI_MIN) /* also: it is not there, or is switched off */
		return 0;
	root = open("/", O_PATH | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = (int)syscall(SYS_landlock_create_ruleset, &set, sizeof(set), 0);
	if (fd < 0)
		return -errno;
	all.parent_fd = root;
	if (syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &all, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return -errno;
	return 0;
}
