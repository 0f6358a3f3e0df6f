#include "cmd/berth/debug.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/copy.h"
#include "cmd/berth/screen.h"

#define PLACE_MAX 64

/* From --for to the end by all means: node may have a large snapshot to write. */
#define END_MS 60000

/*
 * Read by node before the script. Workers and forked children read it as well: each process has its
 * own files, of which the first thread's is the one that counts.
 */
static const char preload[] = "'use strict';\n"
			      "const { isMainThread, Worker } = require('node:worker_threads');\n"
			      "const limit = %" PRIu64 ", place = '%s';\n"
			      "if (isMainThread) {\n"
			      "  const write = require('node:v8').writeHeapSnapshot;\n"
			      "  const name = `${place}/out/Heap.${process.pid}.heapsnapshot`;\n"
			      "  const over = new Int32Array(new SharedArrayBuffer(4));\n"
			      "  process.on('exit', () => { over[0] = 1; write(name); });\n"
			      "  if (limit) end(over);\n"
			      "}\n";

/*
 * Ends the script after so long. A timer is not called while code runs that never yields: a thread
 * of ours has the debugger stop it wherever it is, and call exit there. What does not even hear
 * that, as it waits for a child for example, is killed. As long as that debugger is connected,
 * which it has to be, node's last words are that it waits for its end: nobody is to read them.
 */
static const char preload_end[] =
	"function end(over) {\n"
	"  const { closeSync, openSync } = require('node:fs'), { exit } = process;\n"
	"  const key = Symbol.for('berth.end');\n"
	"  const hush = () => { closeSync(2); openSync('/dev/null', 'w'); };\n"
	"  const value = () => { process.on('exit', hush); exit.call(process); };\n"
	"  Object.defineProperty(globalThis, key, { value });\n"
	"  setTimeout(() => exit.call(process), limit).unref();\n"
	"  const options = { eval: true, execArgv: [], workerData: { limit, over } };\n"
	"  const thread = new Worker(`(${watch})()`, options);\n"
	"  thread.on('error', () => {});\n"
	"  thread.unref();\n"
	"}\n"
	"function watch() {\n"
	"  const { limit, over } = require('node:worker_threads').workerData;\n"
	"  const { Session } = require('node:inspector'), session = new Session();\n"
	"  const expression = \"globalThis[Symbol.for('berth.end')]()\";\n"
	"  // The innermost may be of another context, or have a globalThis of its own.\n"
	"  session.on('Debugger.paused', ({ params: { callFrames } }) => {\n"
	"    for (const { callFrameId } of callFrames.reverse())\n"
	"      session.post('Debugger.evaluateOnCallFrame', { callFrameId, expression });\n"
	"  });\n"
	"  setTimeout(() => {\n"
	"    if (over[0]) return;\n"
	"    session.connectToMainThread();\n"
	"    session.post('Debugger.enable');\n"
	"    session.post('Debugger.pause');\n"
	"  }, limit + 500);\n"
	"  setTimeout(() => {\n"
	"    if (over[0]) return;\n"
	"    require('node:fs').writeSync(2, 'berth: the script did not exit after --for, '\n"
	"      + 'and is killed: that leaves no profile\\n');\n"
	"    process.kill(process.pid, 'SIGKILL');\n"
	"  }, limit + 10000);\n"
	"}\n";

struct profile {
	struct command *command;
	const char *dir;
	uint64_t limit_ms;
	char place[PLACE_MAX]; /* inside: a directory of ours, for everybody */
	bool is_made;          /* `dir` was not there before */
};

static int set_remote(const struct profile *p, const char *name, struct remote *ret)
{
	char text[PLACE_MAX * 3];

	if (strlen(p->command->id) > PLACE_MAX)
		return EXIT_USAGE;
	snprintf(text, sizeof(text), "%s:%s%s", p->command->id, p->place, name);
	return remote_parse(text, ret) == EXIT_OK ? EXIT_OK : EXIT_USAGE;
}

