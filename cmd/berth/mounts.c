#include "cmd/berth/mounts.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/berth/screen.h"

/* As it was given. What is empty was not. */
struct mount_words {
	struct str type, source, target, size;
	bool is_read_only;
};

static bool is_switch(struct str key)
{
	return str_eq(key, STR("ro")) || str_eq(key, STR("readonly")) ||
	       str_eq(key, STR("read_only"));
}

static struct str *find_word(struct mount_words *words, struct str key)
{
	if (str_eq(key, STR("type")))
		return &words->type;
	if (str_eq(key, STR("source")) || str_eq(key, STR("src")))
		return &words->source;
	if (str_eq(key, STR("target")) || str_eq(key, STR("dst")))
		return &words->target;
	return str_eq(key, STR("size")) ? &words->size : NULL;
}

/* "key=value", or a switch. */
static int read_word(struct str key, struct mount_words *ret, struct err *err)
{
	const char *equals = key.len ? memchr(key.at, '=', key.len) : NULL;
	struct str value = {"", 0}, *word;

	if (equals) {
		value = (struct str){equals + 1, (size_t)(key.at + key.len - equals) - 1};
		key.len = (size_t)(equals - key.at);
	}
	word = find_word(ret, key);
	if (is_switch(key) && (!value.len || str_eq(value, STR("true"))))
		ret->is_read_only = true;
	else if (word && value.len)
		*word = value;
	else
		return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "--mount wants type=bind,source=DIR,target=DIR[,ro] or "
			       "type=tmpfs,target=DIR,size=SIZE, and does not know \"%s\"",
			       screen_text(key).text);
	return 0;
}

static int read_mount(const char *text, struct mount_words *ret, struct err *err)
{
	int r = 0;

	while (*text && r == 0) {
		size_t len = strcspn(text, ",");

		r = read_word((struct str){text, len}, ret, err);
		text += len + (text[len] == ',');
	}
	if (r == 0 && (!ret->type.len || !ret->target.len))
		r = err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			    "--mount wants a type (bind or tmpfs) and a target");
	return r;
}

static int read_volume(const char *text, struct mount_words *ret, struct err *err)
{
	struct str rest = str_of(text), way;
	size_t len = strlen(text);

	ret->type = STR("bind");
	ret->source = str_cut(&rest, ':');
	ret->target = str_cut(&rest, ':');
	way = rest;
	ret->is_read_only = str_eq(way, STR("ro"));
	if (!ret->source.len || !ret->target.len || text[len - 1] == ':' ||
	    (way.len && !ret->is_read_only && !str_eq(way, STR("rw"))))
		return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "--volume wants SRC:DST or SRC:DST:ro, not \"%s\"",
			       screen_text(str_of(text)).text);
	return 0;
}

static int read_tmpfs(const char *text, struct mount_words *ret, struct err *err)
{
	struct str rest = str_of(text);

	ret->type = STR("tmpfs");
	ret->target = str_cut(&rest, ':');
	ret->size = rest;
	if (!ret->target.len || !ret->size.len)
		return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "--tmpfs wants DST:SIZE, such as /scratch:256M, not \"%s\"",
			       screen_text(str_of(text)).text);
	return 0;
}

static struct str without_slashes(struct str path)
{
	while (path.len > 1 && path.at[path.len - 1] == '/')
		path.len--;
	return path;
}

/* The daemon has another current directory. */
static int write_source(struct json_writer *w, struct str source, struct err *err)
{
	char path[PATH_MAX], whole[PATH_MAX];

	json_key(w, "source");
	if (source.at[0] == '/') {
		json_str(w, without_slashes(source));
		return 0;
	}
	snprintf(path, sizeof(path), "%.*s", STR_ARGS(source));
	if (!realpath(path, whole))
		return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST, "%s cannot be mounted: %m",
			       screen_text(source).text);
	json_text(w, whole);
	return 0;
}

static int write_mount(struct json_writer *w, const struct mount_words *words, struct err *err)
{
	int r = 0;

	json_object(w);
	json_key(w, "type");
	json_str(w, words->type);
	if (words->source.len)
		r = write_source(w, words->source, err);
	json_key(w, "target");
	json_str(w, without_slashes(words->target));
	if (words->size.len) {
		json_key(w, "size");
		json_str(w, words->size);
	}
	if (words->is_read_only) {
		json_key(w, "read_only");
		json_bool(w, true);
	}
	json_object_end(w);
	return r;
}

int mounts_write(const struct mounts_flags *flags, struct json_writer *w, struct err *err)
{
	const struct call *call = flags->call;
	bool has_begun = false;
	int r = 0;

	for (size_t i = 0; i < call->given_count && r == 0; i++) {
		const struct given *given = &call->given[i];
		struct mount_words words = {.is_read_only = false};

		if (given->flag == flags->mount)
			r = read_mount(given->value, &words, err);
		else if (given->flag == flags->volume)
			r = read_volume(given->value, &words, err);
		else if (given->flag == flags->tmpfs)
			r = read_tmpfs(given->value, &words, err);
		else
			continue;
		if (!has_begun) {
			json_key(w, "mounts");
			json_array(w);
			has_begun = true;
		}
		if (r == 0)
			r = write_mount(w, &words, err);
	}
	if (has_begun)
		json_array_end(w);
	return r;
}
