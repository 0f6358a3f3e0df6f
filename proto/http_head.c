#include "proto/http.h"

#include <assert.h>
#include <errno.h>

#include "base/cleanup.h"
#include "proto/http_scan.h"

static enum http_result refuse(struct http_parser *p, enum err_code code, const char *sentence,
			       struct err *err)
{
	buf_close(&p->kept);
	p->framing_state = STATE_BROKEN;
	err_set(err, -EINVAL, code, "%s", sentence);
	return HTTP_BAD;
}

/* What is wrong with a byte that does not fit this state. */
static const char *misfit(enum http_state state, char c)
{
	switch (state) {
	case STATE_FIRST:
		return c == 0x16 ? "this looks like TLS, but plain HTTP is spoken here"
				 : "the request does not begin with a method";
	case STATE_LINE:
		return c == '\n' ? "a line of the request's head ends with LF alone, not CR and LF"
				 : "the request's head holds a control character";
	case STATE_LINE_START:
		return "a header line does not begin with a name (folded lines are refused)";
	case STATE_BROKEN:
		return "an earlier request on this connection was malformed";
	default:
		return "a CR in the request's head is not followed by LF";
	}
}

static enum http_state step(enum http_state state, char c)
{
	switch (state) {
	case STATE_FIRST:
		return http_byte_is(c, HTTP_BYTE_TOKEN) ? STATE_LINE : STATE_BROKEN;
	case STATE_LINE:
		if (c == '\r')
			return STATE_LINE_LF;
		return http_byte_is(c, HTTP_BYTE_VALUE) ? STATE_LINE : STATE_BROKEN;
	case STATE_LINE_LF:
		return c == '\n' ? STATE_LINE_START : STATE_BROKEN;
	case STATE_LINE_START:
		if (c == '\r')
			return STATE_LAST_LF;
		return http_byte_is(c, HTTP_BYTE_TOKEN) ? STATE_LINE : STATE_BROKEN;
	case STATE_LAST_LF:
		return c == '\n' ? STATE_START : STATE_BROKEN;
	default:
		return STATE_BROKEN;
	}
}

static void skip(struct str *in, size_t len)
{
	in->at += len;
	in->len -= len;
}

/* Returns false if a CR stands alone there. */
static bool skip_empty_line(struct http_parser *p, struct str *in)
{
	if (in->len > 0 && p->framing_state == STATE_START) {
		buf_close(&p->kept);
		if (in->at[0] == '\r') {
			p->framing_state = STATE_START_LF;
			skip(in, 1);
		} else {
			p->framing_state = STATE_FIRST;
		}
	}
	if (in->len > 0 && p->framing_state == STATE_START_LF) {
		if (in->at[0] != '\n')
			return false;
		p->framing_state = STATE_FIRST;
		skip(in, 1);
	}
	return true;
}

/* How many bytes of `s` are good; ends early behind the head, or at the byte that does not fit. */
static size_t scan(struct http_parser *p, struct str s)
{
	enum http_state state = p->framing_state, next;
	size_t n = 0;

	while (n < s.len) {
		next = step(state, s.at[n]);
		if (next == STATE_BROKEN)
			break;
		state = next;
		n++;
		if (state == STATE_START)
			break;
		while (state == STATE_LINE && n < s.len && http_byte_is(s.at[n], HTTP_BYTE_VALUE))
			n++;
	}
	p->framing_state = state;
	return n;
}

enum http_result http_head_feed(struct http_parser *p, struct str *in, struct str *ret,
				struct err *err)
{
	size_t held, room, n;
	struct str part;

