/* Checks 1 to 13: what stands between a sandbox and the kernel it shares with the host. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "cmd/berth/screen.h"
#include "cmd/berth/selftest.h"

/* chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service */
#define CAPABILITIES "5fb"
#define ORDINARY     "1000:1000"
#define ROUNDS       40
#define NAMES_MAX    256

/* Both as root and as an ordinary user of the sandbox. */
static int probe_as_both(struct selftest *t, const char *const *words, struct outcome *ret)
{
	int r = selftest_probe(t, BOX_FIRST, NULL, words, ret);

	return r < 0 ? r : selftest_probe(t, BOX_FIRST, ORDINARY, words, ret);
}

/* --- 1: programs of the host --- */

/* "PROGRAM ERRNO COUNT", where the program's name may hold anything. */
static int judge_tallies(struct selftest *t, struct str said, struct outcome *ret)
{
	unsigned long attempts = 0;
	bool was_host_seen = false;

	while (said.len) {
		struct str line = str_cut(&said, '\n');
		const char *count = line.at ? memrchr(line.at, ' ', line.len) : NULL;
		const char *error = count ? memrchr(line.at, ' ', (size_t)(count - line.at)) : NULL;

		if (!error)
			continue;
		attempts += strtoul(count, NULL, 10);
		line.len = (size_t)(error - line.at);
		was_host_seen = was_host_seen || !str_starts_with(line, STR(SELFTEST_PROBE));
		if (strtol(error, NULL, 10) == 0)
			outcome_hole(ret, "%s was opened for writing", screen_text(line).text);
	}
	if (!was_host_seen)
		return haul_fail(&t->haul, -EPROTO, "the probe saw no program but itself");
	outcome_ok(ret, "%lu attempts to write to running programs, the host's among them, failed",
		   attempts);
	return 0;
}

int verify_exe(struct selftest *t, struct outcome *ret)
{
	struct selftest_exec ids, gone;
	struct str said = STR("");
	int r = selftest_start(t, BOX_FIRST, "exe",
			       WORDS("exe", "/workspace/stop", "/workspace/exe.out"), "ready");

	/* Each file that is read is a program of the host's at work inside: berth-init. */
	for (int i = 0; r == 0 && i < ROUNDS; i++) {
		ids = gone = (struct selftest_exec){0};
		r = selftest_exec(t, BOX_FIRST, WORDS(SELFTEST_PROBE, "ids"), &ids);
		if (r == 0)
			r = selftest_exec(t, BOX_FIRST, WORDS("/bin/true"), &gone);
		if (r == 0)
			r = selftest_ask(t, BOX_FIRST, "GET", "/stat" SELFTEST_PROBE);
	}
	if (r == 0)
		r = selftest_upload(t, BOX_FIRST, "PUT", "/file/workspace/stop", STR("x"));
	if (r == 0)
		r = selftest_await(t, BOX_FIRST, "exe");
	if (r == 0)
		r = selftest_read(t, BOX_FIRST, "exe.out", &said);
	return r < 0 ? r : judge_tallies(t, said, ret);
}

/* --- 2, 3: descriptors --- */

static int try_cwd(struct selftest *t, const char *cwd, struct outcome *ret)
{
	struct selftest_exec exec = {.cwd = cwd};
	int r = selftest_exec(t, BOX_FIRST, WORDS(SELFTEST_PROBE, "ids"), &exec);

	if (r == 0 && !str_eq(exec.reason, STR("not_started")))
		outcome_hole(ret, "a command was started with the directory %s", cwd);
	return selftest_is_lost(r) ? r : 0;
}

