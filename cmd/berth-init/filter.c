#include "cmd/berth-init/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define X32_BIT 0x40000000u

/*
 * clone3 hides its flags in memory, where a filter cannot see CLONE_NEWUSER. The sandbox's filter
 * leaves it to init, which needs CLONE_INTO_CGROUP; to all others it is a call that the kernel
 * does not have, so that the C library falls back to clone.
 */
int filter_apply(void)
{
	/* clang-format off */
	static const struct sock_filter code[] = {
		BPF_STMT(BPF_LD  | BPF_W   | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 4),
		BPF_STMT(BPF_LD  | BPF_W   | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	};
	/* clang-format on */
	const struct sock_fprog program = {array_len(code), (struct sock_filter *)code};

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}
