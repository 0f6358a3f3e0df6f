#include "cmd/berth-init/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define X32_BIT 0x40000000u
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define NAMESPACES                                                                                 \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWTIME)

/*
 * Kernel modules, other kernels, mounts, others' namespaces, the hardware, and the favourites of
 * those who attack the kernel. What programs of everyday try, be it in vain, is not here: ptrace
 * and process_vm_readv (leak checkers, unwinders), io_uring (libuv), keyctl (Kerberos), chroot and
 * syslog (a person who does not know better). To all of it the sandbox's filter says EPERM.
 */
static const uint16_t fatal[] = {
	SYS_bpf,
	SYS_delete_module,
	SYS_finit_module,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_fsopen,
	SYS_fspick,
	SYS_init_module,
	SYS_ioperm,
	SYS_iopl,
	SYS_kexec_file_load,
	SYS_kexec_load,
	SYS_mount,
	SYS_mount_setattr,
	SYS_move_mount,
	SYS_open_by_handle_at,
	SYS_open_tree,
	SYS_perf_event_open,
	SYS_pivot_root,
	SYS_reboot,
	SYS_setns,
	SYS_swapoff,
	SYS_swapon,
	SYS_umount2,
	SYS_userfaultfd,
};

/* Which of its arguments is the signal. */
static const struct {
	uint16_t call, argument;
} senders[] = {
	{SYS_kill, 1},
	{SYS_tkill, 1},
	{SYS_rt_sigqueueinfo, 1},
	{SYS_pidfd_send_signal, 1},
	{SYS_tgkill, 2},
	{SYS_rt_tgsigqueueinfo, 2},
};

#define SENDER_STEPS 5
#define OWNER_STEPS  7

struct program {
	struct sock_filter code[128];
	unsigned short len;
};

_Static_assert(8 + 2 * array_len(fatal) + 5 + SENDER_STEPS * array_len(senders) + OWNER_STEPS + 1 <=
		       128,
	       "all of it fits");

static void load(struct program *p, size_t offset)
{
	p->code[p->len++] =
		(struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
}

/* If what was loaded compares so with `value`, the next `steps` are taken, and else left out. */
static void when(struct program *p, uint16_t comparison, uint32_t value, uint8_t steps)
{
	p->code[p->len++] =
		(struct sock_filter)BPF_JUMP(BPF_JMP | comparison | BPF_K, value, 0, steps);
}

static void answer(struct program *p, uint32_t action)
{
	p->code[p->len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
}

static size_t offset_of_argument(unsigned i)
{
	return offsetof(struct seccomp_data, args) + i * sizeof(uint64_t); /* its lower half */
}

/*
 * clone3 hides its flags in memory, where a filter cannot see CLONE_NEWUSER. The sandbox's filter
 * leaves it to init, which needs CLONE_INTO_CGROUP; to all others it is a call that the kernel
 * does not have, so that the C library falls back to clone.
 */
static void add_common(struct program *p)
{
	load(p, offsetof(struct seccomp_data, arch));
	p->code[p->len++] =
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	answer(p, SECCOMP_RET_ERRNO | ENOSYS);
	load(p, offsetof(struct seccomp_data, nr));
	when(p, BPF_JGE, X32_BIT, 1);
	answer(p, SECCOMP_RET_ERRNO | ENOSYS);
	when(p, BPF_JEQ, SYS_clone3, 1);
	answer(p, SECCOMP_RET_ERRNO | ENOSYS);
}

static void add_strict(struct program *p)
{
	for (size_t i = 0; i < array_len(fatal); i++) {
		when(p, BPF_JEQ, fatal[i], 1);
		answer(p, SECCOMP_RET_KILL_PROCESS);
	}
	when(p, BPF_JEQ, SYS_unshare, 4);
	load(p, offset_of_argument(0));
	when(p, BPF_JSET, NAMESPACES, 1);
	answer(p, SECCOMP_RET_KILL_PROCESS);
	answer(p, SECCOMP_RET_ALLOW);
	for (size_t i = 0; i < array_len(senders); i++) {
		when(p, BPF_JEQ, senders[i].call, 4);
		load(p, offset_of_argument(senders[i].argument));
		when(p, BPF_JEQ, SIGSYS, 1);
		answer(p, SECCOMP_RET_ERRNO | EPERM);
		answer(p, SECCOMP_RET_ALLOW);
	}
	/* A descriptor that is ready can have it sent to anybody. */
	when(p, BPF_JEQ, SYS_fcntl, OWNER_STEPS - 1);
	load(p, offset_of_argument(1));
	when(p, BPF_JEQ, F_SETSIG, 3);
	load(p, offset_of_argument(2));
	when(p, BPF_JEQ, SIGSYS, 1);
	answer(p, SECCOMP_RET_ERRNO | EPERM);
	answer(p, SECCOMP_RET_ALLOW);
}

int filter_apply(bool is_strict)
{
	struct program p;
	struct sock_fprog program = {.filter = p.code};

	p.len = 0;
	add_common(&p);
	if (is_strict)
		add_strict(&p);
	answer(&p, SECCOMP_RET_ALLOW);
	program.len = p.len;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}
