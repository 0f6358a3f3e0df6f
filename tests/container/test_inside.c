/*
 * What a sandbox looks like to its own root: SECURITY-CHECKS by number, asked of the probe inside.
 */
#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/dir.h"
#include "container/host_state.h"
#include "proto/capability.h"
#include "tests/container/ground.h"
#include "tests/unit/tap.h"

/* The value of a line such as "CapEff:\t..." in a copy. */
static const char *line_value(const char *text, const char *key)
{
	static char value[256];
	const char *at = strstr(text, key);

	if (!at)
		return "(none)";
	at += strlen(key);
	at += strspn(at, " \t");
	snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, "\n"), at);
	return value;
}

static void test_identity(struct ground *ground, struct container *c, int peer)
{
	struct id_map map = ids_map(ground->host->ids, c->range);
	const char *status;
	unsigned inside, outside, count;

	status = ground_ask(peer, -1, "cat /proc/self/status");
	check_str(line_value(status, "NoNewPrivs:"), "1");
	check_str(line_value(status, "Seccomp:"), "2");
	check_str(line_value(status, "CapInh:"), "0000000000000000");
	check_str(line_value(status, "CapAmb:"), "0000000000000000");
	/* proto/capability.h: CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP
	 * NET_BIND_SERVICE */
	check_str(line_value(status, "CapEff:"), "00000000000005fb");
	check_str(line_value(status, "CapPrm:"), "00000000000005fb");
	check_str(line_value(status, "CapBnd:"), "00000000000005fb");
	tap_ok("8: capabilities are the documented ones, no_new_privs, a filter");

	/* As seen from inside the parent is its own namespace's parent: what the map says. */
	check(sscanf(ground_ask(peer, -1, "cat /proc/self/uid_map"), "%u %u %u", &inside, &outside,
		     &count) == 3);
	check(inside == 0 && count == map.count);
	check_str(line_value(ground_ask(peer, -1, "cat /etc/hostname"), "t"), "0");
	check_str(ground_ask(peer, -1, "cat /proc/sys/kernel/hostname"), "t0\n");
	/* Rootless these are ids of the keeper's own namespace, and 0 is the user. */
	check(ground->mode == GROUND_ROOT       ? map.first >= IDS_FIRST
	      : ground->mode == GROUND_ROOTLESS ? map.first == 1 && map.count == 65535
						: map.first == 0 && map.count == 1);
	tap_ok("9: root inside is another id outside; the hostname is the id");
}

