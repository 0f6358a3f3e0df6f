#include "cmd/berth/checks.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/client.h"
#include "cmd/berth/info.h"
#include "cmd/berth/screen.h"

#define SUBIDS_GOOD          65536
#define INOTIFY_GOOD         512
#define INOTIFY_WATCHES_GOOD 65536
#define NOFILE_GOOD          4096
#define MEMORY_GOOD          (512ULL * 1024 * 1024)
#define KERNEL(maj, min)     ((maj)*1000 + (min))

struct finding *finding_add(struct findings *findings, const char *name, enum finding_level level,
			    const char *format, ...)
{
	struct finding *finding = &findings->items[findings->count];
	va_list args;

	assert(findings->count < FINDINGS_MAX);
	findings->count++;
	*finding = (struct finding){.name = name, .level = level};
	va_start(args, format);
	vsnprintf(finding->what, sizeof(finding->what), format, args);
	va_end(args);
	return finding;
}

void finding_mend(struct finding *finding, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(finding->mend, sizeof(finding->mend), format, args);
	va_end(args);
}

long long check_sysctl(const char *path)
{
	cleanup_file FILE *file = fopen(path, "re");
	long long value;

	return file && fscanf(file, "%lld", &value) == 1 ? value : -1;
}

static const char *user_name(void)
{
	const struct passwd *pwd = getpwuid(geteuid());

	return pwd ? pwd->pw_name : "$USER";
}

static void check_kernel(struct findings *findings, const struct host_facts *facts)
{
	int major = 0, minor = 0, version;
	struct finding *f;

	if (sscanf(facts->kernel, "%d.%d", &major, &minor) != 2)
		major = minor = 0;
	version = KERNEL(major, minor);
	if (version >= KERNEL(5, 14)) {
		finding_add(findings, "kernel", FINDING_OK, "Linux %s, %s", facts->kernel,
			    facts->machine);
	} else if (version >= KERNEL(5, 11)) {
		f = finding_add(findings, "kernel", FINDING_WARN,
				"Linux %s works; 5.14 can also end a whole cgroup at once",
				facts->kernel);
		finding_mend(f, "boot a newer kernel");
	} else {
		f = finding_add(findings, "kernel", FINDING_MISSING,
				"Linux %s is too old: 5.11 is needed", facts->kernel);
		finding_mend(f, "boot a newer kernel");
	}
}

/* One instance for each sandbox that is watched, one watch for each directory; all sandboxes of a
 * daemon share what its user may have. */
static void check_inotify(struct findings *findings, const struct host_facts *facts)
{
	bool has_instances = facts->inotify_instances >= INOTIFY_GOOD;
	bool has_watches = facts->inotify_watches >= INOTIFY_WATCHES_GOOD;
	struct finding *f;

	f = finding_add(
		findings, "inotify", has_instances && has_watches ? FINDING_OK : FINDING_WARN,
		"%" PRIu64 " instances and %" PRIu64 " watches per user%s",
		facts->inotify_instances, facts->inotify_watches,
		has_instances && has_watches ? ""
					     : ": one sandbox can use up those of its neighbours");
	if (!has_instances && !has_watches)
		finding_mend(f, "sysctl -w fs.inotify.max_user_instances=1024 "
				"fs.inotify.max_user_watches=524288");
	else if (!has_instances)
		finding_mend(f, "sysctl -w fs.inotify.max_user_instances=1024");
	else if (!has_watches)
		finding_mend(f, "sysctl -w fs.inotify.max_user_watches=524288");
}

void check_machine(struct findings *findings, const struct host_facts *facts)
{
	struct finding *f;
	bool is_enough;

	check_kernel(findings, facts);
	is_enough = facts->memory_bytes >= MEMORY_GOOD;
	f = finding_add(findings, "memory", is_enough ? FINDING_OK : FINDING_WARN, "%s, %u cpu%s",
			screen_bytes(facts->memory_bytes).text, facts->cpus,
			facts->cpus == 1 ? "" : "s");
	if (!is_enough)
		finding_mend(f, "few sandboxes will fit; give the machine more memory");
	is_enough = facts->nofile_hard >= NOFILE_GOOD;
	f = finding_add(findings, "open files", is_enough ? FINDING_OK : FINDING_WARN,
			"%" PRIu64 " at most%s", facts->nofile_hard,
			is_enough ? "" : ": connections and sandboxes need some each");
	if (!is_enough)
		finding_mend(f, "ulimit -Hn 65536 (as root, before starting berthd)");
	check_inotify(findings, facts);
}

