#include "container/cgroup_pass.h"

#include <stdio.h>

#include "base/str.h"
#include "container/dir.h"

static bool passes_down(int dir, const char *name)
{
	char text[1024];
	ssize_t len = dir_read(dir, "cgroup.subtree_control", text, sizeof(text));
	struct str words = {text, len > 0 ? (size_t)len : 0};

	while (words.len) {
		struct str word = str_cut(&words, ' ');

		if (word.len && word.at[word.len - 1] == '\n')
			word.len--;
		if (str_eq(word, str_of(name)))
			return true;
	}
	return false;
}

bool cgroup_pass_down(int dir, const char *name)
{
	char word[32];

	snprintf(word, sizeof(word), "+%s", name);
	dir_write(dir, "cgroup.subtree_control", word);
	return passes_down(dir, name);
}
