#include "container/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "container/dir.h"
#include "container/image.h"

#define RECORD_MAX 1024

int record_write(int dir, const struct container *c, const char *boot_id)
{
	char text[RECORD_MAX];
	const struct container_limits *limits = &c->spec.limits;
	int len = snprintf(text, sizeof(text),
			   "version 1\nboot %s\npid %d\nstart %" PRIu64 "\ngeneration %" PRIu64
			   "\nrange %u\nread_only %d\nmemory %" PRIu64 "\nswap %" PRIu64
			   "\ncpu %u\npids %u\nfiles %u\nfile_size %" PRIu64
			   "\nimage %s\nephemeral %d\ndisk %" PRIu64 "\ninodes %" PRIu64
			   "\npooled %s\nio %" PRIu64 " %" PRIu64 " %u %u\nstrict %d\n",
			   boot_id, c->init_pid, c->init_start, c->spec.generation, c->range,
			   c->spec.is_read_only, limits->memory_bytes, limits->swap_bytes,
			   limits->cpu_milli, limits->pids, limits->files, limits->file_size,
			   c->spec.image, c->spec.is_ephemeral, limits->disk_bytes, limits->inodes,
			   c->is_pooled ? c->disk_name : "-", limits->io.read_bytes,
			   limits->io.write_bytes, limits->io.read_ops, limits->io.write_ops,
			   c->spec.is_strict);

	return dir_replace(dir, "record", (struct str){text, (size_t)len}, 0600);
}

int record_read(int dir, struct container *c, const char *boot_id)
{
	char text[RECORD_MAX], boot[64], name[POOL_NAME_SIZE] = "-";
	const char *token;
	uint32_t number;
	struct container_limits *limits = &c->spec.limits;
	int read_only, ephemeral = 0, strict = 0, pid, found;
	ssize_t len = dir_read(dir, "record", text, sizeof(text));

	if (len < 0)
		return (int)len;
	_Static_assert(sizeof(c->spec.image) == 64 && sizeof(name) == 32, "as scanned below");
	found = sscanf(text,
		       "version 1\nboot %63s\npid %d\nstart %" SCNu64 "\ngeneration %" SCNu64
		       "\nrange %u\nread_only %d\nmemory %" SCNu64 "\nswap %" SCNu64
		       "\ncpu %u\npids %u\nfiles %u\nfile_size %" SCNu64
		       "\nimage %63s\nephemeral %d\ndisk %" SCNu64 "\ninodes %" SCNu64
		       "\npooled %31s\nio %" SCNu64 " %" SCNu64 " %u %u\nstrict %d\n",
		       boot, &pid, &c->init_start, &c->spec.generation, &c->range, &read_only,
		       &limits->memory_bytes, &limits->swap_bytes, &limits->cpu_milli,
		       &limits->pids, &limits->files, &limits->file_size, c->spec.image, &ephemeral,
		       &limits->disk_bytes, &limits->inodes, name, &limits->io.read_bytes,
		       &limits->io.write_bytes, &limits->io.read_ops, &limits->io.write_ops,
		       &strict);
	/* An earlier version's ends with the image. */
	if ((found != 13 && found < 16) || pid <= 1 || !image_name_is_valid(c->spec.image))
		return -EBADMSG;
	c->is_pooled = pool_name_parse(name, &number, &token) == 0;
	if (c->is_pooled)
		memcpy(c->disk_name, name, sizeof(name));
	c->spec.is_ephemeral = ephemeral;
	c->spec.is_strict = strict;
	c->init_pid = pid;
	c->spec.is_read_only = read_only;
	return strcmp(boot, boot_id) == 0 ? 0 : -ESTALE;
}
