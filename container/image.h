/*
 * Root file systems that sandboxes start from, below <state>/images, never written to by a sandbox.
 *
 *	images/<name>/rootfs            unpacked by somebody else
 *	images/host/rootfs-<version>    "host": made here from the machine's own /etc
 *
 * The version is a hash of what "host" is made of, so a changed /etc gives a new tree beside the
 *one that running sandboxes still stand on. Of /etc only world-readable files come along, by a
 *list.
 */
#ifndef BERTH_CONTAINER_IMAGE_H
#define BERTH_CONTAINER_IMAGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

#define IMAGE_HOST     "host"
#define IMAGE_NAME_MAX 63

/* The machine's folders that "host" shares: /usr, and where /usr is not merged /bin, /lib... */
#define IMAGE_SHARED_MAX 8

struct image_host {
	char path[64]; /* below images */
	const char *shared[IMAGE_SHARED_MAX];
	unsigned shared_count;
};

/* Makes "host" unless it is there. Its files belong to `owner`; older versions go if `may_clean`.
 */
int image_make_host(struct image_host *ret, int images_fd, uid_t owner, bool may_clean,
		    struct err *err);

/* The root file system of another image than "host"; if there is none, it is said which there are.
 */
int image_open(int images_fd, const char *name, struct err *err);

bool image_name_is_valid(const char *name);

#endif