/* --- before --- */

static int refuse_dir(const struct profile *p)
{
	screen_error("nothing can be left in %s: %m; give --profile a folder that you may write to",
		     screen_text(str_of(p->dir)).text);
	if (p->is_made)
		rmdir(p->dir);
	return EXIT_NOT_RUN;
}

/* By making a file: what the permissions say is not all that there is to it. */
static int make_dir(struct profile *p)
{
	cleanup_free char *probe = NULL;
	cleanup_fd int fd = -1;

	p->is_made = mkdir(p->dir, 0777) == 0;
	if (!p->is_made && errno != EEXIST)
		return refuse_dir(p);
	if (asprintf(&probe, "%s/.berth-XXXXXX", p->dir) < 0) {
		probe = NULL;
		return refuse_dir(p);
	}
	fd = mkostemp(probe, O_CLOEXEC);
	if (fd < 0 || unlink(probe) < 0)
		return refuse_dir(p);
	return EXIT_OK;
}

static int make_place(struct haul *haul, const struct profile *p)
{
	struct remote out;
	int r;

	if (set_remote(p, "/out", &out) != EXIT_OK)
		return haul_fail(haul, -EINVAL, "`%s` is no sandbox's ID",
				 screen_text(str_of(p->command->id)).text);
	/* Its name is what keeps others out: there is one user only, or those that --user names. */
	r = remote_target(&out, "dir", &haul->target);
	if (r == 0)
		r = buf_printf(&haul->target, "?mode=0777");
	return r < 0 ? haul_fail(haul, r, "out of memory") : haul_ask_long(haul, "PUT");
}

