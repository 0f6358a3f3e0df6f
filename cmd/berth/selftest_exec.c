/* Checks 23 to 28 and 42: what a command may do to its sandbox, and to whoever waits for it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth-probe/noise.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/selftest.h"

#define NOISE_SEED "88172645463325252"
#define NOISE_LEN  200000
#define HEARD_MAX  (1024 * 1024)
#define UP         "dXAK" /* "up\n", as events have it */
#define BOMB_MOST  "512"

/* --- 23: the whole tree --- */

/* Until nobody in the sandbox is called so. */
static int await_end(struct selftest *t, const char *word, const char *what, struct outcome *ret)
{
	struct selftest_patience patience = {SELFTEST_WAIT_MS};
	struct outcome alive;
	int r;

	do {
		alive = (struct outcome){.verdict = VERDICT_OK};
		r = selftest_probe(t, BOX_FIRST, NULL, WORDS("alive", word), &alive);
		if (r < 0 || !alive.holes)
			return r;
		r = selftest_pause(t, &patience);
	} while (r == 1);
	if (r == 0)
		outcome_hole(ret, "after %s %s", what, alive.sentence);
	return r;
}

static int end_by_timeout(struct selftest *t, const char *word, struct outcome *ret)
{
	static const unsigned times_ms[] = {1000, 5000, 25000, 100000};

	/* Until it is long enough for all of it to begin. */
	for (size_t i = 0; i < array_len(times_ms); i++) {
		struct selftest_exec exec = {.timeout_ms = times_ms[i]};
		int r = selftest_exec(t, BOX_FIRST, WORDS(SELFTEST_PROBE, "escape", word), &exec);

		if (r < 0)
			return r;
		if (!str_eq(exec.reason, STR("timeout")))
			return haul_fail(&t->haul, -EPROTO,
					 "a command ended by \"%s\" instead of its "
					 "timeout",
					 screen_text(exec.reason).text);
		if (str_eq(exec.out, STR("up\n")))
			return selftest_probe(t, BOX_FIRST, NULL, WORDS("alive", word), ret);
	}
	return haul_fail(&t->haul, -ETIMEDOUT, "five processes did not start in 100 seconds");
}

/* Begins it and waits until all of its processes are there. */
static int begin(struct selftest *t, enum box box, const char *const *words, struct upgrade *ret)
{
	struct buf heard;
	int r = selftest_begin(t, box, words, ret);

	if (r < 0)
		return r;
	buf_init(&heard, HEARD_MAX);
	r = selftest_hear(t, ret, UP, &heard);
	buf_close(&heard);
	if (r == 0)
		r = haul_fail(&t->haul, -EPROTO,
			      "a stream of events ended before its command began");
	if (r < 0)
		upgrade_close(ret);
	return r < 0 ? r : 0;
}

static int end_by_leaving(struct selftest *t, const char *word, struct outcome *ret)
{
	struct upgrade u;
	int r = begin(t, BOX_FIRST, WORDS("escape", word), &u);

	if (r < 0)
		return r;
	upgrade_close(&u);
	return await_end(t, word, "a disconnect", ret);
}

/* Nothing inside can be asked afterwards: it is this host that still sees them, or not. */
static int end_by_delete(struct selftest *t, const char *word, struct outcome *ret)
{
	struct selftest_box *box = &t->boxes[BOX_SECOND];
	struct upgrade u;
	bool was_seen;
	int r = selftest_make(t, BOX_SECOND);

	if (r == 0)
		r = begin(t, BOX_SECOND, WORDS("escape", word), &u);
	if (r < 0)
		return r;
	was_seen = !t->haul.globals->url && selftest_find(word);
	r = selftest_ask(t, BOX_SECOND, "DELETE", "");
	upgrade_close(&u);
	if (r == 0) {
		box->is_made = box->is_ready = false;
		if (was_seen && selftest_find(word))
			outcome_hole(ret, "after DELETE a process of the sandbox lives on");
	}
	return r;
}

int verify_ends(struct selftest *t, struct outcome *ret)
{
	char word[64];
	int r = selftest_make(t, BOX_FIRST);

	snprintf(word, sizeof(word), "escape-%s", t->word);
	if (r == 0)
		r = end_by_timeout(t, word, ret);
	/* Who is left from before would be found again. */
	if (r == 0 && !ret->holes)
		r = end_by_leaving(t, word, ret);
	if (r == 0 && !ret->holes)
		r = end_by_delete(t, word, ret);
	outcome_ok(ret,
		   "timeout, disconnect and DELETE ended what ignored signals or left its session");
	return r;
}

