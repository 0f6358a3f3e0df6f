/* What `berth doctor --strict` does not let pass: holes that are known, and settings that help
 * whoever looks for another one. */
#include "cmd/berth/checks.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "cmd/berth/advisories.h"
#include "cmd/berth/info.h"
#include "cmd/berth/screen.h"

#define CPU_HOLES "/sys/devices/system/cpu/vulnerabilities"

struct setting {
	const char *name;
	const char *path;
	long long least; /* lower is unsafe */
	const char *what, *mend;
};

/* clang-format off */
static const struct setting settings[] = {
	{ "bpf", "/proc/sys/kernel/unprivileged_bpf_disabled", 1,
	  "0: everybody may load BPF programs into the kernel",
	  "sysctl -w kernel.unprivileged_bpf_disabled=1" },
	{ "kptr_restrict", "/proc/sys/kernel/kptr_restrict", 1,
	  "0: the kernel may tell where it lies in memory, which helps against it",
	  "sysctl -w kernel.kptr_restrict=1" },
	{ "dmesg_restrict", "/proc/sys/kernel/dmesg_restrict", 1,
	  "0: everybody may read the kernel's log, and what it tells of addresses",
	  "sysctl -w kernel.dmesg_restrict=1" },
	{ "symlinks", "/proc/sys/fs/protected_symlinks", 1,
	  "0: a link in a directory like /tmp can lead others elsewhere",
	  "sysctl -w fs.protected_symlinks=1" },
	{ "hardlinks", "/proc/sys/fs/protected_hardlinks", 1,
	  "0: everybody may make hard links to files that are not theirs",
	  "sysctl -w fs.protected_hardlinks=1" },
};
/* clang-format on */

static struct finding *add_unsafe(struct findings *findings, const char *name, const char *what,
				  const char *mend)
{
	struct finding *f = finding_add(
		findings, name, findings->is_strict ? FINDING_UNSAFE : FINDING_NOTE, "%s", what);

	finding_mend(f, "%s", mend);
	return f;
}

/* What is as it should be is told only to those who asked. */
static void add_safe(struct findings *findings, const char *name, const char *what)
{
	if (findings->is_strict)
		finding_add(findings, name, FINDING_OK, "%s", what);
}

static void read_line(const char *path, char *ret, size_t size)
{
	cleanup_file FILE *file = fopen(path, "re");

	ret[0] = '\0';
	if (file && fgets(ret, (int)size, file))
		ret[strcspn(ret, "\n")] = '\0';
}

/* "1.2.8, 1.3.3 or 1.4.0-rc.3" */
static void list_fixes(const struct advisory *a, char *ret, size_t size)
{
	size_t len = 0;

	ret[0] = '\0';
	for (int i = 0; a->fixed[i] && len < size; i++)
		len += (size_t)snprintf(ret + len, size - len, "%s%s",
					i == 0            ? ""
					: a->fixed[i + 1] ? ", "
							  : " or ",
					a->fixed[i]);
}

static void judge(struct findings *findings, const struct subject *subject, const char *shown)
{
	struct finding *f;
	size_t hits = 0;
	char fixes[128];

	for (const struct advisory *a = advisories; a->name; a++) {
		enum advisory_verdict verdict = advisory_judge(a, subject);

		if (verdict == ADVISORY_MENDED && findings->is_strict)
			finding_add(findings, a->name, FINDING_OK,
				    "%s has it by its version, and Debian has mended it: %.100s",
				    shown, screen_text(subject->package).text);
		if (verdict != ADVISORY_HIT)
			continue;
		hits++;
		f = add_unsafe(findings, a->name, "", "");
		snprintf(f->what, sizeof(f->what), "%.150s has it, by its version: %s", shown,
			 a->what);
		list_fixes(a, fixes, sizeof(fixes));
		finding_mend(f, "install %s %s, or a package that is known to be mended",
			     str_eq(subject->program, STR("linux")) ? "Linux" : a->program, fixes);
	}
	if (!hits)
		add_safe(findings,
			 str_eq(subject->program, STR("linux")) ? "kernel's holes"
								: "runtime's holes",
			 "none is known, by its version");
}

void check_runtime_holes(struct findings *findings, struct str told)
{
	struct screen_text shown;
	struct subject subject;
	struct str rest = told;

	if (subject_of_runtime(told, &subject)) {
		shown = screen_text(str_cut(&rest, '\n'));
		judge(findings, &subject, shown.text);
	}
}

void check_kernel_holes(struct findings *findings)
{
	struct subject subject;
	struct utsname name;
	char shown[96];

	if (uname(&name) < 0)
		return;
	if (!subject_of_kernel(str_of(name.release), str_of(name.version), &subject)) {
		add_safe(findings, "kernel's holes",
			 "its version does not say what its distribution has mended: keep it "
			 "up to date");
		return;
	}
	snprintf(shown, sizeof(shown), "Linux %u.%u.%u", subject.release.number[0],
		 subject.release.number[1], subject.release.number[2]);
	judge(findings, &subject, shown);
}

static void check_core_pattern(struct findings *findings)
{
	char pattern[256];

	read_line("/proc/sys/kernel/core_pattern", pattern, sizeof(pattern));
	if (pattern[0] == '|')
		add_unsafe(findings, "core_pattern",
			   "a program of the host is run as root when anything crashes, in a "
			   "sandbox too",
			   "sysctl -w kernel.core_pattern=core");
	else if (pattern[0])
		add_safe(findings, "core_pattern", "no program is run for a crash");
}

