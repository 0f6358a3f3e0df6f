/*
 * Intrusive doubly linked lists. The list head and every element hold a struct list; an element
 * that is on no list points to itself, so list_remove() may be called on it at any time.
 */
#ifndef BERTH_BASE_LIST_H
#define BERTH_BASE_LIST_H

#include <stdbool.h>

#include "base/cleanup.h"

struct list {
	struct list *prev, *next;
};

#define list_entry(node, type, member) container_of(node, type, member)

/* The body must not remove the current node; list_for_each_safe allows just that. */
#define list_for_each(node, head)                                                                  \
	for (struct list *node = (head)->next; node != (head); node = node->next)

#define list_for_each_safe(node, head)                                                             \
	for (struct list *node = (head)->next, *node##_next = node->next; node != (head);          \
	     node = node##_next, node##_next = node->next)

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_is_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

static inline void list_append(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

/* Moves a node that may be on another list to the end of this one. */
static inline void list_move(struct list *head, struct list *node)
{
	list_remove(node);
	list_append(head, node);
}

#endif
