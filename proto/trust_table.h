/*
 * What each trust means: `trust` of berthd's configuration, and what stands here where that is
 * silent. A preset's limits are the defaults of what a sandbox does not ask for by itself; those of
 * `low` and `untrusted` are the most, too, that it may ask for.
 */
#ifndef BERTH_PROTO_TRUST_TABLE_H
#define BERTH_PROTO_TRUST_TABLE_H

#include "base/err.h"
#include "proto/json.h"
#include "proto/settings.h"
#include "proto/settings_limits.h"
#include "proto/trust.h"

#define TRUST_RUNTIME_MAX 63

struct trust_preset {
	struct settings_limits limits;       /* 0: says nothing */
	uint32_t capabilities;               /* a set of proto/capability.h */
	bool is_strict;                      /* the filter ends whoever tries what it must not */
	bool is_cap;                         /* nobody may ask for more; by the name alone */
	char runtime[TRUST_RUNTIME_MAX + 1]; /* "": whichever there is */
};

struct trust_table {
	struct trust_preset presets[TRUST_COUNT];
};

/* As it is built in. */
void trust_table_init(struct trust_table *table);

/* The value of `trust` in a file, as the fields read it. */
struct trust_words {
	struct trust_preset_words {
		struct settings_limits_body limits;
		struct json_strings capabilities;
		struct str seccomp, runtime;
		bool capabilities_given, seccomp_given, runtime_given;
	} presets[TRUST_COUNT];
};

extern const struct json_field trust_fields[];

/* The words before they are read, so that what the file does not name stays. */
void trust_words_init(struct trust_words *words, const struct trust_table *table);
/* Over the table. On failure it is as it was, and the sentence names preset and field. */
int trust_table_take(struct trust_table *table, const struct trust_words *words, struct err *err);

/* What this host can hold, of what it need not. */
struct trust_means {
	bool memory, swap, cpus, cpu_time, disk, inodes, reads, writes;
	uint32_t files; /* the most */
};

/*
 * A sandbox's limits under its preset: what is 0 becomes the preset's where the host can hold that.
 * -EPERM, ERR_FORBIDDEN and the sandbox's limits as they were if one of them is more than it may
 * ask for.
 */
int trust_apply(const struct trust_table *table, enum trust trust, const struct trust_means *means,
		struct settings_limits *limits, struct err *err);

/* "trust": the table, into an object that the caller has opened. */
void trust_table_write(const struct trust_table *table, struct json_writer *w);

#endif
