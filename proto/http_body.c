#include "proto/http.h"

#include <assert.h>
#include <errno.h>

#include "proto/http_scan.h"

/*
 * A chunked body is read twice at the same time: our own steps check every byte of the framing and
 * say which bytes are data; llhttp then gets the same bytes and hands the data on. Where the two
 * disagree, the body is refused, before any of the data in question was handed on.
 */
struct sink {
	http_data_fn *data;
	void *arg;
	size_t expected; /* bytes of data in what llhttp is given */
};

static int on_body(llhttp_t *llhttp, const char *at, size_t len)
{
	struct sink *sink = llhttp->data;

	if (len > sink->expected)
		return HPE_USER;
	sink->expected -= len;
	sink->data(sink->arg, at, len);
	return 0;
}

static int on_message_complete(llhttp_t *llhttp)
{
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_body = on_body,
	.on_message_complete = on_message_complete,
};

/*
 * llhttp begins with a head of our own making, so that nothing in the client's head (Upgrade,
 * Connection, the method) can change how it reads the body.
 */
static void begin_chunked(struct http_parser *p)
{
	static const char head[] = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
	llhttp_errno_t error;

	llhttp_init(&p->llhttp, HTTP_REQUEST, &settings);
	error = llhttp_execute(&p->llhttp, head, sizeof(head) - 1);
	assert(error == HPE_OK);
	p->framing_state = STATE_SIZE;
	p->body_left = 0;
	p->line_bytes = 0;
}

static enum http_result refuse_trailers(struct http_parser *p, int error, struct err *err)
{
	if (error == -EMSGSIZE)
		return http_refuse(p, ERR_HEAD_TOO_LARGE, err, "the trailers are larger than 8 kB");
	return http_refuse(p, ERR_UNAVAILABLE, err, "there is no memory for the trailers");
}

static enum http_result refuse_byte(struct http_parser *p, struct err *err)
{
	enum err_code code = ERR_INVALID_REQUEST;