static void test_namespaces(struct container *c)
{
	static const char *const kinds[] = {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"};

	for (size_t i = 0; i < array_len(kinds); i++) {
		char path[64], ours[64] = "", theirs[64] = "";

		snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
		check(readlink(path, ours, sizeof(ours) - 1) > 0);
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", c->init_pid, kinds[i]);
		check(readlink(path, theirs, sizeof(theirs) - 1) > 0);
		check(strcmp(ours, theirs) != 0);
	}
	tap_ok("11: seven namespaces of its own");
}

static void test_fds(int peer)
{
	const char *fds = ground_ask(peer, -1, "ls /proc/self/fd");

	check(strstr(fds, "0 -> /dev/null") && strstr(fds, "1 -> /dev/null") &&
	      strstr(fds, "2 -> /dev/null") && strstr(fds, "3 -> socket:"));
	/* 4: the connection, 5: the directory being read */
	check(!strstr(fds, "\n6 "));
	check(!strstr(fds, "memfd") && !strstr(fds, "pipe"));
	tap_ok("2: init has 0 to 2 and its agent socket, nothing else");
	check(strcmp(ground_ask(peer, -1, "open /proc/1/exe w"), "ok") != 0);
	tap_ok("1: init's program is on a read-only file system");
}

static void test_files(struct ground *ground, int peer)
{
	bool has_ids = ground->mode != GROUND_ONE_ID;
	const char *mounts;

	check(strstr(ground_ask(peer, -1, "ls /usr/bin"), "python3"));
	check(ground_has_line(ground_ask(peer, -1, "ls /"), "bin -> usr/bin"));
	check_str(ground_ask(peer, -1, "write /usr/bin/berth-test x"), "Read-only file system");
	check_str(ground_ask(peer, -1, "write /workspace/a hello"), "ok");
	check_str(ground_ask(peer, -1, "cat /workspace/a"), "hello");
	check_str(ground_ask(peer, -1, "stat /tmp"), "41777 0 0");
	check_str(ground_ask(peer, -1, "stat /etc/passwd"), "100644 0 0");
	check_str(ground_ask(peer, -1, "stat /run/berth"), "40711 0 0");
	check_str(ground_ask(peer, -1, "open /etc/shadow"), "No such file or directory");
	check_str(ground_ask(peer, -1, "chown /workspace/a"), has_ids ? "ok" : "Invalid argument");
	check_str(ground_ask(peer, -1, "stat /workspace/a"),
		  has_ids ? "100644 1000 1000" : "100644 0 0");
	check_str(ground_ask(peer, -1, "stat /home/user"),
		  has_ids ? "40755 1000 1000" : "40755 0 0");
	/* The machine's files belong to nobody inside. */
	check_str(ground_ask(peer, -1, "stat /usr/bin"), "40755 65534 65534");
	tap_ok("image host: /usr is the machine's, read-only and unmapped; the rest is its own");

	mounts = ground_ask(peer, -1, "cat /proc/self/mountinfo");
	check(!strstr(mounts, "- cgroup") && !strstr(mounts, "sysfs"));
	check(!strstr(mounts, "/berth-container"));
	tap_ok("13: no cgroup or sysfs inside, no path of the host");
}

static void test_masks(int peer)
{
	static const char *const empty[] = {"/proc/kcore", "/proc/keys", "/proc/sysrq-trigger",
					    "/proc/timer_list"};
	static const char *const writes[] = {
		"/proc/sys/kernel/core_pattern",
		"/proc/sysrq-trigger",
		"/proc/self/uid_map",
		"/proc/sys/kernel/hostname",
	};
	const char *devices;

	for (size_t i = 0; i < array_len(empty); i++) {
		const char *text = ground_ask(peer, -1, "cat %s", empty[i]);

		check(text[0] == '\0' || strcmp(text, "No such file or directory") == 0 ||
		      strcmp(text, "Permission denied") == 0);
	}
	tap_ok("6: sensitive files of /proc are masked");
	for (size_t i = 0; i < array_len(writes); i++)
		check(strcmp(ground_ask(peer, -1, "write %s 1", writes[i]), "ok") != 0 ||
		      strcmp(writes[i], "/proc/sysrq-trigger") == 0);
	check(strcmp(ground_ask(peer, -1, "write /proc/self/oom_score_adj -1"), "ok") != 0);
	check(!strstr(ground_ask(peer, -1, "ls /sys"), "kernel"));
	tap_ok("7: writes to core_pattern, uid_map, a lower oom_score_adj fail");

	devices = ground_ask(peer, -1, "ls /dev");
	check(ground_has_line(devices, "null") && ground_has_line(devices, "urandom") &&
	      ground_has_line(devices, "tty"));
	check(!ground_has_line(devices, "kmsg") && !ground_has_line(devices, "mem") &&
	      !ground_has_line(devices, "vda") && !ground_has_line(devices, "kvm") &&
	      !ground_has_line(devices, "fuse"));
	check_str(ground_ask(peer, -1, "try mknod_device"), "Operation not permitted");
	check_str(ground_ask(peer, -1, "try mknod_fifo"), "ok");
	tap_ok("12: only the plain devices, no others to be made");
}

static void test_calls(int peer)
{
	static const long numbers[] = {
		SYS_setns,       SYS_mount,           SYS_fsopen,
		SYS_open_tree,   SYS_move_mount,      SYS_pivot_root,
		SYS_bpf,         SYS_perf_event_open, SYS_keyctl,
		SYS_add_key,     SYS_userfaultfd,     SYS_io_uring_setup,
		SYS_kexec_load,  SYS_init_module,     SYS_open_by_handle_at,
		SYS_ptrace,      SYS_pidfd_getfd,     SYS_process_vm_readv,
		SYS_request_key, SYS_mount_setattr,
	};

	for (size_t i = 0; i < array_len(numbers); i++)
		check_str(ground_ask(peer, -1, "try %ld", numbers[i]), "Operation not permitted");
	check_str(ground_ask(peer, -1, "try unshare"), "Operation not permitted");
	check(strcmp(ground_ask(peer, -1, "try clone_newuser"), "ok") != 0);
	check_str(ground_ask(peer, -1, "try 9999"), "Function not implemented");
	check_str(ground_ask(peer, -1, "try tiocsti"), "Operation not permitted");
	check_str(ground_ask(peer, -1, "try tiocsti_high"), "Operation not permitted");
	check_str(ground_ask(peer, -1, "try ioctl"), "Not a tty");
	check_str(ground_ask(peer, -1, "try x32"), "signal 31");
	check_str(ground_ask(peer, -1, "try i386"), "signal 31");
	tap_ok("10: refused system calls, other ABIs");

	check(strstr(ground_ask(peer, -1, "try vsock"), "not supported"));
	check(strstr(ground_ask(peer, -1, "try alg"), "not supported"));
	check(strstr(ground_ask(peer, -1, "try packet"), "not supported"));
	check(strcmp(ground_ask(peer, -1, "try netlink_audit"), "ok") != 0);
	check_str(ground_ask(peer, -1, "try raw"), "Operation not permitted");
	check_str(ground_ask(peer, -1, "try inet"), "ok");
	check_str(ground_ask(peer, -1, "try netlink_route"), "ok");
	check(strstr(ground_ask(peer, -1, "cat /proc/net/dev"), "lo:"));
	check(!strstr(ground_ask(peer, -1, "cat /proc/net/dev"), "eth"));
	/* 127.0.0.1 in the table of local addresses: lo is up. */
	check(strstr(ground_ask(peer, -1, "cat /proc/net/fib_trie"), "127.0.0.1"));
	tap_ok("29: no address families but the plain ones, no interface but lo");
}

/* Of the user that made the sandbox's user namespace. */
static bool read_queued(unsigned long *ret_count, unsigned long *ret_limit)
{
	char text[4096];
	cleanup_fd int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir_read(proc, "status", text, sizeof(text)) > 0 &&
	       sscanf(line_value(text, "SigQ:"), "%lu/%lu", ret_count, ret_limit) == 2;
}

static void test_quotas(int peer)
{
	unsigned long count = 0, limit = 0;
	char limits[8192];

	snprintf(limits, sizeof(limits), "%s", ground_ask(peer, -1, "cat /proc/self/limits"));
	check(strstr(limits, "Max core file size        1                    1 "));
	check_str(ground_ask(peer, -1, "try prlimit_self"), "ok");
	check_str(ground_ask(peer, -1, "try prlimit_read"), "ok");
	check_str(ground_ask(peer, -1, "try prlimit_init"), "Operation not permitted");
	tap_ok("27: no cores; init's limits cannot be changed from inside");

	check(read_queued(&count, &limit) && limit > 0);
	check(strtoul(ground_ask(peer, -1, "queue %lu", 8UL), NULL, 10) == 8);
	/* Some are those of processes outside of any sandbox; others may have filled their half. */
	check(read_queued(&count, &limit) && count <= limit / 2 + 64);
	printf("# queued signals: %lu of %lu\n", count, limit);
	tap_ok("27: half of the signals that we can have queued stay ours");
}

static int body(struct ground *ground)
{
	struct container_spec spec = {
		.id = {"t0"}, .generation = 1, .image = "host", .capabilities = CAPABILITY_ALL};
	struct err err = {0};
	struct container c;
	int peer;

	if (ground_open_host(ground, &err) < 0 || ground_start(ground, &c, &spec, &err) < 0) {
		printf("Bail out! %s\n", err.sentence);
		return 1;
	}
	peer = ground_connect(ground, &c);
	test_identity(ground, &c, peer);
	test_namespaces(&c);
	test_fds(peer);
	test_files(ground, peer);
	test_masks(peer);
	test_calls(peer);
	test_quotas(peer);
	check(ground_stop(ground, &c) == 0);
	tap_ok("taken down");
	close(peer);
	container_host_free(ground->host);
	return tap_done();
}

int main(int argc, char **argv)
{
	return ground_main(argc, argv, body);
}
