#include "proto/forward.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "proto/http_scan.h"

/* Where a field may not pass. */
enum {
	REQUEST = 1,
	RESPONSE = 2,
	TRAILER = 4,
	HOP = REQUEST | RESPONSE | TRAILER,
};

/* clang-format off */
static const struct {
	struct str name;
	unsigned where;
	bool is_prefix;
} held_back[] = {
	{{"Connection", 10},          HOP},
	{{"Keep-Alive", 10},          HOP},
	{{"Proxy-Connection", 16},    HOP},
	{{"Proxy-Authenticate", 18},  HOP},
	{{"Proxy-Authorization", 19}, HOP},
	{{"TE", 2},                   HOP},
	{{"Trailer", 7},              HOP},
	{{"Transfer-Encoding", 17},   HOP},
	{{"Upgrade", 7},              HOP},
	{{"HTTP2-Settings", 14},      HOP}, /* with it h2c would get past all of this */
	{{"Content-Length", 14},      HOP},
	{{"Expect", 6},               REQUEST | TRAILER},
	{{"Host", 4},                 REQUEST | TRAILER},
	{{"Proxy", 5},                REQUEST}, /* to a CGI program it would be a setting */
	{{"Forwarded", 9},            REQUEST | TRAILER},
	{{"X-Forwarded-", 12},        REQUEST | TRAILER, true},
	{{"X-Real-IP", 9},            REQUEST | TRAILER},
	{{"Authorization", 13},       TRAILER},
	{{"Cookie", 6},               TRAILER},
	{{"Set-Cookie", 10},          TRAILER},
	{{"Content-Encoding", 16},    TRAILER},
	{{"Content-Type", 12},        TRAILER},
	{{"Content-Range", 13},       TRAILER},
};
/* clang-format on */