static void check_user_namespaces(struct findings *findings, const struct host_facts *facts)
{
	struct finding *f;

	if (facts->user_namespaces) {
		finding_add(findings, "user namespaces", FINDING_OK, "can be made");
		return;
	}
	f = finding_add(findings, "user namespaces", FINDING_MISSING,
			"cannot be made: root inside a sandbox would be root outside");
	if (check_sysctl("/proc/sys/kernel/unprivileged_userns_clone") == 0)
		finding_mend(f, "sysctl -w kernel.unprivileged_userns_clone=1");
	else if (check_sysctl("/proc/sys/user/max_user_namespaces") == 0)
		finding_mend(f, "sysctl -w user.max_user_namespaces=15000");
	else if (check_sysctl("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
		finding_mend(f, "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
	else
		finding_mend(f, "the kernel was built without them, or the container that this "
				"runs in forbids them: allow unshare and clone there");
}

static void check_cgroups(struct findings *findings, const struct host_facts *facts)
{
	const char *mode = host_cgroups_name(facts->cgroups);
	char lacking[64];
	struct finding *f;

	if (facts->cgroups == HOST_CGROUPS_NONE) {
		f = finding_add(findings, "cgroups", FINDING_WARN,
				"not mounted: no limits of memory, cpu and processes");
		finding_mend(f, "mount -t cgroup2 none /sys/fs/cgroup");
		return;
	}
	snprintf(lacking, sizeof(lacking), "%s%s%s%s", facts->cgroup_memory ? "" : " memory",
		 facts->cgroup_cpu ? "" : " cpu", facts->cgroup_pids ? "" : " pids",
		 facts->cgroup_freezer ? "" : " freezer");
	if (!*lacking) {
		finding_add(findings, "cgroups", FINDING_OK, "%s: memory cpu pids freezer%s", mode,
			    facts->is_root ? "" : ", by your service berth-sandboxes");
		return;
	}
	if (!facts->is_root) {
		f = finding_add(findings, "cgroups", FINDING_WARN,
				"%s, but not for a daemon that you start by hand: no limits of "
				"memory and cpus, no freezing, and the trees of commands end by "
				"supervisors",
				mode);
		finding_mend(f,
			     facts->cgroups == HOST_CGROUPS_V2
				     ? "scripts/systemd/install --user runs it as a service with "
				       "a delegated cgroup"
				     : "run the daemon as root; for yours it takes a machine "
				       "with cgroup v2 only");
		return;
	}
	f = finding_add(findings, "cgroups", FINDING_WARN, "%s, but not usable by us:%s", mode,
			lacking);
	finding_mend(f,
		     "enable them in the kernel (cgroup_enable=memory on its command line); in a "
		     "container make /sys/fs/cgroup writable, and start with every process "
		     "in a cgroup below it: only an empty one passes controllers down");
}

/* Without root a disk is limited in memory only, which needs nothing. */
static void check_disks(struct findings *findings, const struct host_facts *facts)
{
	const char *lacks = host_lacks_for_disks(facts, false);
	struct finding *f;

	if (!facts->is_root)
		return;
	f = finding_add(findings, "disk limits", lacks ? FINDING_WARN : FINDING_OK, "%s%s",
			lacks ? "limits.disk is refused: " : "btrfs, loop devices and mkfs.btrfs",
			lacks ? lacks : "");
	if (lacks && facts->btrfs && facts->loop_control)
		finding_mend(f, "apt install btrfs-progs");
	else if (lacks)
		finding_mend(f, "modprobe -a btrfs loop, or boot a kernel that has both");
}

void check_isolation(struct findings *findings, const struct host_facts *facts)
{
	struct finding *f;

	check_user_namespaces(findings, facts);
	check_cgroups(findings, facts);
	f = finding_add(findings, "overlay", facts->overlay ? FINDING_OK : FINDING_MISSING,
			facts->overlay ? "known to the kernel"
				       : "unknown to the kernel: sandboxes get no disk");
	if (!facts->overlay)
		finding_mend(f, "modprobe overlay (and `echo overlay > "
				"/etc/modules-load.d/overlay.conf` to keep it)");
	f = finding_add(findings, "seccomp", facts->seccomp ? FINDING_OK : FINDING_MISSING,
			facts->seccomp ? "filters work"
				       : "missing: system calls cannot be restricted");
	if (!facts->seccomp)
		finding_mend(f, "boot a kernel with CONFIG_SECCOMP_FILTER=y");
	check_disks(findings, facts);
}

void check_ids(struct findings *findings, const struct host_facts *facts)
{
	bool is_enough;
	struct finding *f;

	if (facts->is_root) {
		finding_add(findings, "ids", FINDING_OK, "root gives each sandbox its own");
		return;
	}
	is_enough = facts->subuid_count >= SUBIDS_GOOD && facts->subgid_count >= SUBIDS_GOOD;
	f = finding_add(findings, "ids", is_enough ? FINDING_OK : FINDING_WARN,
			"%" PRIu32 " subordinate uids, %" PRIu32 " gids%s", facts->subuid_count,
			facts->subgid_count,
			is_enough ? "" : ": sandboxes would share yours, and have one user only");
	if (!is_enough)
		finding_mend(f,
			     "sudo usermod --add-subuids 100000-165535 "
			     "--add-subgids 100000-165535 %s (or another free range)",
			     user_name());
	f = finding_add(findings, "newuidmap", facts->newuidmap ? FINDING_OK : FINDING_WARN,
			facts->newuidmap ? "found" : "not found: subordinate ids cannot be used");
	if (!facts->newuidmap)
		finding_mend(f, "apt install uidmap");
}

static void say_confined(struct findings *findings, const struct info *info)
{
	bool is_whole = info->confined.landlock && info->confined.seccomp;
	struct finding *f = finding_add(findings, "confined", is_whole ? FINDING_OK : FINDING_WARN,
					"berthd: %s", info_confined(info).text);

	if (!info->confined.seccomp && !info->confined.landlock)
		finding_mend(f, "start berthd without --no-confine; its log says what else is "
				"in the way");
	else if (!is_whole)
		finding_mend(f, "boot a kernel with %s",
			     info->confined.seccomp
				     ? "Landlock: Linux 5.19 or newer, \"landlock\" in lsm="
				     : "CONFIG_SECCOMP_FILTER=y");
}

static void say_keeper(struct findings *findings, const struct globals *globals,
		       const struct info *info)
{
	char down[CLIENT_COMMAND_MAX], up[CLIENT_COMMAND_MAX];
	struct finding *f;

	if (info->keeper.answers) {
		finding_add(findings, "keeper", FINDING_OK, "answers");
		return;
	}
	f = finding_add(findings, "keeper", FINDING_MISSING,
			"berthd has no berth-keeper: what runs runs on, but no sandbox can be "
			"started, stopped, frozen or deleted");
	if (info->keeper.awaited)
		finding_mend(f, "start its service again: systemctl %srestart berth-keeper",
			     str_eq(info->mode, STR("root")) ? "" : "--user ");
	else
		finding_mend(f, "%.200s, then %.200s: that starts one, which adopts what runs",
			     client_command(globals, "down", down),
			     client_command(globals, "up", up));
}

static void say_capacity(struct findings *findings, const struct info *info)
{
	bool is_full =
		info->capacity.max_running && info->capacity.running >= info->capacity.max_running;
	/* What the kernel does not tell is 0, as no machine is ever that short of it. */
	bool is_short = info->capacity.memory_available &&
			info->capacity.memory_available < info->capacity.memory_floor;
	bool has_all = info->capacity.max_sandboxes &&
		       info->capacity.sandboxes >= info->capacity.max_sandboxes;
	const char *full =
		info->capacity.frozen
			? "; to start another one, a frozen one has to give way"
			: "; no other one can start, as none is frozen and could give way";
	struct finding *f;

	f = finding_add(findings, "capacity",
			is_full || is_short || has_all ? FINDING_WARN : FINDING_OK,
			"%" PRIu64 " sandboxes, %" PRIu64 " with a container%s%s%s",
			info->capacity.sandboxes, info->capacity.running,
			has_all ? "; no more may exist" : "", is_full ? full : "",
			is_short ? "; none can start, as memory is below its floor" : "");
	if (has_all)
		finding_mend(f, "berth prune (or raise max_sandboxes)");
	else if (is_short)
		finding_mend(f, "stop sandboxes, or lower memory_floor");
	else if (is_full)
		finding_mend(f, "stop sandboxes, or raise max_running");
}

static void check_info(struct findings *findings, const struct globals *globals)
{
	struct answer answer;
	struct arena arena;
	struct info info;
	struct err err;

	answer_init(&answer);
	arena_init(&arena, INFO_ARENA_MAX);
	if (client_get(globals, "/v1/info", &answer, &err) == 0 &&
	    info_parse(&arena, &answer, &info, &err) == 0) {
		if (info.keeper_given)
			say_keeper(findings, globals, &info);
		if (info.confined_given)
			say_confined(findings, &info);
		if (info.capacity_given)
			say_capacity(findings, &info);
		findings->abilities = info.abilities;
		findings->abilities_given = info.abilities_given;
		check_reach(findings, &info);
	}
	arena_close(&arena);
	answer_close(&answer);
}

void check_daemon(struct findings *findings, const struct globals *globals)
{
	struct answer answer;
	char up[CLIENT_COMMAND_MAX];
	struct finding *f;
	struct err err;
	int r;

	answer_init(&answer);
	r = client_get(globals, "/health", &answer, &err);
	answer_close(&answer);
	if (r == 0) {
		finding_add(findings, "daemon", FINDING_OK, "answers");
		check_info(findings, globals);
		return;
	}
	if (client_is_absent(r) && !globals->url) {
		f = finding_add(findings, "daemon", FINDING_WARN, "does not run");
		finding_mend(f, "%s", client_command(globals, "up", up));
	} else {
		finding_add(findings, "daemon", FINDING_WARN, "%s", err.sentence);
	}
}
