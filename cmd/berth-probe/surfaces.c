/* What the kernel shows and takes through files: /proc, /sys, /dev. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-probe/probe.h"

/* --- what may be seen --- */

static bool has_content(const char *path)
{
	char text[TEXT_MAX];
	const struct dirent *entry;
	bool is_filled = false;
	DIR *dir = opendir(path);

	if (!dir)
		return *text_of(path, text);
	while ((entry = readdir(dir)))
		is_filled = is_filled || entry->d_name[0] != '.';
	closedir(dir);
	return is_filled;
}

static bool try_to_open(const char *path, const struct stat *st)
{
	int fd = S_ISREG(st->st_mode) ? (int)tried(open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC))
				      : -1;

	if (fd < 0)
		return true;
	hole("%s can be opened for writing", path);
	close(fd);
	return true;
}

int try_surfaces(char **args)
{
	static const char *const hidden[] = {
		"/proc/kcore",       "/proc/keys",  "/proc/sysrq-trigger", "/proc/timer_list",
		"/proc/sched_debug", "/proc/acpi",  "/proc/scsi",          "/proc/interrupts",
		"/sys/firmware",     "/sys/kernel", "/sys/fs/bpf",
	};
	static const char *const trees[] = {"/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs",
					    "/sys"};

	for (size_t i = 0; i < array_len(hidden); i++)
		if (tried(has_content(hidden[i])))
			hole("%s can be read", hidden[i]);
	for (size_t i = 0; i < array_len(trees); i++)
		walk(trees[i], try_to_open);
	return probe_end();
}

/* --- what may be changed --- */

static void try_write(const char *path, const char *text)
{
	int fd = (int)tried(open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC));

	if (fd >= 0 && write(fd, text, strlen(text)) >= 0)
		hole("%s takes \"%s\"", path, text);
	if (fd >= 0)
		close(fd);
}

/* Of the whole machine: who could open them could change it, so nothing is written. */
static void try_machine(void)
{
	static const char *const files[] = {
		"/proc/sys/kernel/core_pattern",       "/proc/sys/kernel/modprobe",
		"/proc/sys/kernel/hostname",           "/proc/sys/vm/drop_caches",
		"/proc/sys/net/ipv4/ip_forward",       "/proc/sys/fs/binfmt_misc/register",
		"/proc/irq/default_smp_affinity",      "/proc/acpi/wakeup",
		"/sys/kernel/uevent_helper",           "/sys/fs/cgroup/release_agent",
		"/sys/fs/cgroup/memory/release_agent",
	};
	int fd;

	for (size_t i = 0; i < array_len(files); i++) {
		fd = (int)tried(open(files[i], O_WRONLY | O_NONBLOCK | O_CLOEXEC));
		if (fd >= 0) {
			hole("%s can be opened for writing", files[i]);
			close(fd);
		}
	}
	/* Masked by /dev/null it can be opened, and leads nowhere. */
	fd = (int)tried(open("/proc/sysrq-trigger", O_WRONLY | O_NONBLOCK | O_CLOEXEC));
	if (fd >= 0) {
		struct stat st;

		if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
			hole("/proc/sysrq-trigger can be opened for writing");
		close(fd);
	}
}

static void try_maps(const char *pid)
{
	static const char *const maps[] = {"uid_map", "gid_map"};
	char path[64];

	for (size_t i = 0; i < array_len(maps); i++) {
		snprintf(path, sizeof(path), "/proc/%s/%s", pid, maps[i]);
		try_write(path, "0 0 4294967295\n");
	}
}

static int read_number(const char *path)
{
	char text[TEXT_MAX];

	return atoi(text_of(path, text));
}

static void try_oom(const char *child)
{
	const char *const pids[] = {"self", child, "1"};
	int own = read_number("/proc/self/oom_score_adj");
	int init = read_number("/proc/1/oom_score_adj");
	char path[64], text[16];

	if (tried(own) <= init)
		hole("the kernel would kill init before a command: %d, %d", init, own);
	snprintf(text, sizeof(text), "%d", init > -1000 ? init - 1 : -1000);
	for (size_t i = 0; i < array_len(pids); i++) {
		snprintf(path, sizeof(path), "/proc/%s/oom_score_adj", pids[i]);
		try_write(path, text);
	}
}

