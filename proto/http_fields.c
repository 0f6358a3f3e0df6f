#include "proto/http_fields.h"

#include <errno.h>

/* llhttp's second opinion on a head that our scan let pass; it also cuts the fields out. */
static int on_header_field(llhttp_t *llhttp, const char *at, size_t len)
{
	struct http_fields *f = llhttp->data;

	if (f->headers_len == f->start->headers_len)
		return HPE_USER;
	f->headers[f->headers_len++].name = (struct str){at, len};
	return 0;
}

static int on_header_value(llhttp_t *llhttp, const char *at, size_t len)
{
	struct http_fields *f = llhttp->data;

	if (f->headers_len == 0)
		return HPE_USER;
	f->headers[f->headers_len - 1].value = http_trim((struct str){at, len});
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

static int second_opinion(struct http_fields *f, struct str head, struct err *err)
{
	const char *noun = http_noun(f->start->is_response);
	llhttp_errno_t error = HPE_OK;
	llhttp_t llhttp;

	llhttp_init(&llhttp, f->start->is_response ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
	llhttp.data = f;
	if (f->hidden > 0)
		error = llhttp_execute(&llhttp, "GET", 3);
	if (error == HPE_OK)
		error = llhttp_execute(&llhttp, head.at + f->hidden, head.len - f->hidden);
	if (error != HPE_PAUSED)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "the %s is malformed: %s", noun,
			       llhttp.reason ? llhttp.reason : "its head does not end");
	if (f->headers_len != f->start->headers_len)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the %s is malformed: a line is not a header", noun);
	return 0;
}

static void read_field(struct http_fields *f, const struct http_header *h)
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
		f->has_keep_alive = f->has_keep_alive || http_list_has(h->value, STR("keep-alive"));
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

int http_fields_parse(struct http_fields *f, struct arena *arena, struct str head, struct err *err)
{
	int r;

	f->headers = arena_zalloc(arena, f->start->headers_len * sizeof(*f->headers));
	if (!f->headers)
		return err_set(err, -ENOMEM, ERR_UNAVAILABLE, "there is no memory for this %s",
			       http_noun(f->start->is_response));
	r = second_opinion(f, head, err);
	for (size_t i = 0; r == 0 && i < f->headers_len; i++)
		read_field(f, &f->headers[i]);
	return r;
}

static int judge_coding(const struct http_fields *f, enum http_framing *framing, struct err *err)
{
	if (f->codings > 1 || f->coding.len == 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "Transfer-Encoding is given more than once or is empty");
	if (f->lengths > 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the %s has both Transfer-Encoding and Content-Length",
			       http_noun(f->start->is_response));
	if (f->start->minor == 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "HTTP/1.0 has no Transfer-Encoding");
	if (!str_eq_nocase(f->coding, STR("chunked")))
		return err_set(err, -EOPNOTSUPP, ERR_UNSUPPORTED,
			       "the only Transfer-Encoding spoken here is \"chunked\"");
	*framing = HTTP_CHUNKED;
	return 0;
}

static int judge_length(const struct http_fields *f, uint64_t *ret, struct err *err)
{
	uint64_t length = 0;

	if (f->lengths > 1)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "the %s has more than one Content-Length",
			       http_noun(f->start->is_response));
	for (size_t i = 0; i < f->length.len; i++) {
		unsigned digit = (unsigned char)f->length.at[i] - (unsigned)'0';

		if (digit > 9 || length > ((uint64_t)INT64_MAX - digit) / 10)
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
				       "Content-Length is not a number below 2^63");
		length = length * 10 + digit;
	}
	if (f->length.len == 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "Content-Length is empty");
	*ret = length;
	return 0;
}

int http_fields_framing(const struct http_fields *f, enum http_framing *framing, uint64_t *length,
			struct err *err)
{
	int r;

	if (f->codings > 0)
		return judge_coding(f, framing, err);
	if (f->lengths == 0)
		return 0;
	r = judge_length(f, length, err);
	if (r == 0)
		*framing = *length > 0 ? HTTP_SIZED : HTTP_NO_BODY;
	return r;
}