/* --- 25: output --- */

static void judge_noise(struct str out, struct outcome *ret)
{
	cleanup_free unsigned char *wanted = malloc(NOISE_LEN);
	uint64_t state = strtoull(NOISE_SEED, NULL, 10);

	if (!wanted)
		return;
	noise_fill(&state, wanted, NOISE_LEN);
	if (out.len != NOISE_LEN || memcmp(out.at, wanted, NOISE_LEN) != 0)
		outcome_hole(ret, "output did not come as it was written");
}

int verify_output(struct selftest *t, struct outcome *ret)
{
	struct selftest_exec noise = {0};
	struct upgrade u;
	char word[64], len[16];
	int r = selftest_make(t, BOX_FIRST);

	snprintf(len, sizeof(len), "%d", NOISE_LEN);
	snprintf(word, sizeof(word), "flood-%s", t->word);
	if (r == 0)
		r = selftest_exec(t, BOX_FIRST, WORDS(SELFTEST_PROBE, "noise", NOISE_SEED, len),
				  &noise);
	if (r < 0)
		return r;
	judge_noise(noise.out, ret);
	r = selftest_begin(t, BOX_FIRST, WORDS("flood", word), &u);
	if (r < 0)
		return r;
	for (int i = 0; r == 0 && i < 10; i++) {
		struct selftest_exec other = {0};

		r = selftest_exec(t, BOX_FIRST, WORDS(SELFTEST_PROBE, "ids"), &other);
	}
	upgrade_close(&u);
	if (r == -ETIMEDOUT) {
		outcome_hole(ret, "a command whose output nobody reads blocks the others");
		return 0;
	}
	if (r == 0 && !ret->holes)
		r = await_end(t, word, "its reader had gone", ret);
	outcome_ok(ret, "%d bytes came as they were; a flood that nobody reads blocks nobody",
		   NOISE_LEN);
	return r;
}

/* --- 26: bombs --- */

static int untried_for_limits(struct selftest *t, struct outcome *ret)
{
	outcome_untried(ret, "%s", t->haul.err.sentence);
	return 0;
}

static bool says(struct str out, const char *word)
{
	return out.len && memmem(out.at, out.len, word, strlen(word));
}

int verify_bomb(struct selftest *t, struct outcome *ret)
{
	static const unsigned times_ms[] = {2000, 20000, 100000};
	struct selftest_exec exec, after = {0};
	char word[64];
	int r = selftest_make(t, BOX_PIDS);

	snprintf(word, sizeof(word), "bomb-%s", t->word);
	if (r == -EOPNOTSUPP)
		return untried_for_limits(t, ret);
	for (size_t i = 0; r == 0 && i < array_len(times_ms); i++) {
		exec = (struct selftest_exec){.timeout_ms = times_ms[i]};
		r = selftest_exec(t, BOX_PIDS, WORDS(SELFTEST_PROBE, "bomb", BOMB_MOST, word),
				  &exec);
		if (r == 0 && (says(exec.out, "limit ") || says(exec.out, "hole ")))
			break;
	}
	if (r < 0)
		return r;
	if (!says(exec.out, "limit "))
		outcome_hole(ret, "a limit of 64 processes did not hold a fork bomb");
	r = selftest_probe(t, BOX_PIDS, NULL, WORDS("alive", word), ret);
	if (r == 0)
		r = selftest_exec(t, BOX_PIDS, WORDS(SELFTEST_PROBE, "ids"), &after);
	if (r == 0 && !str_eq(after.out, STR("0 0\n")))
		outcome_hole(ret, "after a fork bomb no command can be run");
	outcome_ok(ret, "a fork bomb met the limit, was ended, and its sandbox works on");
	return r;
}

/* --- 27: as it was asked for --- */

static bool is_known(struct str line)
{
	static const char *const exact[] = {"uid 1000 1000", "gid 1001 1001", "cwd /",
					    "env A=b=c  d"};
	static const char *const begun[] = {"env PATH=", "env HOME=", "env LANG="};

	for (size_t i = 0; i < array_len(exact); i++)
		if (str_eq(line, str_of(exact[i])))
			return true;
	for (size_t i = 0; i < array_len(begun); i++)
		if (str_starts_with(line, str_of(begun[i])))
			return true;
	return false;
}

