#include "container/oci_config.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "container/cgroup_limits.h"
#include "container/seccomp.h"
#include "proto/capability.h"

/* clang-format off */
static const char *const masked[] = {
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
	"/proc/sched_debug", "/proc/scsi", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/timer_stats",
	"/sys/firmware", "/sys/kernel", "/sys/fs/bpf",
};

static const char *const read_only[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"};

static const char *const namespaces[] = {"user", "pid", "mount", "network", "ipc", "uts", "cgroup"};

struct mount_row {
	const char *target, *type, *options; /* options as JSON */
};

static const struct mount_row mounts[] = {
	{"/proc",    "proc",   "\"nosuid\",\"noexec\",\"nodev\""},
	{"/dev",     "tmpfs",  "\"nosuid\",\"noexec\",\"strictatime\",\"mode=755\",\"size=64k\""},
	/* Nothing is in it: it only keeps the folder from being replaced. */
	{"/sys",     "tmpfs",  "\"nosuid\",\"noexec\",\"nodev\",\"ro\",\"mode=555\",\"size=4k\""},
	{"/dev/shm", "tmpfs",  "\"nosuid\",\"noexec\",\"nodev\",\"mode=1777\",\"size=64m\""},
};
/* clang-format on */

static int write_string(struct buf *out, const char *text)
{
	int r = buf_append(out, "\"", 1);

	for (; *text && r == 0; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c == '"' || c == '\\')
			r = buf_printf(out, "\\u%04x", c);
		else
			r = buf_append(out, text, 1);
	}
	return r < 0 ? r : buf_append(out, "\"", 1);
}

static int write_list(struct buf *out, const char *const *items, size_t count)
{
	int r = buf_append(out, "[", 1);

	for (size_t i = 0; i < count && r == 0; i++) {
		if (i > 0)
			r = buf_append(out, ",", 1);
		if (r == 0)
			r = write_string(out, items[i]);
	}
	return r < 0 ? r : buf_append(out, "]", 1);
}

static int write_caps(struct buf *out, uint32_t set)
{
	static const char *const sets[] = {"bounding", "effective", "permitted"};
	const char *names[CAPABILITY_COUNT];
	unsigned count = 0;
	int r = buf_printf(out, ",\"capabilities\":{");

	for (unsigned i = 0; i < CAPABILITY_COUNT; i++) {
		if (set & UINT32_C(1) << i)
			names[count++] = capability_names[i];
	}
	for (size_t i = 0; i < array_len(sets) && r == 0; i++) {
		r = buf_printf(out, "%s\"%s\":", i ? "," : "", sets[i]);
		if (r == 0)
			r = write_list(out, names, count);
	}
	return r < 0 ? r : buf_printf(out, "}");
}

static int write_rlimits(struct buf *out, const struct container_limits *limits)
{
	/* A core limit of 0 does not keep the kernel from starting the machine's own handler of
	 * crashes, as root and outside; 1 does. */
	int r = buf_printf(out,
			   ",\"rlimits\":[{\"type\":\"RLIMIT_CORE\",\"soft\":1,\"hard\":1},"
			   "{\"type\":\"RLIMIT_NOFILE\",\"soft\":%u,\"hard\":%u}",
			   limits->files, limits->files);

	if (r == 0 && limits->file_size)
		r = buf_printf(out,
			       ",{\"type\":\"RLIMIT_FSIZE\",\"soft\":%" PRIu64 ",\"hard\":%" PRIu64
			       "}",
			       limits->file_size, limits->file_size);
	return r < 0 ? r : buf_printf(out, "]");
}

static int write_process(struct buf *out, const struct container_host *host,
			 const struct container *c)
{
	int adj = host->oom_score_adj;
	int r = buf_printf(out, "\"process\":{\"terminal\":false,\"user\":{\"uid\":0,\"gid\":0},"
				"\"args\":[\"/run/berth/init\"");

	/* RLIMIT_NPROC, set by init in its own user namespace: set by the runtime it would count
	 * the processes of all sandboxes. */
	if (r == 0 && !host->cgroup.can_limit_pids)
		r = buf_printf(out, ",\"--processes\",\"%u\"", c->spec.limits.pids);
	if (r == 0 && c->spec.is_strict)
		r = buf_printf(out, ",\"--strict\"");
	if (r == 0)
		r = buf_printf(out,
			       "],\"cwd\":\"/\",\"noNewPrivileges\":true,"
			       "\"env\":[\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/"
			       "sbin:/bin\"],\"oomScoreAdj\":%d",
			       adj > 0 ? adj : 0);

	if (r == 0)
		r = write_caps(out, host->caps & c->spec.capabilities);
	if (r == 0)
		r = write_rlimits(out, &c->spec.limits);
	return r < 0 ? r : buf_printf(out, "}");
}

