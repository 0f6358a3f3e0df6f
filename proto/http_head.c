#include "proto/http.h"

#include <assert.h>
#include <errno.h>

#include "base/cleanup.h"
#include "proto/http_fields.h"

enum http_result http_head_feed(struct http_parser *p, struct str *in, struct str *ret,
				struct err *err)
{
	p->is_response = false;
	return http_feed(p, in, ret, err);
}

static void skip(struct str *in, size_t len)
{
	in->at += len;
	in->len -= len;
}

static enum http_method method_of(struct str name)
{
	/* clang-format off */
	static const struct str names[] = {
		[HTTP_METHOD_GET]     = {"GET", 3},
		[HTTP_METHOD_HEAD]    = {"HEAD", 4},
		[HTTP_METHOD_POST]    = {"POST", 4},
		[HTTP_METHOD_PUT]     = {"PUT", 3},
		[HTTP_METHOD_DELETE]  = {"DELETE", 6},
		[HTTP_METHOD_PATCH]   = {"PATCH", 5},
		[HTTP_METHOD_OPTIONS] = {"OPTIONS", 7},
	};
	/* clang-format on */
	size_t i = 0;

	while (i < array_len(names) && !str_eq(name, names[i]))
		i++;
	return (enum http_method)i;
}

/* The path and query of "/path?query", or of what follows an authority and may be empty. */
static void split_target(struct http_head *head, struct str target)
{
	const char *mark = memchr(target.at, '?', target.len);

	head->path = target;
	if (mark) {
		head->path.len = (size_t)(mark - target.at);
		head->query = (struct str){mark + 1, target.len - head->path.len - 1};
	}
	if (head->path.len == 0)
		head->path = STR("/");
}

static int parse_target(struct http_head *head, struct str target, struct err *err)
{
	const struct str scheme = STR("http://");
	size_t n = 0;

	if (str_eq(head->method_name, STR("CONNECT")))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "CONNECT is refused: no proxy");
	if (target.at[0] == '/') {
		split_target(head, target);
		return 0;
	}
	if (head->method == HTTP_METHOD_OPTIONS && str_eq(target, STR("*"))) {
		head->path = target;
		return 0;
	}
	if (target.len <= scheme.len || strncasecmp(target.at, scheme.at, scheme.len) != 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request target is neither a path nor an http:// URL");
	skip(&target, scheme.len);
	while (n < target.len && target.at[n] != '/' && target.at[n] != '?')
		n++;
	head->host = (struct str){target.at, n};
	if (!http_is_host(head->host))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request target names no valid host");
	skip(&target, n);
	split_target(head, target);
	return 0;
}

static int judge_host(struct http_head *head, const struct http_fields *f, struct err *err)
{
	if (f->hosts > 1)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request has more than one Host header");
	if (f->hosts == 0 && head->minor > 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "the request has no Host header");
	if (f->hosts > 0 && !http_is_host(f->host))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the Host header is not a host and maybe a port");
	/* A URL as target outranks the header (RFC 9112, section 3.2.2). */
	if (head->host.len == 0)
		head->host = f->host;
	return 0;
}

static int judge_fields(struct http_head *head, const struct http_fields *f, struct err *err)
{
	int r;

	r = judge_host(head, f, err);
	if (r == 0)
		r = http_fields_framing(f, &head->framing, &head->content_length, err);
	if (r < 0)
		return r;
	if (f->has_other_expectation)
		return err_set(err, -EINVAL, ERR_EXPECTATION_FAILED,
			       "the only expectation met here is \"100-continue\"");
	/* HTTP/1.0 knows none of these three. */
	head->keep_alive = head->minor > 0 && !f->has_close;
	head->has_upgrade = head->minor > 0 && f->has_upgrade && f->has_protocol;
	head->expects_continue =
		head->minor > 0 && f->has_continue && head->framing != HTTP_NO_BODY;
	return 0;
}

static int parse(struct arena *arena, struct str bytes, struct http_head **ret, struct err *err)
{
	struct http_head *head = arena_zalloc(arena, sizeof(*head));
	struct str copy = {arena_strndup(arena, bytes.at, bytes.len), bytes.len};
	struct http_start start = {.is_response = false};
	struct http_fields fields = {.start = &start};
	int r;

	if (!head || !copy.at)
		return err_set(err, -ENOMEM, ERR_UNAVAILABLE,
			       "there is no memory for this request");
	r = http_scan_head(copy, &start, err);
	if (r < 0)
		return r;
	head->method = method_of(start.method);
	head->method_name = start.method;
	head->minor = start.minor;
	/*
	 * llhttp refuses methods that it does not know, and takes liberties with CONNECT and PRI.
	 * Framing does not depend on the method, so each that we do not route is hidden from it.
	 */
	if (head->method == HTTP_METHOD_OTHER)
		fields.hidden = start.method.len;
	r = parse_target(head, start.target, err);
	if (r == 0)
		r = http_fields_parse(&fields, arena, copy, err);
	head->headers = fields.headers;
	head->headers_len = fields.headers_len;
	if (r == 0)
		r = judge_fields(head, &fields, err);
	if (r == 0)
		*ret = head;
	return r;
}

int http_head_parse(struct http_parser *p, struct arena *arena, struct str bytes,
		    struct http_head **ret, struct err *err)
{
	int r;

	assert(p->framing_state == STATE_START);
	r = parse(arena, bytes, ret, err);
	buf_close(&p->kept); /* an idle connection holds no memory */
	if (r < 0)
		p->framing_state = STATE_BROKEN;
	else
		http_begin_body(p, (*ret)->framing, (*ret)->content_length);
	return r;
}