int verify_fds(struct selftest *t, struct outcome *ret)
{
	struct selftest_exec ways[] = {{0}, {.input = "x"}, {.user = ORDINARY}};
	char cwd[64];
	int r = selftest_make(t, BOX_FIRST);

	for (size_t i = 0; r == 0 && i < array_len(ways); i++) {
		r = selftest_exec(t, BOX_FIRST, WORDS(SELFTEST_PROBE, "fds"), &ways[i]);
		if (r == 0 && !str_eq(ways[i].out, STR("0 1 2 /workspace\n")))
			outcome_hole(ret,
				     "a command began with these descriptors and directory: %s",
				     screen_text(ways[i].out).text);
	}
	for (int i = 0; r == 0 && i < 16; i++) {
		snprintf(cwd, sizeof(cwd), "/proc/self/fd/%d", i);
		r = try_cwd(t, cwd, ret);
		snprintf(cwd, sizeof(cwd), "/proc/1/fd/%d/..", i);
		if (r == 0)
			r = try_cwd(t, cwd, ret);
	}
	outcome_ok(ret, "a command has 0, 1 and 2 open, and cannot begin in a directory of init's");
	return r;
}

/* "fd NUMBER TARGET": only 0, 1 and 2, and these pipes of its own: no file, no socket. */
static void judge_fds(struct str said, struct outcome *ret)
{
	while (said.len) {
		struct str line = str_cut(&said, '\n'), target;
		unsigned long number;
		char *end;

		if (!str_starts_with(line, STR("fd ")))
			continue;
		number = strtoul(line.at + 3, &end, 10);
		target = (struct str){end, (size_t)(line.at + line.len - end)};
		if (number > 2 || (!str_starts_with(target, STR(" pipe:[")) &&
				   !str_eq(target, STR(" /dev/null"))))
			outcome_hole(ret, "a command was given %s", screen_text(line).text);
	}
}

/* Does a line of one name a pipe of the other? */
static bool is_shared(struct str line, struct str others)
{
	const char *target = line.at ? memmem(line.at, line.len, " pipe:[", 7) : NULL;

	return target &&
	       memmem(others.at, others.len, target, (size_t)(line.at + line.len - target));
}

int verify_inherited(struct selftest *t, struct outcome *ret)
{
	struct str said[2], rest;
	int r = 0;

	for (int i = 0; r == 0 && i < 2; i++) {
		r = selftest_start(t, (enum box)i, "stay",
				   WORDS("stay", "/workspace/stay.out", t->word), "up");
		if (r == 0)
			r = selftest_read(t, (enum box)i, "stay.out", &said[i]);
		if (r == 0)
			judge_fds(said[i], ret);
	}
	for (rest = r == 0 ? said[0] : STR(""); rest.len;) {
		struct str line = str_cut(&rest, '\n');

		if (is_shared(line, said[1]))
			outcome_hole(ret, "two sandboxes share %s", screen_text(line).text);
	}
	for (int i = 0; r == 0 && i < 2; i++)
		r = selftest_end(t, (enum box)i, "stay");
	outcome_ok(ret, "commands in two sandboxes have pipes of their own, and nothing of others");
	return r;
}

/* --- 6 to 8 --- */

int verify_surfaces(struct selftest *t, struct outcome *ret)
{
	outcome_ok(ret,
		   "what /proc and /sys tell of the host is hidden, and nothing can be written");
	return probe_as_both(t, WORDS("surfaces"), ret);
}

int verify_writes(struct selftest *t, struct outcome *ret)
{
	outcome_ok(ret,
		   "core_pattern, sysrq, id maps, cgroups and a lower oom_score_adj are refused");
	return probe_as_both(t, WORDS("writes"), ret);
}

int verify_privileges(struct selftest *t, struct outcome *ret)
{
	static const char *const files[] = {"/workspace/berth-setuid", "/workspace/berth-caps"};
	int r = selftest_probe(t, BOX_FIRST, NULL, WORDS("privileges", CAPABILITIES), ret);

	if (r == 0)
		r = selftest_probe(t, BOX_FIRST, ORDINARY, WORDS("privileges", "0"), ret);
	if (r == 0)
		r = selftest_probe(t, BOX_FIRST, NULL, WORDS("plant", files[0], files[1]), ret);
	for (size_t i = 0; r == 0 && i < array_len(files); i++) {
		struct selftest_exec exec = {.user = ORDINARY};

		r = selftest_exec(t, BOX_FIRST, WORDS(files[i], "privileges", "0"), &exec);
		/* That the kernel will not run it at all gains nothing either. */
		if (r == 0 && str_eq(exec.reason, STR("exited")))
			r = selftest_judge(t, exec.out, ret);
	}
	outcome_ok(ret, "few capabilities, no_new_privs, a filter; set-uid files gain nothing");
	return r;
}