	assert(p->framing_state < STATE_SIZED || p->framing_state == STATE_BROKEN);
	if (!skip_empty_line(p, in))
		return refuse(p, ERR_INVALID_REQUEST, misfit(STATE_START_LF, in->at[0]), err);
	if (in->len == 0)
		return HTTP_MORE;
	held = buf_len(&p->kept);
	room = HTTP_HEAD_MAX - held;
	part = (struct str){in->at, in->len < room ? in->len : room};
	n = scan(p, part);
	if (n < part.len && p->framing_state != STATE_START)
		return refuse(p, ERR_INVALID_REQUEST, misfit(p->framing_state, part.at[n]), err);
	if (n == room && p->framing_state != STATE_START)
		return refuse(p, ERR_HEAD_TOO_LARGE,
			      "the request line and headers are larger than 32 kB", err);
	skip(in, n);
	if (held == 0 && p->framing_state == STATE_START) {
		*ret = (struct str){part.at, n};
		return HTTP_DONE;
	}
	if (buf_append(&p->kept, part.at, n) < 0)
		return refuse(p, ERR_UNAVAILABLE, "there is no memory for this request", err);
	if (p->framing_state != STATE_START)
		return HTTP_MORE;
	*ret = (struct str){buf_at(&p->kept), buf_len(&p->kept)};
	return HTTP_DONE;
}

/* llhttp's second opinion on a head that our scan let pass; it also cuts the fields out. */
struct collector {
	struct http_head *head;
	size_t lines; /* header lines that our scan saw, and so the room in head->headers */
};

static int on_header_field(llhttp_t *llhttp, const char *at, size_t len)
{
	struct collector *c = llhttp->data;

	if (c->head->headers_len == c->lines)
		return HPE_USER;
	c->head->headers[c->head->headers_len++].name = (struct str){at, len};
	return 0;
}

static int on_header_value(llhttp_t *llhttp, const char *at, size_t len)
{
	struct http_head *head = ((struct collector *)llhttp->data)->head;

	if (head->headers_len == 0)
		return HPE_USER;
	head->headers[head->headers_len - 1].value = http_trim((struct str){at, len});
	return 0;
}

static int on_headers_complete(llhttp_t *llhttp)
{
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_header_field = on_header_field,
	.on_header_value = on_header_value,
	.on_headers_complete = on_headers_complete,
};

/*
 * llhttp refuses methods that it does not know, and takes liberties with CONNECT and PRI. Framing
 * does not depend on the method, so it is shown GET in the place of each that we do not route.
 */
static int parse_fields(struct http_head *head, struct str bytes, size_t lines, struct err *err)
{
	struct collector collector = {head, lines};
	llhttp_errno_t error = HPE_OK;
	llhttp_t llhttp;

	llhttp_init(&llhttp, HTTP_REQUEST, &settings);
	llhttp.data = &collector;
	if (head->method == HTTP_METHOD_OTHER) {
		error = llhttp_execute(&llhttp, "GET", 3);
		skip(&bytes, head->method_name.len);
	}
	if (error == HPE_OK)
		error = llhttp_execute(&llhttp, bytes.at, bytes.len);
	if (error != HPE_PAUSED)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "the request is malformed: %s",
			       llhttp.reason ? llhttp.reason : "its head does not end");
	if (head->headers_len != lines)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request is malformed: a line is not a header");
	return 0;
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

/* What the headers that concern us say, before it is judged. */
struct fields {
	struct str host, length, coding;
	unsigned hosts, lengths, codings;
	bool has_close, has_upgrade, has_protocol;
	bool has_continue, has_other_expectation;
};

static void read_field(struct fields *f, const struct http_header *h)
{
	/* clang-format off */
	if (str_eq_nocase(h->name, STR("Host"))) {
		f->host = h->value;
		f->hosts++;
	} else if (str_eq_nocase(h->name, STR("Content-Length"))) {
		f->length = h->value;
		f->lengths++;
	} else if (str_eq_nocase(h->name, STR("Transfer-Encoding"))) {
		f->coding = h->value;
		f->codings++;
	} else if (str_eq_nocase(h->name, STR("Connection"))) {
		f->has_close = f->has_close || http_list_has(h->value, STR("close"));
		f->has_upgrade = f->has_upgrade || http_list_has(h->value, STR("upgrade"));
	} else if (str_eq_nocase(h->name, STR("Upgrade"))) {
		f->has_protocol = f->has_protocol || h->value.len > 0;
	} else if (str_eq_nocase(h->name, STR("Expect"))) {
		if (str_eq_nocase(h->value, STR("100-continue")))
			f->has_continue = true;
		else
			f->has_other_expectation = true;
	}
	/* clang-format on */
}

