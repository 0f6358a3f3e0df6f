#include "proto/json_equal.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/json.h"

#define FRACTION_MAX 1100 /* characters of a number that is not whole: no double needs more */

/* One array or object of a text. All of them are in the order in which they begin. */
struct container {
	uint32_t size;  /* from its first bracket to behind its last */
	uint32_t next;  /* the first that begins behind it */
	uint32_t items; /* at least: in what is no JSON there may be more */
};

/* Made once, so that what is nested is not read again for each object around it. */
struct extents {
	struct container *items;
	size_t len, size;
	size_t *seen;
};

/* One text, and how far it was read. */
struct cursor {
	const char *at, *end;
	uint32_t container; /* the first that begins at `at` or behind it */
	const struct extents *extents;
};

struct member {
	struct str name; /* with its quotes */
	uint64_t hash;   /* of it */
	struct cursor value;
};

struct members {
	struct member *items;
	size_t len, size;
};

static void free_members(struct members *m)
{
	free(m->items);
}

static void free_extents(struct extents *e)
{
	free(e->items);
}

static void see(const struct cursor *c, const char *from)
{
	*c->extents->seen += (size_t)(c->at - from);
}

static char peek(struct cursor *c)
{
	while (c->at < c->end &&
	       (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
		c->at++;
	return c->at < c->end ? *c->at : '\0';
}

static bool take_char(struct cursor *c, char wanted)
{
	if (peek(c) != wanted)
		return false;
	c->at++;
	return true;
}

/* --- strings --- */

/* With its quotes; an empty one if there is none. */
static struct str take_string(struct cursor *c)
{
	const char *start;

	if (peek(c) != '"')
		return STR("");
	start = c->at++;
	while (c->at < c->end && *c->at != '"')
		c->at += *c->at == '\\' && c->end - c->at > 1 ? 2 : 1;
	see(c, start);
	if (c->at >= c->end)
		return STR("");
	c->at++;
	return (struct str){start, (size_t)(c->at - start)};
}

static uint32_t hex4(const char *at)
{
	uint32_t value = 0;

	for (int i = 0; i < 4; i++) {
		char c = at[i];

		value = value * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
	}
	return value & 0xffff;
}

/* A character above U+FFFF is two of these, escaped or not. */
struct units {
	const unsigned char *at, *end;
	uint32_t second; /* 0: none is owed */
};

static struct units units_of(struct str quoted)
{
	const unsigned char *at = (const unsigned char *)quoted.at;

	return (struct units){at + 1, at + quoted.len - 1, 0};
}

static uint32_t unescape(struct units *u)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	char c = (char)u->at[1];
	const char *found = strchr(from, c);

	if (c == 'u' && u->end - u->at >= 6) {
		u->at += 6;
		return hex4((const char *)u->at - 4);
	}
	u->at += 2;
	return (uint32_t)(c && found ? to[found - from] : c) & 0xff;
}

/* UTF-16 as JSON counts; UINT32_MAX at the end. */
static uint32_t next_unit(struct units *u)
{
	uint32_t c, more;

	if (u->second) {
		c = u->second;
		u->second = 0;
		return c;
	}
	if (u->at >= u->end)
		return UINT32_MAX;
	if (*u->at == '\\' && u->end - u->at >= 2)
		return unescape(u);
	c = *u->at++;
	more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
	if (more)
		c &= 0x3fu >> more;
	for (; more && u->at < u->end; more--)
		c = c << 6 | (*u->at++ & 0x3f);
	if (c < 0x10000)
		return c;
	u->second = 0xdc00 | (c & 0x3ff);
	return 0xd800 | (((c - 0x10000) >> 10) & 0x3ff);
}

static int compare_strings(struct str a, struct str b)
{
	struct units x = units_of(a), y = units_of(b);
	uint32_t c, d;

	if (str_eq(a, b))
		return 0;
	do {
		c = next_unit(&x);
		d = next_unit(&y);
	} while (c == d && c != UINT32_MAX);
	return c == d ? 0 : c < d ? -1 : 1;
}

/* Alike for those that are the same, however they are written. */
static uint64_t hash_string(struct str quoted)
{
	struct units u = units_of(quoted);
	uint64_t hash = 14695981039346656037u;

	for (uint32_t c = next_unit(&u); c != UINT32_MAX; c = next_unit(&u))
		hash = (hash ^ c) * 1099511628211u;
	return hash;
}

/* --- numbers --- */

/* Its digits without zeros in front and behind, times ten to the power of `exponent`. */
struct number {
	struct str text;
	bool is_negative;
	const char *first, *last; /* digits, with at most one point between them; NULL: it is 0 */
	int64_t exponent;         /* of the last digit */
};

static struct str take_number(struct cursor *c)
{
	const char *start = c->at;

	while (c->at < c->end &&
	       ((*c->at >= '0' && *c->at <= '9') || (*c->at && strchr("+-.eE", *c->at))))
		c->at++;
	see(c, start);
	return (struct str){start, (size_t)(c->at - start)};
}

static int64_t read_exponent(const char *at, const char *end)
{
	int64_t value = 0;
	bool is_negative = at < end && *at == '-';

	if (at < end && (*at == '-' || *at == '+'))
		at++;
	/* What is no digit is no number either, and no reader would have kept it. */
	for (; at < end && *at >= '0' && *at <= '9' && value < INT64_MAX / 100; at++)
		value = value * 10 + (*at - '0');
	return is_negative ? -value : value;
}

static struct number number_of(struct str text)
{
	const char *at = text.at, *end = text.at + text.len, *point = NULL, *mantissa_end;
	struct number n = {.text = text, .is_negative = text.len && *at == '-'};

	for (at += n.is_negative; at < end && *at != 'e' && *at != 'E'; at++) {
		if (*at == '.') {
			point = at;
		} else if (*at != '0') {
			n.first = n.first ? n.first : at;
			n.last = at;
		}
	}
	mantissa_end = at;
	if (!n.first)
		n.is_negative = false;
	else if (point && n.last > point)
		n.exponent = -(n.last - point);
	else
		n.exponent = (point ? point : mantissa_end) - n.last - 1;
	if (n.first && at < end)
		n.exponent += read_exponent(at + 1, end);
	return n;
}

static bool is_same_number(const struct number *a, const struct number *b)
{
	const char *x = a->first, *y = b->first;

	if (a->is_negative != b->is_negative || a->exponent != b->exponent || !x != !y)
		return false;
	while (x && x <= a->last && y <= b->last) {
		if (*x == '.' || *y == '.') {
			x += *x == '.';
			y += *y == '.';
		} else if (*x++ != *y++) {
			return false;
		}
	}
	return !x || (x > a->last && y > b->last);
}

static bool is_same_double(struct str a, struct str b)
{
	char x[FRACTION_MAX + 1], y[FRACTION_MAX + 1];

	if (a.len > FRACTION_MAX || b.len > FRACTION_MAX)
		return false;
	*(char *)mempcpy(x, a.at, a.len) = '\0';
	*(char *)mempcpy(y, b.at, b.len) = '\0';
	return strtod(x, NULL) == strtod(y, NULL);
}

static bool equal_numbers(struct str a, struct str b)
{
	struct number x, y;

	if (!a.len || !b.len)
		return false;
	if (str_eq(a, b))
		return true;
	x = number_of(a);
	y = number_of(b);
	if (is_same_number(&x, &y))
		return true;
	return (x.exponent < 0 || y.exponent < 0) && is_same_double(a, b);
}

/* --- extents --- */

struct opened {
	uint32_t container;
	char bracket;
	bool is_empty;
};

/* Those that are open, the innermost last; one more than any value that is compared has. */
struct nest {
	struct opened levels[JSON_DEPTH_MAX + 2];
	size_t len;
};

static int open_container(struct extents *e, struct nest *n, char bracket)
{
	if (n->len == array_len(n->levels))
		return 0;
	if (n->len)
		n->levels[n->len - 1].is_empty = false;
	if (e->len == e->size) {
		size_t size = e->size ? 2 * e->size : 8;
		struct container *larger = reallocarray(e->items, size, sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		e->items = larger;
		e->size = size;
	}
	e->items[e->len] = (struct container){0};
	n->levels[n->len++] = (struct opened){(uint32_t)e->len++, bracket, true};
	return 1;
}

static int close_container(struct extents *e, struct nest *n, char bracket)
{
	struct opened *o = n->len ? &n->levels[--n->len] : NULL;

	if (!o || o->bracket != (bracket == ']' ? '[' : '{'))
		return 0;
	e->items[o->container].next = (uint32_t)e->len;
	e->items[o->container].items += !o->is_empty;
	return 1;
}

/* 0: its brackets and quotes do not fit. */
static int find_extents(struct str text, struct extents *ret)
{
	struct cursor c = {text.at, text.at + text.len, 0, ret};
	struct nest nest = {.len = 0};
	int r = text.len <= UINT32_MAX;

	for (char next; r == 1 && (next = peek(&c));) {
		struct opened *o = nest.len ? &nest.levels[nest.len - 1] : NULL;

		if (next == '{' || next == '[') {
			r = open_container(ret, &nest, next);
			if (r == 1) /* where it begins, until it is known where it ends */
				ret->items[ret->len - 1].size = (uint32_t)(c.at - text.at);
		} else if (next == '}' || next == ']') {
			r = close_container(ret, &nest, next);
			if (r == 1)
				ret->items[o->container].size = (uint32_t)(c.at + 1 - text.at) -
								ret->items[o->container].size;
		} else if (next == ',' && o) {
			ret->items[o->container].items++;
		} else if (o) {
			o->is_empty = false;
		}
		if (next == '"' && r == 1)
			r = take_string(&c).len > 0;
		else
			c.at++;
	}
	*ret->seen += text.len;
	return r == 1 && (nest.len || c.at < c.end) ? 0 : r;
}

/* --- values --- */

static bool is_delimiter(char c)
{
	return !c || strchr("{}[],:\" \n\t\r", c);
}

/* Behind the next value; its brackets are known to fit. */
static bool skip_value(struct cursor *c)
{
	char next = peek(c);
	const char *start = c->at;

	if (next == '"')
		return take_string(c).len;
	if (next == '{' || next == '[') {
		const struct container *container = &c->extents->items[c->container];

		c->at += container->size;
		c->container = container->next;
		return true;
	}
	while (c->at < c->end && !is_delimiter(*c->at))
		c->at++;
	see(c, start);
	return c->at > start;
}

/* Of the array or object that begins here. */
static uint32_t count_items(const struct cursor *c)
{
	return c->extents->items[c->container].items;
}

static void enter(struct cursor *c)
{
	c->at++;
	c->container++;
}

static int add_member(struct members *m, struct member item)
{
	if (m->len == m->size) {
		size_t size = m->size ? 2 * m->size : 8;
		struct member *larger = reallocarray(m->items, size, sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		m->items = larger;
		m->size = size;
	}
	m->items[m->len++] = item;
	return 1;
}

static int compare_members(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return compare_strings(x->name, y->name);
}

/* All of an object, sorted. 0: it is none, or has a name twice. */
static int take_members(struct cursor *c, struct members *ret)
{
	int r = 1;

	enter(c);
	if (take_char(c, '}'))
		return 1;
	do {
		struct member item = {.name = take_string(c)};

		if (!item.name.len || !take_char(c, ':') || !peek(c))
			return 0;
		item.hash = hash_string(item.name);
		item.value = *c;
		if (!skip_value(c))
			return 0;
		item.value.end = c->at;
		r = add_member(ret, item);
	} while (r == 1 && take_char(c, ','));
	if (r < 0 || !take_char(c, '}'))
		return r < 0 ? r : 0;
	qsort(ret->items, ret->len, sizeof(*ret->items), compare_members);
	for (size_t i = 1; i < ret->len; i++) {
		if (compare_members(&ret->items[i - 1], &ret->items[i]) == 0)
			return 0;
	}
	return 1;
}

static int equal_values(struct cursor *a, struct cursor *b, unsigned depth);

static int equal_objects(struct cursor *a, struct cursor *b, unsigned depth)
{
	cleanup(free_members) struct members x = {0};
	cleanup(free_members) struct members y = {0};
	int r = count_items(a) == count_items(b);

	if (r == 1)
		r = take_members(a, &x);
	if (r == 1)
		r = take_members(b, &y);
	if (r == 1 && x.len != y.len)
		return 0;
	for (size_t i = 0; r == 1 && i < x.len; i++) {
		r = compare_members(&x.items[i], &y.items[i]) == 0;
		if (r == 1)
			r = equal_values(&x.items[i].value, &y.items[i].value, depth);
	}
	return r;
}

static int equal_arrays(struct cursor *a, struct cursor *b, unsigned depth)
{
	int r = count_items(a) == count_items(b);

	enter(a);
	enter(b);
	if (peek(a) == ']' || peek(b) == ']')
		return take_char(a, ']') && take_char(b, ']');
	while (r == 1) {
		r = equal_values(a, b, depth);
		if (r == 1 && (peek(a) != ',' || peek(b) != ','))
			return take_char(a, ']') && take_char(b, ']');
		if (r == 1) {
			a->at++;
			b->at++;
		}
	}
	return r;
}

/* true, false, null. */
static bool equal_words(struct cursor *a, struct cursor *b)
{
	const char *x = a->at, *y = b->at;

	if (!skip_value(a) || !skip_value(b))
		return false;
	return str_eq((struct str){x, (size_t)(a->at - x)}, (struct str){y, (size_t)(b->at - y)});
}

/* Recurses, as deep as JSON_DEPTH_MAX and no deeper. */
static int equal_values(struct cursor *a, struct cursor *b, unsigned depth)
{
	char x = peek(a), y = peek(b);
	struct str s, t;

	if (!x || !y || !depth)
		return 0;
	if (strchr("-0123456789", x) && strchr("-0123456789", y)) {
		s = take_number(a);
		t = take_number(b);
		return equal_numbers(s, t);
	}
	if (x != y)
		return 0;
	if (x == '{')
		return equal_objects(a, b, depth - 1);
	if (x == '[')
		return equal_arrays(a, b, depth - 1);
	if (x != '"')
		return equal_words(a, b);
	s = take_string(a);
	t = take_string(b);
	return s.len && t.len && compare_strings(s, t) == 0;
}

int json_equal_seen(struct str a, struct str b, size_t *ret_seen)
{
	cleanup(free_extents) struct extents in_a = {.seen = ret_seen};
	cleanup(free_extents) struct extents in_b = {.seen = ret_seen};
	struct cursor x = {a.at, a.at + a.len, 0, &in_a}, y = {b.at, b.at + b.len, 0, &in_b};
	int r;

	*ret_seen = 0;
	if (!a.len || !b.len)
		return 0;
	r = find_extents(a, &in_a);
	if (r == 1)
		r = find_extents(b, &in_b);
	if (r == 1)
		r = equal_values(&x, &y, JSON_DEPTH_MAX + 1);
	return r == 1 && (peek(&x) || peek(&y)) ? 0 : r;
}

int json_equal(struct str a, struct str b)
{
	size_t seen;

	return json_equal_seen(a, b, &seen);
}
