#include "cmd/manual/roff.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
static const struct {
	char c;
	const char *roff;
} escapes[] = {
	{ '\\', "\\e" }, { '-', "\\-" }, { '\'', "\\(aq" }, { '`', "\\(ga" }, { '^', "\\(ha" },
	{ '~', "\\(ti" }, { '"', "\\(dq" },
};
/* clang-format on */

/* A character of UTF-8 as roff names it; gives how many bytes it has. Our tables are valid. */
static size_t put_wide(const unsigned char *at)
{
	size_t len = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
	unsigned value = at[0] & (0xffU >> (len + 1));

	for (size_t i = 1; i < len; i++)
		value = value << 6 | (at[i] & 0x3fU);
	printf("\\[u%04X]", value);
	return len;
}

static void put_char(char c)
{
	for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
		if (escapes[i].c == c) {
			fputs(escapes[i].roff, stdout);
			return;
		}
	}
	putchar(c);
}

static void put(const char *text, size_t len)
{
	for (size_t i = 0; i < len;) {
		if ((unsigned char)text[i] >= 0x80) {
			i += put_wide((const unsigned char *)text + i);
		} else {
			put_char(text[i]);
			i++;
		}
	}
}

static void put_bold(const char *text, size_t len)
{
	fputs("\\fB", stdout);
	put(text, len);
	fputs("\\fR", stdout);
}

/* A line whose first character must not be taken for a request. */
static void put_line(const char *line, size_t len)
{
	const char *end = line + len;

	fputs("\\&", stdout);
	while (line < end) {
		const char *open = memchr(line, '`', (size_t)(end - line));
		const char *close = open ? memchr(open + 1, '`', (size_t)(end - open - 1)) : NULL;

		if (!close) {
			put(line, (size_t)(end - line));
			break;
		}
		put(line, (size_t)(open - line));
		put_bold(open + 1, (size_t)(close - open - 1));
		line = close + 1;
	}
	putchar('\n');
}

void roff_begin(const char *name, const char *section, const char *summary)
{
	char small[32];
	size_t i;

	for (i = 0; name[i] && i + 1 < sizeof(small); i++)
		small[i] = (char)(name[i] | 0x20);
	small[i] = '\0';
	/* No date: the same tables make the same page. */
	printf(".TH %s %s \"\" \"Berth %s\" \"Berth\"\n.nh\n.ad l\n", name, section, BERTH_VERSION);
	roff_section("NAME");
	printf("%s \\- %s\n", small, summary);
}

void roff_section(const char *title)
{
	printf(".SH \"%s\"\n", title);
}

void roff_subsection(const char *title)
{
	printf(".SS \"%s\"\n", title);
}

void roff_command(const char *line)
{
	put_bold(line, strlen(line));
	putchar('\n');
}

void roff_paragraph(void)
{
	printf(".PP\n");
}

void roff_text(const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		if (len)
			put_line(text, len);
		else
			roff_paragraph();
		text += len + (text[len] == '\n');
	}
}

static void put_meaning(const char *meaning)
{
	put_line(meaning, strlen(meaning));
}

void roff_item(const char *tag, const char *meaning)
{
	printf(".TP\n");
	roff_command(tag);
	put_meaning(meaning);
}

void roff_flag(const char *letter, const char *name, const char *value, const char *meaning)
{
	printf(".TP\n");
	if (letter) {
		put_bold(letter, strlen(letter));
		fputs(", ", stdout);
	}
	put_bold(name, strlen(name));
	if (value) {
		fputs(" \\fI", stdout);
		put(value, strlen(value));
		fputs("\\fR", stdout);
	}
	putchar('\n');
	put_meaning(meaning);
}

void roff_table(const char *title, const struct example *rows)
{
	roff_section(title);
	for (size_t i = 0; rows[i].line; i++)
		roff_item(rows[i].line, rows[i].meaning);
}

int roff_end(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	perror("the manual page cannot be written");
	return 1;
}
