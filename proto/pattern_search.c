/* All states that are possible at once, each with where its match would begin. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/pattern_code.h"

struct thread {
	uint16_t state;
	size_t start;
};

/* In order of their starts: who comes first to a state has the leftmost. */
struct threads {
	struct thread *items; /* one for each state, at most; as all that follows */
	unsigned len;
};

struct pattern_search {
	const struct pattern *pattern;
	struct threads sets[2];
	unsigned now; /* which of them */
	uint32_t *seen;
	uint32_t mark; /* of what was seen in this turn */
	uint16_t *stack;
	size_t at;
	bool is_found;
	size_t start, end;
};

struct pattern_search *pattern_search_new(const struct pattern *pattern)
{
	size_t n = pattern->states_len;
	size_t each = 2 * sizeof(struct thread) + sizeof(uint32_t) + sizeof(uint16_t);
	struct pattern_search *s = calloc(1, sizeof(*s) + n * each);

	if (!s)
		return NULL;
	s->pattern = pattern;
	s->sets[0].items = (struct thread *)(s + 1);
	s->sets[1].items = s->sets[0].items + n;
	s->seen = (uint32_t *)(s->sets[1].items + n);
	s->stack = (uint16_t *)(s->seen + n);
	pattern_search_begin(s);
	return s;
}

void pattern_search_free(struct pattern_search *search)
{
	free(search);
}

static void note_match(struct pattern_search *s, size_t start)
{
	if (s->is_found && start > s->start)
		return;
	if (!s->is_found || start < s->start || s->at > s->end)
		s->end = s->at;
	s->start = start;
	s->is_found = true;
}

/* A new turn: no state was seen in it. */
static void turn(struct pattern_search *s)
{
	if (++s->mark == 0) {
		memset(s->seen, 0, s->pattern->states_len * sizeof(*s->seen));
		s->mark = 1;
	}
}

/* Where a state leads without a byte: up to two, put on the stack. */
static unsigned push_next(struct pattern_search *s, uint16_t index, bool is_end, unsigned depth)
{
	const struct pattern_state *state = &s->pattern->states[index];
	uint16_t next[2];
	unsigned n = 0;

	switch ((enum pattern_op)state->op) {
	case PATTERN_SPLIT:
		next[n++] = state->b;
		next[n++] = state->a;
		break;
	case PATTERN_JUMP:
		next[n++] = state->a;
		break;
	case PATTERN_BEGIN:
		if (s->at == 0)
			next[n++] = (uint16_t)(index + 1);
		break;
	case PATTERN_END:
		if (is_end)
			next[n++] = (uint16_t)(index + 1);
		break;
	default:
		break;
	}
	for (unsigned i = 0; i < n; i++) {
		/* Each state is pushed once in a turn, so the stack holds them all. */
		if (s->seen[next[i]] != s->mark) {
			s->seen[next[i]] = s->mark;
			s->stack[depth++] = next[i];
		}
	}
	return depth;
}

/* The state and all that it leads to without a byte. `into`: those that wait for one. */
static void follow(struct pattern_search *s, struct threads *into, struct thread from, bool is_end)
{
	unsigned depth = 0;

	if (s->seen[from.state] == s->mark)
		return;
	s->seen[from.state] = s->mark;
	s->stack[depth++] = from.state;
	while (depth) {
		uint16_t index = s->stack[--depth];
		uint8_t op = s->pattern->states[index].op;

		if (op == PATTERN_MATCH)
			note_match(s, from.start);
		else if (into && (op == PATTERN_BYTE || op == PATTERN_SET || op == PATTERN_END))
			into->items[into->len++] = (struct thread){index, from.start};
		depth = push_next(s, index, is_end, depth);
	}
}

/* A match may begin here, unless one that began earlier was found. */
static void begin_here(struct pattern_search *s, struct threads *into, bool is_end)
{
	if (!s->is_found)
		follow(s, into, (struct thread){0, s->at}, is_end);
}

void pattern_search_begin(struct pattern_search *s)
{
	s->sets[0].len = s->sets[1].len = 0;
	s->at = 0;
	s->is_found = false;
	turn(s);
	begin_here(s, &s->sets[s->now], false);
}

static bool takes(const struct pattern_search *s, uint16_t index, unsigned char byte)
{
	const struct pattern_state *state = &s->pattern->states[index];

	if (state->op == PATTERN_BYTE)
		return state->byte == byte;
	return state->op == PATTERN_SET && pattern_set_has(&s->pattern->sets[state->set], byte);
}

static void feed_byte(struct pattern_search *s, unsigned char byte)
{
	struct threads *from = &s->sets[s->now], *to = &s->sets[!s->now];

	to->len = 0;
	s->at++;
	turn(s);
	for (unsigned i = 0; i < from->len; i++) {
		struct thread t = from->items[i];

		/* What begins further right cannot win any more. */
		if (s->is_found && t.start > s->start)
			break;
		if (takes(s, t.state, byte))
			follow(s, to, (struct thread){(uint16_t)(t.state + 1), t.start}, false);
	}
	begin_here(s, to, false);
	s->now = !s->now;
}

void pattern_search_feed(struct pattern_search *s, struct str bytes)
{
	for (size_t i = 0; i < bytes.len; i++) {
		/* Found, and nothing can make it longer or further left. */
		if (s->is_found && !s->sets[s->now].len)
			return;
		feed_byte(s, (unsigned char)bytes.at[i]);
	}
}

void pattern_search_end(struct pattern_search *s)
{
	struct threads *from = &s->sets[s->now];

	turn(s);
	for (unsigned i = 0; i < from->len; i++) {
		if (s->pattern->states[from->items[i].state].op == PATTERN_END)
			follow(s, NULL, from->items[i], true);
	}
	begin_here(s, NULL, true);
	from->len = 0;
}

bool pattern_search_found(const struct pattern_search *s, size_t *ret_start, size_t *ret_end)
{
	if (s->is_found) {
		*ret_start = s->start;
		*ret_end = s->end;
	}
	return s->is_found;
}
