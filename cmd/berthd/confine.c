#include "cmd/berthd/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cgroups.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "cmd/berthd/filter.h"
#include "cmd/berthd/landlock.h"

#define MOUNTINFO_MAX (4 * 1024 * 1024)
#define OWN_PATHS_MAX 12

struct places {
	struct landlock_rule rules[LANDLOCK_RULES_MAX];
	unsigned count;
	char paths[OWN_PATHS_MAX][PATH_MAX];
	unsigned paths_count;
	struct cgroups cgroups;
};

/* Whatever the C library, the name service and SQLite may open late; nothing there is a secret. */
static const struct landlock_rule common[] = {
	{"/", LANDLOCK_LIST}, /* libuv's descriptor for bad times */
	{"/proc", LANDLOCK_READ},
	{"/etc", LANDLOCK_READ},
	{"/usr", LANDLOCK_READ},
	{"/lib", LANDLOCK_READ},
	{"/lib64", LANDLOCK_READ},
	{"/dev/null", LANDLOCK_DEVICE},
	{"/dev/urandom", LANDLOCK_READ},
	{"/dev/random", LANDLOCK_READ},
	{"/run/systemd/userdb", LANDLOCK_READ},
};

static void add(struct places *p, const char *path, enum landlock_use use)
{
	if (path[0] && p->count < LANDLOCK_RULES_MAX)
		p->rules[p->count++] = (struct landlock_rule){path, use};
}

static char *room(struct places *p)
{
	return p->paths[p->paths_count < OWN_PATHS_MAX - 1 ? p->paths_count++ : OWN_PATHS_MAX - 1];
}

static void add_own(struct places *p, const char *dir)
{
	char *path = room(p);

	if (snprintf(path, PATH_MAX, "%s/berthd", dir) < PATH_MAX)
		add(p, path, LANDLOCK_OWN);
}

static void add_parent(struct places *p, const char *file, enum landlock_use use)
{
	char *path = room(p), *slash;

	snprintf(path, PATH_MAX, "%s", file);
	slash = strrchr(path, '/');
	if (!slash)
		return;
	slash[slash == path] = '\0';
	add(p, path, use);
}

/*
 * Whether `dir` is the directory `path`, or has it somewhere below. By what they are and not by
 * name: links, "." and mounts give one directory many names.
 */
static bool is_above(const struct stat *dir, const char *path)
{
	cleanup_free char *at = realpath(path, NULL);
	struct stat st;

	while (at) {
		if (stat(at[0] ? at : "/", &st) == 0 && st.st_dev == dir->st_dev &&
		    st.st_ino == dir->st_ino)
			return true;
		if (!at[0])
			break;
		*strrchr(at, '/') = '\0';
	}
	return false;
}

/*
 * Landlock opens all that is below a directory, too: then it must not be one that holds others.
 * What is in the state may be read: berthd sees it all pass by.
 */
static bool is_wide(const char *dir, const char *state_dir, enum landlock_use use)
{
	const char *home = getenv("HOME");
	struct stat st;

	return stat(dir, &st) < 0 || is_above(&st, "/") ||
	       (home && home[0] && is_above(&st, home)) ||
	       (use != LANDLOCK_READ && is_above(&st, state_dir));
}

/* The directory, since whoever changes or rotates a file puts another in its place. */
static void add_near(struct places *p, const char *file, const char *state_dir,
		     enum landlock_use use)
{
	char *path = room(p), *slash;

	snprintf(path, PATH_MAX, "%s", file);
	slash = strrchr(path, '/');
	slash[slash == path] = '\0';
	if (!is_wide(path, state_dir, use)) {
		add(p, path, use);
		return;
	}
	log_warn(
		"file=%s only itself can be opened again, and no other in its place: its directory "
		"holds more than berthd may reach",
		log_value(str_of(file)).text);
	/* So that there is something to make a rule for. */
	if (use == LANDLOCK_APPEND)
		close(open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
			   0640));
	snprintf(path, PATH_MAX, "%s", file);
	add(p, path, use);
}

