/* The life of a kept exec, from its start to when it is forgotten. */
#include "tests/unit/exec_stage.h"

static void test_life(void)
{
	uint64_t number;

	begin();
	number = start(false);
	print(0, "out");
	print(1, "err");
	turn();
	check_str(t.pulled[0], "out");
	check_str(t.pulled[1], "err");
	print(0, " last");
	tell_exited(number, 3 << 8);
	turn();
	check_str(t.pulled[0], "out last");
	check(t.exited == 1 && t.exit.reason == EXEC_EXITED && t.exit.exit_code == 3);
	check(t.ended == 0);
	print(0, " survivor");
	turn();
	check_str(t.pulled[0], "out last survivor");
	print(1, " end");
	tell_ref(AGENT_SETTLED, number);
	turn();
	check_str(t.pulled[1], "err end");
	check(t.exited == 1 && t.ended == 1 && t.end.reason == EXEC_EXITED);
	check(t.end.exit_code == 3 && !t.end.output_dropped && t.sb.execs_len == 0);
	check(!has_said(AGENT_FORGET, number));
	exec_forget(&t.sb, 2, number);
	check(!has_said(AGENT_FORGET, number)); /* of another life */
	exec_forget(&t.sb, 3, number);
	check(has_said(AGENT_FORGET, number));
	end("its output is pulled, it exits, it settles, and is kept until it is forgotten");
}

static void test_stdin(void)
{
	static char many[100 * 1000];
	char bytes[4096];
	uint64_t number;
	size_t got = 0;

	begin();
	number = start(true);
	check(exec_stdin_is_open(t.exec));
	exec_stdin(t.exec, (struct str){many, sizeof(many)});
	exec_stdin_end(t.exec);
	check(!exec_stdin_is_open(t.exec));
	check(!has_said(AGENT_STDIN_END, number)); /* init's end goes last of all */
	while (got < sizeof(many)) {
		ssize_t n = read(t.in, bytes, sizeof(bytes));

		check(n > 0);
		got += n > 0 ? (size_t)n : sizeof(many);
		turn();
	}
	check(has_said(AGENT_STDIN_END, number));
	check(read(t.in, bytes, 1) == 0);
	end("the end of stdin is told to init, when all is written");
}

static void test_stdin_unread(void)
{
	uint64_t number;

	begin();
	signal(SIGPIPE, SIG_IGN);
	number = start(true);
	close_fdp(&t.in);
	t.in = -1;
	exec_stdin(t.exec, STR("x"));
	turn();
	check(has_said(AGENT_STDIN_END, number) && !exec_stdin_is_open(t.exec));
	end("stdin that nobody reads is given up");
}

static void test_signal(void)
{
	uint64_t number;

	begin();
	number = start(false);
	exec_signal(t.exec, SIGHUP);
	check(has_said(AGENT_SIGNAL, number) && t.said[t.said_len - 1].value == SIGHUP);
	tell_exited(number, 0);
	turn();
	exec_signal(t.exec, SIGTERM); /* to what it left */
	check(t.said[t.said_len - 1].value == SIGTERM);
	end("a signal goes to its tree as long as there is one");
}

static void test_kill(void)
{
	uint64_t number;

	begin();
	number = start(false);
	exec_kill(t.exec);
	check(has_said(AGENT_END, number));
	tell_exited(number, SIGKILL);
	turn();
	check(t.exited == 0 && t.ended == 0); /* not before it is proven */
	tell_ref(AGENT_ENDED, number);
	turn();
	check(t.ended == 1 && t.end.reason == EXEC_KILLED && t.exited == 0);
	end("a killed one ends when nothing of it is left");
	begin();
	number = start(false);
	tell_exited(number, 2 << 8);
	turn();
	check(t.exited == 1);
	exec_kill(t.exec);
	check(has_said(AGENT_END, number));
	tell_ref(AGENT_ENDED, number);
	turn();
	check(t.ended == 1 && t.end.reason == EXEC_EXITED && t.end.exit_code == 2);
	end("what a main process left can be killed, and it has exited by itself");
}