/* Not a hole: inside of sandboxes ptrace() reaches their own processes only. */
static void check_ptrace(struct findings *findings)
{
	long long scope = check_sysctl("/proc/sys/kernel/yama/ptrace_scope");

	if (findings->is_strict)
		finding_add(findings, "ptrace_scope", FINDING_OK,
			    scope < 0    ? "not known to this kernel"
			    : scope == 0 ? "0: your processes may look into each other"
					 : "only parents may look into processes");
}

static void check_processor(struct findings *findings)
{
	DIR *dir = opendir(CPU_HOLES);
	char names[300] = "", path[512], line[64];
	struct dirent *entry;
	struct finding *f;
	size_t len = 0;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", CPU_HOLES, entry->d_name);
		read_line(path, line, sizeof(line));
		if (str_starts_with(str_of(line), STR("Vulnerable")) && len < sizeof(names))
			len += (size_t)snprintf(names + len, sizeof(names) - len, " %s",
						entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (!names[0]) {
		add_safe(findings, "processor", "the kernel knows of no hole that is open");
		return;
	}
	f = add_unsafe(findings, "processor", "",
		       "install the processor's microcode, and boot without mitigations=off; in a "
		       "virtual machine its host has to do so");
	snprintf(f->what, sizeof(f->what),
		 "what runs beside can be read through its holes, the kernel says:%s", names);
}

void check_settings(struct findings *findings)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
		const struct setting *s = &settings[i];
		long long value = check_sysctl(s->path);

		if (value >= 0 && value < s->least)
			add_unsafe(findings, s->name, s->what, s->mend);
		else
			add_safe(findings, s->name, value < 0 ? "not known to this kernel" : "set");
	}
	if (check_sysctl("/proc/sys/vm/unprivileged_userfaultfd") == 1)
		add_unsafe(findings, "userfaultfd",
			   "1: everybody may halt the kernel in the midst of a copy",
			   "sysctl -w vm.unprivileged_userfaultfd=0");
	else
		add_safe(findings, "userfaultfd", "not for everybody");
	check_core_pattern(findings);
	check_ptrace(findings);
	check_processor(findings);
}

void check_state_mode(struct findings *findings, const char *dir)
{
	struct finding *f;
	struct stat st;

	if (stat(dir, &st) < 0)
		return;
	if (!(st.st_mode & (S_IROTH | S_IWOTH))) {
		add_safe(findings, "state's mode", "others may not read it");
		return;
	}
	f = add_unsafe(findings, "state's mode", "", "");
	snprintf(f->what, sizeof(f->what), "everybody may %s %.300s",
		 st.st_mode & S_IWOTH ? "write to" : "list", dir);
	finding_mend(f, "chmod o-rw %.300s", dir);
}

static bool is_loopback(struct str address)
{
	return !address.len || str_starts_with(address, STR("127.")) ||
	       str_starts_with(address, STR("[::1]")) ||
	       str_starts_with(address, STR("localhost:"));
}

static void check_listener(struct findings *findings, const char *name, struct str address)
{
	struct finding *f;

	if (is_loopback(address)) {
		add_safe(findings, name, address.len ? "on loopback only" : "none");
		return;
	}
	f = add_unsafe(findings, name, "",
		       "listen on 127.0.0.1 and put a proxy with TLS before it");
	snprintf(f->what, sizeof(f->what),
		 "%.200s can be reached from other machines, and is not encrypted",
		 screen_text(address).text);
}

static void check_binds(struct findings *findings, const struct info *info)
{
	struct finding *f;

	for (size_t i = 0; i < info->allow_bind.len; i++) {
		bool is_read_only = str_eq(info->allow_bind.items[i], STR("/:ro"));

		if (!is_read_only && !str_eq(info->allow_bind.items[i], STR("/")))
			continue;
		f = add_unsafe(findings, "allowed folders", "",
			       "name the folders that sandboxes need, in place of \"/\"");
		snprintf(f->what, sizeof(f->what),
			 "--allow-bind /%s: whoever may make a sandbox may %s all of this machine",
			 is_read_only ? ":ro" : "", is_read_only ? "read" : "write to");
		return;
	}
	add_safe(findings, "allowed folders", info->allow_bind.len ? "not all of them" : "none");
}

void check_reach(struct findings *findings, const struct info *info)
{
	char path[PATH_MAX];
	struct finding *f;
	struct stat st;

	check_listener(findings, "TCP listener", info->listen);
	check_listener(findings, "preview listener", info->preview);
	check_binds(findings, info);
	snprintf(path, sizeof(path), "%.*s", STR_ARGS(info->socket));
	if (!path[0] || stat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	if (!(st.st_mode & S_IRWXO)) {
		add_safe(findings, "socket's mode", "not for everybody");
		return;
	}
	f = add_unsafe(findings, "socket's mode", "", "");
	snprintf(f->what, sizeof(f->what),
		 "everybody on this machine may use %.200s (mode %04o), and so every sandbox",
		 screen_text(info->socket).text, st.st_mode & 07777);
	finding_mend(f, "chmod 660 %.200s, and name those who may with --socket-group",
		     screen_text(info->socket).text);
}
