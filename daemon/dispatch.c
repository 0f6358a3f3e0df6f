/* Which handler a request is for, and whether it may have it. */
#include <errno.h>

#include "base/arena.h"
#include "daemon/conn.h"
#include "proto/json.h"
#include "proto/uri.h"

#define METHODS_LEN 7

/* clang-format off */
static const char *const method_names[METHODS_LEN] = {
	"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS",
};
/* clang-format on */

static bool takes_method(const struct route *route, enum http_method method)
{
	return route->method == method ||
	       (route->method == HTTP_METHOD_GET && method == HTTP_METHOD_HEAD);
}

/* Sets x->route; else says in `allowed` which methods the path takes (bits, 0: no such path). */
static void find_route(struct exchange *x, unsigned *allowed)
{
	const struct route *route = server_config(x->conn->server)->routes;

	*allowed = 0;
	x->route = server_config(x->conn->server)->any;
	if (x->route)
		return;
	for (; route->pattern; route++) {
		if (!route_matches(route->pattern, x->head->path, &x->captures))
			continue;
		if (takes_method(route, x->head->method)) {
			x->route = route;
			return;
		}
		*allowed |= 1u << route->method;
		if (route->method == HTTP_METHOD_GET)
			*allowed |= 1u << HTTP_METHOD_HEAD;
	}
}

/* A browser's WebSocket can set no header; what it can is its query. */
static const struct str *find_authorization(struct exchange *x, struct str *room)
{
	const struct str *value = http_header_find(x->head, STR("authorization"));
	const struct str *upgrade = http_header_find(x->head, STR("upgrade"));

	if (value || !upgrade || !str_eq_nocase(*upgrade, STR("websocket")))
		return value;
	return uri_query(exchange_arena(x), x->head->query, STR("authorization"), room) > 0 ? room
											    : NULL;
}

static bool is_authorized(struct exchange *x)
{
	const struct server_config *config = server_config(x->conn->server);
	struct str token, room;
	const struct str *value = find_authorization(x, &room);

	if (x->conn->admission != ADMIT_TOKEN || (x->route && x->route->is_open))
		return true;
	if (!value || value->len < 7 || !str_eq_nocase((struct str){value->at, 7}, STR("Bearer ")))
		return false;
	token = (struct str){value->at + 7, value->len - 7};
	while (token.len && *token.at == ' ')
		token = (struct str){token.at + 1, token.len - 1};
	if (!config->authorize(config->arg, token))
		return false;
	x->conn->is_known = true;
	return true;
}

static int refuse_method(struct exchange *x, unsigned allowed, struct err *err)
{
	struct buf list;
	char *value;

	buf_init(&list, 256);
	for (unsigned i = 0; i < METHODS_LEN; i++) {
		if (allowed & 1u << i)
			buf_printf(&list, "%s%s", buf_len(&list) ? ", " : "", method_names[i]);
	}
	value = arena_strndup(&x->arena, buf_at(&list), buf_len(&list));
	buf_close(&list);
	if (!value)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	exchange_header(x, "Allow", value);
	return err_set(err, -EOPNOTSUPP, ERR_METHOD_NOT_ALLOWED,
		       "this path does not take %.*s; it takes %s", STR_ARGS(x->head->method_name),
		       value);
}

static int check_body(const struct exchange *x, struct err *err)
{
	const struct route *route = x->route;

	if (x->body_complete)
		return 0;
	if (route->body == BODY_NONE)
		return err_set(err, -EFBIG, ERR_PAYLOAD_TOO_LARGE, "this route takes no body");
	if (route->body_max && x->head->framing == HTTP_SIZED &&
	    x->head->content_length > route->body_max)
		return err_set(err, -EFBIG, ERR_PAYLOAD_TOO_LARGE,
			       "the body is larger than this route takes (%zu bytes)",
			       route->body_max);
	return 0;
}

int dispatch_check(struct exchange *x, struct err *err)
{
	unsigned allowed;

	find_route(x, &allowed);
	if (!is_authorized(x)) {
		exchange_header(x, "WWW-Authenticate", "Bearer");
		return err_set(
			err, -EACCES, ERR_UNAUTHORIZED,
			"this needs a token: send the header \"Authorization: Bearer TOKEN\"");
	}
	if (!x->route && allowed)
		return refuse_method(x, allowed, err);
	if (!x->route)
		return err_set(err, -ENOENT, ERR_NOT_FOUND, "%s",
			       server_config(x->conn->server)->nothing_here);
	buf_init(&x->buffered, x->route->body_max);
	return check_body(x, err);
}

bool dispatch_reads_first(const struct exchange *x)
{
	return !x->body_complete && x->route->body != BODY_STREAMED;
}

/* Some clients send JSON with every POST: that it says nothing is seen by reading it. */
static int check_empty(struct exchange *x, struct err *err)
{
	static const struct json_field none[] = {{NULL, JSON_BOOL, 0, false, 0, NULL}};
	char unused;

	if (x->route->body != BODY_EMPTY || !exchange_buffered(x).len)
		return 0;
	return json_parse(exchange_arena(x), exchange_buffered(x), none, &unused, err);
}

void dispatch_serve(struct exchange *x)
{
	struct err err;

	if (check_empty(x, &err) < 0)
		exchange_reply_err(x, &err);
	else
		x->route->handle(x);
}
