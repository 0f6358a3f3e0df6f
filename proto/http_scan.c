#include "proto/http_scan.h"

#include <errno.h>

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

bool http_is_all(struct str s, enum http_byte kind)
{
	return span_of(s, kind) == s.len;
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
static int next_line(struct str *rest, struct str *ret, bool is_response, struct err *err)
{
	const char *lf = memchr(rest->at, '\n', rest->len);
	size_t len = lf ? (size_t)(lf - rest->at) : 0;

	if (len == 0 || lf[-1] != '\r')
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "a line of the %s's head does not end with CR and LF",
			       http_noun(is_response));
	*ret = (struct str){rest->at, len - 1};
	*rest = from(*rest, len + 1);
	return 0;
}

static bool is_version(struct str version)
{
	const char *v = version.at;

	return version.len == 8 && memcmp(v, "HTTP/", 5) == 0 && is_digit(v[5]) && v[6] == '.' &&
	       is_digit(v[7]);
}

static int scan_minor(struct str version, int *ret, struct err *err)
{
	const char *v = version.at;

	if (v[5] != '1' || v[7] > '1')
		return err_set(err, -EPROTONOSUPPORT, ERR_HTTP_VERSION,
			       "HTTP/%c.%c is not spoken here; use HTTP/1.1", v[5], v[7]);
	*ret = v[7] - '0';
	return 0;
}

static int scan_request_line(struct str line, struct http_start *start, struct err *err)
{
	size_t n = span_of(line, HTTP_BYTE_TOKEN);

	if (n == 0 || n == line.len || line.at[n] != ' ')
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request line does not begin with a method and one space");
	start->method = (struct str){line.at, n};
	line = from(line, n + 1);
	n = span_of(line, HTTP_BYTE_VISIBLE);
	if (n == 0 || n == line.len || line.at[n] != ' ')
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request line is not a method, a target and a version with one "
			       "space between them");
	start->target = (struct str){line.at, n};
	if (memchr(line.at, '#', n))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request target holds a fragment (\"#\")");
	line = from(line, n + 1);
	if (!is_version(line))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the request line does not end with one space and a version such as "
			       "HTTP/1.1");
	return scan_minor(line, &start->minor, err);
}

/* "HTTP/1.1 200 OK"; the reason may be empty, and then its space may be missing. */
static int scan_status_line(struct str line, struct http_start *start, struct err *err)
{
	struct str version = {line.at, line.len < 8 ? line.len : 8};
	int status = 0;

	if (!is_version(version) || line.len == 8 || line.at[8] != ' ')
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the status line does not begin with a version such as HTTP/1.1 and "
			       "one space");
	line = from(line, 9);
	for (size_t i = 0; i < 3; i++) {
		if (i == line.len || !is_digit(line.at[i]))
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
				       "the status is not a number of three digits");
		status = status * 10 + (line.at[i] - '0');
	}
	if (status < 100 || (line.len > 3 && line.at[3] != ' '))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the status is not a number from 100 to 999");
	start->status = status;
	start->reason = line.len > 3 ? from(line, 4) : from(line, 3);
	if (!http_is_all(start->reason, HTTP_BYTE_VALUE))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the reason behind the status holds a control character");
	return scan_minor(version, &start->minor, err);
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
	if (!http_is_all(from(line, n + 1), HTTP_BYTE_VALUE))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the value of the header \"%.*s\" holds a control character",
			       (int)(n < 64 ? n : 64), line.at);
	return 0;
}

int http_scan_head(struct str head, struct http_start *start, struct err *err)
{
	const char *noun = http_noun(start->is_response);
	struct str line;
	int r;

	r = next_line(&head, &line, start->is_response, err);
	if (r == 0 && start->is_response)
		r = scan_status_line(line, start, err);
	else if (r == 0)
		r = scan_request_line(line, start, err);
	if (r < 0)
		return r;
	for (start->headers_len = 0;; start->headers_len++) {
		r = next_line(&head, &line, start->is_response, err);
		if (r < 0)
			return r;
		if (line.len == 0)
			break;
		if (start->headers_len == HTTP_HEADERS_MAX)
			return err_set(err, -EMSGSIZE, ERR_HEAD_TOO_LARGE,
				       "the %s has more than %d headers", noun, HTTP_HEADERS_MAX);
		r = scan_header_line(line, err);
		if (r < 0)
			return r;
	}
	if (head.len > 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the %s's head does not end with its empty line", noun);
	return 0;
}
