/* Whoever looks at a run, or waits for it, while its end is not stored. */
#include <errno.h>
#include <string.h>

#include "daemon/run_state.h"

static struct run *find_in(const struct list *list, const struct sandbox_id *id)
{
	list_for_each (node, list) {
		struct run *run = list_entry(node, struct run, link);

		if (!run->is_told && strcmp(run->record.id.text, id->text) == 0)
			return run;
	}
	return NULL;
}

struct run *run_find(struct runs *runs, const struct sandbox_id *id)
{
	struct run *run = find_in(&runs->others, id);

	return run ? run : find_in(&runs->waiting, id);
}

bool run_is_stored(const struct run *run)
{
	return run->phase != RUN_PHASE_STORING;
}

const struct sandbox_id *run_id(const struct run *run)
{
	return &run->record.id;
}

void run_join(struct run *run, struct run_wait *wait)
{
	wait->run = run;
	list_append(&run->waits, &wait->link);
}

void run_leave(struct run_wait *wait)
{
	list_remove(&wait->link);
	wait->run = NULL;
}

int run_view(const struct run *run, struct arena *arena, struct run_record *ret)
{
	struct buf text;
	char *copy = NULL;
	int r;

	*ret = run->record;
	/* What came of it is told when it is over, all at once. */
	ret->status = run->has_begun ? RUN_RUNNING : RUN_QUEUED;
	ret->ended_at_ms = 0;
	ret->error = ret->result = STR("");
	ret->tests = (struct str){buf_at(&run->tests_text), buf_len(&run->tests_text)};
	ret->metrics = (struct run_metrics){-1, run->record.metrics.cold_start_ms, -1, -1};
	if (run->phase >= RUN_PHASE_REMOVING)
		return 0;
	buf_init(&text, RUN_LOG_MAX + 2);
	r = run_log_write(run->log, &text);
	if (r == 0)
		copy = arena_strndup(arena, buf_at(&text), buf_len(&text));
	ret->logs = (struct str){copy, buf_len(&text)};
	ret->logs_dropped = run->log->dropped;
	buf_close(&text);
	return copy ? 0 : -ENOMEM;
}
