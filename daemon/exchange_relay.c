/* Answers of other servers, passed on: what a proxy needs of an exchange. */
#include <assert.h>

#include "daemon/conn.h"
#include "daemon/head_writer.h"

#define OWN_MAX 192 /* the status line without its reason, and the headers that are ours */

static uv_buf_t as_buf(struct str s)
{
	return uv_buf_init((char *)s.at, (unsigned)s.len);
}

static struct str format_relay(struct exchange *x, const struct relay *relay)
{
	char *start = arena_alloc(&x->arena, OWN_MAX + relay->reason.len + relay->lines.len);
	struct head_writer w = {start};

	if (!start)
		return (struct str){NULL, 0};
	server_count_answer(x->conn->server, relay->status);
	if (relay->status >= 200)
		exchange_decide_close(x);
	put(&w, STR("HTTP/1.1 "));
	put_uint(&w, (unsigned)relay->status);
	put(&w, STR(" "));
	put(&w, relay->reason);
	put(&w, STR("\r\n"));
	put(&w, relay->lines);
	if (relay->framing == HTTP_SIZED) {
		put(&w, STR("Content-Length: "));
		put_uint(&w, relay->length);
		put(&w, STR("\r\n"));
	} else if (relay->framing != HTTP_NO_BODY && x->framing == ANSWER_CHUNKED) {
		put_header(&w, STR("Transfer-Encoding"), STR("chunked"));
	}
	if (x->conn->close_wanted && relay->status >= 200)
		put_header(&w, STR("Connection"), STR("close"));
	put(&w, STR("\r\n"));
	return (struct str){start, (size_t)(w.at - start)};
}

void exchange_take_over(struct exchange *x, const struct stream_consumer *consumer, void *arg)
{
	assert(!x->body_wanted && !x->is_begun);
	x->is_upgraded = x->is_half_open = true;
	x->body.consumer = consumer;
	x->body.consumer_arg = arg;
	x->body_wanted = true;
	x->body_complete = false;
	conn_proceed_soon(x->conn); /* it may have spoken already */
}

struct stream *exchange_relay(struct exchange *x, const struct relay *relay,
			      const struct stream_producer *producer, void *arg)
{
	if (relay->framing == HTTP_SIZED)
		exchange_length(x, relay->length);
	else if (relay->status == 101)
		x->framing = ANSWER_UNTIL_CLOSE;
	else if (relay->framing != HTTP_NO_BODY)
		x->framing = x->head->minor ? ANSWER_CHUNKED : ANSWER_UNTIL_CLOSE;
	return exchange_begin(x, x->is_gone ? (struct str){NULL, 0} : format_relay(x, relay),
			      producer, arg);
}

void exchange_interim(struct exchange *x, const struct relay *relay)
{
	uv_buf_t part;
	struct str head;

	if (!x->head->minor || x->is_gone || x->is_begun)
		return;
	head = format_relay(x, relay);
	part = as_buf(head);
	if (head.at)
		conn_output(x->conn, &part, 1);
}

void exchange_trailers(struct exchange *x, struct str lines)
{
	char *copy = arena_strndup(&x->arena, lines.at, lines.len);

	if (copy && x->framing == ANSWER_CHUNKED)
		x->trailers = (struct str){copy, lines.len};
}

void exchange_cork(struct exchange *x)
{
	x->conn->is_corked = true;
}

void exchange_uncork(struct exchange *x)
{
	x->conn->is_corked = false;
	conn_flush(x->conn);
}

const char *exchange_peer(struct exchange *x)
{
	struct conn *c = x->conn;
	struct sockaddr_storage peer;
	int len = sizeof(peer);

	if (c->peer[0] || c->uv.handle.type != UV_TCP ||
	    uv_tcp_getpeername(&c->uv.tcp, (struct sockaddr *)&peer, &len) < 0)
		return c->peer;
	if (peer.ss_family == AF_INET)
		uv_ip4_name((struct sockaddr_in *)&peer, c->peer, sizeof(c->peer));
	else
		uv_ip6_name((struct sockaddr_in6 *)&peer, c->peer, sizeof(c->peer));
	return c->peer;
}

void exchange_cut(struct exchange *x)
{
	conn_broken(x->conn);
	exchange_answered(x);
}
