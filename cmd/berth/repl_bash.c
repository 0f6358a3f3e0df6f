#include "cmd/berth/repl_bash.h"

#include <string.h>

#include "base/cleanup.h"

#define DEPTH_MAX     256
#define HEREDOCS_MAX  16
#define DELIMITER_MAX 256
#define BLANKS        " \t\r"
#define ENDS_WORD     " \t\r\n;|&()<>"

/* What is open, each in the one before it. */
enum frame {
	FRAME_NONE,
	FRAME_IF,
	FRAME_FOR,     /* or select, before its `do` */
	FRAME_LOOP,    /* until `done` */
	FRAME_CASE,    /* before its `in` */
	FRAME_PATTERN, /* of a case */
	FRAME_CLAUSE,  /* of a case, behind its pattern */
	FRAME_GROUP,   /* { */
	FRAME_TEST,    /* [[ */
	FRAME_ROUND,   /* ( with commands in it */
	FRAME_OUTPUT,  /* $( or <( */
	FRAME_WORDS,   /* ( of an array or of a pattern */
	FRAME_SUM,     /* (( */
	FRAME_NUMBER,  /* $(( */
	FRAME_VALUE,   /* ${ */
	FRAME_QUOTE,   /* " */
};

struct heredoc {
	char end[DELIMITER_MAX];
	bool has_tabs; /* <<- */
};

struct bash {
	struct str rest;
	enum frame stack[DEPTH_MAX];
	size_t depth;
	struct heredoc heredocs[HEREDOCS_MAX]; /* that begin behind the next new line */
	size_t heredocs_len;
	char before;     /* the character before the rest, if it belongs to the same word */
	bool is_command; /* a reserved word would be one here */
	bool is_first;   /* the last word was the first of its command */
	bool is_named;   /* behind `function` */
	bool wants_body; /* a function has none yet */
	bool is_joined;  /* by a backslash, | && or ||, with what must follow */
	bool is_open;    /* a text or a heredoc has no end */
	bool is_wrong;
};

static enum frame top(const struct bash *b)
{
	return b->depth ? b->stack[b->depth - 1] : FRAME_NONE;
}

static void set_top(struct bash *b, enum frame frame)
{
	b->stack[b->depth - 1] = frame;
}

static void push(struct bash *b, enum frame frame)
{
	if (b->depth == DEPTH_MAX)
		b->is_wrong = true;
	else
		b->stack[b->depth++] = frame;
}

/* Of one of these, which is open. */
static void pop(struct bash *b, enum frame frame, enum frame other)
{
	if (top(b) == frame || top(b) == other)
		b->depth--;
	else
		b->is_wrong = true;
}

static void skip(struct bash *b, size_t len)
{
	len = len < b->rest.len ? len : b->rest.len;
	b->before = len ? b->rest.at[len - 1] : b->before;
	b->rest.at += len;
	b->rest.len -= len;
}

static bool is_at(const struct bash *b, const char *text)
{
	return str_starts_with(b->rest, str_of(text));
}

/* --- texts --- */

static void skip_quoted(struct bash *b, char end, bool has_escapes)
{
	while (b->rest.len && b->rest.at[0] != end)
		skip(b, has_escapes && b->rest.at[0] == '\\' ? 2 : 1);
	b->is_open = b->is_open || !b->rest.len;
	skip(b, 1);
}

static bool is_arithmetic(enum frame frame)
{
	return frame == FRAME_SUM || frame == FRAME_NUMBER;
}

static void open_round(struct bash *b, enum frame frame, size_t len)
{
	push(b, frame);
	if (is_arithmetic(frame))
		push(b, frame);
	b->is_command = frame == FRAME_ROUND || frame == FRAME_OUTPUT;
	skip(b, len);
	b->before = ' ';
}

/* Quotes and what begins with a dollar; false: there is none. */
static bool take_text(struct bash *b)
{
	bool is_quoted = top(b) == FRAME_QUOTE;

	if (is_at(b, "\\")) {
		skip(b, 2);
	} else if (is_at(b, "$((")) {
		open_round(b, FRAME_NUMBER, 3);
		return true;
	} else if (is_at(b, "$(")) {
		open_round(b, FRAME_OUTPUT, 2);
		return true;
	} else if (is_at(b, "${")) {
		push(b, FRAME_VALUE);
		skip(b, 2);
	} else if (is_at(b, "$'") && !is_quoted) {
		skip(b, 2);
		skip_quoted(b, '\'', true);
	} else if (is_at(b, "'") && !is_quoted) {
		skip(b, 1);
		skip_quoted(b, '\'', false);
	} else if (is_at(b, "`")) {
		skip(b, 1);
		skip_quoted(b, '`', true);
	} else if (is_at(b, "\"")) {
		if (top(b) == FRAME_QUOTE)
			b->depth--;
		else
			push(b, FRAME_QUOTE);
		skip(b, 1);
	} else {
		return false;
	}
	b->is_command = b->is_joined = b->is_first = false;
	return true;
}

/* --- heredocs --- */

