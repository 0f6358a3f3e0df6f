#include "proto/websocket.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>

#include <nettle/base64.h>
#include <nettle/sha1.h>

#define KEY_LEN   24 /* 16 bytes in base64, "==" at its end */
#define KEY_BYTES 16

/* RFC 6455, section 1.3: what makes the answer one that only a WebSocket server gives. */
#define ACCEPT_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

/* The one header of that name; NULL if there is none or more than one. */
static const struct str *find_only(const struct http_head *head, struct str name)
{
	const struct str *found = NULL;

	for (size_t i = 0; i < head->headers_len; i++) {
		if (!str_eq_nocase(head->headers[i].name, name))
			continue;
		if (found)
			return NULL;
		found = &head->headers[i].value;
	}
	return found;
}

/* Decodes it and encodes it again: only the one canonical spelling of 16 bytes comes back. */
static bool is_key(struct str key)
{
	struct base64_decode_ctx decoder;
	uint8_t bytes[BASE64_DECODE_LENGTH(KEY_LEN)];
	char again[BASE64_ENCODE_RAW_LENGTH(KEY_BYTES)];
	size_t len = sizeof(bytes);

	_Static_assert(sizeof(again) == KEY_LEN, "16 bytes in base64");
	if (key.len != KEY_LEN)
		return false;
	base64_decode_init(&decoder);
	if (!base64_decode_update(&decoder, &len, bytes, key.len, key.at) ||
	    !base64_decode_final(&decoder) || len != KEY_BYTES)
		return false;
	base64_encode_raw(again, KEY_BYTES, bytes);
	return memcmp(again, key.at, KEY_LEN) == 0;
}

static int refuse(struct err *err, enum err_code code, const char *sentence)
{
	return err_set(err, -EINVAL, code, "%s", sentence);
}

void websocket_accept_for(struct str key, char ret[WEBSOCKET_ACCEPT_LEN + 1])
{
	uint8_t digest[SHA1_DIGEST_SIZE];
	struct sha1_ctx sha1;

	_Static_assert(BASE64_ENCODE_RAW_LENGTH(SHA1_DIGEST_SIZE) == WEBSOCKET_ACCEPT_LEN,
		       "a SHA-1 in base64");
	sha1_init(&sha1);
	sha1_update(&sha1, key.len, (const uint8_t *)key.at);
	sha1_update(&sha1, sizeof(ACCEPT_GUID) - 1, (const uint8_t *)ACCEPT_GUID);
	sha1_digest(&sha1, sizeof(digest), digest);
	base64_encode_raw(ret, sizeof(digest), digest);
	ret[WEBSOCKET_ACCEPT_LEN] = '\0';
}

int websocket_accept_key(const struct http_head *head, char ret[WEBSOCKET_ACCEPT_LEN + 1],
			 struct err *err)
{
	const struct str *upgrade = find_only(head, STR("Upgrade"));
	const struct str *version = find_only(head, STR("Sec-WebSocket-Version"));
	const struct str *key = find_only(head, STR("Sec-WebSocket-Key"));

	if (!head->has_upgrade || !upgrade || !str_eq_nocase(*upgrade, STR("websocket")))
		return refuse(
			err, ERR_UPGRADE_REQUIRED,
			"this is a WebSocket: send Connection: Upgrade and Upgrade: websocket");
	if (head->method != HTTP_METHOD_GET)
		return refuse(err, ERR_INVALID_REQUEST, "a WebSocket begins with GET");
	if (head->minor != 1)
		return refuse(err, ERR_INVALID_REQUEST, "a WebSocket needs HTTP/1.1");
	if (!version || !str_eq(*version, STR("13")))
		return refuse(
			err, ERR_UPGRADE_REQUIRED,
			"this server speaks WebSocket version 13: send Sec-WebSocket-Version: 13");
	if (!key || !is_key(*key))
		return refuse(err, ERR_INVALID_REQUEST,
			      "Sec-WebSocket-Key must be given once and be 16 bytes in base64");
	websocket_accept_for(*key, ret);
	return 0;
}