	switch (p->framing_state) {
	case STATE_SIZE:
		return http_refuse(p, code, err,
				   "a chunk's size is not 1 to 16 hexadecimal digits below 2^63");
	case STATE_EXTENSION:
		return http_refuse(p, code, err,
				   "a chunk's extension holds white space or a control character, "
				   "or is too long");
	case STATE_DATA_CR:
		return http_refuse(p, code, err, "a chunk is longer than its size says");
	case STATE_TRAILER_START:
	case STATE_TRAILER_NAME:
	case STATE_TRAILER_VALUE:
		if (p->line_bytes >= HTTP_TRAILER_MAX)
			return refuse_trailers(p, -EMSGSIZE, err);
		return http_refuse(p, code, err, "a trailer line is not a name and a value");
	case STATE_BROKEN:
		return http_refuse(p, code, err, "an earlier part of this %s was malformed",
				   http_noun(p->is_response));
	default:
		return http_refuse(p, code, err,
				   "a CR in the body's framing is not followed by LF");
	}
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum http_state step_size(struct http_parser *p, char c)
{
	int digit = hex_digit(c);

	if (digit >= 0) {
		if (p->line_bytes == 16 || p->body_left > INT64_MAX >> 4)
			return STATE_BROKEN;
		p->line_bytes++;
		p->body_left = p->body_left << 4 | (unsigned)digit;
		return STATE_SIZE;
	}
	if (p->line_bytes == 0)
		return STATE_BROKEN;
	if (c == '\r')
		return STATE_SIZE_LF;
	p->line_bytes++;
	return c == ';' ? STATE_EXTENSION : STATE_BROKEN;
}

static enum http_state step_extension(struct http_parser *p, char c)
{
	if (c == '\r')
		return STATE_SIZE_LF;
	if (!http_byte_is(c, HTTP_BYTE_VISIBLE) || p->line_bytes == HTTP_CHUNK_LINE_MAX)
		return STATE_BROKEN;
	p->line_bytes++;
	return STATE_EXTENSION;
}

static enum http_state step_trailer(struct http_parser *p, char c)
{
	if (p->line_bytes >= HTTP_TRAILER_MAX)
		return STATE_BROKEN;
	p->line_bytes++;
	switch (p->framing_state) {
	case STATE_TRAILER_START:
		if (c == '\r')
			return STATE_TRAILER_LAST_LF;
		return http_byte_is(c, HTTP_BYTE_TOKEN) ? STATE_TRAILER_NAME : STATE_BROKEN;
	case STATE_TRAILER_NAME:
		if (c == ':')
			return STATE_TRAILER_VALUE;
		return http_byte_is(c, HTTP_BYTE_TOKEN) ? STATE_TRAILER_NAME : STATE_BROKEN;
	default:
		if (c == '\r')
			return STATE_TRAILER_LF;
		return http_byte_is(c, HTTP_BYTE_VALUE) ? STATE_TRAILER_VALUE : STATE_BROKEN;
	}
}

static enum http_state begin_line(struct http_parser *p, enum http_state state)
{
	p->line_bytes = 0;
	return state;
}

static enum http_state step(struct http_parser *p, char c)
{
	switch (p->framing_state) {
	case STATE_SIZE:
		return step_size(p, c);
	case STATE_EXTENSION:
		return step_extension(p, c);
	case STATE_DATA_CR:
		return c == '\r' ? STATE_DATA_LF : STATE_BROKEN;
	case STATE_TRAILER_START:
	case STATE_TRAILER_NAME:
	case STATE_TRAILER_VALUE:
		return step_trailer(p, c);
	default:
		break;
	}
	if (c != '\n')
		return STATE_BROKEN;
	switch (p->framing_state) {
	case STATE_SIZE_LF:
		return begin_line(p, p->body_left > 0 ? STATE_DATA : STATE_TRAILER_START);
	case STATE_DATA_LF:
		return begin_line(p, STATE_SIZE);
	case STATE_TRAILER_LF:
		p->line_bytes++;
		return STATE_TRAILER_START;
	case STATE_TRAILER_LAST_LF:
		return STATE_START;
	default:
		return STATE_BROKEN;
	}
}

static void skip(struct str *in, size_t len)
{
	in->at += len;
	in->len -= len;
}

/*
 * Shows llhttp bytes that our steps let pass: is there as much data in them as expected, as much
 * still to come, and is it the message's end for both or for neither?
 */
static bool agrees(struct http_parser *p, struct sink *sink, const char *at, size_t len)
{
	llhttp_errno_t error;

	p->llhttp.data = sink;
	error = llhttp_execute(&p->llhttp, at, len);
	p->llhttp.data = NULL;
	if (sink->expected > 0)
		return false;
	if (p->framing_state == STATE_DATA && p->llhttp.content_length != p->body_left)
		return false;
	if (p->framing_state != STATE_START)
		return error == HPE_OK;
	return error == HPE_PAUSED && llhttp_get_error_pos(&p->llhttp) == at + len;
}

/* Does a byte read in this state belong to a trailer line? The last, empty one is none. */
static bool is_trailer(enum http_state state, enum http_state next)
{
	return state >= STATE_TRAILER_START && state <= STATE_TRAILER_LF &&
	       next != STATE_TRAILER_LAST_LF;
}

/*
 * Steps over whatever framing follows in[*at], up to the next data, the message's end, or a byte
 * that does not fit: then false. Counts the bytes of trailer lines, which are the last ones but
 * for the empty line behind them.
 */
static bool pass_framing(struct http_parser *p, struct str in, size_t *at, struct str *trailers)
{
	while (*at < in.len && p->framing_state != STATE_DATA && p->framing_state != STATE_START) {
		enum http_state next = step(p, in.at[*at]);

		if (next == STATE_BROKEN)
			return false;
		if (is_trailer(p->framing_state, next)) {
			if (trailers->len == 0)
				trailers->at = in.at + *at;
			trailers->len++;
		}
		p->framing_state = next;
		++*at;
	}
	return true;
}

static enum http_result feed_chunked(struct http_parser *p, struct str *in, struct sink *sink,
				     struct err *err)
{
	while (in->len > 0 && p->framing_state != STATE_START) {
		struct str trailers = {NULL, 0};
		bool is_good;
		size_t n = 0;

		if (p->framing_state == STATE_DATA) {
			n = in->len < p->body_left ? in->len : (size_t)p->body_left;
			sink->expected = n;
			p->body_left -= n;
			if (p->body_left == 0)
				p->framing_state = STATE_DATA_CR;
		}
		is_good = pass_framing(p, *in, &n, &trailers);
		/* llhttp is asked first, so that the answer does not depend on where the bytes were
		 * cut. */
		if (!agrees(p, sink, in->at, n))
			return http_refuse(p, ERR_INVALID_REQUEST, err,
					   "the body's chunks or trailers are malformed");
		skip(in, n);
		if (!is_good)
			return refuse_byte(p, err);
		if (p->trailers && trailers.len > 0) {
			int r = buf_append_str(p->trailers, trailers);

			if (r < 0)
				return refuse_trailers(p, r, err);
		}
	}
	return p->framing_state == STATE_START ? HTTP_DONE : HTTP_MORE;
}

enum http_result http_body_feed(struct http_parser *p, struct str *in, http_data_fn *data,
				void *arg, struct err *err)
{
	struct sink sink = {data, arg, 0};
	size_t n;

	assert(p->framing_state >= STATE_SIZED);
	if (p->framing_state == STATE_BROKEN)
		return refuse_byte(p, err);
	if (p->framing_state == STATE_CHUNKED)
		begin_chunked(p);
	if (p->framing_state != STATE_SIZED)
		return feed_chunked(p, in, &sink, err);
	n = in->len < p->body_left ? in->len : (size_t)p->body_left;
	if (n > 0)
		data(arg, in->at, n);
	skip(in, n);
	p->body_left -= n;
	if (p->body_left > 0)
		return HTTP_MORE;
	p->framing_state = STATE_START;
	return HTTP_DONE;
}
