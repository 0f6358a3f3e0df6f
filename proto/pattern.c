#include "proto/pattern.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/pattern_bracket.h"
#include "proto/pattern_code.h"
#include "proto/utf8.h"

/* The text as a tree, before its repetitions are written out as states. */
enum node_kind {
	NODE_EMPTY,
	NODE_BYTE,
	NODE_SET,
	NODE_BEGIN,
	NODE_END,
	NODE_BOTH,
	NODE_EITHER,
	NODE_REPEAT
};

#define NO_LIMIT  (PATTERN_REPEAT_MAX + 1)
#define NODES_MAX (4 * PATTERN_TEXT_MAX)
#define WORK_MAX  (16 * PATTERN_STATES_MAX) /* nodes written, also those that come to nothing */

struct node {
	uint8_t kind, byte;
	uint16_t set;
	uint16_t left, right; /* NODE_BOTH, NODE_EITHER; NODE_REPEAT has `left` alone */
	uint16_t min, max;
};

#define SETS_MAX (PATTERN_TEXT_MAX / 2 + 1)

struct compiler {
	struct pattern *pattern; /* with room for the largest */
	struct pattern_state states[PATTERN_STATES_MAX];
	struct pattern_set sets[SETS_MAX];
	struct str rest;
	struct node nodes[NODES_MAX];
	unsigned nodes_len;
	unsigned depth;
	unsigned work;
	struct err *err;
};

static int refuse(struct compiler *c, const char *sentence)
{
	return err_set(c->err, -EINVAL, ERR_INVALID_REQUEST, "pattern: %s", sentence);
}

static bool next_is(const struct compiler *c, char byte)
{
	return c->rest.len && c->rest.at[0] == byte;
}

static void skip(struct compiler *c, size_t n)
{
	c->rest = (struct str){c->rest.at + n, c->rest.len - n};
}

/* As many as there are bytes in the text, and twice that for joining them: always enough. */
static int add_node(struct compiler *c, struct node node)
{
	assert(c->nodes_len < NODES_MAX);
	c->nodes[c->nodes_len] = node;
	return (int)c->nodes_len++;
}

static int join(struct compiler *c, enum node_kind kind, int left, int right)
{
	return add_node(c, (struct node){.kind = (uint8_t)kind,
					 .left = (uint16_t)left,
					 .right = (uint16_t)right});
}

/* --- reading --- */

static int read_either(struct compiler *c);

static int read_group(struct compiler *c)
{
	int node;

	if (++c->depth > PATTERN_DEPTH_MAX)
		return refuse(c, "its parentheses are nested too deeply");
	skip(c, 1);
	node = read_either(c);
	if (node < 0)
		return node;
	if (!next_is(c, ')'))
		return refuse(c, "a \"(\" has no \")\"");
	skip(c, 1);
	c->depth--;
	return node;
}

static int read_bracket(struct compiler *c)
{
	struct pattern *p = c->pattern;
	int r;

	/* A bracket has three bytes at least: there is room for the sets of all. */
	assert(p->sets_len < SETS_MAX);
	r = pattern_bracket_read(&c->rest, &p->sets[p->sets_len], c->err);
	if (r < 0)
		return r;
	return add_node(c, (struct node){.kind = NODE_SET, .set = (uint16_t)p->sets_len++});
}

static int read_escaped(struct compiler *c)
{
	static const char special[] = "^.[]$()|*+?{}\\/-";
	char byte;

	if (c->rest.len < 2)
		return refuse(c, "it ends with a backslash");
	byte = c->rest.at[1];
	if (byte >= '1' && byte <= '9')
		return refuse(c, "back-references are not supported");
	if (!memchr(special, byte, sizeof(special) - 1))
		return refuse(c, "a backslash stands only before a special character; for \\d, \\w "
				 "and \\s write [[:digit:]], [[:alnum:]_] and [[:space:]]");
	skip(c, 2);
	return add_node(c, (struct node){.kind = NODE_BYTE, .byte = (uint8_t)byte});
}

/* One character: what is repeated is all of its bytes. */
static int read_character(struct compiler *c)
{
	size_t len = 1;
	int node = -1;

	while (len < c->rest.len && ((unsigned char)c->rest.at[len] & 0xc0) == 0x80)
		len++;
	for (size_t i = 0; i < len; i++) {
		int byte = add_node(
			c, (struct node){.kind = NODE_BYTE, .byte = (uint8_t)c->rest.at[i]});

		node = node < 0 ? byte : join(c, NODE_BOTH, node, byte);
	}
	skip(c, len);
	return node;
}

