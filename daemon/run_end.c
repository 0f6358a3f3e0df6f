/* What it means for a run that its kernel has ended, or could not be started. */
#include <signal.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "daemon/run_state.h"

void run_write_greedy(const struct run *run, char ret[RUN_GREEDY_MAX])
{
	uint64_t max = run->request.limits.memory_bytes;
	int n = snprintf(ret, RUN_GREEDY_MAX,
			 "the code needed more memory than limits.memory allows");

	if (max)
		snprintf(ret + n, RUN_GREEDY_MAX - (size_t)n, ", %llu bytes",
			 (unsigned long long)max);
}

struct verdict {
	enum run_status status;
	const char *code, *sentence; /* NULL: run_write_greedy() */
};

/* Its kernel has ended by itself. */
static struct verdict verdict_of_exit(const struct run *run, const struct context_end *end)
{
	const struct sandbox *sb = run_sandbox(run);

	if (end->signal == SIGKILL && sb && sandbox_oom_kills(sb) > 0)
		return (struct verdict){RUN_FAILED, RUN_SANDBOX_MEMORY_LIMIT, NULL};
	return (struct verdict){RUN_FAILED, RUN_CODE_ERROR,
				"the code ended its process before it returned"};
}

static struct verdict verdict_of(const struct run *run, const struct context_end *end)
{
	switch (end->reason) {
	case CONTEXT_OOM:
		return (struct verdict){RUN_FAILED, RUN_SANDBOX_MEMORY_LIMIT,
					end->signal == SIGKILL ? NULL : CONTEXT_HEAP_FULL};
	case CONTEXT_CPU_LIMIT:
		return (struct verdict){RUN_FAILED, RUN_SANDBOX_CPU_LIMIT,
					"the code has used up its limits.cpu_time_ms"};
	case CONTEXT_VIOLATION:
		return (struct verdict){RUN_FAILED, RUN_SANDBOX_SECURITY_VIOLATION,
					"the code made a system call that is forbidden here"};
	case CONTEXT_TIMEOUT:
		return (struct verdict){RUN_TIMED_OUT, RUN_SANDBOX_TIMEOUT,
					"the code was still running after its timeout_ms"};
	case CONTEXT_BAD_REPORT:
		return (struct verdict){RUN_FAILED, RUN_CODE_ERROR,
					"the code has broken the line on which its results come"};
	case CONTEXT_KILLED:
		return (struct verdict){RUN_CANCELLED, "cancelled", RUN_STOPPED};
	case CONTEXT_NOT_STARTED:
		return (struct verdict){RUN_FAILED, "start_failed",
					"the language could not be started"};
	case CONTEXT_LOST:
		return (struct verdict){RUN_LOST, "lost", "its sandbox was lost meanwhile"};
	default:
		return verdict_of_exit(run, end);
	}
}

void run_end_kernel(struct run *run, const struct context_end *end)
{
	struct verdict verdict = verdict_of(run, end);
	char sentence[512], greedy[RUN_GREEDY_MAX];

	if (!verdict.sentence) {
		run_write_greedy(run, greedy);
		verdict.sentence = greedy;
	}
	if (end->reason == CONTEXT_NOT_STARTED && end->message[0])
		snprintf(sentence, sizeof(sentence), "%s: %s", verdict.sentence, end->message);
	else if (end->reason == CONTEXT_EXITED)
		snprintf(sentence, sizeof(sentence), "%s (%s %d)", verdict.sentence,
			 end->signal ? "signal" : "status",
			 end->signal ? end->signal : end->exit_code);
	else
		snprintf(sentence, sizeof(sentence), "%s", verdict.sentence);
	run_end_error(run, verdict.status,
		      &(struct run_error){.code = verdict.code,
					  .message = {sentence, utf8_valid_len(str_of(sentence))}});
}
