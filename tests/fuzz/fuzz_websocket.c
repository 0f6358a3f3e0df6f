/* Lines of "name: value" become the head; what is accepted must be what RFC 6455 asks for. */
#include <assert.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "proto/websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t count(const struct http_head *head, struct str name, struct str *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < head->headers_len; i++) {
		if (str_eq_nocase(head->headers[i].name, name)) {
			*ret = head->headers[i].value;
			n++;
		}
	}
	return n;
}

/* Letter by letter, where the parser decodes. */
static bool is_key(struct str key)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789+/";

	if (key.len != 24 || key.at[22] != '=' || key.at[23] != '=')
		return false;
	for (size_t i = 0; i < 22; i++) {
		if (!memchr(letters, key.at[i], 64))
			return false;
	}
	/* 16 bytes are 128 bits: the last of 22 letters has only two of its six bits. */
	return memchr("AQgw", key.at[21], 4);
}

/* The first byte holds method, version and has_upgrade. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_header headers[8];
	struct http_head head = {.headers = headers};
	struct str in = {(const char *)data + 1, size - 1}, key, value;
	char accept[WEBSOCKET_ACCEPT_LEN + 1];
	struct err err = {0};
	bool is_right;
	int r;

	if (!size)
		return 0;
	head.method = (data[0] & 1) ? HTTP_METHOD_POST : HTTP_METHOD_GET;
	head.minor = (data[0] & 2) ? 0 : 1;
	head.has_upgrade = !(data[0] & 4);
	while (in.len && head.headers_len < array_len(headers)) {
		const char *lf = memchr(in.at, '\n', in.len);
		struct str line = {in.at, lf ? (size_t)(lf - in.at) : in.len};
		const char *colon = line.len ? memchr(line.at, ':', line.len) : NULL;
		size_t skip = line.len + (lf ? 1 : 0);

		in = (struct str){in.at + skip, in.len - skip};
		if (!colon || (size_t)(colon - line.at) + 2 > line.len)
			continue;
		headers[head.headers_len].name = (struct str){line.at, (size_t)(colon - line.at)};
		headers[head.headers_len++].value =
			(struct str){colon + 2, line.len - (size_t)(colon - line.at) - 2};
	}
	is_right = head.method == HTTP_METHOD_GET && head.minor == 1 && head.has_upgrade &&
		   count(&head, STR("upgrade"), &value) == 1 &&
		   str_eq_nocase(value, STR("websocket")) &&
		   count(&head, STR("sec-websocket-version"), &value) == 1 &&
		   str_eq(value, STR("13")) && count(&head, STR("sec-websocket-key"), &key) == 1 &&
		   is_key(key);
	r = websocket_accept_key(&head, accept, &err);
	assert((r == 0) == is_right);
	assert((r == 0) == (err.code == ERR_NONE));
	assert(r < 0 || (strlen(accept) == WEBSOCKET_ACCEPT_LEN && accept[27] == '='));
	return 0;
}
