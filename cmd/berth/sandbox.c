#include "cmd/berth/sandbox.h"

#include <errno.h>
#include <stdio.h>

#include "cmd/berth/screen.h"
#include "proto/sandbox_id.h"

/* clang-format off */
#define AT(member) offsetof(struct sandbox_info, member)

static const struct json_field limits_fields[] = {
	{ "memory",    JSON_SIZE,   AT(limits.memory)    - AT(limits) },
	{ "swap",      JSON_SIZE,   AT(limits.swap)      - AT(limits) },
	{ "cpus",      JSON_NUMBER, AT(limits.cpus)      - AT(limits) },
	{ "pids",      JSON_UINT,   AT(limits.pids)      - AT(limits) },
	{ "files",     JSON_UINT,   AT(limits.files)     - AT(limits) },
	{ "file_size", JSON_SIZE,   AT(limits.file_size) - AT(limits) },
	{ "memory_threshold", JSON_NUMBER, AT(limits.memory_threshold) - AT(limits) },
	{ "cpu_time_ms", JSON_UINT, AT(limits.cpu_time_ms) - AT(limits) },
	{ "disk",      JSON_SIZE,   AT(limits.disk)      - AT(limits) },
	{ "inodes",    JSON_UINT,   AT(limits.inodes)    - AT(limits) },
	{ "io_read",   JSON_SIZE,   AT(limits.io_read)   - AT(limits) },
	{ "io_write",  JSON_SIZE,   AT(limits.io_write)  - AT(limits) },
	{ "io_read_ops", JSON_UINT, AT(limits.io_read_ops) - AT(limits) },
	{ "io_write_ops", JSON_UINT, AT(limits.io_write_ops) - AT(limits) },
	{ "output_bytes", JSON_SIZE, AT(limits.output_bytes) - AT(limits) },
	{ "*",         JSON_IGNORED },
	{ NULL },
};

static const struct json_field network_fields[] = {
	{ "mode", JSON_STRING, 0 },
	{ "*",    JSON_IGNORED },
	{ NULL },
};

#define USAGE(member) (AT(usage.member) - AT(usage))

static const struct json_field usage_fields[] = {
	{ "at",                  JSON_STRING, USAGE(at) },
	{ "cpu_ms",              JSON_UINT, USAGE(cpu_ms), .given = USAGE(cpu_given) },
	{ "memory_bytes",        JSON_UINT, USAGE(memory_bytes), .given = USAGE(memory_given) },
	{ "memory_peak_bytes",   JSON_UINT, USAGE(memory_peak_bytes), .given = USAGE(peak_given) },
	{ "pids",                JSON_UINT, USAGE(pids), .given = USAGE(pids_given) },
	{ "disk_bytes",          JSON_UINT, USAGE(disk_bytes), .given = USAGE(disk_given) },
	{ "files",               JSON_UINT, USAGE(files) },
	{ "disk_at",             JSON_STRING, USAGE(disk_at) },
	{ "rx_bytes",            JSON_UINT, USAGE(rx_bytes) },
	{ "tx_bytes",            JSON_UINT, USAGE(tx_bytes) },
	{ "*",                 JSON_IGNORED },
	{ NULL },
};

static const struct json_field failure_fields[] = {
	{ "code",    JSON_STRING, AT(last_failure.code)    - AT(last_failure) },
	{ "message", JSON_STRING, AT(last_failure.message) - AT(last_failure) },
	{ "at",      JSON_STRING, AT(last_failure.at)      - AT(last_failure) },
	{ "*",       JSON_IGNORED },
	{ NULL },
};

static const struct json_field oom_fields[] = {
	{ "at",         JSON_STRING, AT(last_oom.at)         - AT(last_oom) },
	{ "kills",      JSON_UINT,   AT(last_oom.kills)      - AT(last_oom) },
	{ "generation", JSON_UINT,   AT(last_oom.generation) - AT(last_oom) },
	{ "*",          JSON_IGNORED },
	{ NULL },
};

#define HOLD(member)    offsetof(struct sandbox_hold, member)
#define RECEIPT(member) offsetof(struct sandbox_receipt, member)

