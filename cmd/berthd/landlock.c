#include "cmd/berthd/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* The kernel's header may be older than the kernel. */
#define FS_REFER     (1ULL << 13) /* ABI 2 */
#define FS_TRUNCATE  (1ULL << 14) /* 3 */
#define NET_BIND     (1ULL << 0)  /* 4 */
#define NET_CONNECT  (1ULL << 1)  /* 4 */
#define FS_IOCTL_DEV (1ULL << 15) /* 5 */
#define SCOPE_UNIX   (1ULL << 0)  /* 6, abstract sockets */
#define SCOPE_SIGNAL (1ULL << 1)  /* 6 */
#define FS_FIRST     ((1ULL << 13) - 1)

#define READ_FILE LANDLOCK_ACCESS_FS_READ_FILE
#define READ_DIR  LANDLOCK_ACCESS_FS_READ_DIR
#define WRITE     (LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)
#define MAKE      (LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR)
#define UNMAKE    (LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR)
#define OF_FILES  (LANDLOCK_ACCESS_FS_EXECUTE | READ_FILE | WRITE | FS_IOCTL_DEV)

/* An older kernel takes a longer struct as long as what it does not know is zero. */
struct ruleset {
	uint64_t fs, net, scoped;
};

static const uint64_t uses[LANDLOCK_USE_COUNT] = {
	[LANDLOCK_LIST] = READ_DIR,
	[LANDLOCK_READ] = READ_FILE | READ_DIR,
	[LANDLOCK_OWN] = READ_FILE | READ_DIR | WRITE | MAKE | UNMAKE | FS_REFER,
	[LANDLOCK_APPEND] = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG,
	[LANDLOCK_REMOVE] = LANDLOCK_ACCESS_FS_REMOVE_FILE,
	[LANDLOCK_DEVICE] = READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE,
};

static struct ruleset handled(int abi, bool has_abstract)
{
	struct ruleset set = {.fs = FS_FIRST | FS_REFER};

	if (abi >= 3)
		set.fs |= FS_TRUNCATE;
	if (abi >= 4)
		set.net = NET_BIND | NET_CONNECT;
	if (abi >= 5)
		set.fs |= FS_IOCTL_DEV;
	if (abi >= 6)
		set.scoped = SCOPE_SIGNAL | (has_abstract ? 0 : SCOPE_UNIX);
	return set;
}

static int add(int ruleset, const struct landlock_rule *rule, uint64_t known)
{
	cleanup_fd int fd = open(rule->path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr beneath = {
		.allowed_access = uses[rule->use] & known,
		.parent_fd = fd,
	};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
	if (!S_ISDIR(st.st_mode))
		beneath.allowed_access &= OF_FILES;
	if (beneath.allowed_access == 0)
		return 0;
	return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) < 0
		       ? -errno
		       : 0;
}

int landlock_restrict(const struct landlock_rule *rules, unsigned count, bool has_abstract)
{
	int abi =
		(int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset set = handled(abi, has_abstract);
	cleanup_fd int fd = -1;

	if (abi < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	if (abi < LANDLOCK_ABI_MIN)
		return 0;
	fd = (int)syscall(SYS_landlock_create_ruleset, &set, sizeof(set), 0);
	if (fd < 0)
		return -errno;
	for (unsigned i = 0; i < count; i++) {
		int r = add(fd, &rules[i], set.fs);

		if (r < 0)
			return r;
	}
	return syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : abi;
}
