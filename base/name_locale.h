/*
 * libarchive looks at the locale to know what names are, and our programs have none. To write names
 * it must take them for UTF-8; what is not goes out as bytes. To read them it must not, or it
 * composes them anew (NFC), and two may become one: in the plain locale it gives up, and keeps the
 * bytes.
 */
#ifndef BERTH_BASE_NAME_LOCALE_H
#define BERTH_BASE_NAME_LOCALE_H

#include <locale.h>
#include <stdbool.h>

#include "base/cleanup.h"

/* Of the calling thread; returns what it had. */
locale_t name_locale_use(bool is_utf8);
void name_locale_restorep(locale_t *before);

/* Until the end of the scope. */
#define with_name_locale(is_utf8)                                                                  \
	cleanup(name_locale_restorep) __attribute__((unused)) locale_t before =                    \
		name_locale_use(is_utf8)

#endif
