#include "proto/pool_settings.h"

#include <errno.h>
#include <stddef.h>

#define AT(member) offsetof(struct pool_words, member)

/* clang-format off */
const struct json_field pool_fields[] = {
	{ "size",      JSON_UINT,    AT(size),      false, AT(size_given) },
	{ "languages", JSON_STRINGS, AT(languages), false, AT(languages_given) },
	{ NULL },
};
/* clang-format on */

void pool_settings_init(struct pool_settings *settings)
{
	*settings =
		(struct pool_settings){.languages = 1u << KERNEL_PYTHON | 1u << KERNEL_JAVASCRIPT};
}

int pool_settings_take(struct pool_settings *settings, const struct pool_words *words,
		       struct err *err)
{
	struct pool_settings taken = *settings;

	if (words->size_given && words->size > POOL_SIZE_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "size must be a number up to %d, or 0 for no pool", POOL_SIZE_MAX);
	if (words->size_given)
		taken.size = (unsigned)words->size;
	if (words->languages_given)
		taken.languages = 0;
	for (size_t i = 0; i < words->languages.len; i++) {
		int language = kernel_language_find(words->languages.items[i]);

		if (language < 0)
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
				       "languages[%zu] must be python, javascript, typescript or "
				       "bash",
				       i);
		taken.languages |= 1u << language;
	}
	*settings = taken;
	return 0;
}

unsigned pool_settings_most(const struct pool_settings *settings)
{
	return settings->size * (unsigned)__builtin_popcount(settings->languages);
}

void pool_settings_write(const struct pool_settings *settings, struct json_writer *w)
{
	json_object(w);
	json_key(w, "size");
	json_int(w, settings->size);
	json_key(w, "languages");
	json_array(w);
	for (unsigned i = 0; i < KERNEL_LANGUAGE_COUNT; i++) {
		if (settings->languages & 1u << i)
			json_text(w, kernel_language_name((enum kernel_language)i));
	}
	json_array_end(w);
	json_object_end(w);
}