/* Behind "<<": the word that ends it, without its quotes. */
static void take_delimiter(struct bash *b)
{
	struct heredoc *h = &b->heredocs[b->heredocs_len];
	size_t len = 0;
	char quote = 0;

	if (b->heredocs_len == HEREDOCS_MAX) {
		b->is_wrong = true;
		return;
	}
	h->has_tabs = is_at(b, "-");
	skip(b, h->has_tabs);
	while (b->rest.len && strchr(BLANKS, b->rest.at[0]))
		skip(b, 1);
	while (b->rest.len && len < DELIMITER_MAX - 1 &&
	       (quote || !strchr(ENDS_WORD, b->rest.at[0]))) {
		char c = b->rest.at[0];

		if (c == '\n')
			break;
		if (quote ? c == quote : c == '\'' || c == '"')
			quote = quote ? 0 : c;
		else if (c != '\\' || quote)
			h->end[len++] = c;
		skip(b, 1);
	}
	h->end[len] = '\0';
	b->heredocs_len++;
	b->is_command = false;
}

static void skip_heredoc(struct bash *b, const struct heredoc *h)
{
	while (b->rest.len) {
		struct str line = str_cut(&b->rest, '\n');

		while (h->has_tabs && line.len && line.at[0] == '\t')
			line = (struct str){line.at + 1, line.len - 1};
		if (str_eq(line, str_of(h->end)))
			return;
	}
	b->is_open = true;
}

static void take_line(struct bash *b)
{
	skip(b, 1);
	for (size_t i = 0; i < b->heredocs_len; i++)
		skip_heredoc(b, &b->heredocs[i]);
	b->heredocs_len = 0;
	b->is_command = true;
	b->is_first = false;
	b->before = ' ';
}

/* --- words --- */

static const struct keyword {
	const char *word;
	enum frame opens, closes;
	bool is_before; /* a command follows at once */
} keywords[] = {
	{"if", FRAME_IF, 0, true},
	{"fi", 0, FRAME_IF, true},
	{"while", FRAME_LOOP, 0, true},
	{"until", FRAME_LOOP, 0, true},
	{"for", FRAME_FOR, 0, false},
	{"select", FRAME_FOR, 0, false},
	{"done", 0, FRAME_LOOP, true},
	{"case", FRAME_CASE, 0, false},
	{"esac", 0, FRAME_PATTERN, true},
	{"{", FRAME_GROUP, 0, true},
	{"}", 0, FRAME_GROUP, true},
	{"[[", FRAME_TEST, 0, false},
	{"then", 0, 0, true},
	{"else", 0, 0, true},
	{"elif", 0, 0, true},
	{"do", 0, 0, true},
	{"!", 0, 0, true},
	{"time", 0, 0, true},
	{"coproc", 0, 0, true},
	{"function", 0, 0, false},
};

static const struct keyword *find_keyword(struct str word)
{
	for (size_t i = 0; i < array_len(keywords); i++)
		if (str_eq(word, str_of(keywords[i].word)))
			return &keywords[i];
	return NULL;
}

static void take_keyword(struct bash *b, const struct keyword *k)
{
	b->is_command = k->is_before;
	b->is_named = strcmp(k->word, "function") == 0;
	if (strcmp(k->word, "do") == 0 && top(b) == FRAME_FOR)
		set_top(b, FRAME_LOOP);
	else if (k->opens == FRAME_GROUP && top(b) == FRAME_FOR)
		set_top(b, FRAME_GROUP); /* which may stand for do and done */
	else if (k->opens)
		push(b, k->opens);
	else if (k->closes == FRAME_PATTERN)
		pop(b, FRAME_PATTERN, FRAME_CLAUSE);
	else if (k->closes)
		pop(b, k->closes, k->closes);
}

static bool has_commands(enum frame frame)
{
	return frame != FRAME_WORDS && !is_arithmetic(frame) && frame != FRAME_TEST &&
	       frame != FRAME_CASE;
}

static void take_word(struct bash *b)
{
	struct str word = {b->rest.at, 0};
	const struct keyword *keyword = NULL;
	bool is_whole, was_named = b->is_named;

	while (word.len < b->rest.len && !strchr(ENDS_WORD "\\'\"`$", word.at[word.len]))
		word.len++;
	word.len += !word.len; /* a dollar that means nothing */
	is_whole = strchr(" \t\r", b->before) &&
		   (word.len == b->rest.len || strchr(ENDS_WORD, word.at[word.len]));
	skip(b, word.len);
	b->is_joined = b->wants_body = b->is_named = false;
	if (is_whole && top(b) == FRAME_CASE && str_eq(word, STR("in")))
		set_top(b, FRAME_PATTERN);
	if (is_whole && top(b) == FRAME_TEST && str_eq(word, STR("]]")))
		b->depth--;
	else if (is_whole && b->is_command && has_commands(top(b)))
		keyword = find_keyword(word);
	/* The word of a pattern may be any but this one. */
	if (keyword && top(b) == FRAME_PATTERN && keyword->closes != FRAME_PATTERN)
		keyword = NULL;
	b->is_first = b->is_command && !keyword;
	if (keyword)
		take_keyword(b, keyword);
	else
		b->is_command = was_named;
	b->wants_body = was_named;
}