static int judge_host(struct http_head *head, const struct fields *f, struct err *err)
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

static int judge_coding(struct http_head *head, const struct fields *f, struct err *err)
{
	if (f->codings > 1 || f->coding.len == 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "Transfer-Encoding is given more than once or is empty");
	if (f->lengths > 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request has both Transfer-Encoding and Content-Length");
	if (head->minor == 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "HTTP/1.0 has no Transfer-Encoding");
	if (!str_eq_nocase(f->coding, STR("chunked")))
		return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			       "the only Transfer-Encoding spoken here is \"chunked\"");
	head->framing = HTTP_CHUNKED;
	return 0;
}

static int judge_length(struct http_head *head, const struct fields *f, struct err *err)
{
	uint64_t length = 0;

	if (f->lengths > 1)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request has more than one Content-Length");
	for (size_t i = 0; i < f->length.len; i++) {
		unsigned digit = (unsigned char)f->length.at[i] - (unsigned)'0';

		if (digit > 9 || length > ((uint64_t)INT64_MAX - digit) / 10)
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
				       "Content-Length is not a number below 2^63");
		length = length * 10 + digit;
	}
	if (f->length.len == 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "Content-Length is empty");
	head->content_length = length;
	head->framing = length > 0 ? HTTP_SIZED : HTTP_NO_BODY;
	return 0;
}

static int judge_fields(struct http_head *head, struct err *err)
{
	struct fields f = {0};
	int r;

	for (size_t i = 0; i < head->headers_len; i++)
		read_field(&f, &head->headers[i]);
	r = judge_host(head, &f, err);
	if (r == 0 && f.codings > 0)
		r = judge_coding(head, &f, err);
	else if (r == 0 && f.lengths > 0)
		r = judge_length(head, &f, err);
	if (r < 0)
		return r;
	if (f.has_other_expectation)
		return err_set(err, -EINVAL, ERR_EXPECTATION_FAILED,
			       "the only expectation met here is \"100-continue\"");
	/* HTTP/1.0 knows none of these three. */
	head->keep_alive = head->minor > 0 && !f.has_close;
	head->has_upgrade = head->minor > 0 && f.has_upgrade && f.has_protocol;
	head->expects_continue = head->minor > 0 && f.has_continue && head->framing != HTTP_NO_BODY;
	return 0;
}

static int parse(struct arena *arena, struct str bytes, struct http_head **ret, struct err *err)
{
	struct http_head *head = arena_zalloc(arena, sizeof(*head));
	struct str copy = {arena_strndup(arena, bytes.at, bytes.len), bytes.len};
	struct http_request_line line;
	int r;

	if (!head || !copy.at)
		return err_set(err, -ENOMEM, ERR_UNAVAILABLE,
			       "there is no memory for this request");
	r = http_scan_head(copy, &line, err);
	if (r < 0)
		return r;
	head->headers = arena_zalloc(arena, line.headers_len * sizeof(*head->headers));
	if (!head->headers)
		return err_set(err, -ENOMEM, ERR_UNAVAILABLE,
			       "there is no memory for this request");
	head->method = method_of(line.method);
	head->method_name = line.method;
	head->minor = line.minor;
	r = parse_target(head, line.target, err);
	if (r == 0)
		r = parse_fields(head, copy, line.headers_len, err);
	if (r == 0)
		r = judge_fields(head, err);
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
	if (r < 0) {
		p->framing_state = STATE_BROKEN;
	} else if ((*ret)->framing == HTTP_SIZED) {
		p->framing_state = STATE_SIZED;
		p->body_left = (*ret)->content_length;
	} else if ((*ret)->framing == HTTP_CHUNKED) {
		p->framing_state = STATE_CHUNKED;
	}
	return r;
}