/* --- 9: ids --- */

struct range {
	unsigned long first, count;
};

/* As this host sees them. */
static int range_of(struct selftest *t, enum box box, struct range *ret, struct outcome *outcome)
{
	char word[64], path[64];
	unsigned long inside;
	cleanup_file FILE *file = NULL;
	pid_t pid;
	int r;

	snprintf(word, sizeof(word), "%s-%d", t->word, (int)box);
	r = selftest_start(t, box, "ids", WORDS("stay", "/workspace/ids.out", word), "up");
	if (r < 0)
		return r;
	pid = selftest_find(word);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	file = pid ? fopen(path, "re") : NULL;
	if (!file || fscanf(file, "%lu %lu %lu", &inside, &ret->first, &ret->count) != 3)
		outcome_untried(outcome,
				"the sandbox's processes cannot be seen from here (another pid "
				"namespace, or a hidden /proc)");
	else if (ret->first == 0 || inside != 0)
		outcome_hole(outcome, "root of a sandbox is the host's user %lu", ret->first);
	return selftest_end(t, box, "ids");
}

int verify_ids(struct selftest *t, struct outcome *ret)
{
	struct range a = {0, 0}, b = {0, 0};
	int r;

	if (t->haul.globals->url) {
		outcome_untried(ret,
				"the daemon is reached by its URL, and may be on another machine");
		return 0;
	}
	r = range_of(t, BOX_FIRST, &a, ret);
	if (r == 0)
		r = range_of(t, BOX_SECOND, &b, ret);
	if (r < 0 || !a.count || !b.count)
		return r;
	if (!t->is_rootless && a.first < b.first + b.count && b.first < a.first + a.count)
		outcome_hole(ret, "two sandboxes share the host's ids from %lu",
			     a.first > b.first ? a.first : b.first);
	if (t->is_rootless)
		outcome_ok(ret,
			   "root inside is %lu outside; an ordinary user has one range for all",
			   a.first);
	else
		outcome_ok(ret, "root inside is %lu and %lu outside, and the ranges do not overlap",
			   a.first, b.first);
	return 0;
}

/* --- 10 to 12 --- */

int verify_calls(struct selftest *t, struct outcome *ret)
{
	static const char *const abis[] = {"i386", "x32"};
	int r = probe_as_both(t, WORDS("calls"), ret);

	for (size_t i = 0; r == 0 && i < array_len(abis); i++) {
		struct selftest_exec exec = {0};

		r = selftest_exec(t, BOX_FIRST, WORDS(SELFTEST_PROBE, "abi", abis[i]), &exec);
		if (r == 0 && !str_eq(exec.reason, STR("signaled")))
			r = selftest_judge(t, exec.out, ret);
	}
	outcome_ok(ret,
		   "namespaces, mounts, bpf, keys, io_uring, modules and other ABIs are denied");
	return r;
}

/* The line that begins with a namespace's kind. */
static struct str line_of(struct str text, const char *kind)
{
	while (text.len) {
		struct str line = str_cut(&text, '\n');

		if (str_starts_with(line, str_of(kind)) && line.at[strlen(kind)] == ':')
			return line;
	}
	return STR("");
}