/* Where cgroups are mounted in full, a command of anybody's choice can be run when one is empty. */
static void try_agents(void)
{
	FILE *mounts = fopen("/proc/self/mounts", "re");
	char line[TEXT_MAX], where[PATH_MAX], kind[64];

	while (mounts && fgets(line, sizeof(line), mounts)) {
		char path[PATH_MAX + 16];

		if (sscanf(line, "%*s %4095s %63s", where, kind) != 2)
			continue;
		snprintf(path, sizeof(path), "%s/release_agent", where);
		if (tried(strncmp(kind, "cgroup", 6)) == 0 && access(path, F_OK) == 0)
			hole("there is %s", path);
	}
	if (mounts)
		fclose(mounts);
}

static void try_mounts(void)
{
	static const char *const kinds[] = {"cgroup", "cgroup2", "proc", "sysfs", "tmpfs"};

	mkdir("berth-mount", 0755);
	for (size_t i = 0; i < array_len(kinds); i++)
		if (tried(syscall(SYS_mount, "none", "berth-mount", kinds[i], 0, NULL)) == 0)
			hole("a %s can be mounted", kinds[i]);
	rmdir("berth-mount");
}

int try_writes(char **args)
{
	char name[16];
	pid_t child = fork();

	if (child == 0) {
		pause();
		_exit(0);
	}
	snprintf(name, sizeof(name), "%d", child);
	try_machine();
	try_maps("self");
	try_maps(name);
	try_maps("1");
	try_oom(name);
	try_mounts();
	try_agents();
	kill(child, SIGKILL);
	return probe_end();
}

/* --- devices --- */

static bool is_harmless(dev_t device)
{
	unsigned minor = minor(device);

	switch (major(device)) {
	case 1: /* null zero full random urandom */
		return minor == 3 || minor == 5 || (minor >= 7 && minor <= 9);
	case 5: /* tty console ptmx */
		return minor <= 2;
	case 136: /* pts */
		return true;
	}
	return false;
}

/* They are the host's own, and must not be changed for everybody: the same again is change enough.
 */
static void try_change(const char *path, const struct stat *st)
{
	if (tried(chmod(path, st->st_mode & 07777)) == 0)
		hole("the mode of the host's %s can be changed", path);
	if (tried(chown(path, st->st_uid, st->st_gid)) == 0 || chown(path, 0, 0) == 0)
		hole("the owner of the host's %s can be changed", path);
	/* Whoever may write to a file may set its times to now, any user of the host, too. */
	if (tried(utimensat(AT_FDCWD, path, NULL, 0)) == 0)
		note("the times of the host's %s can be set, as by all of its users", path);
}

static bool look_at_device(const char *path, const struct stat *st)
{
	if (!S_ISCHR(st->st_mode) && !S_ISBLK(st->st_mode))
		return true;
	if (S_ISBLK(st->st_mode) || !is_harmless(st->st_rdev))
		hole("there is the device %s", path);
	/* Terminals are the sandbox's own. */
	else if (major(st->st_rdev) == 1)
		try_change(path, st);
	tried(0);
	return true;
}

static void try_node(const char *name, mode_t kind, dev_t device)
{
	unlink(name);
	if (tried(mknod(name, kind | 0600, device)) == 0)
		hole("mknod() makes a %s device", S_ISCHR(kind) ? "character" : "block");
	unlink(name);
}

/* [DIR]: where nodes are tried to be made. */
int try_devices(char **args)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/berth-node", args[0] ? args[0] : ".");
	unlink(path);
	/* An ordinary user may not write here: root's attempts are those that count. */
	if (geteuid() == 0 && mknod(path, S_IFIFO | 0600, 0) < 0)
		cannot("not even a fifo can be made: %s", strerror(errno));
	try_node(path, S_IFCHR, makedev(1, 1));
	try_node(path, S_IFCHR, makedev(1, 3));
	try_node(path, S_IFBLK, makedev(254, 0));
	walk("/dev", look_at_device);
	return probe_end();
}
