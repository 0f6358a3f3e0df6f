#include "container/pool_lost.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "container/dir.h"
#include "container/ids.h"
#include "proto/sandbox_id.h"

#define LOST "lost-"

struct owner {
	char token[POOL_TOKEN_LEN + 1];
	bool has_all; /* whatever has its number stays */
};

struct search {
	struct owner *owners; /* by their range */
	unsigned
		count; /* of folders that say so: without any, they may be elsewhere, all of them */
};

static void add(struct search *search, const char *name)
{
	const char *token;
	uint32_t number;
	struct owner *owner;

	if (pool_name_parse(name, &number, &token) < 0)
		return;
	owner = &search->owners[number];
	owner->has_all |= owner->token[0] && strcmp(owner->token, token) != 0;
	memcpy(owner->token, token, POOL_TOKEN_LEN);
	search->count++;
}

static int note_owner(struct search *search, int dir, const char *name, bool is_trash)
{
	cleanup_fd int disk = dir_open(dir, name);
	char subvolume[POOL_NAME_SIZE];
	int r;

	/* A file in the trash is no disk, and workers empty it. Elsewhere, who knows. */
	if (disk < 0)
		return is_trash && (disk == -ENOTDIR || disk == -ELOOP || disk == -ENOENT) ? 0
											   : disk;
	r = pool_has_disk(disk);
	if (r <= 0)
		return r;
	r = pool_mark_read(disk, subvolume);
	if (r == 0)
		add(search, subvolume);
	return is_trash && r == -ENOENT ? 0 : r;
}

/* Disks that say that they are here. */
static int find_owners(struct search *search, int dir, bool is_trash)
{
	struct dirent **entries;
	int count = scandirat(dir, ".", &entries, NULL, NULL), r = count < 0 ? -errno : 0;

	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;

		if (r == 0 && name[0] != '.') {
			r = note_owner(search, dir, name, is_trash);
		} else if (r == 0 && !is_trash && strcmp(name, ".trash") == 0) {
			cleanup_fd int trash = dir_open(dir, name);

			r = trash < 0 ? trash : find_owners(search, trash, true);
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return r;
}

/* <run>/berthd is berthd's, who may write there what it likes. */
static bool is_sandbox(const char *name)
{
	return sandbox_id_is_valid(str_of(name)) && strcmp(name, "berthd") != 0;
}

/* Those that run, wherever their folders are by now. */
static int find_running(struct search *search, int run_fd)
{
	struct dirent **entries;
	int count = scandirat(run_fd, ".", &entries, NULL, NULL), r = count < 0 ? -errno : 0;

	for (int i = 0; i < count; i++) {
		char path[NAME_MAX + 16];
		uint64_t number = 0;
		int found = -ENOENT;

		snprintf(path, sizeof(path), "%s/record", entries[i]->d_name);
		if (r == 0 && is_sandbox(entries[i]->d_name))
			found = dir_read_key(run_fd, path, "range", &number);
		if (found == 0 && number < IDS_RANGES)
			search->owners[number].has_all = true;
		if (found < 0 && found != -ENOENT && found != -ENOTDIR && found != -ELOOP)
			r = found;
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return r;
}

static void set_aside(int root_fd, const char *name)
{
	time_t now = time(NULL);
	char lost[POOL_NAME_SIZE + 32];

	snprintf(lost, sizeof(lost), LOST "%.*s-%lld", POOL_NAME_SIZE, name, (long long)now);
	if (renameat2(root_fd, name, root_fd, lost, 1 /* RENAME_NOREPLACE */) < 0)
		log_warn("disk=%s in pool.img belongs to no sandbox: %s", name, strerror(errno));
	else
		log_warn("a disk in pool.img belongs to no sandbox, and is called %s now: it comes "
			 "back when its folder is put back below sandboxes; README.md (Disks) "
			 "says how to remove it",
			 lost);
}

static void sort_out(const struct search *search, int root_fd)
{
	struct dirent **entries;
	int count = scandirat(root_fd, ".", &entries, NULL, NULL), unowned = 0;

	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name, *token;
		uint32_t number;

		if (pool_name_parse(name, &number, &token) == 0 &&
		    !search->owners[number].has_all &&
		    strcmp(search->owners[number].token, token) != 0) {
			unowned++;
			if (search->count)
				set_aside(root_fd, name);
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	if (unowned && !search->count)
		log_warn("pool.img holds disks=%d, and no sandbox has its disk there: is "
			 "<state>/sandboxes the right one? They stay",
			 unowned);
}

void pool_lost_find(const struct pool_place *place, int root_fd)
{
	cleanup_free struct owner *owners = calloc(IDS_RANGES, sizeof(*owners));
	struct search search = {.owners = owners};
	int r = owners ? find_owners(&search, place->sandboxes_fd, false) : -ENOMEM;

	if (r == 0)
		r = find_running(&search, place->run_fd);
	if (r < 0)
		log_warn("whose the disks in pool.img are cannot be seen, so all stay: %s",
			 strerror(-r));
	else
		sort_out(&search, root_fd);
}

static int number_of(const char *name, uint32_t *ret)
{
	char copy[POOL_NAME_SIZE];
	const char *token;

	if (strncmp(name, LOST, strlen(LOST)) == 0)
		name += strlen(LOST);
	/* Without the time at its end, which only a lost one has. */
	snprintf(copy, sizeof(copy), "%.*s",
		 (int)(strspn(name, "0123456789") + 1 + POOL_TOKEN_LEN) % POOL_NAME_SIZE, name);
	return pool_name_parse(copy, ret, &token);
}

int pool_take_numbers(int root_fd, struct ids *ids)
{
	struct dirent **entries;
	int count = scandirat(root_fd, ".", &entries, NULL, NULL), r = count < 0 ? -errno : 0;

	for (int i = 0; i < count; i++) {
		uint32_t number;

		if (number_of(entries[i]->d_name, &number) == 0)
			ids_take(ids, number);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return r;
}

int pool_lost_bring_back(int root_fd, const char *name)
{
	struct dirent **entries;
	int count = scandirat(root_fd, ".", &entries, NULL, NULL), r = count < 0 ? -errno : -ENOENT;
	char start[POOL_NAME_SIZE + 16];

	snprintf(start, sizeof(start), LOST "%.*s-", POOL_NAME_SIZE, name);
	for (int i = 0; i < count; i++) {
		const char *lost = entries[i]->d_name;

		if (r == -ENOENT && strncmp(lost, start, strlen(start)) == 0) {
			r = renameat2(root_fd, lost, root_fd, name, 1 /* RENAME_NOREPLACE */) < 0
				    ? -errno
				    : 0;
			if (r == 0)
				log_info("disk=%s is no longer lost", name);
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return r;
}
