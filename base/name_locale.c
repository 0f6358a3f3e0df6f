#include "base/name_locale.h"

#include <pthread.h>

static locale_t plain, utf8;

static void make(void)
{
	plain = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
	utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

locale_t name_locale_use(bool is_utf8)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT; /* archives are read on many threads */
	locale_t locale;

	pthread_once(&once, make);
	locale = is_utf8 ? utf8 : plain;
	return uselocale(locale ? locale : LC_GLOBAL_LOCALE);
}

void name_locale_restorep(locale_t *before)
{
	uselocale(*before);
}
