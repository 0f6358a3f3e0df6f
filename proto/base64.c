#include "proto/base64.h"

#include <errno.h>
#include <stdint.h>

#include <nettle/base64.h>

int base64_encode(struct buf *out, struct str bytes)
{
	size_t len;
	char *room;

	if (!bytes.len)
		return 0;
	if (bytes.len > SIZE_MAX / 2)
		return -EMSGSIZE;
	len = BASE64_ENCODE_RAW_LENGTH(bytes.len);
	room = buf_room(out, len);
	if (!room)
		return len > out->limit || buf_len(out) > out->limit - len ? -EMSGSIZE : -ENOMEM;
	base64_encode_raw(room, bytes.len, (const uint8_t *)bytes.at);
	buf_added(out, len);
	return 0;
}

int base64_decode(struct str text, char *ret, size_t *ret_len)
{
	struct base64_decode_ctx ctx;
	size_t len = text.len, padding = 0, got = 0;

	if (len % 4)
		return -EINVAL;
	while (padding < 2 && padding < len && text.at[len - 1 - padding] == '=')
		padding++;
	base64_decode_init(&ctx);
	if (len && !base64_decode_update(&ctx, &got, (uint8_t *)ret, len, text.at))
		return -EINVAL;
	/* nettle skips white space, and then less comes out than the length promises. */
	if (!base64_decode_final(&ctx) || got != len / 4 * 3 - padding)
		return -EINVAL;
	*ret_len = got;
	return 0;
}
