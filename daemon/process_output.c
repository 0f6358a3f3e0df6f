#include "daemon/process_output.h"

#include <errno.h>

#include "base/cleanup.h"
#include "daemon/logs.h"
#include "daemon/registry.h"

int process_output_open(struct process *p, struct err *err)
{
	char path[LOGS_PATH_SIZE];
	uint64_t bound;
	int r;

	if (p->journal)
		return 0; /* also of one that has no sandbox any more */
	bound = p->is_terminal ? TERMINAL_OUTPUT_BYTES : p->sb->settings.limits.output_bytes;
	r = logs_make(registry_logs(p->sb->registry), &p->sb->id, &p->id, path, err);
	return r < 0 ? r
		     : journal_open(&p->journal, path, bound ? bound : PROCESS_OUTPUT_BYTES, err);
}

struct journal *process_read(struct process *p, struct err *err)
{
	if (!p->sb && !p->journal) {
		err_set(err, -ENOENT, ERR_NOT_FOUND, "the process is gone");
		return NULL;
	}
	if (process_output_open(p, err) < 0)
		return NULL;
	if (!p->exec)
		journal_rest(p->journal);
	p->readers++;
	return p->journal;
}

void process_output_close(struct process *p)
{
	if (p->exec || p->state == PROCESS_ENDING || p->readers || !p->journal)
		return;
	journal_close(take(p->journal));
}

void process_read_end(struct process *p)
{
	p->readers--;
	process_output_close(p);
}

ssize_t process_output_pull(void *arg, enum exec_stream stream, int fd)
{
	struct process *p = arg;

	return journal_pull(p->journal, stream == EXEC_STDERR ? JOURNAL_STDERR : JOURNAL_STDOUT,
			    fd);
}