static int put_preload(struct haul *haul, const struct profile *p)
{
	cleanup_fd int fd = memfd_create("preload", MFD_CLOEXEC);
	struct remote file;
	int r;

	if (fd < 0 || dprintf(fd, preload, p->limit_ms, p->place) < 0 ||
	    dprintf(fd, "%s", preload_end) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return haul_fail(haul, -EIO, "cannot make a file: %m");
	set_remote(p, "/preload.cjs", &file);
	r = remote_target(&file, "file", &haul->target);
	if (r == 0)
		r = buf_printf(&haul->target, "?mode=0644");
	return r < 0 ? haul_fail(haul, r, "out of memory") : haul_send(haul, "PUT", fd, NULL, NULL);
}

/* --- after --- */

struct kind {
	struct str ending;
	const char *name;
	size_t count;
};

static bool is_of(struct str name, struct str ending)
{
	return name.len > ending.len &&
	       memcmp(name.at + name.len - ending.len, ending.at, ending.len) == 0;
}

static void tell(const struct profile *p, struct kind *kind, const struct file_list *list)
{
	const struct file_info *infos = list->entries.items;

	for (size_t i = 0; i < list->entries.len; i++) {
		if (!is_of(infos[i].name, kind->ending))
			continue;
		kind->count++;
		fprintf(stderr, "%s: %s/%s\n", kind->name, screen_text(str_of(p->dir)).text,
			screen_text(infos[i].name).text);
	}
	if (!kind->count)
		screen_error("there is no %s: the script was killed, or something kept node from "
			     "writing it",
			     kind->name);
}

/* There are more than one of each if it has forked. */
static int tell_all(struct haul *haul, const struct profile *p)
{
	struct kind kinds[] = {{STR(".cpuprofile"), "CPU profile", 0},
			       {STR(".heapsnapshot"), "heap snapshot", 0}};
	struct file_list list = {0};
	struct remote out;
	struct arena arena;
	int r;

	set_remote(p, "/out", &out);
	arena_init(&arena, REMOTE_LIST_MAX);
	r = remote_target(&out, "dir", &haul->target);
	if (r == 0)
		r = haul_ask(haul, "GET");
	if (r == 0)
		r = file_list_parse(&arena, &haul->answer, &list, &haul->err);
	for (size_t i = 0; r == 0 && i < array_len(kinds); i++)
		tell(p, &kinds[i], &list);
	if (r == 0 && list.cursor.len)
		fprintf(stderr, "and more in %s\n", screen_text(str_of(p->dir)).text);
	arena_close(&arena);
	return r;
}

static int fetch(struct haul *haul, const struct profile *p)
{
	struct copy copy = {.haul = haul, .local = p->dir, .is_recursive = true};
	int r;

	set_remote(p, "/out/.", &copy.remote);
	r = copy_out(&copy);
	return r == 0 ? tell_all(haul, p) : r;
}

static int remove_place(struct haul *haul, const struct profile *p)
{
	struct remote place;
	int r;

	set_remote(p, "", &place);
	r = remote_target(&place, "file", &haul->target);
	if (r == 0)
		r = buf_printf(&haul->target, "?recursive=1");
	return r < 0 ? haul_fail(haul, r, "out of memory") : haul_ask(haul, "DELETE");
}

/* One step with signals heard meanwhile. */
static int step(const struct profile *p, int (*act)(struct haul *, const struct profile *))
{
	struct haul haul;
	int code = haul_init(&haul, p->command->globals);

	if (code != EXIT_OK)
		return EXIT_NOT_RUN;
	code = haul_finish(&haul, act(&haul, p));
	haul_close(&haul);
	return code == EXIT_OK || code > 128 ? code : EXIT_NOT_RUN;
}

static int run_script(struct profile *p)
{
	struct command *command = p->command;
	char *const *words = command->argv;
	size_t count = command->argc;
	uint64_t timeout_ms = command->timeout_ms;
	char dir[PLACE_MAX * 2], file[PLACE_MAX * 2];
	cleanup_free char **argv = calloc(count + 7, sizeof(*argv));
	char *own[] = {(char *)"node", (char *)"--cpu-prof", dir, (char *)"-r", file, (char *)"--"};
	int code;

	if (!argv)
		return EXIT_NOT_RUN;
	snprintf(dir, sizeof(dir), "--cpu-prof-dir=%s/out", p->place);
	snprintf(file, sizeof(file), "%s/preload.cjs", p->place);
	memcpy(argv, own, sizeof(own));
	memcpy(argv + array_len(own), words, count * sizeof(*argv));
	command->argv = argv;
	command->argc = count + array_len(own);
	/* Also if it stays in what it does at its exit. */
	if (p->limit_ms && (!timeout_ms || timeout_ms > p->limit_ms + END_MS))
		command->timeout_ms = p->limit_ms + END_MS;
	code = command_run(command);
	command->timeout_ms = timeout_ms;
	command->argv = words;
	command->argc = count;
	return code;
}

/* In a place inside, which is there only meanwhile. */
static int run_in_place(struct profile *p)
{
	int code = step(p, make_place), fetched;

	if (code != EXIT_OK)
		return code;
	code = step(p, put_preload);
	if (code != EXIT_OK) {
		step(p, remove_place);
		return code;
	}
	code = run_script(p);
	fetched = code == EXIT_INTERRUPTED ? EXIT_OK : step(p, fetch);
	step(p, remove_place);
	return code == EXIT_OK ? fetched : code;
}

int debug_profile(struct command *command, const char *dir, uint64_t limit_ms)
{
	struct profile p = {.command = command, .dir = dir, .limit_ms = limit_ms};
	bool is_standard = command->has_stdin && strcmp(command->argv[0], "-") == 0;
	uint64_t random;
	int code;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random) || make_dir(&p) != EXIT_OK)
		return EXIT_NOT_RUN;
	snprintf(p.place, sizeof(p.place), "/tmp/berth-profile-%016" PRIx64, random);
	code = is_standard ? EXIT_OK : debug_find_script(command);
	if (code == EXIT_OK)
		code = run_in_place(&p);
	/* It stays if there is something in it. */
	if (p.is_made)
		rmdir(dir);
	return code;
}
