#include "proto/http_response.h"

#include <assert.h>
#include <errno.h>

#include "proto/http_fields.h"

enum http_result http_response_feed(struct http_parser *p, struct str *in, struct str *ret,
				    struct err *err)
{
	p->is_response = true;
	return http_feed(p, in, ret, err);
}

/* What these say has no body, whatever else they say. */
static int judge_empty(const struct http_response *response, const struct http_fields *f,
		       struct err *err)
{
	if (f->codings > 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "a response of status %d has no Transfer-Encoding",
			       response->status);
	/* Many servers give 204 a length of 0, which changes nothing. */
	if (f->lengths > 0 && (response->status != 204 || response->content_length > 0))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "a response of status %d has no Content-Length", response->status);
	return 0;
}

/* RFC 9112, section 6.3, but nothing that may be read in two ways is accepted. */
static int judge_framing(struct http_response *response, const struct http_fields *f,
			 bool is_bodiless, struct err *err)
{
	bool is_empty = response->status < 200 || response->status == 204;
	int r;

	response->framing = HTTP_UNTIL_CLOSE;
	r = http_fields_framing(f, &response->framing, &response->content_length, err);
	if (r == 0 && is_empty)
		r = judge_empty(response, f, err);
	if (r < 0)
		return r;
	response->has_length = f->lengths > 0;
	if (is_bodiless || is_empty || response->status == 304)
		response->framing = HTTP_NO_BODY;
	return 0;
}

static bool may_keep_alive(const struct http_response *response, const struct http_fields *f)
{
	if (f->has_close || response->framing == HTTP_UNTIL_CLOSE || response->is_upgrade)
		return false;
	return response->minor > 0 || (f->has_keep_alive && response->has_length);
}

static int parse(struct arena *arena, struct str bytes, bool is_bodiless,
		 struct http_response **ret, struct err *err)
{
	struct http_response *response = arena_zalloc(arena, sizeof(*response));
	struct str copy = {arena_strndup(arena, bytes.at, bytes.len), bytes.len};
	struct http_start start = {.is_response = true};
	struct http_fields fields = {.start = &start};
	int r;

	if (!response || !copy.at)
		return err_set(err, -ENOMEM, ERR_UNAVAILABLE,
			       "there is no memory for this response");
	r = http_scan_head(copy, &start, err);
	if (r == 0)
		r = http_fields_parse(&fields, arena, copy, err);
	if (r < 0)
		return r;
	response->status = start.status;
	response->minor = start.minor;
	response->reason = start.reason;
	response->headers = fields.headers;
	response->headers_len = fields.headers_len;
	response->is_upgrade = start.status == 101;
	r = judge_framing(response, &fields, is_bodiless, err);
	if (r < 0)
		return r;
	response->keep_alive = may_keep_alive(response, &fields);
	*ret = response;
	return 0;
}

int http_response_parse(struct http_parser *p, struct arena *arena, struct str bytes,
			struct http_response **ret, struct err *err)
{
	int r;

	assert(p->framing_state == STATE_START && p->is_response);
	r = parse(arena, bytes, p->is_bodiless, ret, err);
	buf_close(&p->kept);
	if (r < 0) {
		http_blame(true, err);
		p->framing_state = STATE_BROKEN;
	} else if ((*ret)->framing == HTTP_UNTIL_CLOSE || (*ret)->is_upgrade) {
		p->framing_state = STATE_BROKEN; /* nothing that follows is a response */
	} else {
		http_begin_body(p, (*ret)->framing, (*ret)->content_length);
	}
	return r;
}

const struct str *http_response_find(const struct http_response *response, struct str name)
{
	return http_headers_find(response->headers, response->headers_len, name);
}
