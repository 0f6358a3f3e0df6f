#include "daemon/label_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include <nettle/memops.h>

#define HEADS_MIN 64 /* a power of two, as they always are */

int label_table_init(struct label_table *table)
{
	*table = (struct label_table){.heads_len = HEADS_MIN};
	if (getrandom(&table->key, sizeof(table->key), 0) != sizeof(table->key))
		return -EIO;
	table->heads = calloc(HEADS_MIN, sizeof(struct label_entry *));
	return table->heads ? 0 : -ENOMEM;
}

void label_table_close(struct label_table *table)
{
	free(table->heads);
	table->heads = NULL;
}

static struct label_entry **head_of(const struct label_table *table, struct str label)
{
	uint64_t hash = siphash(&table->key, label.at, label.len);

	return &table->heads[hash & (table->heads_len - 1)];
}

/* Without memory it stays as it is, and is only slower. */
static void grow(struct label_table *table)
{
	struct label_entry **old = table->heads;
	size_t old_len = table->heads_len;
	struct label_entry **heads = calloc(2 * old_len, sizeof(struct label_entry *));

	if (!heads)
		return;
	table->heads = heads;
	table->heads_len = 2 * old_len;
	for (size_t i = 0; i < old_len; i++) {
		struct label_entry *e, *next;

		for (e = old[i]; e; e = next) {
			struct label_entry **head = head_of(table, str_of(e->text));

			next = e->next;
			e->next = *head;
			*head = e;
		}
	}
	free(old);
}

void label_table_add(struct label_table *table, struct label_entry *entry, const char *text)
{
	struct label_entry **head;

	if (table->len >= table->heads_len)
		grow(table);
	head = head_of(table, str_of(text));
	entry->text = text;
	entry->next = *head;
	*head = entry;
	table->len++;
}

void label_table_remove(struct label_table *table, struct label_entry *entry)
{
	struct label_entry **at = head_of(table, str_of(entry->text));

	while (*at && *at != entry)
		at = &(*at)->next;
	assert(*at);
	*at = entry->next;
	entry->next = NULL;
	table->len--;
}

struct label_entry *label_table_find(const struct label_table *table, struct str label)
{
	char wanted[LABEL_SIZE] = {0};
	struct label_entry *e;

	/* Labels are compared with the NULs behind them. */
	if (!label.len || label.len >= sizeof(wanted) || memchr(label.at, '\0', label.len))
		return NULL;
	memcpy(wanted, label.at, label.len);
	for (e = *head_of(table, label); e; e = e->next) {
		if (memeql_sec(e->text, wanted, sizeof(wanted)))
			return e;
	}
	return NULL;
}