static int write_mounts(struct buf *out, const struct container_host *host)
{
	int r = buf_printf(out, ",\"mounts\":[");

	for (size_t i = 0; i < array_len(mounts) && r == 0; i++)
		r = buf_printf(out,
			       "{\"destination\":\"%s\",\"type\":\"%s\",\"source\":\"%s\","
			       "\"options\":[%s]},",
			       mounts[i].target, mounts[i].type, mounts[i].type, mounts[i].options);
	/* With one id there is no group "tty" to give terminals to. The number of terminals is one
	 * for the whole host. */
	if (r == 0)
		r = buf_printf(out,
			       "{\"destination\":\"/dev/pts\",\"type\":\"devpts\",\"source\":"
			       "\"devpts\",\"options\":[\"nosuid\",\"noexec\",\"newinstance\","
			       "\"ptmxmode=0666\",\"mode=0620\",\"max=512\"%s]}]",
			       host->has_one_id ? "" : ",\"gid=5\"");
	return r;
}

/* Runtimes have ideas of their own of what v1's shares are in v2. */
static int write_cpu(struct buf *out, bool is_v2, uint32_t milli)
{
	uint32_t weight = cgroup_cpu_weight(milli);
	int r = buf_printf(out, ",\"cpu\":{\"quota\":%" PRIu64 ",\"period\":%d",
			   (uint64_t)milli * (CGROUP_CPU_PERIOD_US / 1000), CGROUP_CPU_PERIOD_US);

	if (r == 0 && is_v2)
		return buf_printf(out, "},\"unified\":{\"cpu.weight\":\"%u\"}", weight);
	return r < 0 ? r : buf_printf(out, ",\"shares\":%u}", weight * CGROUP_V1_SHARES / 100);
}

static int write_resources(struct buf *out, const struct container_host *host,
			   const struct container_limits *limits)
{
	int r = buf_printf(out,
			   ",\"resources\":{\"devices\":[{\"allow\":false,\"access\":\"rwm\"}]");

	if (r == 0 && limits->memory_bytes)
		r = buf_printf(out, ",\"memory\":{\"limit\":%" PRIu64, limits->memory_bytes);
	if (r == 0 && limits->memory_bytes && host->cgroup.can_limit_swap)
		r = buf_printf(out, ",\"swap\":%" PRIu64,
			       limits->memory_bytes + limits->swap_bytes);
	if (r == 0 && limits->memory_bytes)
		r = buf_printf(out, "}");
	if (r == 0 && limits->cpu_milli)
		r = write_cpu(out, host->cgroup.is_v2, limits->cpu_milli);
	if (r == 0 && host->cgroup.can_limit_pids)
		r = buf_printf(out, ",\"pids\":{\"limit\":%u}", limits->pids);
	return r < 0 ? r : buf_printf(out, "}");
}

static int write_ids(struct buf *out, struct id_map map)
{
	return buf_printf(out,
			  "\"uidMappings\":[{\"containerID\":0,\"hostID\":%u,\"size\":%u}],"
			  "\"gidMappings\":[{\"containerID\":0,\"hostID\":%u,\"size\":%u}]",
			  map.first, map.count, map.first, map.count);
}

static int write_namespaces(struct buf *out)
{
	int r = buf_printf(out, ",\"namespaces\":[");

	for (size_t i = 0; i < array_len(namespaces) && r == 0; i++)
		r = buf_printf(out, "%s{\"type\":\"%s\"}", i ? "," : "", namespaces[i]);
	return r < 0 ? r : buf_printf(out, "]");
}

static int write_linux(struct buf *out, const struct container_host *host,
		       const struct container *c)
{
	int r = buf_printf(out, ",\"linux\":{");

	if (r == 0)
		r = write_ids(out, ids_map(host->ids, c->range));
	if (r == 0)
		r = write_namespaces(out);
	if (r == 0 && host->cgroup.is_used) {
		r = buf_printf(out, ",\"cgroupsPath\":\"%s/%s/%s\"", host->cgroup.base,
			       host->cgroup.name, c->spec.id.text);
		if (r == 0)
			r = write_resources(out, host, &c->spec.limits);
	}
	if (r == 0)
		r = buf_printf(out, ",\"maskedPaths\":");
	if (r == 0)
		r = write_list(out, masked, array_len(masked));
	if (r == 0)
		r = buf_printf(out, ",\"readonlyPaths\":");
	if (r == 0)
		r = write_list(out, read_only, array_len(read_only));
	if (r == 0 && !host->filter) {
		r = buf_printf(out, ",\"seccomp\":");
		if (r == 0)
			r = seccomp_write_json(out);
	}
	return r < 0 ? r : buf_printf(out, "}");
}

int oci_config_write(struct buf *out, const struct container_host *host, const struct container *c)
{
	int r = buf_printf(out, "{\"ociVersion\":\"1.0.2\",");

	if (r == 0)
		r = write_process(out, host, c);
	/* A relative path: the runtime's process inside may not search the folders above. */
	if (r == 0)
		r = buf_printf(out, ",\"root\":{\"path\":\"rootfs\",\"readonly\":%s},\"hostname\":",
			       c->spec.is_read_only ? "true" : "false");
	if (r == 0)
		r = write_string(out, c->spec.id.text);
	if (r == 0)
		r = write_mounts(out, host);
	if (r == 0)
		r = write_linux(out, host, c);
	if (r == 0 && host->filter) {
		r = buf_printf(out, ",\"annotations\":{\"run.oci.seccomp_bpf_data\":");
		if (r == 0)
			r = write_string(out, host->filter);
		if (r == 0)
			r = buf_printf(out, "}");
	}
	return r < 0 ? r : buf_printf(out, "}\n");
}
