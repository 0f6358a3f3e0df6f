#include "proto/http_scan.h"

#include <errno.h>

#include "proto/http.h"

#define V HTTP_BYTE_VALUE
#define U (V | HTTP_BYTE_VISIBLE)
#define T (U | HTTP_BYTE_TOKEN)
#define H (T | HTTP_BYTE_HOST)

/* clang-format off */
const uint8_t http_bytes[256] = {
	['\t'] = V,
	[' '] = V,
	['!'] = T,
	['"'] = U,
	['#' ... '\''] = T,
	['(' ... ')'] = U,
	['*' ... '+'] = T,
	[','] = U,
	['-' ... '.'] = H,
	['/'] = U,
	['0' ... '9'] = H,
	[':' ... '@'] = U,
	['A' ... 'Z'] = H,
	['[' ... ']'] = U,
	['^'] = T,
	['_'] = H,
	['`'] = T,
	['a' ... 'z'] = H,
	['{'] = U,
	['|'] = T,
	['}'] = U,
	['~'] = H,
	[0x80 ... 0xff] = V,
};
/* clang-format on */

static size_t span_of(struct str s, enum http_byte kind)
{
	size_t n = 0;

	while (n < s.len && http_byte_is(s.at[n], kind))
		n++;
	return n;
}

static struct str from(struct str s, size_t n)
{
	return (struct str){s.at + n, s.len - n};
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

struct str http_trim(struct str s)
{
	while (s.len > 0 && is_blank(s.at[0]))
		s = from(s, 1);
	while (s.len > 0 && is_blank(s.at[s.len - 1]))
		s.len--;
	return s;
}

static bool is_port(struct str port)
{
	unsigned value = 0;

	if (port.len == 0 || port.len > 5)
		return false;
	for (size_t i = 0; i < port.len; i++) {
		if (!is_digit(port.at[i]))
			return false;
		value = value * 10 + (unsigned)(port.at[i] - '0');
	}
	return value <= UINT16_MAX;
}

static size_t bracketed_len(struct str host)
{
	size_t n = 1;

	while (n < host.len && (memchr("0123456789abcdefABCDEF:.", host.at[n], 24) != NULL))
		n++;
	return n > 2 && n < host.len && host.at[n] == ']' ? n + 1 : 0;
}

bool http_is_host(struct str host)
{
	size_t n;

	if (host.len > 0 && host.at[0] == '[')
		n = bracketed_len(host);
	else
		n = span_of(host, HTTP_BYTE_HOST);
	if (n == 0)
		return false;
	return n == host.len || (host.at[n] == ':' && is_port(from(host, n + 1)));
}

/* The line without its CRLF, taken from the front of `rest`. */
static int next_line(struct str *rest, struct str *ret, struct err *err)
{
	const char *lf = memchr(rest->at, '\n', rest->len);
	size_t len = lf ? (size_t)(lf - rest->at) : 0;

	if (len == 0 || lf[-1] != '\r')
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "a line of the request's head does not end with CR and LF");
	*ret = (struct str){rest->at, len - 1};
	*rest = from(*rest, len + 1);
	return 0;
}

static int scan_version(struct str version, int *ret, struct err *err)
{
	const char *v = version.at;

	if (version.len != 8 || memcmp(v, "HTTP/", 5) != 0 || !is_digit(v[5]) || v[6] != '.' ||
	    !is_digit(v[7]))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request line does not end with one space and a version such as "
			       "HTTP/1.1");
	if (v[5] != '1' || v[7] > '1')
		return err_set(err, -EPROTONOSUPPORT, ERR_HTTP_VERSION,
			       "HTTP/%c.%c is not spoken here; use HTTP/1.1", v[5], v[7]);
	*ret = v[7] - '0';
	return 0;
}

static int scan_request_line(struct str line, struct http_request_line *ret, struct err *err)
{
	size_t n = span_of(line, HTTP_BYTE_TOKEN);

	if (n == 0 || n == line.len || line.at[n] != ' ')
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request line does not begin with a method and one space");
	ret->method = (struct str){line.at, n};
	line = from(line, n + 1);
	n = span_of(line, HTTP_BYTE_VISIBLE);
	if (n == 0 || n == line.len || line.at[n] != ' ')
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request line is not a method, a target and a version with one "
			       "space between them");
	ret->target = (struct str){line.at, n};
	if (memchr(line.at, '#', n))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request target holds a fragment (\"#\")");
	return scan_version(from(line, n + 1), &ret->minor, err);
}

static int scan_header_line(struct str line, struct err *err)
{
	size_t n = span_of(line, HTTP_BYTE_TOKEN);

	if (n == 0)
		return err_set(
			err, -EINVAL, ERR_INVALID_REQUEST,
			"a header line does not begin with a name (folded lines are refused)");
	if (n == line.len || line.at[n] != ':')
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "a header's name is not followed by a colon at once");
	if (span_of(from(line, n + 1), HTTP_BYTE_VALUE) != line.len - n - 1)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the value of the header \"%.*s\" holds a control character",
			       (int)(n < 64 ? n : 64), line.at);
	return 0;
}

int http_scan_head(struct str head, struct http_request_line *ret, struct err *err)
{
	struct str line;
	int r;

	r = next_line(&head, &line, err);
	if (r == 0)
		r = scan_request_line(line, ret, err);
	if (r < 0)
		return r;
	for (ret->headers_len = 0;; ret->headers_len++) {
		r = next_line(&head, &line, err);
		if (r < 0)
			return r;
		if (line.len == 0)
			break;
		if (ret->headers_len == HTTP_HEADERS_MAX)
			return err_set(err, -EMSGSIZE, ERR_HEAD_TOO_LARGE,
				       "the request has more than %d headers", HTTP_HEADERS_MAX);
		r = scan_header_line(line, err);
		if (r < 0)
			return r;
	}
	if (head.len > 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request's head does not end with its empty line");
	return 0;
}
