#include "proto/websocket.h"

#include "base/cleanup.h"
#include "tests/unit/tap.h"

#define KEY "dGhlIHNhbXBsZSBub25jZQ==" /* of RFC 6455, section 1.3 */

struct request {
	enum http_method method;
	int minor;
	bool has_upgrade;
	const char *upgrade, *version, *key, *second_key;
	enum err_code code; /* expected; ERR_NONE: accepted */
};

static void add(struct http_head *head, const char *name, const char *value)
{
	if (value)
		head->headers[head->headers_len++] =
			(struct http_header){str_of(name), str_of(value)};
}

/* clang-format off */
static const struct request requests[] = {
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", KEY, NULL, ERR_NONE},
	{HTTP_METHOD_GET,  1, true,  "WebSocket",  "13", KEY, NULL, ERR_NONE},
	{HTTP_METHOD_POST, 1, true,  "websocket",  "13", KEY, NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_HEAD, 1, true,  "websocket",  "13", KEY, NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  0, true,  "websocket",  "13", KEY, NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, false, "websocket",  "13", KEY, NULL, ERR_UPGRADE_REQUIRED},
	{HTTP_METHOD_GET,  1, true,  NULL,         "13", KEY, NULL, ERR_UPGRADE_REQUIRED},
	{HTTP_METHOD_GET,  1, true,  "h2c",        "13", KEY, NULL, ERR_UPGRADE_REQUIRED},
	{HTTP_METHOD_GET,  1, true,  "websockets", "13", KEY, NULL, ERR_UPGRADE_REQUIRED},
	{HTTP_METHOD_GET,  1, true,  "websocket",  NULL, KEY, NULL, ERR_UPGRADE_REQUIRED},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "8",  KEY, NULL, ERR_UPGRADE_REQUIRED},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "013", KEY, NULL, ERR_UPGRADE_REQUIRED},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", NULL, NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", "", NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", KEY, KEY, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", "dGhlIHNhbXBsZSBub25jZQ", NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", "dGhlIHNhbXBsZSBub25jZQ=", NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", "dGhlIHNhbXBsZSBub25jZR==", NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", "dGhlIHNhbXBsZSBub25jZQ= ", NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", "dGhlIHNhbXBsZSBub25jZQo=", NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", "dGhlIHNhbXBsZSBub25jZQoK", NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", "dGhlIHNhbXBsZ SBub25jZQ=", NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", "dGhlIHNhbX\tsZSBub25jZQ==", NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", "dGhlIHNhbXB-ZSBub25jZQ==", NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", "========================", NULL, ERR_INVALID_REQUEST},
	{HTTP_METHOD_GET,  1, true,  "websocket",  "13", KEY "AAAA", NULL, ERR_INVALID_REQUEST},
};
/* clang-format on */

int main(void)
{
	char accept[WEBSOCKET_ACCEPT_LEN + 1];

	for (size_t i = 0; i < array_len(requests); i++) {
		const struct request *q = &requests[i];
		struct http_header headers[8];
		struct http_head head = {.method = q->method,
					 .minor = q->minor,
					 .has_upgrade = q->has_upgrade,
					 .headers = headers};
		char name[64];
		struct err err = {0};
		int r;

		snprintf(accept, sizeof(accept), "untouched");
		add(&head, "Host", "x");
		add(&head, "UPGRADE", q->upgrade);
		add(&head, "Sec-Websocket-Version", q->version);
		add(&head, "sec-websocket-key", q->key);
		add(&head, "Sec-WebSocket-Key", q->second_key);
		r = websocket_accept_key(&head, accept, &err);
		check((r == 0) == (q->code == ERR_NONE) && err.code == q->code);
		check_str(accept, r ? "untouched" : "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
		check((r == 0) == (err.sentence[0] == '\0'));
		snprintf(name, sizeof(name), "request %zu", i);
		tap_ok(name);
	}
	websocket_accept_for(STR(KEY), accept);
	check_str(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	tap_ok("what a client expects");
	return tap_done();
}