static const struct json_field hold_fields[] = {
	{ "kind",   JSON_STRING, HOLD(kind) },
	{ "id",     JSON_STRING, HOLD(id) },
	{ "since",  JSON_STRING, HOLD(since) },
	{ "detail", JSON_STRING, HOLD(detail) },
	{ "*",      JSON_IGNORED },
	{ NULL },
};

static const struct json_field receipt_fields[] = {
	{ "mode",       JSON_STRING,  RECEIPT(mode) },
	{ "reason",     JSON_STRING,  RECEIPT(reason) },
	{ "from",       JSON_STRING,  RECEIPT(from) },
	{ "at",         JSON_STRING,  RECEIPT(at) },
	{ "generation", JSON_UINT,    RECEIPT(generation) },
	{ "kept",       JSON_STRINGS, RECEIPT(kept) },
	{ "*",          JSON_IGNORED },
	{ NULL },
};

#define PORT(member) offsetof(struct sandbox_port, member)

static const struct json_field port_fields[] = {
	{ "port",     JSON_UINT,   PORT(port), true },
	{ "url",      JSON_STRING, PORT(url) },
	{ "hostname", JSON_STRING, PORT(hostname) },
	{ "name",     JSON_STRING, PORT(name) },
	{ "public",   JSON_BOOL,   PORT(is_public) },
	{ "*",        JSON_IGNORED },
	{ NULL },
};

#define MOUNT(member) offsetof(struct sandbox_mount, member)

static const struct json_field mount_fields[] = {
	{ "type",      JSON_STRING, MOUNT(type), true },
	{ "source",    JSON_STRING, MOUNT(source) },
	{ "target",    JSON_STRING, MOUNT(target), true },
	{ "size",      JSON_SIZE,   MOUNT(size) },
	{ "read_only", JSON_BOOL,   MOUNT(is_read_only) },
	{ "*",         JSON_IGNORED },
	{ NULL },
};

static const struct json_field info_fields[] = {
	{ "id",             JSON_STRING, AT(id), true },
	{ "state",          JSON_STRING, AT(state) },
	{ "generation",     JSON_UINT,   AT(generation) },
	{ "image",          JSON_STRING, AT(image) },
	{ "created_at",     JSON_STRING, AT(created_at) },
	{ "started_at",     JSON_STRING, AT(started_at) },
	{ "last_active_at", JSON_STRING, AT(last_active_at) },
	{ "restart_needed", JSON_BOOL,   AT(restart_needed) },
	{ "trust",          JSON_STRING, AT(trust) },
	{ "read_only",      JSON_BOOL,   AT(is_read_only) },
	{ "ephemeral",      JSON_BOOL,   AT(is_ephemeral) },
	{ "sleep_after",    JSON_STRING, AT(sleep_after) },
	{ "max_awake",      JSON_STRING, AT(max_awake) },
	{ "stop_after",     JSON_STRING, AT(stop_after) },
	{ "delete_after",   JSON_STRING, AT(delete_after) },
	{ "stop_grace",     JSON_STRING, AT(stop_grace) },
	{ "sleep_mode",     JSON_STRING, AT(sleep_mode) },
	{ "keep_alive",     JSON_BOOL,   AT(keep_alive) },
	{ "hold_open_sockets", JSON_BOOL, AT(hold_open_sockets) },
	{ "holds",          JSON_OBJECTS, AT(holds), false, AT(holds_given), hold_fields,
	  sizeof(struct sandbox_hold) },
	{ "sleeps_at",      JSON_STRING, AT(sleeps_at) },
	{ "deletes_at",     JSON_STRING, AT(deletes_at) },
	{ "next_alarm_at",  JSON_STRING, AT(next_alarm_at) },
	{ "last_sleep",     JSON_OBJECT, AT(last_sleep),   .fields = receipt_fields },
	{ "last_wake",      JSON_OBJECT, AT(last_wake),    .fields = receipt_fields },
	{ "limits",         JSON_OBJECT, AT(limits),       .fields = limits_fields },
	{ "network",        JSON_OBJECT, AT(network),      .fields = network_fields },
	{ "labels",         JSON_MAP,    AT(labels) },
	{ "ports",          JSON_OBJECTS, AT(ports), .fields = port_fields, .size = sizeof(struct sandbox_port) },
	{ "mounts",         JSON_OBJECTS, AT(mounts), .fields = mount_fields, .size = sizeof(struct sandbox_mount) },
	{ "usage",          JSON_OBJECT, AT(usage), false, AT(usage_given), usage_fields },
	{ "last_oom",       JSON_OBJECT, AT(last_oom),     .fields = oom_fields },
	{ "last_failure",   JSON_OBJECT, AT(last_failure), .fields = failure_fields },
	{ "*",              JSON_IGNORED },
	{ NULL },
};