static int read_atom(struct compiler *c)
{
	char byte = c->rest.at[0];

	switch (byte) {
	case '(':
		return read_group(c);
	case '[':
		return read_bracket(c);
	case '\\':
		return read_escaped(c);
	case '*':
	case '+':
	case '?':
	case '{':
		return refuse(
			c, "there is nothing before a \"*\", \"+\", \"?\" or \"{\" to be repeated");
	case '.':
		skip(c, 1);
		return add_node(c, (struct node){.kind = NODE_SET, .set = 0});
	case '^':
	case '$':
		skip(c, 1);
		return add_node(c, (struct node){.kind = byte == '^' ? NODE_BEGIN : NODE_END});
	default:
		return read_character(c);
	}
}

static bool read_number(struct compiler *c, unsigned *ret)
{
	unsigned value = 0;
	size_t digits = 0;

	while (c->rest.len && c->rest.at[0] >= '0' && c->rest.at[0] <= '9' && digits < 4) {
		value = value * 10 + (unsigned)(c->rest.at[0] - '0');
		skip(c, 1);
		digits++;
	}
	*ret = value;
	return digits > 0;
}

/* "{m}", "{m,}" or "{m,n}". */
static int read_interval(struct compiler *c, unsigned *ret_min, unsigned *ret_max)
{
	skip(c, 1);
	if (!read_number(c, ret_min))
		return refuse(c, "a \"{\" must be followed by a number");
	*ret_max = *ret_min;
	if (next_is(c, ',')) {
		skip(c, 1);
		if (!read_number(c, ret_max))
			*ret_max = NO_LIMIT;
	}
	if (!next_is(c, '}'))
		return refuse(c, "a \"{\" has no \"}\" behind one or two numbers");
	skip(c, 1);
	if (*ret_min > PATTERN_REPEAT_MAX ||
	    (*ret_max > PATTERN_REPEAT_MAX && *ret_max != NO_LIMIT))
		return refuse(c, "a number in braces is larger than 255");
	if (*ret_max < *ret_min)
		return refuse(c, "the numbers in braces stand in the wrong order");
	return 0;
}

static int read_repeated(struct compiler *c)
{
	int node = read_atom(c), r = 0;
	unsigned count = 0;

	while (node >= 0 && c->rest.len && memchr("*+?{", c->rest.at[0], 4)) {
		unsigned min = next_is(c, '+'), max = next_is(c, '?') ? 1 : NO_LIMIT;

		/* Each would double what must be gone through; "a**" is undefined, too. */
		if (++count > 1)
			return refuse(
				c,
				"one repetition stands directly behind another: use parentheses");
		if (next_is(c, '{'))
			r = read_interval(c, &min, &max);
		else
			skip(c, 1);
		if (r < 0)
			return r;
		node = add_node(c, (struct node){.kind = NODE_REPEAT,
						 .left = (uint16_t)node,
						 .min = (uint16_t)min,
						 .max = (uint16_t)max});
	}
	return node;
}

static int read_both(struct compiler *c)
{
	int node = -1, next;

	while (c->rest.len && !next_is(c, '|') && !next_is(c, ')')) {
		next = read_repeated(c);
		if (next < 0)
			return next;
		node = node < 0 ? next : join(c, NODE_BOTH, node, next);
	}
	return node < 0 ? add_node(c, (struct node){.kind = NODE_EMPTY}) : node;
}

static int read_either(struct compiler *c)
{
	int node = read_both(c), next;

	while (node >= 0 && next_is(c, '|')) {
		skip(c, 1);
		next = read_both(c);
		node = next < 0 ? next : join(c, NODE_EITHER, node, next);
	}
	return node;
}

/* --- writing --- */

static int refuse_length(struct compiler *c)
{
	return refuse(c, "with its repetitions written out, it is too long");
}

static int add_state(struct compiler *c, struct pattern_state state)
{
	struct pattern *p = c->pattern;

	if (p->states_len == PATTERN_STATES_MAX)
		return refuse_length(c);
	p->states[p->states_len] = state;
	return (int)p->states_len++;
}

static int write_node(struct compiler *c, unsigned index);

