#include "daemon/websocket.h"

#include <errno.h>

#include <wslay/wslay.h>

#include "base/arena.h"
#include "proto/websocket.h"

#define ABNORMAL 1006

#define MESSAGE_COST  128   /* what wslay needs to queue or collect a frame, beside its bytes */
#define FRAGMENTS_MAX 16384 /* of one message */

struct websocket {
	struct exchange *exchange;
	wslay_event_context_ptr wslay;
	struct stream *output;
	const struct websocket_ops *ops;
	void *arg;
	struct str input;   /* lent for one wslay_event_recv() */
	uint16_t our_code;  /* 0 until we close */
	unsigned fragments; /* of the message under way */
	bool is_in_wslay;   /* it is on the stack: it must not be freed */
	bool is_paused_by_us;
	bool is_full; /* the connection has enough to send */
};

/* --- between wslay and the streams --- */

static ssize_t on_recv(wslay_event_context_ptr wslay, uint8_t *bytes, size_t len, int flags,
		       void *arg)
{
	struct websocket *ws = arg;
	size_t n = len < ws->input.len ? len : ws->input.len;

	if (!n) {
		wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	memcpy(bytes, ws->input.at, n);
	ws->input = (struct str){ws->input.at + n, ws->input.len - n};
	return (ssize_t)n;
}

static ssize_t on_send(wslay_event_context_ptr wslay, const uint8_t *bytes, size_t len, int flags,
		       void *arg)
{
	struct websocket *ws = arg;

	/* What is sent of it after we closed it is the frame at hand, and why: that much it can
	 * take. */
	if (ws->is_full && !ws->our_code) {
		wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	stream_push(ws->output, (const char *)bytes, len);
	return (ssize_t)len;
}

static void on_message(wslay_event_context_ptr wslay, const struct wslay_event_on_msg_recv_arg *msg,
		       void *arg)
{
	struct websocket *ws = arg;

	if (wslay_is_ctrl_frame(msg->opcode) || ws->our_code)
		return;
	ws->ops->message(ws->arg, msg->opcode == WSLAY_TEXT_FRAME,
			 (struct str){(const char *)msg->msg, msg->msg_length});
}

/* wslay takes memory for each fragment: in single bytes a message costs a hundred times its size.
 */
static void on_frame(wslay_event_context_ptr wslay,
		     const struct wslay_event_on_frame_recv_start_arg *frame, void *arg)
{
	struct websocket *ws = arg;

	if (wslay_is_ctrl_frame(frame->opcode))
		return;
	if (frame->opcode != WSLAY_CONTINUATION_FRAME)
		ws->fragments = 0;
	if (++ws->fragments > FRAGMENTS_MAX)
		websocket_close(ws, WSLAY_CODE_MESSAGE_TOO_BIG, STR("too many fragments"));
}

/* Every call of wslay_event_send() is here: `pause` may close the websocket from within. */
static int send_queued(struct websocket *ws)
{
	bool was_in_wslay = ws->is_in_wslay;
	int r;

	ws->is_in_wslay = true;
	r = wslay_event_send(ws->wslay);
	ws->is_in_wslay = was_in_wslay;
	return r;
}

/* Without its cost an empty message or pong would be free, and a client could queue any number. */
static size_t queued_bytes(struct websocket *ws)
{
	return wslay_event_get_queued_msg_length(ws->wslay) +
	       wslay_event_get_queued_msg_count(ws->wslay) * MESSAGE_COST;
}

static void finish(struct websocket *ws, uint16_t code)
{
	struct stream *output = ws->output;

	wslay_event_context_free(ws->wslay);
	ws->wslay = NULL;
	ws->ops->closed(ws->arg, code);
	stream_end(output, 0); /* the exchange and the websocket may be gone after this */
}

static uint16_t final_code(struct websocket *ws)
{
	if (ws->our_code)
		return ws->our_code;
	if (wslay_event_get_close_received(ws->wslay))
		return wslay_event_get_status_code_received(ws->wslay);
	if (wslay_event_get_close_sent(ws->wslay))
		return wslay_event_get_status_code_sent(ws->wslay);
	return ABNORMAL;
}

/* Sends what is queued. True if that was the end: a close frame is out, or nothing is read. */
static bool settle(struct websocket *ws)
{
	if (send_queued(ws) == 0 && !wslay_event_get_close_sent(ws->wslay) && !ws->our_code &&
	    wslay_event_get_read_enabled(ws->wslay))
		return false;
	finish(ws, final_code(ws));
	return true;
}

/* A client that floods us with pings and reads no pong is no longer read from. */
static void check_flow(struct websocket *ws)
{
	bool is_choked = queued_bytes(ws) > WEBSOCKET_QUEUE_MAX / 4;

	if (ws->is_paused_by_us || is_choked)
		exchange_body_pause(ws->exchange);
	else
		exchange_body_resume(ws->exchange);
}

/*
 * wslay gives up on a malformed frame without saying so to the client; it sends whole frames, so
 * one of ours may follow.
 */
static void fail(struct websocket *ws)
{
	static const char protocol_error[] = "\x88\x02\x03\xea"; /* close, two bytes, 1002 */

	ws->our_code = WSLAY_CODE_PROTOCOL_ERROR; /* else `pause` could close and free it */
	if (!ws->is_full)
		stream_push(ws->output, protocol_error, sizeof(protocol_error) - 1);
	finish(ws, WSLAY_CODE_PROTOCOL_ERROR);
}

/* --- the connection's side --- */

static void input_data(void *arg, const char *bytes, size_t len)
{
	struct websocket *ws = arg;
	int r;

	ws->input = (struct str){bytes, len};
	ws->is_in_wslay = true;
	r = wslay_event_recv(ws->wslay);
	ws->is_in_wslay = false;
	if (r < 0)
		fail(ws);
	else if (!settle(ws))
		check_flow(ws);
}

static void input_end(void *arg, int status)
{
	finish(arg, ABNORMAL);
}

static void output_pause(void *arg)
{
	struct websocket *ws = arg;

	ws->is_full = true;
	ws->ops->pause(ws->arg);
}

static void output_resume(void *arg)
{
	struct websocket *ws = arg;

	ws->is_full = false;
	if (settle(ws))
		return;
	check_flow(ws);
	if (!ws->is_full)
		ws->ops->resume(ws->arg);
}

static void output_abort(void *arg)
{
	finish(arg, ABNORMAL);
}

static const struct stream_consumer consumer = {input_data, input_end};
static const struct stream_producer producer = {output_pause, output_resume, output_abort};

/* --- the handler's side --- */

static int init_wslay(struct websocket *ws, size_t message_max)
{
	static const struct wslay_event_callbacks callbacks = {
		.recv_callback = on_recv,
		.send_callback = on_send,
		.on_frame_recv_start_callback = on_frame,
		.on_msg_recv_callback = on_message,
	};

	if (wslay_event_context_server_init(&ws->wslay, &callbacks, ws) != 0)
		return -ENOMEM;
	wslay_event_config_set_max_recv_msg_length(ws->wslay, message_max);
	return 0;
}

struct websocket *websocket_accept(struct exchange *x, const struct websocket_ops *ops,
				   size_t message_max, void *arg)
{
	struct websocket *ws = arena_zalloc(exchange_arena(x), sizeof(*ws));
	wslay_event_context_ptr wslay;
	struct stream *output;
	char *key = arena_zalloc(exchange_arena(x), WEBSOCKET_ACCEPT_LEN + 1);
	struct err err;
	int r;

	r = key ? websocket_accept_key(exchange_head(x), key, &err) : -ENOMEM;
	if (r == 0)
		r = ws ? init_wslay(ws, message_max) : -ENOMEM;
	if (r == -ENOMEM)
		err_set(&err, r, ERR_INTERNAL, "out of memory");
	if (r < 0) {
		if (err.code == ERR_UPGRADE_REQUIRED)
			exchange_header(x, "Sec-WebSocket-Version", "13");
		exchange_reply_err(x, &err);
		return NULL;
	}
	ws->exchange = x;
	ws->ops = ops;
	ws->arg = arg;
	wslay = ws->wslay;
	exchange_header(x, "Sec-WebSocket-Accept", key);
	output = exchange_upgrade(x, &(struct upgrade){
					     .protocol = "websocket",
					     .consumer = &consumer,
					     .producer = &producer,
					     .arg = ws,
				     });
	if (!output) {
		/* The exchange may be gone, and with it the websocket. */
		wslay_event_context_free(wslay);
		return NULL;
	}
	ws->output = output;
	return ws;
}

int websocket_send(struct websocket *ws, bool is_text, struct str bytes)
{
	struct wslay_event_msg msg = {
		.opcode = is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
		.msg = (const uint8_t *)bytes.at,
		.msg_length = bytes.len,
	};
	size_t queued = queued_bytes(ws);
	int r;

	if (ws->our_code || wslay_event_get_close_received(ws->wslay))
		return -EPIPE;
	if (queued && (queued > WEBSOCKET_QUEUE_MAX || bytes.len > WEBSOCKET_QUEUE_MAX - queued))
		return -ENOBUFS;
	r = wslay_event_queue_msg(ws->wslay, &msg);
	if (r != 0)
		return r == WSLAY_ERR_NOMEM ? -ENOMEM : -EPIPE;
	r = send_queued(ws);
	/* `pause` had enough of this client: now that wslay has returned, it can be done. */
	if (ws->our_code && !ws->is_in_wslay) {
		settle(ws);
		return -EPIPE;
	}
	return r == 0 ? 0 : -ENOMEM;
}

void websocket_pause(struct websocket *ws)
{
	ws->is_paused_by_us = true;
	check_flow(ws);
}

void websocket_resume(struct websocket *ws)
{
	ws->is_paused_by_us = false;
	check_flow(ws);
}

void websocket_close(struct websocket *ws, uint16_t code, struct str reason)
{
	if (ws->our_code)
		return;
	ws->our_code = code;
	wslay_event_queue_close(ws->wslay, code, (const uint8_t *)reason.at, reason.len);
	if (!ws->is_in_wslay)
		settle(ws);
}
