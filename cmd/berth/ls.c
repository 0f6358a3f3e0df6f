#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/berth/awake.h"
#include "cmd/berth/sandbox.h"
#include "cmd/berth/screen.h"

enum { LS_QUIET, LS_ALL };

/* A table's rows are kept until the widest of them is known. */
struct row {
	char id[64], state[16], activity[40], image[64], created_at[32];
	uint64_t generation;
};

struct table {
	struct row *rows;
	size_t len, size;
	int id_width, activity_width, image_width;
	int64_t now_ms;
	bool is_all;
};

static void copy(char *to, size_t size, struct str from)
{
	struct screen_text text = screen_text(from);
	size_t len = strnlen(text.text, size - 1);

	memcpy(to, text.text, len);
	to[len] = '\0';
}

static int wider(int width, const char *text)
{
	return (int)strlen(text) > width ? (int)strlen(text) : width;
}

static bool is_hidden(const struct table *table, const struct sandbox_info *info)
{
	return !table->is_all && sandbox_is_passing(info);
}

static int add_row(void *arg, const struct sandbox_info *info)
{
	struct table *table = arg;
	struct row *row;

	if (is_hidden(table, info))
		return 0;
	if (table->len == table->size) {
		size_t size = table->size ? 2 * table->size : 64;
		struct row *rows = reallocarray(table->rows, size, sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		table->rows = rows;
		table->size = size;
	}
	row = &table->rows[table->len++];
	copy(row->id, sizeof(row->id), info->id);
	copy(row->state, sizeof(row->state), info->state);
	copy(row->activity, sizeof(row->activity),
	     str_of(awake_in_short(info, table->now_ms).text));
	copy(row->image, sizeof(row->image), info->image);
	copy(row->created_at, sizeof(row->created_at), info->created_at);
	row->generation = info->generation;
	table->id_width = wider(table->id_width, row->id);
	table->activity_width = wider(table->activity_width, row->activity);
	table->image_width = wider(table->image_width, row->image);
	return 0;
}

static enum tint state_tint(const char *state)
{
	if (strcmp(state, "running") == 0)
		return TINT_GOOD;
	if (strcmp(state, "failed") == 0)
		return TINT_BAD;
	return strcmp(state, "cold") == 0 ? TINT_DIM : TINT_WARN;
}

static void print_table(const struct table *table)
{
	printf("%s%-*s  %-10s  %-*s  %10s  %-*s  %s%s\n", screen_tint(stdout, TINT_DIM),
	       table->id_width, "ID", "STATE", table->activity_width, "ACTIVITY", "GENERATION",
	       table->image_width, "IMAGE", "CREATED", screen_tint(stdout, TINT_NONE));
	for (size_t i = 0; i < table->len; i++) {
		const struct row *row = &table->rows[i];

		printf("%-*s  %s%-10s%s  %-*s  %10" PRIu64 "  %-*s  %s\n", table->id_width, row->id,
		       screen_tint(stdout, state_tint(row->state)), row->state,
		       screen_tint(stdout, TINT_NONE), table->activity_width, row->activity,
		       row->generation, table->image_width, row->image, row->created_at);
	}
}

static int print_id(void *arg, const struct sandbox_info *info)
{
	if (!is_hidden(arg, info))
		printf("%s\n", screen_text(info->id).text);
	return 0;
}

static int print_page(void *arg, const struct answer *answer)
{
	printf("%.*s\n", (int)buf_len(&answer->body), buf_at(&answer->body));
	return 0;
}

static int list(const struct call *call, struct answer *answer, struct err *err)
{
	struct table table = {
		.id_width = sizeof("ID") - 1,
		.activity_width = sizeof("ACTIVITY") - 1,
		.image_width = sizeof("IMAGE") - 1,
		.now_ms = awake_now_ms(),
		.is_all = call->values[LS_ALL],
	};
	struct sandbox_visitor visitor = {.sandbox = add_row, .arg = &table};
	int r;

	if (call->globals->json)
		visitor = (struct sandbox_visitor){.page = print_page};
	else if (call->values[LS_QUIET])
		visitor = (struct sandbox_visitor){.sandbox = print_id, .arg = &table};
	r = sandbox_each(call->globals, &visitor, answer, err);
	if (r == 0 && visitor.sandbox == add_row)
		print_table(&table);
	free(table.rows);
	return r;
}

static int run(const struct call *call)
{
	struct answer answer;
	int code = EXIT_OK, r;
	struct err err;

	answer_init(&answer);
	r = list(call, &answer, &err);
	if (r < 0)
		code = client_failed(call->globals, &answer, r, &err);
	answer_close(&answer);
	return code;
}

/* clang-format off */
static const struct flag flags[] = {
	[LS_QUIET] = { "--quiet", NULL, "only the IDs", "-q" },
	[LS_ALL]   = { "--all",   NULL, "also those of runs and of the pool, as --json", "-a" },
	{ NULL },
};

static const struct example examples[] = {
	{ "berth ls",                                   "as a table" },
	{ "berth ls --json | jq -r '.sandboxes[].id'",  "as the daemon sends it, page by page" },
	{ "berth rm $(berth ls -q)",                    "remove them all, but for those of runs" },
	{ NULL },
};
/* clang-format on */

const struct verb verb_ls = {
	.name = "ls",
	.summary = "list the sandboxes",
	.arguments = "",
	.description =
		"Lists sandboxes, also those that do not run, and says what keeps them awake or\n"
		"when they go to sleep. Those that berthd makes for runs and keeps in its pool,\n"
		"which have the label `berth.run` or `berth.pool`, are shown with --all.\n"
		"Looking wakes none, and keeps none awake.",
	.flags = flags,
	.examples = examples,
	.run = run,
};