static int write_either(struct compiler *c, const struct node *node)
{
	struct pattern_state *states = c->pattern->states;
	int split, jump, r;

	split = add_state(c, (struct pattern_state){.op = PATTERN_SPLIT});
	r = split < 0 ? split : write_node(c, node->left);
	jump = r < 0 ? r : add_state(c, (struct pattern_state){.op = PATTERN_JUMP});
	if (jump < 0)
		return jump;
	states[split].a = (uint16_t)(split + 1);
	states[split].b = (uint16_t)c->pattern->states_len;
	r = write_node(c, node->right);
	states[jump].a = (uint16_t)c->pattern->states_len;
	return r;
}

/* Any number of it: a loop; else so many that each may be the last. */
static int write_optional(struct compiler *c, const struct node *node, bool is_loop)
{
	struct pattern_state *states = c->pattern->states;
	int split = add_state(c, (struct pattern_state){.op = PATTERN_SPLIT});
	int r = split < 0 ? split : write_node(c, node->left);

	if (r == 0 && is_loop)
		r = add_state(c, (struct pattern_state){.op = PATTERN_JUMP, .a = (uint16_t)split});
	if (r < 0)
		return r;
	states[split].a = (uint16_t)(split + 1);
	states[split].b = (uint16_t)c->pattern->states_len;
	return 0;
}

static int write_repeat(struct compiler *c, const struct node *node)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < node->min; i++)
		r = write_node(c, node->left);
	if (r == 0 && node->max == NO_LIMIT)
		return write_optional(c, node, true);
	for (unsigned i = node->min; r == 0 && i < node->max; i++)
		r = write_optional(c, node, false);
	return r;
}

static int write_state(struct compiler *c, const struct node *node)
{
	static const uint8_t ops[] = {
		[NODE_BYTE] = PATTERN_BYTE,
		[NODE_SET] = PATTERN_SET,
		[NODE_BEGIN] = PATTERN_BEGIN,
		[NODE_END] = PATTERN_END,
	};
	int r = add_state(c, (struct pattern_state){
				     .op = ops[node->kind], .byte = node->byte, .set = node->set});

	return r < 0 ? r : 0;
}

static int write_node(struct compiler *c, unsigned index)
{
	const struct node *node = &c->nodes[index];
	int r;

	if (++c->work > WORK_MAX)
		return refuse_length(c);
	switch ((enum node_kind)node->kind) {
	case NODE_EMPTY:
		return 0;
	case NODE_BOTH:
		r = write_node(c, node->left);
		return r < 0 ? r : write_node(c, node->right);
	case NODE_EITHER:
		return write_either(c, node);
	case NODE_REPEAT:
		return write_repeat(c, node);
	default:
		return write_state(c, node);
	}
}

static int compile(struct compiler *c, struct str text)
{
	struct pattern *p = c->pattern;
	int node, r;

	if (!text.len || text.len > PATTERN_TEXT_MAX)
		return refuse(c, "it must have 1 to 1024 bytes");
	if (memchr(text.at, '\n', text.len))
		return refuse(c, "it is looked for in single lines, so no newline can be in it");
	memset(&p->sets[0], 0xff, sizeof(p->sets[0]));
	p->sets_len = 1;
	c->rest = text;
	node = read_either(c);
	if (node < 0)
		return node;
	if (c->rest.len)
		return refuse(c, "a \")\" has no \"(\"");
	r = write_node(c, (unsigned)node);
	if (r == 0)
		r = add_state(c, (struct pattern_state){.op = PATTERN_MATCH});
	return r < 0 ? r : 0;
}

/* In one piece of memory, as large as it has to be. */
static struct pattern *copy_pattern(const struct pattern *from)
{
	size_t sets = from->sets_len * sizeof(*from->sets);
	size_t states = from->states_len * sizeof(*from->states);
	struct pattern *p = malloc(sizeof(*p) + sets + states);

	if (!p)
		return NULL;
	*p = *from;
	p->sets = (struct pattern_set *)(p + 1);
	p->states = (struct pattern_state *)(p->sets + p->sets_len);
	memcpy(p->sets, from->sets, sets);
	memcpy(p->states, from->states, states);
	return p;
}

struct pattern *pattern_new(struct str text, struct err *err)
{
	cleanup_free struct compiler *c = calloc(1, sizeof(*c));
	struct pattern full = {NULL, NULL, 0, 0}, *p = NULL;

	if (c) {
		full.states = c->states;
		full.sets = c->sets;
		c->pattern = &full;
		c->err = err;
		if (compile(c, text) < 0)
			return NULL;
		p = copy_pattern(&full);
	}
	if (!p)
		err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	return p;
}

void pattern_free(struct pattern *pattern)
{
	free(pattern);
}
