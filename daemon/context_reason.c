/* How calls of contexts end, in words, and as it follows from the end of their kernel. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "daemon/context_state.h"

static const char *const reason_names[] = {
	[CONTEXT_COMPLETED] = "completed",
	[CONTEXT_INTERRUPTED] = "interrupted",
	[CONTEXT_TIMEOUT] = "timeout",
	[CONTEXT_OOM] = "oom",
	[CONTEXT_CPU_LIMIT] = "cpu_limit",
	[CONTEXT_EXITED] = "exited",
	[CONTEXT_VIOLATION] = "security_violation",
	[CONTEXT_BAD_REPORT] = "bad_report",
	[CONTEXT_KILLED] = "killed",
	[CONTEXT_NOT_STARTED] = "not_started",
	[CONTEXT_LOST] = "lost",
};

const char *context_reason_name(enum context_reason reason)
{
	return reason_names[reason];
}

void context_end_of(const struct exec_end *end, struct context_end *ret)
{
	/* clang-format off */
	static const enum context_reason reasons[EXEC_REASON_COUNT] = {
		[EXEC_EXITED]      = CONTEXT_EXITED,
		[EXEC_SIGNALED]    = CONTEXT_EXITED,
		[EXEC_TIMEOUT]     = CONTEXT_TIMEOUT,
		[EXEC_OOM]         = CONTEXT_OOM,
		[EXEC_KILLED]      = CONTEXT_KILLED,
		[EXEC_NOT_STARTED] = CONTEXT_NOT_STARTED,
		[EXEC_LOST]        = CONTEXT_LOST,
		[EXEC_CPU_LIMIT]   = CONTEXT_CPU_LIMIT,
		[EXEC_VIOLATION]   = CONTEXT_VIOLATION,
	};
	/* clang-format on */

	ret->reason = reasons[end->reason];
	ret->exit_code = end->exit_code;
	ret->signal = end->signal;
	if (end->reason == EXEC_LOST && end->oom_suspected) {
		ret->reason = CONTEXT_OOM; /* with its sandbox's first process */
		ret->signal = SIGKILL;
	}
	memcpy(ret->message, end->message, sizeof(ret->message));
	if (ret->message[0])
		return;
	if (end->oom_suspected)
		snprintf(ret->message, sizeof(ret->message), "%s",
			 "its interpreter was killed, perhaps for want of memory: the next call "
			 "gets a fresh one");
	else if (ret->reason == CONTEXT_OOM)
		snprintf(ret->message, sizeof(ret->message), "%s",
			 "the sandbox ran out of memory, and the kernel killed its interpreter; "
			 "what that had started was ended, too: raise limits.memory; the next call "
			 "gets a fresh one");
	else if (ret->reason == CONTEXT_VIOLATION)
		snprintf(ret->message, sizeof(ret->message), "%s",
			 "the code made a system call that is forbidden here, and its interpreter "
			 "was killed: the next call gets a fresh one");
	else if (ret->reason == CONTEXT_EXITED)
		snprintf(ret->message, sizeof(ret->message), "%s",
			 "the code ended its interpreter: the next call gets a fresh one");
}
