/*
 * Things that are found by a label, which visitors choose: a hash table with a key of its own, and
 * a comparison that takes as long for a label that is almost right as for one that is not at all.
 * Entries belong to who adds them.
 */
#ifndef BERTH_DAEMON_LABEL_TABLE_H
#define BERTH_DAEMON_LABEL_TABLE_H

#include <stddef.h>

#include "base/siphash.h"
#include "base/str.h"

#define LABEL_SIZE 64 /* with its NUL: a DNS label has at most 63 characters */

struct label_entry {
	struct label_entry *next;
	const char *text; /* LABEL_SIZE bytes, zero behind its end; they stay while it is there */
};

struct label_table {
	struct siphash_key key;
	struct label_entry **heads;
	size_t heads_len, len;
};

/* -ENOMEM, or -EIO without random bytes. */
int label_table_init(struct label_table *table);
void label_table_close(struct label_table *table);

/* One that is not there yet. */
void label_table_add(struct label_table *table, struct label_entry *entry, const char *text);
void label_table_remove(struct label_table *table, struct label_entry *entry);
/* NULL: there is none. */
struct label_entry *label_table_find(const struct label_table *table, struct str label);

#endif