static const struct json_field list_fields[] = {
	{ "sandboxes", JSON_OBJECTS, offsetof(struct sandbox_list, sandboxes), true,
	  .fields = info_fields, .size = sizeof(struct sandbox_info) },
	{ "cursor",    JSON_STRING,  offsetof(struct sandbox_list, cursor) },
	{ "*",         JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

static int parse(struct arena *arena, const struct answer *answer, const struct json_field *fields,
		 void *ret, struct err *err)
{
	struct str text = {buf_at(&answer->body), buf_len(&answer->body)};
	int r = json_parse(arena, text, fields, ret, err);

	return r < 0 ? err_wrap(err, r, "the answer cannot be understood (is it berthd's?)") : 0;
}

int sandbox_parse(struct arena *arena, const struct answer *answer, struct sandbox_info *ret,
		  struct err *err)
{
	*ret = (struct sandbox_info){0};
	return parse(arena, answer, info_fields, ret, err);
}

int sandbox_port_parse(struct arena *arena, const struct answer *answer, struct sandbox_port *ret,
		       struct err *err)
{
	*ret = (struct sandbox_port){0};
	return parse(arena, answer, port_fields, ret, err);
}

int sandbox_receipt_parse(struct arena *arena, const struct answer *answer,
			  struct sandbox_receipt *ret, struct err *err)
{
	*ret = (struct sandbox_receipt){0};
	return parse(arena, answer, receipt_fields, ret, err);
}

bool sandbox_is_passing(const struct sandbox_info *info)
{
	struct sandbox_id id;

	if (sandbox_id_parse(info->id, &id) < 0 || !sandbox_id_is_of_run(&id))
		return false;
	for (size_t i = 0; i < info->labels.len; i++)
		if (str_eq(info->labels.items[i].key, STR(SANDBOX_LABEL_RUN)) ||
		    str_eq(info->labels.items[i].key, STR(SANDBOX_LABEL_POOL)))
			return true;
	return false;
}

static bool is_plain(struct str cursor)
{
	for (size_t i = 0; i < cursor.len; i++) {
		char c = cursor.at[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    c != '-' && c != '_' && c != '.' && c != '~')
			return false;
	}
	return cursor.len < SANDBOX_PATH_MAX / 2;
}

static int visit(const struct sandbox_visitor *visitor, const struct answer *answer,
		 const struct sandbox_list *list, struct err *err)
{
	const struct sandbox_info *infos = list->sandboxes.items;
	int r = visitor->page ? visitor->page(visitor->arg, answer) : 0;

	for (size_t i = 0; r == 0 && visitor->sandbox && i < list->sandboxes.len; i++)
		r = visitor->sandbox(visitor->arg, &infos[i]);
	return r < 0 ? err_set(err, r, ERR_INTERNAL, "%s", strerror(-r)) : 0;
}

/* `path` becomes that of the next page, or "". */
static int visit_page(const struct sandbox_visitor *visitor, const struct answer *answer,
		      char path[SANDBOX_PATH_MAX], struct err *err)
{
	struct sandbox_list list = {0};
	struct arena arena;
	int r;

	arena_init(&arena, SANDBOX_ARENA_MAX);
	r = parse(&arena, answer, list_fields, &list, err);
	/* It goes back into a path as it came. */
	if (r == 0 && !is_plain(list.cursor))
		r = err_set(err, -EPROTO, ERR_INTERNAL, "the answer has an odd cursor");
	if (r == 0)
		r = visit(visitor, answer, &list, err);
	path[0] = '\0';
	if (list.cursor.len)
		snprintf(path, SANDBOX_PATH_MAX, "/v1/sandbox?cursor=%.*s%s", STR_ARGS(list.cursor),
			 visitor->usage_wanted ? "&usage=1" : "");
	arena_close(&arena);
	return r;
}

int sandbox_each(const struct globals *globals, const struct sandbox_visitor *visitor,
		 struct answer *answer, struct err *err)
{
	char path[SANDBOX_PATH_MAX];
	struct client_request request = {.method = "GET",
					 .path = path,
					 .timeout_ms = (unsigned)globals->timeout_ms,
					 .stream = visitor->stream};
	int r = 0;

	snprintf(path, sizeof(path), "/v1/sandbox%s", visitor->usage_wanted ? "?usage=1" : "");
	while (r == 0 && *path) {
		buf_consume(&answer->body, buf_len(&answer->body));
		r = client_send(globals, &request, answer, err);
		if (r == 0)
			r = visit_page(visitor, answer, path, err);
	}
	return r;
}

int sandbox_path(const char *id, const char *suffix, char ret[SANDBOX_PATH_MAX], struct err *err)
{
	struct sandbox_id parsed;

	if (sandbox_id_parse(str_of(id), &parsed) < 0)
		return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "`%s` is no sandbox's ID: 1 to 63 letters, digits and hyphens, with "
			       "no hyphen at its ends",
			       screen_text(str_of(id)).text);
	snprintf(ret, SANDBOX_PATH_MAX, "/v1/sandbox/%s%s", parsed.text, suffix);
	return 0;
}

int sandbox_stop(const struct globals *globals, const char *id, struct answer *ret, struct err *err)
{
	char path[SANDBOX_PATH_MAX];
	struct client_request request = {.method = "POST",
					 .path = path,
					 .body = STR("{\"mode\":\"stop\"}"),
					 .timeout_ms = CLIENT_WAIT_MS};
	int r = sandbox_path(id, "/sleep", path, err);

	return r < 0 ? r : client_send(globals, &request, ret, err);
}

int sandbox_remove(const struct globals *globals, const char *id, struct answer *ret,
		   struct err *err)
{
	char path[SANDBOX_PATH_MAX];
	struct client_request request = {
		.method = "DELETE", .path = path, .timeout_ms = CLIENT_WAIT_MS};
	int r = sandbox_path(id, "", path, err);

	return r < 0 ? r : client_send(globals, &request, ret, err);
}

static int print_answer(const struct call *call, const char *typed, const struct answer *answer,
			int (*show)(const char *id, const struct answer *answer, struct err *err),
			struct err *err)
{
	struct sandbox_id id;
	/* As it is called, which may not be how it was typed. */
	const char *name = sandbox_id_parse(str_of(typed), &id) < 0 ? typed : id.text;

	if (call->globals->json && buf_len(&answer->body))
		printf("%.*s\n", (int)buf_len(&answer->body), buf_at(&answer->body));
	else if (!call->globals->json && show)
		return show(name, answer, err);
	else if (!call->globals->json)
		printf("%s\n", name);
	return 0;
}

int sandbox_for_all(const struct call *call, sandbox_act *act,
		    int (*show)(const char *id, const struct answer *answer, struct err *err))
{
	int code = EXIT_OK;

	if (call->arg_count == 0)
		return usage_error("which sandbox? `berth ls` lists them");
	for (size_t i = 0; i < call->arg_count; i++) {
		struct answer answer;
		struct err err;
		int r;

		answer_init(&answer);
		r = act(call->globals, call->args[i], &answer, &err);
		if (r == 0)
			r = print_answer(call, call->args[i], &answer, show, &err);
		if (r < 0)
			code = client_failed(call->globals, &answer, r, &err);
		answer_close(&answer);
		/* The others would fare no better. */
		if (code == EXIT_NO_DAEMON)
			break;
	}
	return code;
}
