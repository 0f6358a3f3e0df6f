/* Traps for whoever reads and writes a sandbox's files from outside. All in the working directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "cmd/berth-probe/probe.h"

#define EXCHANGE 2 /* RENAME_EXCHANGE */

static void link_to(const char *target, const char *name)
{
	unlink(name);
	if (tried(symlink(target, name)) < 0)
		cannot("make the link %s: %s", name, strerror(errno));
}

/* DIR: links by which one could come to the host's. */
int plant_links(char **args)
{
	char path[PATH_MAX];

	if (!args[0])
		return 2;
	link_to(args[0], "dir");
	snprintf(path, sizeof(path), "%s/canary", args[0]);
	link_to(path, "link");
	link_to("link", "chain1");
	link_to("chain1", "chain");
	link_to("../../../../../../../..", "up");
	link_to("/proc/self/root", "root");
	link_to("/proc/1/root", "first");
	return probe_end();
}

int plant_special(char **args)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	unlink("fifo");
	unlink("socket");
	if (tried(mkfifo("fifo", 0666)) < 0)
		cannot("make a fifo: %s", strerror(errno));
	if (tried(bind(fd, (struct sockaddr *)&address, sizeof(address))) < 0)
		cannot("make a socket: %s", strerror(errno));
	close(fd);
	link_to("fifo", "to-fifo");
	link_to("/dev/zero", "to-zero");
	return probe_end();
}

/* DIR STOP OUT: the directory `flip` and a link to DIR take each other's place until STOP is there.
 */
int swap(char **args)
{
	if (!args[0] || !args[1] || !args[2])
		return 2;
	mkdir("flip", 0777);
	link_to(args[0], "flop");
	puts("up");
	fflush(stdout);
	while (access(args[1], F_OK) != 0) {
		if (syscall(SYS_renameat2, AT_FDCWD, "flip", AT_FDCWD, "flop", EXCHANGE) < 0)
			return 1;
		tried(0);
	}
	say_to(args[2]);
	return probe_end();
}
