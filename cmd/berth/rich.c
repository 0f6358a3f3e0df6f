#include "cmd/berth/rich.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/berth/command.h"
#include "cmd/berth/plain.h"
#include "cmd/berth/screen.h"
#include "proto/base64.h"
#include "proto/json.h"

#define PICTURE_MAX (32 * 1024 * 1024)
#define KITTY_CHUNK 4096 /* of base64, as its protocol wants it */
#define NAMES_MAX   10000
/* Of one call, where nobody has said that there shall be any. */
#define UNASKED_FILES_MAX 50
#define UNASKED_BYTES_MAX (256 * 1024 * 1024)

/* clang-format off */
#define AT(member) offsetof(struct rich, member)

const struct json_field rich_fields[] = {
	{ "text",     JSON_BYTES, AT(text) },
	{ "html",     JSON_BYTES, AT(html) },
	{ "markdown", JSON_BYTES, AT(markdown) },
	{ "svg",      JSON_BYTES, AT(svg) },
	{ "latex",    JSON_BYTES, AT(latex) },
	{ "png",      JSON_BYTES, AT(png) },
	{ "jpeg",     JSON_BYTES, AT(jpeg) },
	{ "json",     JSON_RAW,   AT(json) },
	{ "chart",    JSON_RAW,   AT(chart) },
	{ "*",        JSON_IGNORED },
	{ NULL },
};

/* What can be a file. */
static const struct form {
	const char *ending;
	size_t offset;
	bool is_base64;
	bool is_picture; /* a file also if no folder for files was given */
} forms[] = {
	{ "png",        AT(png),   true,  true },
	{ "jpeg",       AT(jpeg),  true,  true },
	{ "svg",        AT(svg),   false, true },
	{ "html",       AT(html),  false, false },
	{ "chart.json", AT(chart), false, false },
	{ "json",       AT(json),  false, false },
};
/* clang-format on */

/* --- on a terminal --- */

static bool is_word(const char *variable, const char *word)
{
	const char *value = getenv(variable);

	return value && strcmp(value, word) == 0;
}

enum rich_terminal rich_terminal(void)
{
	const char *term = getenv("TERM"), *kitty = getenv("KITTY_WINDOW_ID");

	if (!isatty(STDOUT_FILENO) || !term || strcmp(term, "dumb") == 0)
		return RICH_NONE;
	/* What stands between us and the terminal then keeps such things to itself. */
	if (strncmp(term, "screen", 6) == 0 || strncmp(term, "tmux", 4) == 0)
		return RICH_NONE;
	if (strcmp(term, "xterm-kitty") == 0 || strcmp(term, "xterm-ghostty") == 0 ||
	    is_word("TERM_PROGRAM", "ghostty") || (kitty && *kitty))
		return RICH_KITTY;
	if (is_word("TERM_PROGRAM", "iTerm.app") || is_word("TERM_PROGRAM", "WezTerm") ||
	    is_word("LC_TERMINAL", "iTerm2"))
		return RICH_ITERM;
	return RICH_NONE;
}

/* In pieces; each but the last says that more follow. */
static int put_kitty(struct buf *out, struct str base64)
{
	bool is_first = true;
	int r = 0;

	while (r == 0 && base64.len) {
		size_t len = base64.len < KITTY_CHUNK ? base64.len : KITTY_CHUNK;

		r = buf_printf(out, "\033_G%sm=%d;%.*s\033\\", is_first ? "a=T,f=100," : "",
			       len < base64.len, (int)len, base64.at);
		base64.at += len;
		base64.len -= len;
		is_first = false;
	}
	return r;
}

static int put_iterm(struct buf *out, struct str base64, size_t size)
{
	int r = buf_printf(out, "\033]1337;File=inline=1;size=%zu:", size);

	if (r == 0)
		r = buf_append_str(out, base64);
	return r < 0 ? r : buf_append(out, "\a", 1);
}

static int show_inline(const struct rich_place *place, struct str base64, size_t size)
{
	cleanup(buf_close) struct buf out;
	int r;

	buf_init(&out, 2 * PICTURE_MAX);
	r = place->terminal == RICH_KITTY ? put_kitty(&out, base64) : put_iterm(&out, base64, size);
	if (r == 0)
		r = buf_append(&out, "\n", 1);
	if (r < 0)
		return r;
	return command_pass_on(place->interrupt_fd, STDOUT_FILENO, buf_at(&out), buf_len(&out));
}

/* --- as files --- */

