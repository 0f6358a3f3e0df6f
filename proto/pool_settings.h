/* `pool` of berthd's configuration: how many sandboxes are kept warm for runs, and for which. */
#ifndef BERTH_PROTO_POOL_SETTINGS_H
#define BERTH_PROTO_POOL_SETTINGS_H

#include <stdint.h>

#include "base/err.h"
#include "proto/json.h"
#include "proto/kernel.h"

#define POOL_SIZE_MAX   64
#define POOL_IMAGES_MAX 8

struct pool_settings {
	unsigned size;      /* of each language of each image; 0: there is none */
	uint32_t languages; /* a bit (1u << language) for each */
	unsigned images_len;
	char images[POOL_IMAGES_MAX][64];
};

/* As the fields read it. */
struct pool_words {
	uint64_t size;
	struct json_strings languages, images;
	bool size_given, languages_given, images_given;
};

extern const struct json_field pool_fields[];

/* None; and those languages that are asked for most, of the host's image. */
void pool_settings_init(struct pool_settings *settings);
/* On failure it is as it was, and the sentence names the field. */
int pool_settings_take(struct pool_settings *settings, const struct pool_words *words,
		       struct err *err);

/* How many there are at most. */
unsigned pool_settings_most(const struct pool_settings *settings);

/* {"size", "languages", "images"} */
void pool_settings_write(const struct pool_settings *settings, struct json_writer *w);

#endif
