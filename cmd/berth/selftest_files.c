/* Checks 16 to 18: files of a sandbox by the API, when the sandbox has laid traps. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/selftest.h"

#define BLOCK  512
#define SWAPS  60
#define SUFFIX 512

/* Anew for each check: what one of them did to it is not the next one's fault. */
static bool make_outside(struct selftest *t, struct outcome *ret)
{
	selftest_remove_outside(t);
	if (selftest_make_outside(t) == 0)
		return true;
	outcome_untried(ret, "%s", t->haul.own.sentence);
	t->haul.own.code = ERR_NONE;
	return false;
}

/* --- 16: paths that lead out --- */

/* One request by one path. What it answers matters only if it holds the canary. */
static int try_request(struct selftest *t, const char *method, const char *suffix,
		       struct outcome *ret)
{
	int r;

	if (strcmp(method, "PUT") == 0)
		r = selftest_upload(t, BOX_FIRST, method, suffix, STR("from inside"));
	else
		r = selftest_ask(t, BOX_FIRST, method, suffix);
	if (selftest_is_lost(r))
		return r;
	if (selftest_has_canary(t, selftest_answer(t)))
		outcome_hole(ret, "%s %s gives a file of the host", method, suffix);
	selftest_is_outside_same(t, method, ret);
	return 0;
}

static int try_move(struct selftest *t, const char *verb, const char *path, struct outcome *ret)
{
	int r = buf_printf(&t->haul.body, "{\"from\":\"%s\",\"to\":\"/workspace/stolen\"}", path);
	struct str stolen;

	if (r == 0)
		r = selftest_ask(t, BOX_FIRST, "POST", verb);
	if (selftest_is_lost(r))
		return r;
	selftest_is_outside_same(t, verb, ret);
	r = selftest_read(t, BOX_FIRST, "stolen", &stolen);
	if (r == 0 && selftest_has_canary(t, stolen))
		outcome_hole(ret, "%s of %s gives a file of the host", verb, path);
	return selftest_is_lost(r) ? r : 0;
}

/* A write may make that path inside, and an earlier one may have changed the links. */
static int try_path(struct selftest *t, const char *path, struct outcome *ret)
{
	static const char *const methods[] = {"GET", "PUT", "DELETE"};
	char suffix[SUFFIX];
	int r = selftest_probe(t, BOX_FIRST, NULL, WORDS("links", t->outside), ret);

	snprintf(suffix, sizeof(suffix), "/stat%s", path);
	if (r == 0)
		r = try_request(t, "GET", suffix, ret);
	for (size_t i = 0; r == 0 && i < array_len(methods); i++) {
		snprintf(suffix, sizeof(suffix), "/file%s", path);
		r = try_request(t, methods[i], suffix, ret);
	}
	if (r == 0)
		r = try_move(t, "/copy", path, ret);
	return r == 0 ? try_move(t, "/move", path, ret) : r;
}

/* While a directory and a link that leads out take each other's place. */
static int try_race(struct selftest *t, struct outcome *ret)
{
	struct str said = STR("");
	int r = selftest_start(t, BOX_FIRST, "swap",
			       WORDS("swap", t->outside, "/workspace/halt", "/workspace/swap.out"),
			       "up");

	for (int i = 0; r == 0 && i < SWAPS; i++) {
		r = try_request(t, i % 2 ? "GET" : "PUT", "/file/workspace/flip/canary", ret);
		if (r == 0)
			r = try_request(t, "GET", "/dir/workspace/flip", ret);
	}
	if (r == 0)
		r = selftest_upload(t, BOX_FIRST, "PUT", "/file/workspace/halt", STR("x"));
	if (r == 0)
		r = selftest_await(t, BOX_FIRST, "swap");
	if (r == 0)
		r = selftest_read(t, BOX_FIRST, "swap.out", &said);
	return r < 0 ? r : selftest_judge(t, said, ret);
}

int verify_paths(struct selftest *t, struct outcome *ret)
{
	static const char *const before[] = {
		"/workspace/up",        "/workspace/root",  "/workspace/first", "/workspace/../..",
		"/%2e%2e/%2e%2e",       "/proc/self/root",  "/proc/1/root",     "/proc/1/cwd",
		"/proc/self/cwd/../..", "/dev/fd/../../..",
	};
	static const char *const whole[] = {"/workspace/link", "/workspace/chain",
					    "/workspace/dir/canary"};
	char path[SUFFIX / 2];
	int r;

	if (!make_outside(t, ret))
		return 0;
	r = selftest_make(t, BOX_FIRST);
	for (size_t i = 0; r == 0 && i < array_len(whole); i++)
		r = try_path(t, whole[i], ret);
	for (size_t i = 0; r == 0 && i < array_len(before); i++) {
		snprintf(path, sizeof(path), "%s%s/canary", before[i], t->outside);
		r = try_path(t, path, ret);
	}
	if (r == 0)
		r = try_race(t, ret);
	outcome_ok(ret, "links, .., /proc/self/root and swaps never led to the host's canary");
	return r;
}

/* --- 17: archives --- */

struct entry {
	const char *name, *link;
	char type;
};