/* The file by its directory's only name. NULL: we cannot reach it, nor need a rule. */
static char *name_in_real_dir(const char *file)
{
	const char *slash = strrchr(file, '/');
	cleanup_free char *dir = slash ? strndup(file, (size_t)(slash - file) + 1) : NULL;
	cleanup_free char *real = dir ? realpath(dir, NULL) : NULL;
	char *ret;

	if (!real || asprintf(&ret, "%s%s", strcmp(real, "/") == 0 ? "" : real, slash) < 0)
		return NULL;
	return ret;
}

/* And where a link leads. */
static void add_beside(struct places *p, const char *file, const char *state_dir,
		       enum landlock_use use)
{
	cleanup_free char *named = name_in_real_dir(file), *real = realpath(file, NULL);

	if (named)
		add_near(p, named, state_dir, use);
	if (real && (!named || strcmp(real, named) != 0))
		add_near(p, real, state_dir, use);
}

/* The keeper hands out directories of exec groups: whether one is empty is read in it. */
static void add_cgroups(struct places *p)
{
	cleanup_fd int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	struct buf buf;

	buf_init(&buf, MOUNTINFO_MAX);
	while (fd >= 0) {
		char *to = buf_room(&buf, 4096);
		ssize_t n = to ? read(fd, to, 4096) : -1;

		if (n <= 0)
			break;
		buf_added(&buf, (size_t)n);
	}
	cgroups_parse(&p->cgroups, (struct str){buf_at(&buf), buf_len(&buf)});
	buf_close(&buf);
	add(p, p->cgroups.of[CGROUPS_UNIFIED].mount, LANDLOCK_READ);
}

static void fill(struct places *p, const struct config *config)
{
	for (size_t i = 0; i < array_len(common); i++)
		add(p, common[i].path, common[i].use);
	add_own(p, config->paths.state_dir);
	add_own(p, config->paths.run_dir);
	add_parent(p, config->paths.socket, LANDLOCK_REMOVE);
	add_beside(p, config->file, config->paths.state_dir, LANDLOCK_READ);
	add_beside(p, config->token_file, config->paths.state_dir, LANDLOCK_READ);
	add_beside(p, config->access_log, config->paths.state_dir, LANDLOCK_APPEND);
	add_cgroups(p);
#ifdef __SANITIZE_ADDRESS__
	/* Its reports name lines, which stand in the program's own file. */
	add(p, "/proc/self/exe", LANDLOCK_READ);
#endif
}

int confine_reach(const struct config *config)
{
	cleanup_free struct places *p = calloc(1, sizeof(*p));
	const char *notify = getenv("NOTIFY_SOCKET");
	char temporary[PATH_MAX];

	if (!p)
		return -ENOMEM;
	fill(p, config);
	/* Where it would look else, it finds closed doors. */
	if (snprintf(temporary, sizeof(temporary), "%s/berthd", config->paths.state_dir) <
	    (int)sizeof(temporary))
		setenv("SQLITE_TMPDIR", temporary, 1);
	return landlock_restrict(p->rules, p->count, notify && notify[0] == '@');
}

/* A directory has two links and one for each directory in it. */
static bool has_threads(void)
{
	struct stat st;

	return stat("/proc/self/task", &st) == 0 && st.st_nlink > 3;
}

int confine_apply(const struct config *config, struct confinement *ret, struct err *err)
{
	int r;

	*ret = (struct confinement){0};
	if (config->is_unconfined) {
		log_warn("not confined, because of --no-confine: for debugging only");
		return 0;
	}
	if (has_threads())
		return err_set(err, -EBUSY, ERR_INTERNAL,
			       "threads were started before berthd confined itself");
	r = confine_reach(config);
	if (r < 0)
		log_warn("landlock cannot be used: %s", strerror(-r));
	else if (r == 0)
		log_warn("this kernel has no Landlock of ABI %d or newer, or it is switched off: "
			 "files "
			 "are guarded by permissions only",
			 LANDLOCK_ABI_MIN);
	ret->landlock_abi = r > 0 ? (unsigned)r : 0;
	r = filter_load();
	if (r < 0)
		log_warn("system calls cannot be filtered: %s", strerror(-r));
	ret->has_seccomp = r == 0;
	return 0;
}
