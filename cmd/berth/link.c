#include "cmd/berth/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include <wslay/wslay.h>

#include "base/buf.h"
#include "cmd/berth/upgrade.h"
#include "proto/base64.h"
#include "proto/websocket.h"

#define REASON_MAX 123
#define TURN_MAX   (32 * 1024)    /* received in one link_work(), so that others have their turn */
#define QUEUED_MAX (TURN_MAX / 2) /* messages: one turn's pings, and some */

struct link {
	struct upgrade line;
	wslay_event_context_ptr wslay;
	link_message_fn *message;
	void *arg;
	int error;
	bool is_ended;
	bool is_mute; /* nothing can be sent any more */
	size_t turn;  /* received in this one */
	char reason[REASON_MAX + 1];
};

/* --- between wslay and curl --- */

static ssize_t on_recv(wslay_event_context_ptr wslay, uint8_t *bytes, size_t len, int flags,
		       void *arg)
{
	struct link *link = arg;
	ssize_t n = link->turn < TURN_MAX ? upgrade_recv(&link->line, bytes, len) : -EAGAIN;

	link->turn += n > 0 ? (size_t)n : 0;
	if (n > 0)
		return n;
	if (n != -EAGAIN)
		link->is_ended = true;
	wslay_event_set_error(wslay,
			      n == -EAGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

/* Who does not listen any more may have said why before: that is still to be read. */
static ssize_t on_send(wslay_event_context_ptr wslay, const uint8_t *bytes, size_t len, int flags,
		       void *arg)
{
	struct link *link = arg;
	ssize_t n = link->is_mute ? (ssize_t)len : upgrade_send(&link->line, bytes, len);

	if (n == -EAGAIN) {
		wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	link->is_mute = link->is_mute || n < 0;
	return link->is_mute ? (ssize_t)len : n;
}

static int on_mask(wslay_event_context_ptr wslay, uint8_t *bytes, size_t len, void *arg)
{
	return getrandom(bytes, len, 0) == (ssize_t)len ? 0 : -1;
}

static void on_message(wslay_event_context_ptr wslay, const struct wslay_event_on_msg_recv_arg *msg,
		       void *arg)
{
	struct link *link = arg;

	/* Two bytes of code, then why; wslay has seen to it that this is text. */
	if (msg->opcode == WSLAY_CONNECTION_CLOSE && msg->msg_length > 2)
		snprintf(link->reason, sizeof(link->reason), "%.*s", (int)msg->msg_length - 2,
			 (const char *)msg->msg + 2);
	if (wslay_is_ctrl_frame(msg->opcode) || link->error)
		return;
	link->error = link->message(link->arg, msg->opcode == WSLAY_TEXT_FRAME,
				    (struct str){(const char *)msg->msg, msg->msg_length});
}

static int init_wslay(struct link *link, struct err *err)
{
	static const struct wslay_event_callbacks callbacks = {
		.recv_callback = on_recv,
		.send_callback = on_send,
		.genmask_callback = on_mask,
		.on_msg_recv_callback = on_message,
	};

	if (wslay_event_context_client_init(&link->wslay, &callbacks, link) != 0)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	wslay_event_config_set_max_recv_msg_length(link->wslay, LINK_MESSAGE_MAX);
	return 0;
}

/* --- the handshake --- */

/* Whoever answers 101 to anything, or has it stored, does not know this. */
static int check_accept(const struct link *link, struct str key, struct err *err)
{
	char accept[WEBSOCKET_ACCEPT_LEN + 1];

	websocket_accept_for(key, accept);
	if (str_eq(upgrade_header(&link->line, STR("Sec-WebSocket-Accept")), str_of(accept)) &&
	    str_eq_nocase(upgrade_header(&link->line, STR("Upgrade")), STR("websocket")))
		return 0;
	return err_set(err, -EPROTO, ERR_INTERNAL,
		       "whoever answers there does not speak WebSocket: is it berthd, and nothing "
		       "in between that changes what it says?");
}

static int shake_hands(struct link *link, struct err *err)
{
	unsigned char random[16];
	struct buf key;
	char headers[160];
	int r = getrandom(random, sizeof(random), 0) == sizeof(random) ? 0 : -EIO;

	buf_init(&key, 64);
	if (r == 0)
		r = base64_encode(&key, (struct str){(const char *)random, sizeof(random)});
	if (r < 0)
		err_set(err, r, ERR_INTERNAL, "the kernel gives no random bytes");
	snprintf(headers, sizeof(headers),
		 "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %.*s\r\n",
		 (int)buf_len(&key), buf_at(&key) ? buf_at(&key) : "");
	if (r == 0)
		r = upgrade_ask(&link->line, headers, err);
	if (r == 0)
		r = upgrade_wait(&link->line, err);
	if (r == 0)
		r = check_accept(link, (struct str){buf_at(&key), buf_len(&key)}, err);
	if (r == 0)
		upgrade_begin(&link->line);
	buf_close(&key);
	return r;
}

int link_open(struct link **ret, const struct globals *globals, const char *path, struct err *err)
{
	struct link *link = calloc(1, sizeof(*link));
	int r;

	if (!link)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	r = init_wslay(link, err);
	if (r == 0)
		r = upgrade_open(&link->line, globals, path, err);
	if (r == 0)
		r = shake_hands(link, err);
	if (r < 0)
		link_close(link);
	else
		*ret = link;
	return r;
}

void link_close(struct link *link)
{
	if (link->wslay)
		wslay_event_context_free(link->wslay);
	upgrade_close(&link->line);
	free(link);
}

int link_fd(const struct link *link)
{
	return link->line.fd;
}

bool link_has_more(const struct link *link)
{
	return link->turn >= TURN_MAX;
}

const char *link_reason(const struct link *link)
{
	return link->reason;
}

short link_events(struct link *link)
{
	return (short)(POLLIN | (wslay_event_want_write(link->wslay) ? POLLOUT : 0));
}

/* Who pings and does not read its pongs would have us keep them all. */
static bool is_flooded(const struct link *link)
{
	return wslay_event_get_queued_msg_count(link->wslay) > QUEUED_MAX;
}

int link_work(struct link *link, link_message_fn *message, void *arg)
{
	int r;

	link->message = message;
	link->arg = arg;
	link->turn = 0;
	r = wslay_event_recv(link->wslay);
	if (r == 0)
		r = wslay_event_send(link->wslay);
	if (link->error)
		return link->error;
	if (r != 0 || link->is_ended || is_flooded(link))
		return -EPIPE;
	return wslay_event_get_read_enabled(link->wslay) ? 0 : -EPIPE;
}

int link_send(struct link *link, bool is_text, struct str bytes)
{
	struct wslay_event_msg msg = {
		.opcode = is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
		.msg = (const uint8_t *)bytes.at,
		.msg_length = bytes.len,
	};

	if (wslay_event_queue_msg(link->wslay, &msg) != 0)
		return -EPIPE;
	return wslay_event_send(link->wslay) == 0 ? 0 : -EPIPE;
}

bool link_is_full(struct link *link)
{
	return wslay_event_get_queued_msg_length(link->wslay) > LINK_QUEUE_MAX;
}
