#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/berth/haul.h"
#include "cmd/berth/screen.h"

enum { FILES_ALL, FILES_RECURSIVE };

struct listing {
	struct haul *haul;
	struct remote remote;
	bool is_all, is_recursive;
	int owner_width, size_width; /* of what was shown so far: pages are not held back */
};

/* clang-format off */
static const struct {
	const char *type;
	char letter;
} letters[] = {
	{ "file", '-' },   { "directory", 'd' },   { "symlink", 'l' },      { "fifo", 'p' },
	{ "socket", 's' }, { "char_device", 'c' }, { "block_device", 'b' },
};
/* clang-format on */

/* "-rwxr-xr-x", with s and t as ls has them. */
static void format_mode(const struct file_info *info, char ret[11])
{
	unsigned mode = file_info_mode(info);
	static const unsigned special[] = {04000, 02000, 01000};

	ret[0] = '?';
	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++)
		if (str_eq(info->type, str_of(letters[i].type)))
			ret[0] = letters[i].letter;
	for (unsigned i = 0; i < 9; i++)
		ret[1 + i] = mode & (0400U >> i) ? "rwx"[i % 3] : '-';
	for (unsigned i = 0; i < 3; i++) {
		char *x = &ret[3 + 3 * i];

		if (mode & special[i])
			*x = *x == 'x' ? "sst"[i] : "SST"[i];
	}
	ret[10] = '\0';
}

static struct screen_text name_of(const struct listing *listing, const struct file_info *info)
{
	return listing->is_recursive ? remote_readable(info->path, info->path_base64)
				     : remote_readable(info->name, info->name_base64);
}

static enum tint tint_of(const struct file_info *info)
{
	return str_eq(info->type, STR("directory")) ? TINT_GOOD
	       : str_eq(info->type, STR("symlink")) ? TINT_WARN
						    : TINT_NONE;
}

static void print_entry(FILE *out, const struct listing *listing, const struct file_info *info)
{
	char mode[11], owner[48];
	const char *tint = screen_tint(stdout, tint_of(info));

	format_mode(info, mode);
	snprintf(owner, sizeof(owner), "%" PRIu64 ":%" PRIu64, info->uid, info->gid);
	fprintf(out, "%s  %-*s  %*" PRIu64 "  %-24.24s  %s%s%s", mode, listing->owner_width, owner,
		listing->size_width, info->size, screen_text(info->mtime).text, tint,
		name_of(listing, info).text, *tint ? screen_tint(stdout, TINT_NONE) : "");
	if (str_eq(info->type, STR("symlink")))
		fprintf(out, " -> %s", remote_readable(info->target, info->target_base64).text);
	fputc('\n', out);
}

static void widen(struct listing *listing, const struct file_info *info)
{
	int owner = snprintf(NULL, 0, "%" PRIu64 ":%" PRIu64, info->uid, info->gid);
	int size = snprintf(NULL, 0, "%" PRIu64, info->size);

	if (owner > listing->owner_width)
		listing->owner_width = owner;
	if (size > listing->size_width)
		listing->size_width = size;
}

/* Through memory: whoever reads it may sleep, and Ctrl-C is to be heard. */
static int print_entries(struct listing *listing, const struct file_info *infos, size_t count)
{
	cleanup_free char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	for (size_t i = 0; out && i < count; i++)
		widen(listing, &infos[i]);
	for (size_t i = 0; out && i < count; i++)
		print_entry(out, listing, &infos[i]);
	if (!out || fclose(out) != 0)
		return haul_fail(listing->haul, -ENOMEM, "out of memory");
	return haul_print(listing->haul, (struct str){text, len});
}

/* Makes the target of the first page, or of the one behind `cursor`. */
static int make_target(struct listing *listing, struct str cursor)
{
	struct buf *target = &listing->haul->target;
	int r = remote_target(&listing->remote, "dir", target);

	if (r == 0)
		r = buf_printf(target, "?recursive=%d&hidden=%d", listing->is_recursive,
			       listing->is_all);
	if (r == 0 && cursor.len)
		r = buf_printf(target, "&cursor=");
	if (r == 0)
		r = remote_encode(target, cursor);
	return r < 0 ? haul_fail(listing->haul, r, "the path is too long") : 0;
}

/* 1: there is another page, and its target is made. */
static int show_page(struct listing *listing)
{
	struct haul *haul = listing->haul;
	struct file_list list;
	struct arena arena;
	int r;

	arena_init(&arena, REMOTE_LIST_MAX);
	r = file_list_parse(&arena, &haul->answer, &list, &haul->err);
	if (r == 0)
		r = haul->globals->json
			    ? haul_print_answer(haul)
			    : print_entries(listing, list.entries.items, list.entries.len);
	if (r == 0 && list.cursor.len) {
		r = make_target(listing, list.cursor);
		r = r < 0 ? r : 1;
	}
	arena_close(&arena);
	return r;
}

static int show_directory(struct listing *listing)
{
	int r = make_target(listing, (struct str){NULL, 0});

	if (r < 0)
		return r;
	do {
		r = haul_ask(listing->haul, "GET");
		if (r == 0)
			r = show_page(listing);
	} while (r == 1);
	return r;
}

/* As ls does it: a file is shown itself. */
static int show(struct listing *listing)
{
	struct haul *haul = listing->haul;
	struct file_info info;
	struct arena arena;
	int r;

	arena_init(&arena, REMOTE_LIST_MAX);
	r = haul_stat(haul, &listing->remote, &arena, &info);
	if (r == 0 && str_eq(info.type, STR("directory"))) {
		r = show_directory(listing);
	} else if (r == 0) {
		r = haul->globals->json ? haul_print_answer(haul)
					: print_entries(listing, &info, 1);
	}
	arena_close(&arena);
	return r;
}

static int run(const struct call *call)
{
	struct listing listing = {.is_all = call->values[FILES_ALL],
				  .is_recursive = call->values[FILES_RECURSIVE]};
	struct haul haul;
	int code;

	if (call->arg_count == 0)
		return usage_error("of which sandbox? berth files ID[:PATH]");
	code = remote_parse(call->args[0], &listing.remote);
	if (code != EXIT_OK)
		return code;
	code = haul_init(&haul, call->globals);
	if (code != EXIT_OK)
		return code;
	listing.haul = &haul;
	code = haul_finish(&haul, show(&listing));
	haul_close(&haul);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[FILES_ALL]       = { "--all",       NULL, "names that begin with a dot too", "-a" },
	[FILES_RECURSIVE] = { "--recursive", NULL, "everything below it too, as paths", "-R" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth files box",                 "/workspace: mode, owner, size, time, name" },
	{ "berth files -a -R box:/etc",      "another directory, and all that is below it" },
	{ "berth files --json box | jq -r '.entries[].name'", "as the daemon sends it, page by page" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_files = {
	.name = "files",
	.summary = "list a directory of a sandbox",
	.arguments = "ID[:PATH]",
	.arg_max = 1,
	.description =
		"Lists a directory of a sandbox, /workspace by default, with permissions, owner\n"
		"and group, size, time of the last change, name and a link's target. What could\n"
		"steer a terminal is shown as `?`; --json tells names as they are.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
