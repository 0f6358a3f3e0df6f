#include "container/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/host.h"
#include "container/dir.h"
#include "container/host_state.h"
#include "container/passage.h"
#include "container/rootfs.h"
#include "container/runtime.h"
#include "container/seccomp.h"
#include "proto/keeper.h"

static int open_dirs(struct container_host *host, struct err *err)
{
	host->state_fd = open(host->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (host->state_fd < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot open %s: %s", host->state_dir,
			       strerror(errno));
	host->run_fd = open(host->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (host->run_fd < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot open %s: %s", host->run_dir,
			       strerror(errno));
	host->sandboxes_fd = dir_make(host->state_fd, "sandboxes", 0700);
	host->images_fd = dir_make(host->state_fd, "images", 0711);
	host->runtime_fd = dir_make(host->run_fd, ".runtime", 0700);
	if (host->sandboxes_fd < 0 || host->images_fd < 0 || host->runtime_fd < 0)
		return err_set(err, -EACCES, ERR_INTERNAL, "cannot make folders below %s and %s",
			       host->state_dir, host->run_dir);
	return 0;
}

/* Whose cgroups are ours: state directories differ, in path or in what the path leads to. */
static uint64_t hash_of_state(const struct container_host *host)
{
	uint64_t hash = 0xcbf29ce484222325ULL;
	struct stat st = {0};
	char text[PATH_MAX + 64];

	if (fstat(host->state_fd, &st) < 0)
		return 0;
	snprintf(text, sizeof(text), "%s %ju %ju", host->state_dir, (uintmax_t)st.st_dev,
		 (uintmax_t)st.st_ino);
	for (const char *at = text; *at; at++)
		hash = (hash ^ (unsigned char)*at) * 0x100000001b3ULL;
	return hash;
}

static int find_means(struct container_host *host, const char *wanted, struct err *err)
{
	const struct pool_place place = {host->state_fd, host->run_fd, host->sandboxes_fd,
					 &host->ids};
	cleanup_free struct host_facts *facts = malloc(sizeof(*facts));

	if (!facts)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	host_probe(facts, wanted);
	if (!facts->runtime[0])
		return err_set(err, -ENOENT, ERR_UNSUPPORTED,
			       wanted ? "there is no OCI runtime %s"
				      : "no OCI runtime is installed%s: install crun or runc",
			       wanted ? wanted : "");
	snprintf(host->runtime, sizeof(host->runtime), "%s", facts->runtime);
	host->kind = runtime_kind_of(host->runtime);
	if (host->kind != RUNTIME_CRUN)
		passage_find_closed(host->run_dir, host->closed_dir);
	host->memory_bytes = facts->memory_bytes;
	host->files_max = facts->nofile_hard;
	if (!host->is_rootless && pool_new(&host->pool, &place, facts) < 0)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	return 0;
}

static int read_proc(struct container_host *host, struct err *err)
{
	cleanup_fd int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[32], path[32];
	ssize_t len = proc < 0 ? -errno
			       : dir_read(proc, "sys/kernel/random/boot_id", host->boot_id,
					  sizeof(host->boot_id));

	if (len < 0)
		return err_set(err, (int)len, ERR_INTERNAL, "cannot read the boot id: %s",
			       strerror((int)-len));
	host->boot_id[strcspn(host->boot_id, "\n")] = '\0';
	snprintf(path, sizeof(path), "%d/oom_score_adj", getpid());
	if (dir_read(proc, path, text, sizeof(text)) > 0)
		host->oom_score_adj = atoi(text);
	return 0;
}

/* Does a container still stand on an image of an earlier keeper? */
static bool has_records(int run_fd)
{
	struct dirent **entries;
	int count = scandirat(run_fd, ".", &entries, NULL, NULL);
	bool found = count < 0;

	for (int i = 0; i < count; i++) {
		char path[NAME_MAX + 16];
		struct stat st;

		snprintf(path, sizeof(path), "%s/bundle", entries[i]->d_name);
		found |= fstatat(run_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return found;
}

static void find_warning(struct container_host *host)
{
	const struct cgroup_host *cg = &host->cgroup;
	const char *words = "";

	if (host->has_one_id)
		words = "only one user id is mapped, so root in a sandbox is the user who runs "
			"this; "
			"no memory or cpu limits";
	else if (host->is_rootless && !cg->is_used)
		words = "rootless: no memory or cpu limits, and one range of user ids for "
			"all sandboxes";
	else if (!cg->can_limit_memory || !cg->can_limit_cpu || !cg->can_limit_pids)
		words = "this host lacks cgroup controllers for some of memory, cpu and pids "
			"limits";
	else if (!cgroup_has_groups(cg))
		words = "no unified cgroup hierarchy: execs run under supervisors";
	snprintf(host->warning, sizeof(host->warning), "%s", words);
}

static int fill(struct container_host *host, const struct container_host_config *config,
		struct err *err)
{
	struct cgroup_place place = {config->cgroup2_fd, host->is_rootless, config->cgroup, 0};
	uid_t image_owner;
	int r = open_dirs(host, err);

	if (r == 0)
		r = bind_sources_open(&host->sources, config->allow_bind, config->allow_bind_count,
				      host, err);
	if (r == 0) {
		block_place_find(host->sandboxes_fd, &host->place);
		block_place_find(host->images_fd, &host->images_place);
	}
	if (r == 0)
		r = find_means(host, config->runtime, err);
	if (r == 0)
		r = read_proc(host, err);
	if (r == 0) {
		place.hash = hash_of_state(host);
		r = cgroup_host_init(&host->cgroup, &place, err);
	}
	if (r < 0)
		return r;
	r = ids_new(&host->ids, host->sandboxes_fd, host->is_rootless, config->ids_mapped);
	host->caps = caps_of_sandbox();
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot read the sandboxes' user ids: %s",
			       strerror(-r));
	if (host->kind == RUNTIME_CRUN)
		r = seccomp_compile(&host->filter, err);
	/* As root the image is mapped at each start; rootless its files belong to root inside. */
	image_owner = host->is_rootless ? ids_map(host->ids, 0).first : 0;
	if (r == 0)
		r = image_make_host(&host->image, host->images_fd, image_owner,
				    !has_records(host->run_fd), err);
	if (r == 0) {
		host->guest_fd = rootfs_mount_guest(config->init_path, host->run_fd, ".guest", err);
		r = host->guest_fd < 0 ? host->guest_fd : 0;
	}
	find_warning(host);
	return r;
}

int container_host_init(struct container_host **ret, const struct container_host_config *config,
			struct err *err)
{
	struct container_host *host = calloc(1, sizeof(*host));
	int r;

	if (!host)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	host->state_fd = host->run_fd = host->sandboxes_fd = host->images_fd = -1;
	host->runtime_fd = host->guest_fd = -1;
	host->cgroup.v2_fd = host->cgroup.whole_fd = -1;
	for (int kind = 0; kind < CGROUPS_KINDS; kind++)
		host->cgroup.v1_fds[kind] = -1;
	host->is_rootless = config->is_rootless;
	host->has_one_id = config->is_rootless && config->ids_mapped < 2;
	host->daemon_uid = config->daemon_uid;
	host->daemon_gid = config->daemon_gid;
	host->init_parent = config->init_parent;
	/*
	 * A runtime makes a session keyring for each container, and an ordinary user may have 200
	 * keys in all. Sandboxes have no system call for keys, so one empty keyring does for all.
	 */
	host->has_keyring = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0;
	if (snprintf(host->state_dir, PATH_MAX, "%s", config->state_dir) >= PATH_MAX ||
	    snprintf(host->run_dir, PATH_MAX, "%s", config->run_dir) >= PATH_MAX)
		r = err_set(err, -ENAMETOOLONG, ERR_INTERNAL, "a directory's path is too long");
	else
		r = fill(host, config, err);
	if (r < 0) {
		container_host_free(host);
		return r;
	}
	*ret = host;
	return 0;
}

void container_host_free(struct container_host *host)
{
	if (!host)
		return;
	cgroup_host_close(&host->cgroup);
	bind_sources_close(&host->sources);
	ids_free(host->ids);
	pool_free(host->pool);
	free(host->filter);
	close_fdp(&host->guest_fd);
	close_fdp(&host->runtime_fd);
	close_fdp(&host->images_fd);
	close_fdp(&host->sandboxes_fd);
	close_fdp(&host->run_fd);
	close_fdp(&host->state_fd);
	free(host);
}

uint32_t container_host_abilities(const struct container_host *host)
{
	const struct cgroup_host *cg = &host->cgroup;
	bool can_read = cg->can_limit_io && host->place.disk;
	bool can_write = can_read && cg->is_v2 && cg->can_limit_memory && host->place.names_writers;

	return (cg->can_limit_memory ? KEEPER_CAN_LIMIT_MEMORY : 0) |
	       (cg->can_limit_swap ? KEEPER_CAN_LIMIT_SWAP : 0) |
	       (cg->can_limit_cpu ? KEEPER_CAN_LIMIT_CPU : 0) |
	       (cgroup_counts_cpu(cg) ? KEEPER_COUNTS_CPU : 0) |
	       (cg->can_limit_pids ? KEEPER_CAN_LIMIT_PIDS : 0) |
	       (cg->cpus.can_choose ? KEEPER_CAN_CHOOSE_CPUS : 0) |
	       (cg->can_freeze ? KEEPER_CAN_FREEZE : 0) |
	       (host->pool && !pool_lacks(host->pool) ? KEEPER_CAN_LIMIT_DISK : 0) |
	       (can_read ? KEEPER_CAN_LIMIT_READS : 0) | (can_write ? KEEPER_CAN_LIMIT_WRITES : 0) |
	       (cgroup_has_groups(cg) ? KEEPER_HAS_GROUPS : 0) |
	       (ids_has_ranges(host->ids) ? KEEPER_HAS_RANGES : 0) |
	       (host->is_rootless ? KEEPER_IS_ROOTLESS : KEEPER_CAN_OWN_BINDS) | KEEPER_KNOWS_CHECK;
}

unsigned container_host_cpus(const struct container_host *host)
{
	return host->cgroup.cpus.can_choose ? host->cgroup.cpus.count : 0;
}

const char *container_host_runtime(const struct container_host *host)
{
	return host->runtime;
}

int container_host_open_groups(const struct container_host *host)
{
	return cgroup_has_groups(&host->cgroup) ? cgroup_groups_open(&host->cgroup) : -ENOENT;
}

int container_host_find_image(const struct container_host *host, struct str name, struct err *err)
{
	char text[IMAGE_NAME_MAX + 1] = {0};
	cleanup_fd int image = -1;

	if (name.len && name.len < sizeof(text))
		memcpy(text, name.at, name.len);
	if (!image_name_is_valid(text) || strlen(text) != name.len)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "that is no name of an image");
	if (strcmp(text, IMAGE_HOST) == 0)
		return 0;
	image = image_open(host->images_fd, text, err);
	return image < 0 ? image : 0;
}

const char *container_host_warning(const struct container_host *host)
{
	return host->warning;
}

int container_host_run_fd(const struct container_host *host)
{
	return host->run_fd;
}

int container_host_state_fd(const struct container_host *host)
{
	return host->state_fd;
}