/* A ustar header, and for a file ten bytes. */
static int append_entry(struct buf *out, const struct entry *entry)
{
	char block[2 * BLOCK] = {0};
	unsigned sum = 0;

	snprintf(block, 100, "%s", entry->name);
	memcpy(block + 100, "0000666", 8);
	memcpy(block + 108, "0000000", 8);
	memcpy(block + 116, "0000000", 8);
	memcpy(block + 124, entry->type == '0' ? "00000000012" : "00000000000", 12);
	memcpy(block + 136, "00000000000", 12);
	memset(block + 148, ' ', 8);
	block[156] = entry->type;
	snprintf(block + 157, 100, "%s", entry->link ? entry->link : "");
	memcpy(block + 257, "ustar\00000", 8);
	/* Of a device: /dev/mem. */
	memcpy(block + 329, "0000001", 8);
	memcpy(block + 337, "0000001", 8);
	for (size_t i = 0; i < BLOCK; i++)
		sum += (unsigned char)block[i];
	snprintf(block + 148, 8, "%06o", sum);
	memcpy(block + BLOCK, "from a tar", 10);
	return buf_append(out, block, entry->type == '0' ? 2 * BLOCK : BLOCK);
}

static int hydrate(struct selftest *t, const struct entry *entries, size_t count)
{
	static const char end[2 * BLOCK];
	cleanup(buf_close) struct buf archive;
	int r = 0;

	buf_init(&archive, REMOTE_TARGET_MAX);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = append_entry(&archive, &entries[i]);
	if (r == 0)
		r = buf_append(&archive, end, sizeof(end));
	if (r < 0)
		return haul_fail(&t->haul, r, "cannot make an archive: %s", strerror(-r));
	return selftest_upload(t, BOX_FIRST, "POST", "/hydrate",
			       (struct str){buf_at(&archive), buf_len(&archive)});
}

/* It must not have made a device, nor a second name for what is outside. */
static int look_inside(struct selftest *t, const char *name, const char *forbidden,
		       struct outcome *ret)
{
	char suffix[SUFFIX];
	int r;

	snprintf(suffix, sizeof(suffix), "/stat/workspace/%s", name);
	r = selftest_ask(t, BOX_FIRST, "GET", suffix);
	if (r == 0 &&
	    memmem(selftest_answer(t).at, selftest_answer(t).len, forbidden, strlen(forbidden)))
		outcome_hole(ret, "an archive made a %s in the sandbox", forbidden);
	return selftest_is_lost(r) ? r : 0;
}

int verify_archives(struct selftest *t, struct outcome *ret)
{
	char up[128], absolute[128], target[128];
	const struct {
		const char *what;
		struct entry entries[2];
		size_t count;
	} archives[] = {
		{"a good archive", {{"fine", NULL, '0'}}, 1},
		{"an archive with ..", {{up, NULL, '0'}}, 1},
		{"an archive with an absolute name", {{absolute, NULL, '0'}}, 1},
		{"a write through a link", {{"out", t->outside, '2'}, {"out/new", NULL, '0'}}, 2},
		{"a write over a link", {{"over", target, '2'}, {"over", NULL, '0'}}, 2},
		{"a hard link that leads out", {{"hard", target, '1'}, {"hard", NULL, '0'}}, 2},
		{"a character device", {{"mem", NULL, '3'}}, 1},
		{"a block device", {{"disk", NULL, '4'}}, 1},
	};
	int r;

	if (!make_outside(t, ret))
		return 0;
	snprintf(up, sizeof(up), "../../../..%s/new", t->outside);
	snprintf(absolute, sizeof(absolute), "%s/new", t->outside);
	snprintf(target, sizeof(target), "%s/canary", t->outside);
	r = selftest_make(t, BOX_FIRST);
	for (size_t i = 0; r == 0 && i < array_len(archives); i++) {
		r = hydrate(t, archives[i].entries, archives[i].count);
		/* Else the others would be refused for being no archives at all. */
		if (i == 0 && r < 0)
			return r;
		r = selftest_is_lost(r) ? r : 0;
		selftest_is_outside_same(t, archives[i].what, ret);
	}
	if (r == 0)
		r = look_inside(t, "mem", "char_device", ret);
	if (r == 0)
		r = look_inside(t, "disk", "block_device", ret);
	outcome_ok(ret,
		   "seven archives that lead out changed nothing on the host, and made no device");
	return r;
}

/* --- 18: what cannot be read to its end --- */

static int try_special(struct selftest *t, const char *path, struct outcome *ret)
{
	static const char *const methods[] = {"GET", "PUT"};
	char target[SUFFIX];

	snprintf(target, sizeof(target), "/v1/sandbox/%s/file%s", t->boxes[BOX_FIRST].id, path);
	for (size_t i = 0; i < array_len(methods); i++) {
		int r = i == 0 ? 0 : buf_append_str(&t->haul.body, STR("x"));

		if (r == 0)
			r = selftest_send(t, methods[i], target, SELFTEST_WAIT_MS);
		if (r == -EINTR || client_is_absent(r))
			return r;
		/* Also an answer without an end, which is more than we take. */
		if (r != -EREMOTEIO)
			outcome_hole(ret, "%s of %s %s", methods[i], path,
				     r == -ETIMEDOUT ? "hangs" : "is not refused");
	}
	return 0;
}

int verify_special(struct selftest *t, struct outcome *ret)
{
	static const char *const paths[] = {"/workspace/fifo",   "/workspace/to-fifo",
					    "/workspace/socket", "/workspace/to-zero",
					    "/dev/zero",         "/dev/tty"};
	int r = selftest_probe(t, BOX_FIRST, NULL, WORDS("special"), ret);

	for (size_t i = 0; r == 0 && i < array_len(paths); i++)
		r = try_special(t, paths[i], ret);
	if (r == 0)
		r = selftest_send(t, "GET", "/health", SELFTEST_WAIT_MS);
	outcome_ok(ret, "a fifo, a socket and devices are refused at once, and nothing hangs");
	return r;
}
