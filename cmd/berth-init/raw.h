/*
 * System calls that must not go through the C library: a thread that it does not know of shares
 * the errno of the one that it does, and its clone() cannot be given clone3's flags.
 * x86_64 only.
 */
#ifndef BERTH_INIT_RAW_H
#define BERTH_INIT_RAW_H

#include <linux/sched.h>
#include <sys/syscall.h>

/* A negative errno on failure. */
static inline long raw_call(long number, long a, long b, long c, long d)
{
	register long fourth __asm__("r10") = d;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
			 : "rcx", "r11", "memory");
	return ret;
}

/*
 * clone3() whose child runs fn(data) on the stack that `args` names, and exits with what it
 * returns. The parent gets the child's pid or a negative errno.
 */
static inline long raw_clone(struct clone_args *args, int (*fn)(void *), void *data)
{
	register int (*callee)(void *) __asm__("r12") = fn;
	register void *argument __asm__("r13") = data;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov %[exit], %%eax\n\t"
			 "syscall\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(ret)
			 : "0"((long)SYS_clone3), "D"(args), "S"(sizeof(*args)), "r"(callee),
			   "r"(argument), [exit] "i"(SYS_exit)
			 : "rcx", "r11", "memory");
	return ret;
}

#endif