static char folded(char c)
{
	if (c == '_')
		return '-';
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool name_begins(struct str name, struct str prefix)
{
	size_t n = 0;

	if (name.len < prefix.len)
		return false;
	while (n < prefix.len && folded(name.at[n]) == folded(prefix.at[n]))
		n++;
	return n == prefix.len;
}

static bool name_is(struct str a, struct str b)
{
	return a.len == b.len && name_begins(a, b);
}

static bool is_held_back(struct str name, unsigned where)
{
	for (size_t i = 0; i < array_len(held_back); i++) {
		struct str held = held_back[i].name;

		if (!(held_back[i].where & where))
			continue;
		if (held_back[i].is_prefix ? name_begins(name, held) : name_is(name, held))
			return true;
	}
	return false;
}

/* What a message's Connection headers name. */
struct named {
	struct str names[FORWARD_NAMES_MAX];
	size_t len;
};

/* Too many are refused, as each is compared with each header. */
static int name_list(struct named *named, struct str list)
{
	while (list.len > 0) {
		struct str name = http_trim(str_cut(&list, ','));

		if (name.len == 0)
			continue;
		if (named->len == FORWARD_NAMES_MAX)
			return -EMSGSIZE;
		named->names[named->len++] = name;
	}
	return 0;
}

static bool is_named(const struct named *named, struct str name)
{
	for (size_t i = 0; i < named->len; i++) {
		if (name_is(named->names[i], name))
			return true;
	}
	return false;
}

static int put_text(struct buf *out, struct str text, enum http_byte kind)
{
	return http_is_all(text, kind) ? buf_append_str(out, text) : -EINVAL;
}

/* A header whose value is made of two parts. Whatever was checked when it was read is so again. */
static int put_joined(struct buf *out, struct str name, struct str first, struct str second)
{
	int r = name.len > 0 ? put_text(out, name, HTTP_BYTE_TOKEN) : -EINVAL;

	if (r == 0)
		r = buf_append_str(out, STR(": "));
	if (r == 0)
		r = put_text(out, first, HTTP_BYTE_VALUE);
	if (r == 0)
		r = put_text(out, second, HTTP_BYTE_VALUE);
	return r < 0 ? r : buf_append_str(out, STR("\r\n"));
}

static int put_field(struct buf *out, struct str name, struct str value)
{
	return put_joined(out, name, value, STR(""));
}

static int put_number(struct buf *out, struct str name, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	return put_field(out, name, str_of(text));
}

/* Of a message that failed nothing is left behind. */
static int settle(struct buf *out, size_t before, int r)
{
	if (r < 0)
		out->end = out->start + before;
	return r;
}

/* Our own Connection, and what it is to become. */
static int put_upgrade(struct buf *out, const struct http_header *headers, size_t len)
{
	int r = put_field(out, STR("Connection"), STR("Upgrade"));

	for (size_t i = 0; r == 0 && i < len; i++) {
		if (str_eq_nocase(headers[i].name, STR("Upgrade")) && headers[i].value.len > 0)
			r = put_field(out, headers[i].name, headers[i].value);
	}
	return r;
}

/* ':' and this number, written as it usually is. */
static bool skip_port(struct str *s, uint16_t port)
{
	char text[8];
	int len = snprintf(text, sizeof(text), ":%u", port);

	if (!str_starts_with(*s, (struct str){text, (size_t)len}))
		return false;
	*s = (struct str){s->at + len, s->len - (size_t)len};
	return true;
}

static bool skip_nocase(struct str *s, struct str prefix)
{
	if (s->len < prefix.len || strncasecmp(s->at, prefix.at, prefix.len) != 0)
		return false;
	*s = (struct str){s->at + prefix.len, s->len - prefix.len};
	return true;
}

/*
 * Is it a URL of this port at one of the addresses by which a server may know itself? Then `url` is
 * what follows the authority.
 */
static bool skip_local(struct str *url, uint16_t port)
{
	/* clang-format off */
	static const struct str hosts[] = {
		{"localhost", 9}, {"127.0.0.1", 9}, {"[::1]", 5}, {"0.0.0.0", 7}, {"[::]", 4},
	};
	/* clang-format on */
	struct str rest = *url;
	size_t i = 0;

	if (!skip_nocase(&rest, STR("http://")))
		return false;
	while (i < array_len(hosts) && !skip_nocase(&rest, hosts[i]))
		i++;
	if (i == array_len(hosts) || (!skip_port(&rest, port) && port != 80))
		return false;
	/* Anything else would make it another authority. */
	if (rest.len > 0 && rest.at[0] != '/' && rest.at[0] != '?' && rest.at[0] != '#')
		return false;
	*url = rest;
	return true;
}

static int put_location(struct buf *out, const struct http_header *h, const struct forward_back *b)
{
	struct str rest = h->value;
	char front[512];
	int n;

	if (b->host.len == 0 || !skip_local(&rest, b->port))
		return put_field(out, h->name, h->value);
	n = snprintf(front, sizeof(front), "%.*s://%.*s%s", STR_ARGS(b->scheme), STR_ARGS(b->host),
		     rest.len > 0 && rest.at[0] == '/' ? "" : "/");
	if (n < 0 || (size_t)n >= sizeof(front))
		return -EMSGSIZE;
	return put_joined(out, h->name, (struct str){front, (size_t)n}, rest);
}

static int name_all(struct named *named, const struct http_header *headers, size_t len)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < len; i++) {
		if (str_eq_nocase(headers[i].name, STR("Connection")))
			r = name_list(named, headers[i].value);
	}
	return r;
}

static int put_request_line(struct buf *out, const struct http_head *head)
{
	int r = put_text(out, head->method_name, HTTP_BYTE_TOKEN);

	if (r == 0)
		r = buf_append_str(out, STR(" "));
	if (r == 0)
		r = put_text(out, head->path, HTTP_BYTE_VISIBLE);
	if (r == 0 && head->query.at)
		r = buf_append_str(out, STR("?"));
	if (r == 0)
		r = put_text(out, head->query, HTTP_BYTE_VISIBLE);
	return r < 0 ? r : buf_append_str(out, STR(" HTTP/1.1\r\n"));
}

static int put_client_headers(struct buf *out, const struct http_head *head)
{
	struct named named = {.len = 0};
	int r = name_all(&named, head->headers, head->headers_len);

	for (size_t i = 0; r == 0 && i < head->headers_len; i++) {
		const struct http_header *h = &head->headers[i];

		if (!is_held_back(h->name, REQUEST) && !is_named(&named, h->name))
			r = put_field(out, h->name, h->value);
	}
	return r;
}

