#include "cmd/berth-init/session_line.h"

#include <errno.h>

#include "cmd/berth-init/number.h"
#include "proto/frame.h"

struct out {
	char *at;
	size_t len, room;
	bool is_full;
};

static void put(struct out *o, struct str s)
{
	if (o->is_full || s.len > o->room - o->len) {
		o->is_full = true;
		return;
	}
	memcpy(o->at + o->len, s.at, s.len);
	o->len += s.len;
}

static void put_text(struct out *o, const char *text)
{
	put(o, str_of(text));
}

static void put_number(struct out *o, int number)
{
	char text[NUMBER_SIZE];

	put(o, (struct str){text, number_put(text, number)});
}

static void put_fd(struct out *o, const struct session_line *l, int fd)
{
	if (fd < 0) {
		put_text(o, "/dev/null");
		return;
	}
	put_text(o, "/proc/");
	put_number(o, l->feeder);
	put_text(o, "/fd/");
	put_number(o, fd);
}

/* Between single quotes, of which the first and the last are the caller's. */
static void put_quoted(struct out *o, struct str s)
{
	while (s.len) {
		struct str rest = s, plain = str_cut(&rest, '\'');

		put(o, plain);
		if (plain.len < s.len)
			put_text(o, "'\\''");
		s = rest;
	}
}

static bool is_name(struct str name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.at[i];
		bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

		if (!is_letter && (i == 0 || c < '0' || c > '9'))
			return false;
	}
	return name.len > 0;
}

static int put_env(struct out *o, struct str env)
{
	const char *entry;

	if (frame_list_count(env) < 0)
		return -EINVAL;
	while ((entry = frame_list_next(&env))) {
		struct str value = str_of(entry), name = str_cut(&value, '=');

		if (!is_name(name) || name.at[name.len] != '=')
			return -EINVAL;
		put(o, name);
		put_text(o, "='");
		put_quoted(o, value);
		put_text(o, "' ");
	}
	return 0;
}

static void put_report(struct out *o, const struct session_line *l, const char *status)
{
	put_text(o, "\\command echo ");
	put_number(o, (int)l->serial);
	put_text(o, " \"");
	put_text(o, status);
	put_text(o, "\" >");
	put_fd(o, l, l->status_fd);
}

/* The way back first: once the status is told, nobody holds the directory any more. */
static void put_report_from_back(struct out *o, const struct session_line *l)
{
	put_text(o, "S_=\"$?\" B_=\"${OLDPWD-}\" \\command eval '\\command cd -- \"${PWD-/}\"");
	if (l->back_fd >= 0) {
		put_text(o, "||\\command cd -P -- ");
		put_fd(o, l, l->back_fd);
	}
	put_text(o, "||\\command :;OLDPWD=$B_;");
	put_report(o, l, "$S_");
	put_text(o, "'");
}

static int finish(struct out *o)
{
	put_text(o, "\n");
	return o->is_full ? -E2BIG : (int)o->len;
}

int session_line_make(const struct session_line *l, char *at, size_t room)
{
	static const char *const redirections[] = {" <", " >", " 2>"};
	struct out o = {at, 0, room, false};
	int error = put_env(&o, l->env);

	if (error < 0)
		return error;
	if (l->cwd_fd >= 0)
		put_text(&o, "PWD=\"${PWD-}\" OLDPWD=\"${OLDPWD-}\" ");
	put_text(&o, "\\command eval '");
	if (l->cwd_fd >= 0) {
		put_text(&o, "\\command cd -P -- ");
		put_fd(&o, l, l->cwd_fd);
		put_text(&o, "||\\exit 126\n");
	}
	put_quoted(&o, l->text);
	put_text(&o, "'");
	for (int i = 0; i < 3; i++) {
		put_text(&o, redirections[i]);
		put_fd(&o, l, l->fds[i]);
	}
	put_text(&o, ";");
	if (l->cwd_fd >= 0)
		put_report_from_back(&o, l);
	else
		put_report(&o, l, "$?");
	return finish(&o);
}

int session_line_make_read(const struct session_line *l, int fd, char *at, size_t room)
{
	struct out o = {at, 0, room, false};

	put_text(&o, "IFS= \\command read -r -d \"\" B_ <");
	put_fd(&o, l, fd);
	put_text(&o, ";\\command eval \"\\unset -v B_\n$B_\"");
	return finish(&o);
}

int session_line_make_probe(const struct session_line *l, char *at, size_t room)
{
	struct out o = {at, 0, room, false};

	put_report(&o, l, "${BASH_VERSION:+1}0");
	return finish(&o);
}

/* "serial status"; anyone inside can write there, too, and may have. */
static bool parse_report(struct str report, uint32_t serial, int *ret)
{
	char expected[NUMBER_SIZE];
	size_t len = number_put(expected, (int)serial);
	struct str status = report, first = str_cut(&status, ' ');
	int value = 0;

	if (!str_eq(first, (struct str){expected, len}) || !status.len || status.len > 3)
		return false;
	for (size_t i = 0; i < status.len; i++) {
		if (status.at[i] < '0' || status.at[i] > '9')
			return false;
		value = value * 10 + (status.at[i] - '0');
	}
	if (value > 255)
		return false;
	*ret = value;
	return true;
}

int session_line_parse_report(struct str text, uint32_t serial, int *ret)
{
	int found = 0;

	while (text.len && memchr(text.at, '\n', text.len)) {
		if (parse_report(str_cut(&text, '\n'), serial, ret))
			found = 1;
	}
	return found;
}
