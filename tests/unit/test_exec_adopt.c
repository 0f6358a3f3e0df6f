/* Kept execs that an earlier berthd started, and what a hostile init may say of them. */
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/unit/exec_stage.h"
#include "tests/unit/scratch.h"

static void test_adopt(void)
{
	begin();
	adopt(ADOPTED);
	check(!exec_stdin_is_open(t.exec));
	tell_pipes(AGENT_LIVE, ADOPTED, true);
	check(t.started == 1 && t.pid == 42 && exec_stdin_is_open(t.exec));
	told_all();
	print(0, "old and new");
	check(!exec_stdin(t.exec, STR("in")));
	turn();
	check_str(t.pulled[0], "old and new");
	tell_exited(ADOPTED, 0);
	tell_ref(AGENT_SETTLED, ADOPTED);
	turn();
	check(t.exited == 1 && t.ended == 1 && t.end.exit_code == 0);
	end("one that runs is adopted");
	begin();
	adopt(ADOPTED);
	tell_pipes(AGENT_LIVE, ADOPTED, false); /* its stdin is over */
	check(!exec_stdin_is_open(t.exec));
	print(1, "bye");
	tell_exited(ADOPTED, 9);
	tell_ref(AGENT_SETTLED, ADOPTED);
	check_str(t.pulled[1], "bye");
	check(t.exited == 1 && t.ended == 1 && t.end.signal == 9);
	told_all();
	check(t.ended == 1);
	end("one that has ended meanwhile is adopted");
	begin();
	adopt(ADOPTED);
	exec_kill(t.exec);
	check(!has_said(AGENT_END, ADOPTED)); /* nobody listens yet */
	told_all();
	check(t.started == 0 && t.ended == 1 && t.end.reason == EXEC_LOST);
	end("one that init does not know is lost");
	begin();
	adopt(ADOPTED);
	exec_lose_all(&t.sb, &(struct err){ERR_INTERNAL, "the sandbox is gone"});
	check(t.ended == 1 && t.end.reason == EXEC_LOST && t.sb.execs_len == 0);
	end("one whose sandbox cannot be adopted is lost");
}

static void test_adopt_kill(void)
{
	begin();
	adopt(ADOPTED);
	exec_kill(t.exec);
	tell_pipes(AGENT_LIVE, ADOPTED, false);
	check(!has_said(AGENT_END, ADOPTED));
	told_all();
	check(has_said(AGENT_END, ADOPTED));
	tell_exited(ADOPTED, SIGKILL);
	tell_ref(AGENT_ENDED, ADOPTED);
	turn();
	check(t.ended == 1 && t.end.reason == EXEC_KILLED);
	end("it is killed when it is adopted");
	begin();
	adopt(ADOPTED);
	exec_set_timeout(t.exec, 1);
	uv_run(&t.loop, UV_RUN_ONCE); /* its time is up */
	tell_pipes(AGENT_LIVE, ADOPTED, false);
	tell_exited(ADOPTED, 1 << 8);
	told_all();
	check(has_said(AGENT_END, ADOPTED) && t.ended == 0);
	tell_ref(AGENT_ENDED, ADOPTED);
	turn();
	check(t.ended == 1 && t.end.reason == EXEC_EXITED && t.end.exit_code == 1);
	end("but it has exited by itself before");
}

static void answer(struct keeper_call *call, enum err_code code, int fd)
{
	struct channel_frame frame = {.fds = {fd}, .fds_len = fd >= 0};
	struct keeper_answer a = {.frame = &frame};

	check(call);
	if (code != ERR_NONE)
		a.result = err_set(&a.err, -EIO, code, "no");
	call->done(call, &a);
	close_fdp(&frame.fds[0]);
}

/* A plain file cannot be polled, so it is looked at again after a while. */
static void write_events(const char *text)
{
	scratch_write(scratch_path("cgroup.events"), text, strlen(text));
}

