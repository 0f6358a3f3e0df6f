#include "daemon/logs.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"

/* No ID begins with a dot. */
#define GONE ".gone-"

struct logs {
	uv_loop_t *loop;
	char dir[PATH_MAX - 160];
	unsigned removed;
};

struct removal {
	uv_work_t work;
	char path[PATH_MAX];
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	remove(path);
	return 0;
}

/* On a thread of its own: many files of many megabytes take their time. */
static void on_work(uv_work_t *work)
{
	nftw(container_of(work, struct removal, work)->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void on_removed(uv_work_t *work, int status)
{
	free(container_of(work, struct removal, work));
}

static void begin_removal(struct logs *logs, const char *path)
{
	struct removal *r = calloc(1, sizeof(*r));

	if (!r)
		return; /* the next start finds it */
	snprintf(r->path, sizeof(r->path), "%s", path);
	if (uv_queue_work(logs->loop, &r->work, on_work, on_removed) < 0)
		free(r);
}

static void close_dirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static int find_gone(struct logs *logs)
{
	cleanup(close_dirp) DIR *dir = opendir(logs->dir);
	struct dirent *entry;
	char path[PATH_MAX];

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		unsigned number;

		if (sscanf(entry->d_name, GONE "%u", &number) != 1)
			continue;
		if (number >= logs->removed)
			logs->removed = number + 1;
		snprintf(path, sizeof(path), "%s/%.80s", logs->dir, entry->d_name);
		begin_removal(logs, path);
	}
	return 0;
}

int logs_open(struct logs **ret, uv_loop_t *loop, const char *dir, struct err *err)
{
	struct logs *logs = calloc(1, sizeof(*logs));
	int r = 0;

	if (!logs)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	logs->loop = loop;
	snprintf(logs->dir, sizeof(logs->dir), "%s", dir);
	if (mkdir(logs->dir, 0700) < 0 && errno != EEXIST)
		r = -errno;
	if (r == 0)
		r = find_gone(logs);
	if (r < 0) {
		free(logs);
		return err_set(err, r, ERR_INTERNAL, "the directory of logs \"%s\": %s", dir,
			       strerror(-r));
	}
	*ret = logs;
	return 0;
}

void logs_close(struct logs *logs)
{
	free(logs);
}

int logs_make(struct logs *logs, const struct sandbox_id *sandbox, const struct sandbox_id *process,
	      char ret[LOGS_PATH_SIZE], struct err *err)
{
	snprintf(ret, LOGS_PATH_SIZE, "%s/%s", logs->dir, sandbox->text);
	if (mkdir(ret, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, errno == ENOSPC ? ERR_DISK_LIMIT : ERR_INTERNAL,
			       "the directory of its output \"%s\": %s", ret, strerror(errno));
	snprintf(ret, LOGS_PATH_SIZE, "%s/%s/%s", logs->dir, sandbox->text, process->text);
	return 0;
}

void logs_remove(struct logs *logs, const struct sandbox_id *sandbox,
		 const struct sandbox_id *process)
{
	char from[PATH_MAX], to[PATH_MAX];

	snprintf(from, sizeof(from), "%s/%s%s%s", logs->dir, sandbox->text, process ? "/" : "",
		 process ? process->text : "");
	snprintf(to, sizeof(to), "%s/" GONE "%u", logs->dir, logs->removed++);
	if (rename(from, to) == 0)
		begin_removal(logs, to);
	else if (errno != ENOENT)
		log_warn("sandbox=%s its logs cannot be removed: %s", sandbox->text,
			 strerror(errno));
}