static void compare_kind(struct selftest *t, const char *kind, const struct str said[2],
			 struct outcome *ret)
{
	struct str first = line_of(said[0], kind), second = line_of(said[1], kind);
	char path[64], host[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	len = readlink(path, host, sizeof(host));
	if (!first.len || !second.len)
		outcome_untried(ret, "the kernel does not tell the %s namespace inside", kind);
	else if (str_eq(first, second))
		outcome_hole(ret, "two sandboxes share the %s namespace", kind);
	else if (!t->haul.globals->url && len > 0 &&
		 (str_eq(first, (struct str){host, (size_t)len}) ||
		  str_eq(second, (struct str){host, (size_t)len})))
		outcome_hole(ret, "a sandbox is in the host's %s namespace", kind);
}

int verify_namespaces(struct selftest *t, struct outcome *ret)
{
	static const char *const kinds[] = {"pid", "mnt", "net", "ipc", "uts", "cgroup", "user"};
	struct selftest_exec said[2] = {{0}, {0}};
	int r = 0;

	for (int i = 0; r == 0 && i < 2; i++) {
		r = selftest_make(t, (enum box)i);
		if (r == 0)
			r = selftest_exec(t, (enum box)i, WORDS(SELFTEST_PROBE, "namespaces"),
					  &said[i]);
		if (r == 0)
			r = selftest_judge(t, said[i].out, ret);
	}
	for (size_t i = 0; r == 0 && i < array_len(kinds); i++)
		compare_kind(t, kinds[i], (struct str[]){said[0].out, said[1].out}, ret);
	outcome_ok(ret, "all seven are neither the host's nor another sandbox's");
	return r;
}

int verify_devices(struct selftest *t, struct outcome *ret)
{
	outcome_ok(ret, "only harmless devices, which cannot be changed, and no other can be made");
	return probe_as_both(t, WORDS("devices"), ret);
}

/* --- 13: control surfaces --- */

static int listen_abstractly(const struct selftest *t, char name[64])
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(name, 64, "@berth-selftest-%s", t->word);
	memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
	if (fd >= 0 &&
	    (bind(fd, (struct sockaddr *)&address,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))) < 0 ||
	     listen(fd, 1) < 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool is_plain(const char *name)
{
	for (const char *c = name; *c; c++)
		if (*c <= ' ' || *c > '~')
			return false;
	/* Bound through a directory's descriptor: another file inside. */
	return strncmp(name, "/proc/", 6) != 0 && (*name == '/' || *name == '@');
}

/* Whatever somebody on this host is bound to, as far as there is room. */
static size_t add_host_names(struct selftest *t, const char **names, size_t count)
{
	cleanup_file FILE *file = fopen("/proc/net/unix", "re");
	char line[512], name[256];

	while (file && count < NAMES_MAX && fgets(line, sizeof(line), file)) {
		char *copy;

		if (sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %255s", name) != 1 || !is_plain(name))
			continue;
		copy = arena_strndup(&t->arena, name, strlen(name));
		if (copy)
			names[count++] = copy;
	}
	return count;
}

int verify_sockets(struct selftest *t, struct outcome *ret)
{
	const char *names[NAMES_MAX + 16] = {
		"reach",
		"/run/docker.sock",
		"/var/run/docker.sock",
		"/run/containerd/containerd.sock",
		"/run/podman/podman.sock",
		"/run/dbus/system_bus_socket",
		"/run/systemd/private",
		"/run/berth/keeper.sock",
		"/run/berth/berthd/api.sock",
	};
	cleanup_fd int listener = -1;
	char name[64];
	struct paths paths;
	size_t count = 9;
	int r;

	if (!t->haul.globals->url) {
		listener = listen_abstractly(t, name);
		if (listener >= 0)
			names[count++] = name;
		if (client_way(t->haul.globals, &paths, &t->haul.err) == 0)
			names[count++] = paths.socket;
		count = add_host_names(t, names, count);
	}
	r = probe_as_both(t, names, ret);
	if (r == 0)
		r = probe_as_both(t, WORDS("sockets"), ret);
	outcome_ok(ret,
		   "none of %zu sockets of the host is in reach, nor vsock, raw or packet sockets",
		   count - 1);
	return r;
}
