#include "proto/pool_settings.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "proto/settings.h"

#define AT(member) offsetof(struct pool_words, member)

/* clang-format off */
const struct json_field pool_fields[] = {
	{ "size",      JSON_UINT,    AT(size),      false, AT(size_given) },
	{ "languages", JSON_STRINGS, AT(languages), false, AT(languages_given) },
	{ "images",    JSON_STRINGS, AT(images),    false, AT(images_given) },
	{ NULL },
};
/* clang-format on */

void pool_settings_init(struct pool_settings *settings)
{
	*settings = (struct pool_settings){
		.languages = 1u << KERNEL_PYTHON | 1u << KERNEL_JAVASCRIPT,
		.images_len = 1,
		.images = {SETTINGS_IMAGE_HOST},
	};
}

static int take_images(struct pool_settings *settings, const struct json_strings *images,
		       struct err *err)
{
	_Static_assert(sizeof(settings->images[0]) == sizeof(((struct settings *)NULL)->image),
		       "all names fit");

	if (!images->len || images->len > POOL_IMAGES_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "images must be 1 to %d names",
			       POOL_IMAGES_MAX);
	for (size_t i = 0; i < images->len; i++) {
		struct str name = images->items[i];

		if (!settings_is_image(name))
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
				       "images[%zu] must be " SETTINGS_IMAGE_RULE, i);
		memcpy(settings->images[i], name.at, name.len);
		settings->images[i][name.len] = '\0';
		for (size_t k = 0; k < i; k++) {
			if (strcmp(settings->images[k], settings->images[i]) == 0)
				return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
					       "images[%zu] is there twice", i);
		}
	}
	settings->images_len = (unsigned)images->len;
	return 0;
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
	if (words->images_given && take_images(&taken, &words->images, err) < 0)
		return -EINVAL;
	*settings = taken;
	return 0;
}

unsigned pool_settings_most(const struct pool_settings *settings)
{
	return settings->size * settings->images_len *
	       (unsigned)__builtin_popcount(settings->languages);
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
	json_key(w, "images");
	json_array(w);
	for (unsigned i = 0; i < settings->images_len; i++)
		json_text(w, settings->images[i]);
	json_array_end(w);
	json_object_end(w);
}
