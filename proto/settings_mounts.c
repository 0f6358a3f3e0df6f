#include "proto/settings_mounts.h"

#include <errno.h>
#include <inttypes.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "proto/mounts.h"

/* clang-format off */
#define AT(member) offsetof(struct settings_mount, member)

const struct json_field settings_mount_fields[] = {
	{ "type",      JSON_STRING, AT(type),   true },
	{ "source",    JSON_STRING, AT(source), false, AT(source_given) },
	{ "target",    JSON_STRING, AT(target), true },
	{ "read_only", JSON_BOOL,   AT(is_read_only) },
	{ "size",      JSON_SIZE,   AT(size),   false, AT(size_given) },
	{ NULL },
};
/* clang-format on */

__attribute__((format(printf, 3, 4))) static int refuse(struct err *err, size_t which,
							const char *format, ...)
{
	char sentence[256];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "mounts[%zu]%s", which, sentence);
}

/* What belongs to its type, and nothing of the other's. */
static int check_type(const struct settings_mount *m, size_t which, struct err *err)
{
	if (str_eq(m->type, STR("bind"))) {
		if (!m->source_given)
			return refuse(err, which, ".source must say which folder of the host");
		if (m->size_given)
			return refuse(err, which, ".size is for \"tmpfs\" alone");
		return 0;
	}
	if (!str_eq(m->type, STR("tmpfs")))
		return refuse(err, which, ".type must be \"bind\" or \"tmpfs\"");
	if (m->source_given)
		return refuse(err, which, ".source is for \"bind\" alone");
	if (!m->size_given || m->size < MOUNTS_SIZE_MIN || m->size > MOUNTS_SIZE_MAX)
		return refuse(err, which, ".size must be given, from 64K to 1024T");
	return 0;
}

static int add(struct buf *list, struct str text)
{
	int r = buf_append(list, text.at, text.len);

	return r < 0 ? r : buf_append(list, "", 1);
}

static int add_mount(struct buf *list, const struct settings_mount *m)
{
	char size[MOUNTS_SIZE_TEXT];
	int r = add(list, m->type);

	snprintf(size, sizeof(size), "%" PRIu64, m->size);
	if (r == 0)
		r = add(list, m->is_read_only ? STR("ro") : STR("rw"));
	if (r == 0)
		r = add(list, m->source_given ? m->source : str_of(size));
	return r < 0 ? r : add(list, m->target);
}

/* Which path of it, if one is at fault, is looked for only now. */
static int explain(const struct json_objects *mounts, int error, unsigned which, struct err *err)
{
	const struct settings_mount *m = &((const struct settings_mount *)mounts->items)[which];
	bool is_source = m->source_given && !mounts_is_path(m->source);

	switch (error) {
	case -EINVAL:
		return refuse(err, which,
			      ".%s must be an absolute path of at most %d bytes, without \".\", "
			      "\"..\", \"//\", a slash at its end, control characters or a name "
			      "of more than %d bytes",
			      is_source ? "source" : "target", MOUNTS_PATH_MAX, MOUNTS_NAME_MAX);
	case -EPERM:
		return refuse(err, which,
			      ".target: nothing can be mounted on \"/\", or in /proc, /sys, "
			      "/dev, /run, /usr and what belongs to it (/bin, /lib, ...)");
	case -EEXIST:
		return refuse(err, which,
			      ".target is the same as that of another, or in it, or "
			      "around it");
	default:
		return err_set(err, error, ERR_INVALID_REQUEST,
			       "mounts: at most %d, and %d bytes of paths", MOUNTS_MAX,
			       MOUNTS_LIST_MAX);
	}
}

int settings_mounts_take(const struct json_objects *mounts, struct str *ret, struct err *err)
{
	const struct settings_mount *items = mounts->items;
	cleanup(buf_close) struct buf list;
	unsigned which = 0;
	char *bytes;
	int r = 0;

	*ret = (struct str){NULL, 0};
	buf_init(&list, MOUNTS_LIST_MAX); /* which is closed on every way out */
	if (mounts->len > MOUNTS_MAX)
		return explain(mounts, -E2BIG, 0, err);
	for (size_t i = 0; i < mounts->len; i++) {
		r = check_type(&items[i], i, err);
		if (r < 0)
			return r;
		r = add_mount(&list, &items[i]);
		if (r < 0)
			return explain(mounts, -E2BIG, 0, err);
	}
	r = mounts_check((struct str){buf_at(&list), buf_len(&list)}, &which);
	if (r < 0)
		return explain(mounts, r, which, err);
	if (!buf_len(&list))
		return 0;
	bytes = malloc(buf_len(&list));
	if (!bytes)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	memcpy(bytes, buf_at(&list), buf_len(&list));
	*ret = (struct str){bytes, buf_len(&list)};
	return 0;
}

void settings_mounts_write(struct str list, struct json_writer *w)
{
	struct mount_item item;

	json_key(w, "mounts");
	json_array(w);
	while (mounts_next(&list, &item) > 0) {
		json_object(w);
		json_key(w, "type");
		json_text(w, item.kind == MOUNT_BIND ? "bind" : "tmpfs");
		if (item.kind == MOUNT_BIND) {
			json_key(w, "source");
			json_text(w, item.source);
		} else {
			json_key(w, "size");
			json_int(w, (int64_t)item.size);
		}
		json_key(w, "target");
		json_text(w, item.target);
		json_key(w, "read_only");
		json_bool(w, item.is_read_only);
		json_object_end(w);
	}
	json_array_end(w);
}