static int put_about_client(struct buf *out, const struct forward_request *f)
{
	struct str host = f->head->host;
	int r = put_field(out, STR("Host"), host);

	if (r == 0 && f->client_address.len > 0)
		r = put_field(out, STR("X-Forwarded-For"), f->client_address);
	if (r == 0 && host.len > 0)
		r = put_field(out, STR("X-Forwarded-Host"), host);
	if (r == 0)
		r = put_field(out, STR("X-Forwarded-Proto"),
			      f->is_https ? STR("https") : STR("http"));
	return r < 0 ? r
		     : put_number(out, STR("X-Forwarded-Port"),
				  f->port       ? f->port
				  : f->is_https ? 443
						: 80);
}

static int put_framing(struct buf *out, const struct http_head *head)
{
	switch (head->framing) {
	case HTTP_SIZED:
		return put_number(out, STR("Content-Length"), head->content_length);
	case HTTP_CHUNKED:
		return put_field(out, STR("Transfer-Encoding"), STR("chunked"));
	default:
		/* Servers differ in what POST without a length means; the client has said it. */
		return http_header_find(head, STR("Content-Length"))
			       ? put_number(out, STR("Content-Length"), 0)
			       : 0;
	}
}

/*
 * Not to HTTP/2, of which nothing would be checked any more (and of which servers that hand over
 * any upgrade, as those with WebSockets do, know nothing).
 * Nor together with a body, which would have to be sent first.
 */
bool forward_is_upgrade(const struct http_head *head)
{
	if (!head->has_upgrade || head->framing != HTTP_NO_BODY)
		return false;
	for (size_t i = 0; i < head->headers_len; i++) {
		if (str_eq_nocase(head->headers[i].name, STR("Upgrade")) &&
		    http_list_has(head->headers[i].value, STR("h2c")))
			return false;
	}
	return true;
}

int forward_request(struct buf *out, const struct forward_request *f)
{
	const struct http_head *head = f->head;
	size_t before = buf_len(out);
	int r;

	r = put_request_line(out, head);
	if (r == 0)
		r = put_client_headers(out, head);
	if (r == 0)
		r = put_about_client(out, f);
	if (r == 0)
		r = put_framing(out, head);
	if (r == 0 && forward_is_upgrade(head))
		r = put_upgrade(out, head->headers, head->headers_len);
	if (r == 0)
		r = buf_append_str(out, STR("\r\n"));
	return settle(out, before, r);
}

static int put_server_header(struct buf *out, const struct http_header *h,
			     const struct forward_back *b)
{
	if (str_eq_nocase(h->name, STR("Location")) ||
	    str_eq_nocase(h->name, STR("Content-Location")))
		return put_location(out, h, b);
	return put_field(out, h->name, h->value);
}

int forward_response(struct buf *out, const struct http_response *r, const struct forward_back *b)
{
	struct named named = {.len = 0};
	size_t before = buf_len(out);
	int error;

	error = name_all(&named, r->headers, r->headers_len);
	for (size_t i = 0; error == 0 && i < r->headers_len; i++) {
		const struct http_header *h = &r->headers[i];

		if (!is_held_back(h->name, RESPONSE) && !is_named(&named, h->name))
			error = put_server_header(out, h, b);
	}
	if (error == 0 && b->keep_length && r->has_length)
		error = put_number(out, STR("Content-Length"), r->content_length);
	if (error == 0 && r->is_upgrade)
		error = put_upgrade(out, r->headers, r->headers_len);
	return settle(out, before, error);
}

static int put_trailer(struct buf *out, struct str line)
{
	struct str name;

	if (line.len == 0 || line.at[line.len - 1] != '\r' || !memchr(line.at, ':', line.len))
		return -EINVAL;
	line.len--;
	name = str_cut(&line, ':');
	return is_held_back(name, TRAILER) ? 0 : put_field(out, name, http_trim(line));
}

int forward_trailers(struct buf *out, struct str lines)
{
	size_t before = buf_len(out);
	int r = 0;

	if (lines.len > 0 && lines.at[lines.len - 1] != '\n')
		return -EINVAL;
	while (r == 0 && lines.len > 0)
		r = put_trailer(out, str_cut(&lines, '\n'));
	return settle(out, before, r);
}
