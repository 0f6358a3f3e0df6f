#include "proto/json_scan.h"

#include <errno.h>
#include <stdio.h>

#include "proto/json.h"
#include "proto/utf8.h"

/* Far above any body; below what yajl 2.1's 32-bit corners could trip over (CVE-2022-24795). */
#define TEXT_MAX (256u * 1024 * 1024)

struct scan {
	const struct json_source *source;
	struct str text;
	size_t at;
	size_t escaped_max;
	struct err *err;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

const char *json_source_name(const struct json_source *source)
{
	return source->is_file ? "it" : "the body";
}

struct json_place json_source_place(const struct json_source *source, size_t offset)
{
	struct json_place place;
	size_t line = 1, start = 0;

	if (!source->is_file) {
		snprintf(place.text, sizeof(place.text), "byte %zu", offset);
		return place;
	}
	for (size_t i = 0; i < offset && i < source->text.len; i++) {
		if (source->text.at[i] == '\n') {
			line++;
			start = i + 1;
		}
	}
	snprintf(place.text, sizeof(place.text), "line %zu, column %zu", line, offset - start + 1);
	return place;
}

static int refuse(struct scan *s, const char *what)
{
	return err_set(s->err, -EINVAL, ERR_INVALID_REQUEST, "%s %s (at %s)",
		       json_source_name(s->source), what, json_source_place(s->source, s->at).text);
}

/* The four digits of \uXXXX; -1 if they are none, which the parser will refuse. */
static int hex4(struct str text, size_t at)
{
	int value = 0;

	if (text.len < 4 || at > text.len - 4)
		return -1;
	for (size_t i = at; i < at + 4; i++) {
		char c = text.at[i];

		if (c >= '0' && c <= '9')
			value = value * 16 + c - '0';
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			value = value * 16 + (c | 0x20) - 'a' + 10;
		else
			return -1;
	}
	return value;
}

/* `at` is on the backslash; goes behind the escape. */
static int scan_escape(struct scan *s)
{
	const char *at = s->text.at;
	int unit, second;

	if (s->text.len - s->at < 2)
		return refuse(s, "ends inside a string");
	if (at[s->at + 1] != 'u') {
		s->at += 2;
		return 0;
	}
	unit = hex4(s->text, s->at + 2);
	if (unit < 0)
		return refuse(s, "is not valid JSON: \\u needs four hexadecimal digits");
	if ((unit & 0xf800) != 0xd800) {
		s->at += 6;
		return 0;
	}
	second = s->text.len - s->at > 8 && at[s->at + 6] == '\\' && at[s->at + 7] == 'u'
			 ? hex4(s->text, s->at + 8)
			 : -1;
	if (unit >= 0xdc00 || second < 0xdc00 || second > 0xdfff)
		return refuse(s, "holds half of a surrogate pair");
	s->at += 12;
	return 0;
}

/* `at` is behind the opening quote; goes behind the closing one. */
static int scan_string(struct scan *s)
{
	const char *at = s->text.at;
	size_t start = s->at;
	bool has_escapes = false;
	int r;

	for (;;) {
		while (s->at < s->text.len && at[s->at] != '"' && at[s->at] != '\\')
			s->at++;
		if (s->at == s->text.len)
			return refuse(s, "ends inside a string");
		if (at[s->at] == '"')
			break;
		has_escapes = true;
		r = scan_escape(s);
		if (r < 0)
			return r;
	}
	if (has_escapes && s->at - start > s->escaped_max)
		s->escaped_max = s->at - start;
	s->at++;
	return 0;
}

/* `at` is on the opening bracket; goes behind the one that closes it. */
static int scan_object(struct scan *s)
{
	unsigned depth = 0;
	int r;

	do {
		char c;

		if (s->at == s->text.len)
			return refuse(s, "ends before its JSON object does");
		c = s->text.at[s->at];
		if (c == '{' || c == '[') {
			if (++depth > JSON_DEPTH_MAX)
				return refuse(s, "is nested too deeply");
		} else if (c == '}' || c == ']') {
			depth--;
		} else if ((unsigned char)c < ' ' && !is_space(c)) {
			return refuse(s, "is not valid JSON: a control character");
		}
		s->at++;
		if (c == '"') {
			r = scan_string(s);
			if (r < 0)
				return r;
		}
	} while (depth);
	return 0;
}

int json_scan(const struct json_source *source, struct json_frame *ret, struct err *err)
{
	const struct str text = source->text;
	struct scan s = {.source = source, .text = text, .err = err};
	size_t start;
	int r;

	if (text.len > TEXT_MAX)
		return err_set(err, -EMSGSIZE, ERR_PAYLOAD_TOO_LARGE, "%s is too large",
			       json_source_name(source));
	if (str_starts_with(text, STR("\xef\xbb\xbf")))
		return err_set(
			err, -EINVAL, ERR_INVALID_REQUEST,
			"%s begins with a byte order mark: save it as UTF-8 without one (BOM)",
			json_source_name(source));
	while (s.at < text.len && is_space(text.at[s.at]))
		s.at++;
	if (s.at == text.len || text.at[s.at] != '{')
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s must be a JSON object",
			       json_source_name(source));
	start = s.at;
	r = scan_object(&s);
	if (r < 0)
		return r;
	ret->object = (struct str){text.at + start, s.at - start};
	ret->escaped_max = s.escaped_max;
	while (s.at < text.len && is_space(text.at[s.at]))
		s.at++;
	if (s.at < text.len)
		return refuse(&s, "goes on after its JSON object");
	s.at = start + utf8_valid_len(ret->object);
	if (s.at < start + ret->object.len)
		return refuse(&s, "is not valid UTF-8");
	return 0;
}