static int failed(const char *what, const char *path, int error)
{
	screen_error("cannot %s %s: %s", what, screen_text(str_of(path)).text, strerror(error));
	return -EIO;
}

/* What is there stays: the first name that is free is taken. */
static int open_new(const char *dir, const char *ending, char ret[PATH_MAX])
{
	for (int i = 1; i <= NAMES_MAX; i++) {
		int fd;

		if (snprintf(ret, PATH_MAX, "%s/result-%d.%s", dir, i, ending) >= PATH_MAX)
			return failed("save in", dir, ENAMETOOLONG);
		fd = open(ret, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0)
			return fd;
		if (errno != EEXIST)
			return failed("save", ret, errno);
	}
	return failed("save in", dir, EEXIST);
}

/* A loop that shows pictures shall not fill the disk of whoever runs it. */
static bool has_room(struct rich_place *place, size_t len)
{
	if (place->save)
		return true;
	if (!place->is_full && place->files < UNASKED_FILES_MAX &&
	    len <= UNASKED_BYTES_MAX - place->bytes) {
		place->files++;
		place->bytes += len;
		return true;
	}
	if (!place->is_full)
		screen_error("no more pictures of this call are saved: %d files, or %d MiB, are "
			     "the most without --save",
			     UNASKED_FILES_MAX, UNASKED_BYTES_MAX / 1024 / 1024);
	place->is_full = true;
	return false;
}

/* 1: there is no room for it. */
static int save(struct rich_place *place, const char *ending, struct str bytes)
{
	const char *dir = place->save ? place->save : ".";
	char path[PATH_MAX];
	cleanup_fd int fd = -1;

	if (!has_room(place, bytes.len))
		return 1;
	if (place->save && mkdir(dir, 0777) < 0 && errno != EEXIST)
		return failed("make", dir, errno);
	fd = open_new(dir, ending, path);
	if (fd < 0)
		return fd;
	while (bytes.len) {
		ssize_t n = write(fd, bytes.at, bytes.len);

		if (n < 0 && errno != EINTR)
			return failed("write", path, errno);
		bytes.at += n > 0 ? n : 0;
		bytes.len -= n > 0 ? (size_t)n : 0;
	}
	fprintf(stderr, "saved %s\n", screen_text(str_of(path)).text);
	return 0;
}

/* A terminal is given what claims to be a PNG only, or what iTerm2 takes, too. */
static bool is_shown(const struct rich_place *place, const struct form *form)
{
	if (place->save || !form->is_base64)
		return false;
	return place->terminal == RICH_ITERM ||
	       (place->terminal == RICH_KITTY && strcmp(form->ending, "png") == 0);
}

/* 1: it is none, or can be shown nowhere. */
static int show_form(struct rich_place *place, const struct form *form, struct str value)
{
	cleanup_free char *room = NULL;
	struct str bytes = value;

	if (form->is_base64) {
		room = malloc(BASE64_DECODE_ROOM(value.len));
		if (!room)
			return -ENOMEM;
		/* Nothing that is no base64 gets to the terminal either. */
		if (base64_decode(value, room, &bytes.len) < 0) {
			screen_error("a picture was told as what is no base64");
			return 1;
		}
		bytes.at = room;
	}
	if (is_shown(place, form))
		return show_inline(place, value, bytes.len);
	return save(place, form->ending, bytes);
}

/* What stands for it where there is no picture. */
static struct str text_of(const struct rich *rich)
{
	const struct str texts[] = {rich->text, rich->markdown, rich->latex, rich->json,
				    rich->html};

	for (size_t i = 0; i < array_len(texts); i++)
		if (texts[i].len)
			return texts[i];
	return STR("");
}

int rich_show(struct rich_place *place, const struct rich *rich)
{
	struct str text = text_of(rich);
	bool has_picture = false;
	int r = 0;

	for (size_t i = 0; r == 0 && i < array_len(forms); i++) {
		const struct str *value =
			(const struct str *)((const char *)rich + forms[i].offset);
		/* One picture is enough, unless all are wanted. */
		bool is_wanted = place->save || (forms[i].is_picture && !has_picture);

		if (!value->len || !is_wanted)
			continue;
		r = show_form(place, &forms[i], *value);
		has_picture = has_picture || (r == 0 && forms[i].is_picture);
		r = r > 0 ? 0 : r;
	}
	if (r == 0 && text.len && !has_picture)
		r = plain_print(place->interrupt_fd, STDOUT_FILENO, text);
	return r;
}