static void test_timeout(void)
{
	uint64_t number;

	begin();
	number = start(false);
	exec_set_timeout(t.exec, 1);
	while (!has_said(AGENT_END, number))
		uv_run(&t.loop, UV_RUN_ONCE);
	tell_exited(number, SIGKILL);
	tell_ref(AGENT_ENDED, number);
	turn();
	check(t.ended == 1 && t.end.reason == EXEC_TIMEOUT && t.end.exit_code == 124);
	end("a time-out can be set");
}

static void test_unkeepable(void)
{
	uint64_t number;

	begin();
	number = start(false);
	t.pull_error = -ENOSPC;
	print(0, "first");
	turn();
	check(t.pulled_len[0] == 0);
	tell_exited(number, 0);
	tell_ref(AGENT_SETTLED, number);
	turn();
	check(t.exited == 0 && t.ended == 0); /* it waits for room */
	t.pull_error = 0;
	exec_resume(t.exec);
	turn();
	check_str(t.pulled[0], "first");
	check(t.exited == 1 && t.ended == 1 && !t.end.output_dropped);
	end("output that cannot be kept now waits in the pipe");
	begin();
	number = start(false);
	t.pull_error = -ENOSPC;
	print(0, "first");
	turn();
	exec_kill(t.exec);
	tell_exited(number, SIGKILL);
	tell_ref(AGENT_ENDED, number);
	turn();
	check(t.ended == 1 && t.end.reason == EXEC_KILLED && t.end.output_dropped);
	end("its end does not wait for output that cannot be kept");
	begin();
	start(false);
	t.pull_error = -ENOSPC;
	print(0, "first");
	turn();
	exec_lose_all(&t.sb, &(struct err){ERR_INTERNAL, "gone"});
	check(t.ended == 1 && t.end.reason == EXEC_LOST && t.end.output_dropped);
	end("nor does its loss");
}

static void test_paused(void)
{
	uint64_t number;

	begin();
	number = start(false);
	exec_pause(t.exec);
	print(0, "first");
	turn();
	check(t.pulled_len[0] == 0);
	exec_kill(t.exec);
	turn();
	check_str(t.pulled[0], "first"); /* whoever pulls has room for it */
	tell_exited(number, SIGKILL);
	tell_ref(AGENT_ENDED, number);
	turn();
	check(t.ended == 1 && !t.end.output_dropped);
	end("a paused one is pulled while it is being ended");
}

static void test_lost(void)
{
	uint64_t number;

	begin();
	number = start(false);
	print(0, "last words");
	tell_ref(AGENT_LOST, number);
	check_str(t.pulled[0], "last words");
	check(t.ended == 1 && t.end.reason == EXEC_LOST && t.end.exit_code == -1);
	end("lost, and what it said is not");
	begin();
	number = start(false);
	exec_kill(t.exec);
	print(0, "last words");
	tell_ref(AGENT_LOST, number);
	turn();
	check(t.ended == 0);
	tell_ref(AGENT_ENDED, number);
	check_str(t.pulled[0], "last words");
	check(t.ended == 1 && t.end.reason == EXEC_KILLED);
	end("what is lost while it is being ended is over when that is proven, and then at once");
	begin();
	number = start(false);
	tell_exited(number, 0);
	turn();
	check(t.exited == 1);
	tell_ref(AGENT_LOST, number);
	turn();
	check(t.ended == 1 && t.end.reason == EXEC_EXITED && t.end.message[0]);
	end("a tree that nobody knows any more is said to be so");
	begin();
	number = start(false);
	tell_exited(number, 0);
	turn();
	exec_lose_all(&t.sb, NULL);
	check(t.ended == 1 && t.end.reason == EXEC_EXITED);
	end("its exit is known though the sandbox is gone");
}

static void test_leave(void)
{
	uint64_t number;

	begin();
	number = start(true);
	exec_leave(t.exec);
	turn();
	check(t.ended == 0 && t.sb.execs_len == 0 && !has_said(AGENT_FORGET, number));
	check(!has_said(AGENT_STDIN_END, number) && !has_said(AGENT_END, number));
	end("who is left lives on");
}

int main(void)
{
	test_life();
	test_stdin();
	test_stdin_unread();
	test_signal();
	test_kill();
	test_timeout();
	test_unkeepable();
	test_paused();
	test_lost();
	test_leave();
	return tap_done();
}