/* --- signs --- */

static void take_round(struct bash *b)
{
	struct str in = {b->rest.at + 1, b->rest.len - 1};

	while (in.len && strchr(BLANKS, in.at[0]))
		in = (struct str){in.at + 1, in.len - 1};
	if (in.len && in.at[0] == ')' && b->before != '=' && (b->is_first || b->wants_body)) {
		skip(b, (size_t)(in.at + 1 - b->rest.at));
		b->wants_body = b->is_command = true;
		b->before = ' ';
		return;
	}
	b->wants_body = b->is_joined = false;
	if (is_arithmetic(top(b)) || top(b) == FRAME_WORDS)
		push(b, top(b));
	if (is_arithmetic(top(b)) || top(b) == FRAME_WORDS || top(b) == FRAME_PATTERN)
		skip(b, 1);
	else if (strchr("=@!?*+", b->before))
		open_round(b, FRAME_WORDS, 1);
	else if (is_at(b, "((") && (b->is_command || top(b) == FRAME_FOR))
		open_round(b, FRAME_SUM, 2);
	else
		open_round(b, FRAME_ROUND, 1);
}

static void close_round(struct bash *b)
{
	enum frame frame = top(b);

	if (frame == FRAME_PATTERN)
		set_top(b, FRAME_CLAUSE);
	else if (frame == FRAME_ROUND || frame == FRAME_OUTPUT || frame == FRAME_WORDS ||
		 is_arithmetic(frame))
		b->depth--;
	else
		b->is_wrong = true;
	skip(b, 1);
	b->is_command = frame == FRAME_PATTERN || frame == FRAME_ROUND || frame == FRAME_SUM;
	b->is_joined = b->is_first = false;
	b->before = b->is_command ? ' ' : ')';
}

static void take_operator(struct bash *b)
{
	bool is_pair = b->rest.len > 1 && b->rest.at[1] == b->rest.at[0];
	char c = b->rest.at[0];

	b->is_first = b->wants_body = false;
	b->is_joined = c == '|' || (c == '&' && is_pair);
	if (top(b) == FRAME_CLAUSE && (is_at(b, ";;") || is_at(b, ";&")))
		set_top(b, FRAME_PATTERN);
	b->is_command = true;
	skip(b, is_pair ? 2 : 1);
	if (is_at(b, "&") && c != '&') /* ;& ;;& |& */
		skip(b, 1);
	b->before = ' ';
}

static void take_redirection(struct bash *b)
{
	b->is_first = b->is_command = b->is_joined = b->wants_body = false;
	if (is_at(b, "<<<")) {
		skip(b, 3);
	} else if (is_at(b, "<<")) {
		skip(b, 2);
		take_delimiter(b);
	} else if (is_at(b, "<(") || is_at(b, ">(")) {
		open_round(b, FRAME_OUTPUT, 2);
	} else {
		skip(b, is_at(b, "<&") || is_at(b, ">&") ? 2 : 1);
	}
	b->before = ' ';
}

/* In a text, in ${} or in [[ ]] little has a meaning. */
static void step_inside(struct bash *b)
{
	if (take_text(b))
		return;
	if (top(b) == FRAME_VALUE && is_at(b, "}"))
		b->depth--;
	if (top(b) == FRAME_TEST && !strchr(ENDS_WORD, b->rest.at[0]))
		take_word(b);
	else
		skip(b, 1);
	b->before = top(b) == FRAME_TEST && strchr(BLANKS "\n", b->before) ? ' ' : b->before;
}

static void step(struct bash *b)
{
	enum frame frame = top(b);
	char c = b->rest.at[0];

	if (is_at(b, "\\\n")) {
		skip(b, 2);
		b->is_joined = b->is_joined || !b->rest.len;
	} else if (frame == FRAME_QUOTE || frame == FRAME_VALUE || frame == FRAME_TEST) {
		step_inside(b);
	} else if (c == '\n') {
		take_line(b);
	} else if (strchr(BLANKS, c)) {
		skip(b, 1);
		b->before = ' ';
	} else if (c == '#' && b->before == ' ' && !is_arithmetic(frame)) {
		while (b->rest.len && b->rest.at[0] != '\n')
			skip(b, 1);
	} else if (c == '(') {
		take_round(b);
	} else if (c == ')') {
		close_round(b);
	} else if (!is_arithmetic(frame) && (c == '<' || c == '>')) {
		take_redirection(b);
	} else if (strchr(";|&<>", c)) {
		take_operator(b);
	} else if (!take_text(b)) {
		take_word(b);
	}
}

bool repl_bash_goes_on(struct str text)
{
	struct bash b = {.rest = text, .before = ' ', .is_command = true};

	while (b.rest.len && !b.is_wrong)
		step(&b);
	if (b.is_wrong)
		return false;
	return b.depth || b.is_open || b.is_joined || b.wants_body;
}
