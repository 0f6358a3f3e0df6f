/*
 * What a word of a usage line, such as FILE or ID:PATH, stands for: that is how the shell's
 * completion knows what could be typed in its place.
 */
#ifndef BERTH_CMD_VALUE_H
#define BERTH_CMD_VALUE_H

#include "base/str.h"

enum value_kind {
	VALUE_ANY, /* nobody can tell */
	VALUE_FILE,
	VALUE_DIR,
	VALUE_USER,
	VALUE_GROUP,
	VALUE_LEVEL,
	VALUE_WAY,      /* to sleep */
	VALUE_TYPE,     /* of an event */
	VALUE_LANGUAGE, /* of code */
	VALUE_STATUS,   /* of a run */
	VALUE_VERB,
	VALUE_ID,         /* of a sandbox */
	VALUE_PROCESS,    /* of a background process, in the sandbox that was named */
	VALUE_PORT,       /* an exposed one of that sandbox */
	VALUE_REMOTE,     /* a path in a sandbox, ID:PATH */
	VALUE_REMOTE_DIR, /* the same, or the ID alone */
	VALUE_EITHER,     /* a local path or one in a sandbox */
};

enum value_kind value_kind_of(struct str word);

#endif
