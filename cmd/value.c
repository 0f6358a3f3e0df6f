#include "cmd/value.h"

#include "base/cleanup.h"

/* clang-format off */
static const struct {
	const char *word;
	enum value_kind kind;
} words[] = {
	{ "FILE",      VALUE_FILE },
	{ "PATH",      VALUE_FILE },
	{ "DIR",       VALUE_DIR },
	{ "USER",      VALUE_USER },
	{ "GROUP",     VALUE_GROUP },
	{ "LEVEL",     VALUE_LEVEL },
	{ "WAY",       VALUE_WAY },
	{ "TYPE",      VALUE_TYPE },
	{ "LANGUAGE",  VALUE_LANGUAGE },
	{ "STATUS",    VALUE_STATUS },
	{ "VERB",      VALUE_VERB },
	{ "ID",        VALUE_ID },
	{ "PROCESS",   VALUE_PROCESS },
	{ "PORT",      VALUE_PORT },
	{ "ID:PATH",   VALUE_REMOTE },
	{ "ID[:PATH]", VALUE_REMOTE_DIR },
	{ "SRC",       VALUE_EITHER },
	{ "DST",       VALUE_EITHER },
};
/* clang-format on */

enum value_kind value_kind_of(struct str word)
{
	for (size_t i = 0; i < array_len(words); i++)
		if (str_eq(word, str_of(words[i].word)))
			return words[i].kind;
	return VALUE_ANY;
}
