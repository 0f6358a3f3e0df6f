#include "proto/http_scan.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void http_blame(bool is_response, struct err *err)
{
	if (is_response && err && err->code != ERR_UNAVAILABLE)
		err->code = ERR_EXEC_TRANSPORT_ERROR;
}

enum http_result http_refuse(struct http_parser *p, enum err_code code, struct err *err,
			     const char *format, ...)
{
	char sentence[256];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	buf_close(&p->kept);
	p->framing_state = STATE_BROKEN;
	err_set(err, -EINVAL, code, "%s", sentence);
	http_blame(p->is_response, err);
	return HTTP_BAD;
}

/* A TLS record is a handshake or an alert first. */
static bool is_tls(char c)
{
	return c == 0x15 || c == 0x16;
}

/* Says what is wrong with a byte that does not fit the parser's state. */
static enum http_result refuse_byte(struct http_parser *p, char c, struct err *err)
{
	const char *noun = http_noun(p->is_response);
	enum err_code code = ERR_INVALID_REQUEST;

	switch (p->framing_state) {
	case STATE_FIRST:
		if (is_tls(c))
			return http_refuse(p, code, err,
					   "this looks like TLS, but plain HTTP is spoken here");
		return http_refuse(p, code, err, "the %s does not begin with %s", noun,
				   p->is_response ? "HTTP/" : "a method");
	case STATE_LINE:
		if (c == '\n')
			return http_refuse(
				p, code, err,
				"a line of the %s's head ends with LF alone, not CR and LF", noun);
		return http_refuse(p, code, err, "the %s's head holds a control character", noun);
	case STATE_LINE_START:
		return http_refuse(
			p, code, err,
			"a header line does not begin with a name (folded lines are refused)");
	case STATE_BROKEN:
		return http_refuse(p, code, err, "an earlier %s on this connection was malformed",
				   noun);
	default:
		return http_refuse(p, code, err, "a CR in the %s's head is not followed by LF",
				   noun);
	}
}

static enum http_state step(const struct http_parser *p, enum http_state state, char c)
{
	switch (state) {
	case STATE_FIRST:
		if (p->is_response)
			return c == 'H' ? STATE_LINE : STATE_BROKEN;
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

/* Only in front of a request. Returns false if a CR stands alone there. */
static bool skip_empty_line(struct http_parser *p, struct str *in)
{
	if (in->len > 0 && p->framing_state == STATE_START) {
		buf_close(&p->kept);
		if (in->at[0] == '\r' && !p->is_response) {
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
		next = step(p, state, s.at[n]);
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

enum http_result http_feed(struct http_parser *p, struct str *in, struct str *ret, struct err *err)
{
	size_t held, room, n;
	struct str part;

	assert(p->framing_state < STATE_SIZED || p->framing_state == STATE_BROKEN);
	if (!skip_empty_line(p, in))
		return refuse_byte(p, in->at[0], err);
	if (in->len == 0)
		return HTTP_MORE;
	held = buf_len(&p->kept);
	room = HTTP_HEAD_MAX - held;
	part = (struct str){in->at, in->len < room ? in->len : room};
	n = scan(p, part);
	if (n < part.len && p->framing_state != STATE_START)
		return refuse_byte(p, part.at[n], err);
	if (n == room && p->framing_state != STATE_START)
		return http_refuse(p, ERR_HEAD_TOO_LARGE, err,
				   "the %s line and headers are larger than 32 kB",
				   p->is_response ? "status" : "request");
	skip(in, n);
	if (held == 0 && p->framing_state == STATE_START) {
		*ret = (struct str){part.at, n};
		return HTTP_DONE;
	}
	if (buf_append(&p->kept, part.at, n) < 0)
		return http_refuse(p, ERR_UNAVAILABLE, err, "there is no memory for this %s",
				   http_noun(p->is_response));
	if (p->framing_state != STATE_START)
		return HTTP_MORE;
	*ret = (struct str){buf_at(&p->kept), buf_len(&p->kept)};
	return HTTP_DONE;
}

void http_begin_body(struct http_parser *p, enum http_framing framing, uint64_t length)
{
	if (framing == HTTP_SIZED) {
		p->framing_state = STATE_SIZED;
		p->body_left = length;
	} else if (framing == HTTP_CHUNKED) {
		p->framing_state = STATE_CHUNKED;
	}
}
