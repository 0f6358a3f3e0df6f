#include "cmd/berth/keyboard.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"

static int parse_key(struct str name, char *ret)
{
	static const char ctrl[] = "ctrl-";
	size_t len = strlen(ctrl);
	char c;

	if (name.len == 1) {
		*ret = name.at[0];
		return 0;
	}
	if (name.len != len + 1 || strncasecmp(name.at, ctrl, len) != 0)
		return -EINVAL;
	c = name.at[len];
	if (c >= 'a' && c <= 'z')
		c = (char)(c - 'a' + 'A');
	if (c < '@' || c > '_')
		return -EINVAL;
	*ret = (char)(c - '@');
	return 0;
}

int keyboard_init(struct keyboard *k, const char *keys)
{
	struct str rest = str_of(keys ? keys : KEYBOARD_USUAL);

	*k = (struct keyboard){.is_raw = false};
	while (rest.len) {
		struct str name = str_cut(&rest, ',');

		if (k->keys_len == KEYBOARD_KEYS_MAX || parse_key(name, &k->keys[k->keys_len]) < 0)
			return -EINVAL;
		k->keys_len++;
	}
	return 0;
}

static void write_screen(const char *text)
{
	/* If it takes nothing now, it is not worth to hang for. */
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		return;
}

/* At once, and not when all is shown: a screen that stands still would never let go. */
int keyboard_take(struct keyboard *k)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &k->before) < 0)
		return -errno;
	raw = k->before;
	cfmakeraw(&raw);
	if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) < 0)
		return -errno;
	k->is_raw = true;
	if (k->is_alternate)
		write_screen("\x1b[?1049h");
	return 0;
}

void keyboard_give_back(struct keyboard *k)
{
	if (!k->is_raw)
		return;
	k->is_raw = false;
	tcsetattr(STDIN_FILENO, TCSANOW, &k->before);
	/* Who is where it already is, would be moved by the first. */
	if (k->is_alternate)
		write_screen("\x1b[?1049l");
	/* The cursor, plain colours; no mouse, no marked pastes, usual keys. */
	if (k->is_styled)
		write_screen("\x1b[?25h\x1b[0m\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l"
			     "\x1b[?2004l\x1b[?1l\x1b>");
}

/* The longest beginning of the keys that what was matched and `c` end with. */
static size_t match(const struct keyboard *k, char c)
{
	char seen[KEYBOARD_KEYS_MAX + 1];
	size_t len = k->matched + 1, from = 0;

	memcpy(seen, k->keys, k->matched);
	seen[k->matched] = c;
	while (memcmp(seen + from, k->keys, len - from) != 0)
		from++;
	return len - from;
}

bool keyboard_filter(struct keyboard *k, struct str typed, char *ret, size_t *ret_len)
{
	size_t len = 0;

	for (size_t i = 0; i < typed.len; i++) {
		size_t matched = k->keys_len ? match(k, typed.at[i]) : 0;
		size_t passed = k->matched + 1 - matched;

		/* What was held back was meant for the program after all. */
		for (size_t n = 0; n < passed; n++)
			ret[len++] = n < k->matched ? k->keys[n] : typed.at[i];
		k->matched = matched;
		if (matched && matched == k->keys_len) {
			k->matched = 0;
			*ret_len = len;
			return true;
		}
	}
	*ret_len = len;
	return false;
}

static bool ends_with(const struct keyboard *k, const char *text)
{
	return memcmp(k->tail, text, sizeof(k->tail)) == 0;
}

void keyboard_watch(struct keyboard *k, struct str printed)
{
	for (size_t i = 0; i < printed.len; i++) {
		memmove(k->tail, k->tail + 1, sizeof(k->tail) - 1);
		k->tail[sizeof(k->tail) - 1] = printed.at[i];
		k->is_styled = k->is_styled || printed.at[i] == '\x1b';
		if (printed.at[i] == 'h' && ends_with(k, "\x1b[?1049h"))
			k->is_alternate = true;
		else if (printed.at[i] == 'l' && ends_with(k, "\x1b[?1049l"))
			k->is_alternate = false;
	}
}
