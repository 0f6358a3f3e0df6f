#include "proto/http.h"

#include "base/cleanup.h"
#include "proto/http_scan.h"

void http_parser_init(struct http_parser *p)
{
	*p = (struct http_parser){.framing_state = STATE_START};
	buf_init(&p->kept, HTTP_HEAD_MAX);
}

void http_parser_close(struct http_parser *p)
{
	buf_close(&p->kept);
}

const struct str *http_headers_find(const struct http_header *headers, size_t len, struct str name)
{
	for (size_t i = 0; i < len; i++) {
		if (str_eq_nocase(headers[i].name, name))
			return &headers[i].value;
	}
	return NULL;
}

bool http_parser_is_idle(const struct http_parser *p)
{
	return p->framing_state == STATE_START && !buf_len(&p->kept);
}

const struct str *http_header_find(const struct http_head *head, struct str name)
{
	return http_headers_find(head->headers, head->headers_len, name);
}

bool http_list_has(struct str list, struct str token)
{
	while (list.len > 0) {
		const char *comma = memchr(list.at, ',', list.len);
		size_t len = comma ? (size_t)(comma - list.at) : list.len;

		if (str_eq_nocase(http_trim((struct str){list.at, len}), token))
			return true;
		len += comma != NULL;
		list = (struct str){list.at + len, list.len - len};
	}
	return false;
}

const char *http_status_text(int status)
{
	/* clang-format off */
	static const struct {
		int status;
		const char *text;
	} texts[] = {
		{100, "Continue"},
		{101, "Switching Protocols"},
		{200, "OK"},
		{201, "Created"},
		{202, "Accepted"},
		{204, "No Content"},
		{206, "Partial Content"},
		{301, "Moved Permanently"},
		{302, "Found"},
		{303, "See Other"},
		{304, "Not Modified"},
		{307, "Temporary Redirect"},
		{308, "Permanent Redirect"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{406, "Not Acceptable"},
		{408, "Request Timeout"},
		{409, "Conflict"},
		{410, "Gone"},
		{411, "Length Required"},
		{412, "Precondition Failed"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{415, "Unsupported Media Type"},
		{416, "Range Not Satisfiable"},
		{417, "Expectation Failed"},
		{421, "Misdirected Request"},
		{422, "Unprocessable Content"},
		{426, "Upgrade Required"},
		{428, "Precondition Required"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{502, "Bad Gateway"},
		{503, "Service Unavailable"},
		{504, "Gateway Timeout"},
		{505, "HTTP Version Not Supported"},
		{507, "Insufficient Storage"},
	};
	/* clang-format on */

	for (size_t i = 0; i < array_len(texts); i++) {
		if (texts[i].status == status)
			return texts[i].text;
	}
	return "Unknown";
}
