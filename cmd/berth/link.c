#include "cmd/berth/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <curl/curl.h>
#include <wslay/wslay.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/berth/address.h"
#include "cmd/berth/client.h"
#include "cmd/berth/screen.h"
#include "proto/base64.h"
#include "proto/json.h"
#include "proto/websocket.h"

#define CONNECT_MS 5000
#define ANSWER_MS  60000 /* a sandbox may have to start */
#define HEAD_MAX   (64 * 1024)
#define END        "\r\n\r\n"
#define REASON_MAX 123
#define TURN_MAX   (32 * 1024)    /* received in one link_work(), so that others have their turn */
#define QUEUED_MAX (TURN_MAX / 2) /* messages: one turn's pings, and some */

struct link {
	CURL *curl;
	curl_socket_t fd;
	wslay_event_context_ptr wslay;
	struct buf early; /* what came behind the answer's head */
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
	size_t n = buf_len(&link->early) < len ? buf_len(&link->early) : len;
	CURLcode code = CURLE_AGAIN;

	if (link->turn >= TURN_MAX) {
		n = 0;
	} else if (n) {
		code = CURLE_OK;
		memcpy(bytes, buf_at(&link->early), n);
		buf_consume(&link->early, n);
	} else {
		code = curl_easy_recv(link->curl, bytes, len, &n);
	}
	link->turn += n;
	if (code == CURLE_OK && n)
		return (ssize_t)n;
	if (code != CURLE_AGAIN)
		link->is_ended = true;
	wslay_event_set_error(wslay, code == CURLE_AGAIN ? WSLAY_ERR_WOULDBLOCK
							 : WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

/* Who does not listen any more may have said why before: that is still to be read. */
static ssize_t on_send(wslay_event_context_ptr wslay, const uint8_t *bytes, size_t len, int flags,
		       void *arg)
{
	struct link *link = arg;
	size_t n = 0;
	CURLcode code = link->is_mute ? CURLE_OK : curl_easy_send(link->curl, bytes, len, &n);

	if (code == CURLE_AGAIN) {
		wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	link->is_mute = link->is_mute || code != CURLE_OK;
	return (ssize_t)(link->is_mute ? len : n);
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

static int wait_for(const struct link *link, short events, struct err *err)
{
	struct pollfd fd = {link->fd, events, 0};

	if (poll(&fd, 1, ANSWER_MS) > 0)
		return 0;
	return err_set(err, -ETIMEDOUT, ERR_TIMEOUT, "the daemon did not answer in time");
}

static int send_all(struct link *link, struct str text, struct err *err)
{
	while (text.len) {
		size_t n = 0;
		CURLcode code = curl_easy_send(link->curl, text.at, text.len, &n);

		if (code == CURLE_AGAIN) {
			if (wait_for(link, POLLOUT, err) < 0)
				return -ETIMEDOUT;
			continue;
		}
		if (code != CURLE_OK)
			return err_set(err, -EPIPE, ERR_INTERNAL, "the daemon: %s",
				       curl_easy_strerror(code));
		text = (struct str){text.at + n, text.len - n};
	}
	return 0;
}

/* 1: there is more; 0: that was all. */
static int receive(struct link *link, struct err *err)
{
	for (;;) {
		char *room = buf_room(&link->early, 4096);
		size_t n = 0;
		CURLcode code =
			room ? curl_easy_recv(link->curl, room, 4096, &n) : CURLE_OUT_OF_MEMORY;

		if (code == CURLE_AGAIN) {
			if (wait_for(link, POLLIN, err) < 0)
				return -ETIMEDOUT;
			continue;
		}
		if (code != CURLE_OK)
			return err_set(err, -EPIPE, ERR_INTERNAL, "the daemon's answer: %s",
				       curl_easy_strerror(code));
		buf_added(&link->early, n);
		return n > 0;
	}
}

static char *find_end(const struct link *link)
{
	return buf_len(&link->early)
		       ? memmem(buf_at(&link->early), buf_len(&link->early), END, strlen(END))
		       : NULL;
}

/* Its body tells why; the connection ends behind it, as was asked for. */
static int explain(struct link *link, struct err *err)
{
	struct told {
		struct str error, code;
	} told = {STR("it gave no reason"), STR("no code")};
	static const struct json_field fields[] = {
		{"error", JSON_STRING, offsetof(struct told, error), false, 0, NULL, 0},
		{"code", JSON_STRING, offsetof(struct told, code), false, 0, NULL, 0},
		{"*", JSON_IGNORED, 0, false, 0, NULL, 0},
		{NULL, JSON_BOOL, 0, false, 0, NULL, 0},
	};
	struct arena arena;
	struct err bad;
	struct str body;
	int r = 1;

	while (r > 0 && buf_len(&link->early) < HEAD_MAX / 2 &&
	       !memchr(find_end(link) + strlen(END), '}',
		       (size_t)(buf_at(&link->early) + buf_len(&link->early) - find_end(link)) -
			       strlen(END)))
		r = receive(link, err);
	body.at = find_end(link) + strlen(END);
	body.len = (size_t)(buf_at(&link->early) + buf_len(&link->early) - body.at);
	arena_init(&arena, HEAD_MAX);
	if (json_parse(&arena, body, fields, &told, &bad) < 0)
		told.error = STR("the daemon refuses, in words that make no sense");
	err_set(err, -EREMOTEIO, ERR_INTERNAL, "%s (%s)", screen_text(told.error).text,
		screen_text(told.code).text);
	arena_close(&arena);
	return -EREMOTEIO;
}

/* Whom and what is asked for. */
struct target {
	const char *host; /* as the Host line has it */
	const char *path; /* and query */
	const char *token;
};

static int send_request(struct link *link, const struct target *target, struct str key,
			struct err *err)
{
	struct buf request;
	int r;

	buf_init(&request, 2 * HEAD_MAX);
	r = buf_printf(&request,
		       "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"
		       "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		       "Sec-WebSocket-Key: %.*s\r\n%s%s%s\r\n",
		       target->path, target->host, STR_ARGS(key),
		       target->token ? "Authorization: Bearer " : "",
		       target->token ? target->token : "", target->token ? "\r\n" : "");
	r = r < 0 ? err_set(err, r, ERR_INTERNAL, "out of memory")
		  : send_all(link, (struct str){buf_at(&request), buf_len(&request)}, err);
	buf_close(&request);
	return r;
}

static int receive_head(struct link *link, struct err *err)
{
	int r = 1;

	while (r == 1 && !find_end(link))
		r = receive(link, err);
	if (r == 0)
		r = err_set(err, -EPIPE, ERR_INTERNAL, "the daemon gave no answer");
	return r < 0 ? r : 0;
}

/* The value of one line of the head, which ends there; "": it has none. */
static struct str find_header(struct str head, struct str name)
{
	while (head.len) {
		struct str line = str_cut(&head, '\n');
		struct str found = str_cut(&line, ':');

		if (!str_eq_nocase(found, name))
			continue;
		while (line.len && (*line.at == ' ' || *line.at == '\t'))
			line = (struct str){line.at + 1, line.len - 1};
		while (line.len && strchr(" \t\r", line.at[line.len - 1]))
			line.len--;
		return line;
	}
	return STR("");
}

/* Whoever answers 101 to anything, or has it stored, does not know this. */
static int check_accept(struct str head, struct str key, struct err *err)
{
	char accept[WEBSOCKET_ACCEPT_LEN + 1];

	websocket_accept_for(key, accept);
	if (str_eq(find_header(head, STR("Sec-WebSocket-Accept")), str_of(accept)) &&
	    str_eq_nocase(find_header(head, STR("Upgrade")), STR("websocket")))
		return 0;
	return err_set(err, -EPROTO, ERR_INTERNAL,
		       "whoever answers there does not speak WebSocket: is it berthd, and nothing "
		       "in between that changes what it says?");
}

static int shake_hands(struct link *link, const struct target *target, struct err *err)
{
	static const char good[] = "HTTP/1.1 101 ";
	unsigned char random[16];
	struct str key, head;
	struct buf text;
	int r = getrandom(random, sizeof(random), 0) == sizeof(random) ? 0 : -EIO;

	buf_init(&text, 64);
	if (r == 0)
		r = base64_encode(&text, (struct str){(const char *)random, sizeof(random)});
	if (r < 0)
		err_set(err, r, ERR_INTERNAL, "the kernel gives no random bytes");
	key = (struct str){buf_at(&text), buf_len(&text)};
	if (r == 0)
		r = send_request(link, target, key, err);
	if (r == 0)
		r = receive_head(link, err);
	if (r == 0 && strncmp(buf_at(&link->early), good, strlen(good)) != 0)
		r = explain(link, err);
	if (r == 0) {
		head = (struct str){buf_at(&link->early),
				    (size_t)(find_end(link) - buf_at(&link->early)) + strlen(END)};
		r = check_accept(head, key, err);
		buf_consume(&link->early, head.len);
	}
	buf_close(&text);
	return r;
}

/* --- the connection --- */

static int reach(struct link *link, const char *url, const char *where, struct err *err)
{
	char detail[CURL_ERROR_SIZE] = "";
	CURLcode code;

	curl_easy_setopt(link->curl, CURLOPT_URL, url);
	curl_easy_setopt(link->curl, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(link->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(link->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(link->curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(link->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(link->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	curl_easy_setopt(link->curl, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(link->curl, CURLOPT_ERRORBUFFER, detail);
	code = curl_easy_perform(link->curl);
	curl_easy_setopt(link->curl, CURLOPT_ERRORBUFFER, NULL);
	if (code == CURLE_OK)
		code = curl_easy_getinfo(link->curl, CURLINFO_ACTIVESOCKET, &link->fd);
	if (code != CURLE_OK)
		return err_set(err, -ECONNREFUSED, ERR_UNAVAILABLE, "cannot reach %s: %s", where,
			       detail[0] ? detail : curl_easy_strerror(code));
	return 0;
}

static int open_by_url(struct link *link, const struct globals *globals, const char *path,
		       struct err *err)
{
	struct screen_text where = screen_text(str_of(globals->url));
	const char *host = strstr(globals->url, "://"), *base;
	cleanup_free char *authority = NULL, *target = NULL;
	size_t base_len;
	int r = reach(link, globals->url, where.text, err);

	if (r < 0)
		return r;
	host = host ? host + 3 : globals->url;
	base = host + strcspn(host, "/?#");
	base_len = *base == '/' ? strcspn(base, "?#") : 0;
	authority = strndup(host, (size_t)(base - host));
	while (base_len && base[base_len - 1] == '/')
		base_len--;
	if (!authority || asprintf(&target, "%.*s%s", (int)base_len, base, path) < 0) {
		target = NULL;
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	}
	host = strrchr(authority, '@');
	return shake_hands(
		link, &(struct target){host ? host + 1 : authority, target, globals->token}, err);
}

static int open_by_socket(struct link *link, const struct globals *globals, const char *path,
			  struct err *err)
{
	cleanup(address_closep) struct address address = {.dir = -1};
	struct paths paths;
	int r = client_way(globals, &paths, err);

	if (r < 0)
		return r;
	r = address_fill(&address, paths.socket);
	if (r < 0)
		return address_failed(paths.socket, -r, "berth up", err);
	curl_easy_setopt(link->curl, CURLOPT_UNIX_SOCKET_PATH, address.un.sun_path);
	r = reach(link, "http://localhost/", paths.socket, err);
	return r < 0 ? r : shake_hands(link, &(struct target){"localhost", path, NULL}, err);
}

int link_open(struct link **ret, const struct globals *globals, const char *path, struct err *err)
{
	struct link *link = calloc(1, sizeof(*link));
	int r;

	if (!link)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	buf_init(&link->early, HEAD_MAX);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	link->curl = curl_easy_init();
	r = link->curl ? init_wslay(link, err)
		       : err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	if (r == 0)
		r = globals->url ? open_by_url(link, globals, path, err)
				 : open_by_socket(link, globals, path, err);
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
	if (link->curl)
		curl_easy_cleanup(link->curl);
	buf_close(&link->early);
	free(link);
}

int link_fd(const struct link *link)
{
	return link->fd;
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
