#include "proto/json_reader.h"

#include <stdio.h>

#define NAME_MAX_BYTES 64 /* of a name that a client made up */

static void add(struct json_path *p, const char *bytes, size_t len)
{
	if (len > sizeof(p->text) - 1 - p->len)
		len = sizeof(p->text) - 1 - p->len;
	memcpy(p->text + p->len, bytes, len);
	p->len += len;
	p->text[p->len] = '\0';
}

/* A name from outside goes into a sentence that a terminal may show: plain ASCII, and cut. */
static void add_foreign(struct json_path *p, struct str name)
{
	char out[NAME_MAX_BYTES + 8];
	size_t n = 0;

	for (size_t i = 0; i < name.len; i++) {
		unsigned char c = (unsigned char)name.at[i];

		if (n > NAME_MAX_BYTES - 4) {
			n += (size_t)snprintf(out + n, sizeof(out) - n, "...");
			break;
		}
		if (c >= ' ' && c < 0x7f && c != '"' && c != '\\')
			out[n++] = (char)c;
		else
			n += (size_t)snprintf(out + n, sizeof(out) - n, "\\x%02x", c);
	}
	add(p, out, n);
}

void json_path_of(const struct json_reader *r, size_t depth, struct json_path *ret)
{
	ret->len = 0;
	ret->text[0] = '\0';
	for (size_t i = 0; i < depth; i++) {
		const struct json_level *l = &r->levels[i];
		size_t kept_end = i + 1 < r->depth ? r->levels[i + 1].kept_start : r->kept_len;
		char number[24];

		if (json_level_is_array(l)) {
			snprintf(number, sizeof(number), "[%u]", l->count - 1);
			add(ret, number, strlen(number));
			continue;
		}
		if (i > 0)
			add(ret, ".", 1);
		if (l->kind == JSON_LEVEL_OBJECT)
			add(ret, l->field->name, strlen(l->field->name));
		else
			add_foreign(ret, r->kept[kept_end - 1]);
	}
}

void json_path_of_key(const struct json_reader *r, struct str key, struct json_path *ret)
{
	json_path_of(r, r->depth - 1, ret);
	if (ret->len)
		add(ret, ".", 1);
	add_foreign(ret, key);
}
