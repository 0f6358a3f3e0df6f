#include "cmd/berth/upgrade.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "cmd/berth/address.h"
#include "cmd/berth/client.h"
#include "cmd/berth/screen.h"
#include "proto/json.h"

#define CONNECT_MS 5000
#define HEAD_MAX   (64 * 1024)
#define END        "\r\n\r\n"

/* --- the connection --- */

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
}

static int reach(struct upgrade *u, const char *url, const char *where, struct err *err)
{
	char detail[CURL_ERROR_SIZE] = "";
	curl_socket_t fd = CURL_SOCKET_BAD;
	CURLcode code;

	curl_easy_setopt(u->curl, CURLOPT_URL, url);
	curl_easy_setopt(u->curl, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(u->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(u->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(u->curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(u->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(u->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	curl_easy_setopt(u->curl, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(u->curl, CURLOPT_ERRORBUFFER, detail);
	code = curl_easy_perform(u->curl);
	curl_easy_setopt(u->curl, CURLOPT_ERRORBUFFER, NULL);
	if (code == CURLE_OK)
		code = curl_easy_getinfo(u->curl, CURLINFO_ACTIVESOCKET, &fd);
	u->fd = fd;
	if (code != CURLE_OK)
		return err_set(err, -ECONNREFUSED, ERR_UNAVAILABLE, "cannot reach %s: %s", where,
			       detail[0] ? detail : curl_easy_strerror(code));
	return 0;
}

static int open_by_url(struct upgrade *u, const struct globals *globals, const char *path,
		       struct err *err)
{
	struct screen_text where = screen_text(str_of(globals->url));
	const char *host = strstr(globals->url, "://"), *base, *at;
	size_t base_len;
	int r = reach(u, globals->url, where.text, err);

	if (r < 0)
		return r;
	host = host ? host + 3 : globals->url;
	base = host + strcspn(host, "/?#");
	base_len = *base == '/' ? strcspn(base, "?#") : 0;
	while (base_len && base[base_len - 1] == '/')
		base_len--;
	at = memrchr(host, '@', (size_t)(base - host));
	host = at ? at + 1 : host;
	u->host = strndup(host, (size_t)(base - host));
	if (!u->host || asprintf(&u->path, "%.*s%s", (int)base_len, base, path) < 0) {
		u->path = NULL;
		return no_memory(err);
	}
	u->token = globals->token;
	return 0;
}

static int open_by_socket(struct upgrade *u, const struct globals *globals, const char *path,
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
	curl_easy_setopt(u->curl, CURLOPT_UNIX_SOCKET_PATH, address.un.sun_path);
	r = reach(u, "http://localhost/", paths.socket, err);
	if (r < 0)
		return r;
	u->host = strdup("localhost");
	u->path = strdup(path);
	return u->host && u->path ? 0 : no_memory(err);
}

int upgrade_open(struct upgrade *u, const struct globals *globals, const char *path,
		 struct err *err)
{
	int r;

	*u = (struct upgrade){.fd = -1};
	buf_init(&u->early, HEAD_MAX);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	u->curl = curl_easy_init();
	if (!u->curl)
		r = no_memory(err);
	else
		r = globals->url ? open_by_url(u, globals, path, err)
				 : open_by_socket(u, globals, path, err);
	if (r < 0)
		upgrade_close(u);
	return r;
}

void upgrade_close(struct upgrade *u)
{
	if (u->curl)
		curl_easy_cleanup(take(u->curl));
	free(take(u->host));
	free(take(u->path));
	buf_close(&u->early);
}

/* --- asking --- */

static int wait_for(const struct upgrade *u, short events, struct err *err)
{
	struct pollfd fd = {u->fd, events, 0};

	if (poll(&fd, 1, UPGRADE_ANSWER_MS) > 0)
		return 0;
	return err_set(err, -ETIMEDOUT, ERR_TIMEOUT, "the daemon did not answer in time");
}

static int send_all(struct upgrade *u, struct str text, struct err *err)
{
	while (text.len) {
		size_t n = 0;
		CURLcode code = curl_easy_send(u->curl, text.at, text.len, &n);

		if (code == CURLE_AGAIN) {
			if (wait_for(u, POLLOUT, err) < 0)
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

int upgrade_ask(struct upgrade *u, const char *headers, struct err *err)
{
	struct buf request;
	int r;

	buf_init(&request, 2 * HEAD_MAX);
	r = buf_printf(&request,
		       "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\n%s%s%s%s\r\n",
		       u->path, u->host, headers, u->token ? "Authorization: Bearer " : "",
		       u->token ? u->token : "", u->token ? "\r\n" : "");
	r = r < 0 ? no_memory(err)
		  : send_all(u, (struct str){buf_at(&request), buf_len(&request)}, err);
	buf_close(&request);
	return r;
}

/* --- the answer --- */

/* 1: there is more; 0: that was all; -EAGAIN. */
static int receive(struct upgrade *u, struct err *err)
{
	char *room = buf_room(&u->early, 4096);
	size_t n = 0;
	CURLcode code = room ? curl_easy_recv(u->curl, room, 4096, &n) : CURLE_OUT_OF_MEMORY;

	if (code == CURLE_AGAIN)
		return -EAGAIN;
	if (code != CURLE_OK)
		return err_set(err, -EPIPE, ERR_INTERNAL, "the daemon's answer: %s",
			       curl_easy_strerror(code));
	buf_added(&u->early, n);
	return n > 0;
}

static struct str all_of(const struct upgrade *u)
{
	return (struct str){buf_at(&u->early), buf_len(&u->early)};
}

/* With the empty line; "": it is not all there. */
static struct str head_of(const struct upgrade *u)
{
	struct str all = all_of(u);
	const char *end = all.len ? memmem(all.at, all.len, END, strlen(END)) : NULL;

	return (struct str){all.at, end ? (size_t)(end - all.at) + strlen(END) : 0};
}

static struct str body_of(const struct upgrade *u)
{
	struct str all = all_of(u), head = head_of(u);

	return (struct str){all.at + head.len, all.len - head.len};
}

/* Its body tells why. */
static int explain(const struct upgrade *u, struct err *err)
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

	arena_init(&arena, HEAD_MAX);
	if (json_parse(&arena, body_of(u), fields, &told, &bad) < 0)
		told.error = STR("the daemon refuses, in words that make no sense");
	err_set(err, -EREMOTEIO, ERR_INTERNAL, "%s (%s)", screen_text(told.error).text,
		screen_text(told.code).text);
	arena_close(&arena);
	return -EREMOTEIO;
}

int upgrade_answered(struct upgrade *u, struct err *err)
{
	static const char good[] = "HTTP/1.1 101 ";
	int r = 1;

	while (r > 0) {
		struct str head = head_of(u), body = body_of(u);

		if (head.len && str_starts_with(head, STR(good)))
			return 0;
		if (head.len && (memchr(body.at, '}', body.len) || body.len > HEAD_MAX / 2))
			return explain(u, err);
		r = receive(u, err);
	}
	if (r == 0 && head_of(u).len)
		return explain(u, err);
	if (r == 0)
		return err_set(err, -EPIPE, ERR_INTERNAL, "the daemon gave no answer");
	return r == -EAGAIN ? 1 : r;
}

int upgrade_wait(struct upgrade *u, struct err *err)
{
	int r;

	while ((r = upgrade_answered(u, err)) == 1) {
		if (wait_for(u, POLLIN, err) < 0)
			return -ETIMEDOUT;
	}
	return r;
}

struct str upgrade_header(const struct upgrade *u, struct str name)
{
	struct str head = head_of(u);

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

void upgrade_begin(struct upgrade *u)
{
	buf_consume(&u->early, head_of(u).len);
}

/* --- bytes --- */

ssize_t upgrade_recv(struct upgrade *u, void *bytes, size_t len)
{
	size_t n = buf_len(&u->early) < len ? buf_len(&u->early) : len;
	CURLcode code;

	if (n) {
		memcpy(bytes, buf_at(&u->early), n);
		buf_consume(&u->early, n);
		if (!buf_len(&u->early))
			buf_close(&u->early);
		return (ssize_t)n;
	}
	code = curl_easy_recv(u->curl, bytes, len, &n);
	if (code == CURLE_AGAIN)
		return -EAGAIN;
	return code == CURLE_OK ? (ssize_t)n : -EPIPE;
}

ssize_t upgrade_send(struct upgrade *u, const void *bytes, size_t len)
{
	size_t n = 0;
	CURLcode code = curl_easy_send(u->curl, bytes, len, &n);

	if (code == CURLE_AGAIN)
		return -EAGAIN;
	return code == CURLE_OK ? (ssize_t)n : -EPIPE;
}
