/*
 * Verdicts of a run's tests: whether what came back is what was expected. To compare long values
 * takes longer than the loop may stand still, so that is a job, which has copies of both.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/registry.h"
#include "daemon/run_state.h"
#include "proto/json_equal.h"

#define NOW_MAX (64 * 1024) /* of both values: some milliseconds at most */

struct run_judging {
	uv_work_t work;
	struct run *run; /* NULL: its verdict is not wanted any more */
	struct str expected, actual;
	int result;
	char texts[];
};

static int keep(struct run *run, struct str text, struct str *ret)
{
	char *copy = arena_strndup(&run->said, text.at, text.len);

	*ret = (struct str){copy, copy ? text.len : 0};
	run->said_bytes += ret->len;
	return copy ? 0 : -ENOMEM;
}

static void set_verdict(struct run *run, int result)
{
	struct run_verdict *v = &run->verdicts[run->test];

	v->passed = result == 1;
	if (result < 0)
		v->error = STR("{\"code\":\"internal\",\"message\":\"out of memory\"}");
}

static void on_work(uv_work_t *work)
{
	struct run_judging *j = container_of(work, struct run_judging, work);

	j->result = json_equal(j->expected, j->actual);
}

static void on_judged(uv_work_t *work, int status)
{
	struct run_judging *j = container_of(work, struct run_judging, work);
	struct run *run = j->run;

	if (run)
		run->judging = NULL;
	if (run && !run->is_ending && !run->runs->is_stopping) {
		set_verdict(run, j->result);
		run_judged(run);
	}
	free(j);
}

static int judge_later(struct run *run, struct str expected, struct str actual)
{
	struct run_judging *j = calloc(1, sizeof(*j) + expected.len + actual.len);
	char *at;

	if (!j)
		return -ENOMEM;
	at = mempcpy(j->texts, expected.at, expected.len);
	memcpy(at, actual.at, actual.len);
	j->expected = (struct str){j->texts, expected.len};
	j->actual = (struct str){at, actual.len};
	j->run = run;
	if (uv_queue_work(registry_loop(run->runs->registry), &j->work, on_work, on_judged) < 0) {
		free(j);
		return -ENOMEM;
	}
	run->judging = j;
	return 0;
}

int run_judge(struct run *run)
{
	struct run_verdict *v = &run->verdicts[run->test];
	struct str expected = run->request.tests[run->test].expected;
	struct str actual = run->value.len ? run->value : STR("null");
	int r = 0;

	if (run->said_bytes + 2 * run->value.len + run->error.len > RUN_VALUES_MAX ||
	    keep(run, run->value, &v->actual) < 0 || keep(run, run->error, &v->error) < 0)
		return -EMSGSIZE;
	run->record.result = v->actual;
	if (!run->error.len && expected.len + actual.len > NOW_MAX) {
		r = judge_later(run, expected, actual);
		if (r == 0)
			return 0;
	} else if (!run->error.len) {
		r = json_equal(expected, actual);
	}
	set_verdict(run, r);
	return 1;
}

void run_judge_leave(struct run *run)
{
	if (run->judging)
		run->judging->run = NULL;
	run->judging = NULL;
}
