/* Capabilities, and files that promise more of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-probe/probe.h"

/* The number behind a name in /proc/.../status; -1: there is none. */
static long long find(const char *text, const char *name, int base)
{
	const char *at = strstr(text, name);

	return at ? strtoll(at + strlen(name), NULL, base) : -1;
}

static void judge(const char *whose, long long wanted)
{
	static const char *const held[] = {"\nCapPrm:", "\nCapEff:"};
	static const char *const empty[] = {"\nCapInh:", "\nCapAmb:"};
	char path[64], text[TEXT_MAX];
	long long bounding;

	snprintf(path, sizeof(path), "/proc/%s/status", whose);
	text_of(path, text);
	for (size_t i = 0; i < array_len(held); i++)
		if (tried(find(text, held[i], 16) != wanted))
			hole("%s of %s is %llx and not %llx", held[i] + 1, whose,
			     find(text, held[i], 16), wanted);
	for (size_t i = 0; i < array_len(empty); i++)
		if (tried(find(text, empty[i], 16) != 0))
			hole("%s of %s is not empty", empty[i] + 1, whose);
	bounding = find(text, "\nCapBnd:", 16);
	if (tried(wanted && bounding != wanted))
		hole("CapBnd of %s is %llx and not %llx", whose, bounding, wanted);
	if (tried(find(text, "\nNoNewPrivs:", 10) != 1))
		hole("no_new_privs is not set for %s", whose);
	if (tried(find(text, "\nSeccomp:", 10) != 2))
		hole("no system call filter holds for %s", whose);
}

/* MASK: what root has, and who is not root has nothing. */
int try_privileges(char **args)
{
	if (!args[0])
		return 2;
	judge("self", strtoll(args[0], NULL, 16));
	if (geteuid() == 0)
		judge("1", strtoll(args[0], NULL, 16));
	if (tried(getuid() != geteuid() || getgid() != getegid()))
		hole("a set-uid file made us %d:%d", geteuid(), getegid());
	return probe_end();
}

static int copy_self(const char *path)
{
	int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	struct stat st;

	if (in < 0 || out < 0 || fstat(in, &st) < 0 ||
	    sendfile(out, in, NULL, (size_t)st.st_size) != st.st_size)
		cannot("copy ourselves to %s: %s", path, strerror(errno));
	if (in >= 0)
		close(in);
	return out;
}

/* PATH PATH: a set-uid copy of us, and one with all capabilities, if it lets us. */
int plant_privileges(char **args)
{
	static const uint32_t all[] = {0x02000001, 0xffffffff, 0, 0x1ff, 0};
	int fd;

	if (!args[0] || !args[1])
		return 2;
	fd = copy_self(args[0]);
	if (fd < 0 || fchown(fd, 0, 0) < 0 || fchmod(fd, 06755) < 0)
		cannot("make a set-uid file: %s", strerror(errno));
	close(fd);
	fd = copy_self(args[1]);
	fsetxattr(fd, "security.capability", all, sizeof(all), 0);
	close(fd);
	tried(0);
	return probe_end();
}