static int refuse(struct selftest *t, const char *field, struct outcome *ret)
{
	int r = buf_printf(&t->haul.body, "{\"argv\":[\"" SELFTEST_PROBE "\",\"ids\"],%s}", field);

	if (r == 0)
		r = selftest_ask(t, BOX_FIRST, "POST", "/exec");
	if (r == 0)
		outcome_hole(ret, "a command with %s was run", field);
	else if (r == -EREMOTEIO && t->haul.answer.status >= 500)
		outcome_hole(ret, "a command with %s is answered by %ld", field,
			     t->haul.answer.status);
	return selftest_is_lost(r) ? r : 0;
}

int verify_identity(struct selftest *t, struct outcome *ret)
{
	static const char *const bad[] = {
		"\"env\":{\"A=B\":\"x\"}",  "\"env\":{\"\":\"x\"}", "\"env\":{\"A\":\"x\\u0000\"}",
		"\"user\":\"1000:0x\"",     "\"user\":\"-1\"",      "\"user\":\"4294967295\"",
		"\"user\":\"root\\u0000\"", "\"cwd\":\"relative\"", "\"cwd\":\"/a\\u0000b\"",
	};
	struct selftest_exec exec = {
		.user = "1000:1001", .cwd = "/", .env_name = "A", .env_value = "b=c  d"};
	size_t lines = 0;
	int r = selftest_make(t, BOX_FIRST);

	if (r == 0)
		r = selftest_exec(t, BOX_FIRST, WORDS(SELFTEST_PROBE, "identity"), &exec);
	for (struct str rest = r == 0 ? exec.out : STR(""); rest.len; lines++) {
		struct str line = str_cut(&rest, '\n');

		if (!is_known(line))
			outcome_hole(ret, "a command has what nobody gave it: %s",
				     screen_text(line).text);
	}
	if (r == 0 && lines < 4)
		outcome_hole(ret, "a command lacks what it was given");
	for (size_t i = 0; r == 0 && i < array_len(bad); i++)
		r = refuse(t, bad[i], ret);
	outcome_ok(ret, "ids, directory and variables are as asked, bad ones refused, none leaks");
	return r;
}

/* --- 28: terminals --- */

int verify_tty(struct selftest *t, struct outcome *ret)
{
	struct selftest_patience patience = {SELFTEST_WAIT_MS};
	struct selftest_exec exec = {.name = "tty"};
	struct str said;
	int r = selftest_make(t, BOX_FIRST);

	if (r == 0)
		r = selftest_exec_body(WORDS(SELFTEST_PROBE, "tty", "/workspace/tty.out"), &exec,
				       &t->haul.body);
	if (r == 0)
		r = selftest_ask(t, BOX_FIRST, "POST", "/terminals");
	if (r < 0)
		return r;
	while ((r = selftest_read(t, BOX_FIRST, "tty.out", &said)) == -EREMOTEIO) {
		int more = selftest_pause(t, &patience);

		if (more != 1)
			return more < 0 ? more : r;
	}
	outcome_ok(ret, "TIOCSTI, which types for whoever looks at a terminal, is denied");
	return r < 0 ? r : selftest_judge(t, said, ret);
}

/* --- 42: memory --- */

int verify_memory(struct selftest *t, struct outcome *ret)
{
	struct selftest_exec exec = {.timeout_ms = 2 * SELFTEST_WAIT_MS}, other = {0};
	int r = selftest_make(t, BOX_MEMORY);

	if (r == -EOPNOTSUPP)
		return untried_for_limits(t, ret);
	if (r == 0)
		r = selftest_exec(t, BOX_MEMORY, WORDS(SELFTEST_PROBE, "eat", "256"), &exec);
	if (r < 0)
		return r;
	if (says(exec.out, "hole "))
		outcome_hole(ret, "256 MiB were had where the limit is 64");
	else if (!str_eq(exec.reason, STR("oom")))
		outcome_hole(ret, "the kernel's kill is told as \"%s\"",
			     screen_text(exec.reason).text);
	r = selftest_make(t, BOX_FIRST);
	if (r == 0)
		r = selftest_exec(t, BOX_FIRST, WORDS(SELFTEST_PROBE, "ids"), &other);
	outcome_ok(ret, "64 MiB hold, the kill is told as oom, and a neighbour lives on");
	return r;
}