static void test_group(void)
{
	int dir;

	begin();
	adopt(IN_GROUP);
	tell_pipes(AGENT_LIVE, IN_GROUP, false);
	tell_exited(IN_GROUP, 0);
	tell_ref(AGENT_SETTLED, IN_GROUP); /* init is not asked where there are groups */
	told_all();
	turn();
	check(t.exited == 1 && t.ended == 0);
	answer(t.opened, ERR_NOT_FOUND, -1);
	turn();
	check(t.ended == 1 && t.drops == 0);
	end("a group that is gone was empty");
	begin();
	scratch_make();
	write_events("populated 1\nfrozen 0\n");
	dir = open(scratch_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	adopt(IN_GROUP);
	tell_pipes(AGENT_LIVE, IN_GROUP, false);
	told_all();
	answer(t.opened, ERR_UNAVAILABLE, -1);
	t.opened = NULL;
	while (!t.opened)
		uv_run(&t.loop, UV_RUN_ONCE);
	answer(t.opened, ERR_NONE, dir);
	tell_exited(IN_GROUP, 0);
	turn();
	check(t.exited == 1 && t.ended == 0);
	write_events("populated 0\nfrozen 0\n");
	while (!t.ended)
		uv_run(&t.loop, UV_RUN_ONCE);
	check(t.drops == 1 && t.gives == 0); /* its number must not become another's */
	end("its group is found again, and seen to be empty");
	begin();
	adopt(IN_GROUP);
	tell_pipes(AGENT_LIVE, IN_GROUP, false);
	told_all();
	exec_kill(t.exec); /* before its directory is there */
	check(t.ended_call && !has_said(AGENT_END, IN_GROUP));
	tell_exited(IN_GROUP, SIGKILL);
	answer(t.ended_call, ERR_NONE, -1);
	turn();
	check(t.ended == 1 && t.end.reason == EXEC_KILLED);
	end("its group is ended by its number");
}

/* --- a hostile init --- */

static void test_nonsense(void)
{
	struct channel_frame frame = {.fds_len = 2};
	uint64_t number;

	begin();
	number = start(false);
	close_all();
	tell_pipes(AGENT_STARTED, number, false);
	check(t.is_condemned && t.started == 1);
	end("STARTED comes once");
	begin();
	adopt(ADOPTED);
	tell_pipes(AGENT_LIVE, ADOPTED, false);
	close_all();
	tell_pipes(AGENT_LIVE, ADOPTED, false);
	check(t.is_condemned && t.started == 1);
	end("and so does LIVE");
	begin();
	adopt(ADOPTED);
	for (int i = 0; i < 2; i++)
		frame.fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	tell((struct agent_event){.type = AGENT_LIVE, .exec = ADOPTED}, &frame);
	check(t.is_condemned && t.started == 0);
	end("files are no pipes");
	begin();
	adopt(ADOPTED);
	tell_pipes(AGENT_STARTED, ADOPTED, false);
	check(t.is_condemned && t.started == 0);
	end("an adopted one cannot be started");
}

static void test_cut(void)
{
	struct channel_frame frame = {.is_cut = true};

	begin();
	adopt(ADOPTED);
	tell((struct agent_event){.type = AGENT_LIVE, .exec = ADOPTED}, &frame);
	told_all();
	check(has_said(AGENT_END, ADOPTED) && t.started == 0);
	tell_exited(ADOPTED, SIGKILL);
	tell_ref(AGENT_ENDED, ADOPTED);
	turn();
	check(t.ended == 1 && t.end.reason == EXEC_LOST && t.end.output_dropped);
	end("without descriptors for its pipes it is ended");
}

static void test_stranger(void)
{
	begin();
	t.sb.state = SANDBOX_STARTING;
	tell_pipes(AGENT_LIVE, ADOPTED, false);
	check(has_said(AGENT_END, ADOPTED) && t.sb.last_exec == 7);
	tell_exited(ADOPTED, 0);
	tell_ref(AGENT_SETTLED, ADOPTED);
	check(!has_said(AGENT_FORGET, ADOPTED));
	tell_ref(AGENT_ENDED, ADOPTED);
	check(has_said(AGENT_FORGET, ADOPTED) && list_is_empty(&t.sb.strangers));
	end("a kept one that nobody adopts is ended and forgotten");
}

int main(void)
{
	test_adopt();
	test_adopt_kill();
	test_group();
	test_nonsense();
	test_cut();
	test_stranger();
	return tap_done();
}
