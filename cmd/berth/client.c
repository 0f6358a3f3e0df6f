#include "cmd/berth/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <curl/curl.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "cmd/berth/address.h"
#include "cmd/berth/screen.h"
#include "proto/json.h"

#define CONNECT_TIMEOUT_MS 5000
#define POLL_MS            1000
#define PIECE_SIZE         (256L * 1024)
#define ERROR_ARENA_MAX    (1024 * 1024)

void answer_init(struct answer *answer)
{
	*answer = (struct answer){0};
	buf_init(&answer->body, CLIENT_ANSWER_MAX);
}

void answer_close(struct answer *answer)
{
	buf_close(&answer->body);
}

static int copy_path(char ret[PATH_MAX], const char *given, struct err *err)
{
	if (snprintf(ret, PATH_MAX, "%s", given ? given : "") < PATH_MAX)
		return 0;
	return err_set(err, -ENAMETOOLONG, ERR_INVALID_REQUEST, "the path %s is too long",
		       screen_text(str_of(given)).text);
}

int client_paths(const struct globals *globals, struct paths *ret, struct err *err)
{
	struct holder holder;
	int r;

	*ret = (struct paths){0};
	r = copy_path(ret->state_dir, globals->state_dir, err);
	if (r == 0)
		r = copy_path(ret->run_dir, globals->run_dir, err);
	if (r == 0)
		r = copy_path(ret->socket, globals->socket, err);
	/* No path at all is not "nobody there". */
	if (r < 0 || paths_complete(ret, err) < 0)
		return -EINVAL;
	/* A state directory alone says nothing about the socket; whoever uses it does. */
	if (globals->state_dir && !globals->run_dir && !globals->socket &&
	    holder_find(ret->state_dir, &holder) && holder.socket[0])
		memcpy(ret->socket, holder.socket, sizeof(ret->socket));
	return 0;
}

int client_way(const struct globals *globals, struct paths *ret, struct err *err)
{
	int r = client_paths(globals, ret, err);

	if (r == 0 || !globals->socket)
		return r;
	*ret = (struct paths){0};
	return copy_path(ret->socket, globals->socket, err);
}

bool client_holder(const struct globals *globals, const struct paths *paths, struct holder *ret)
{
	bool is_meant = !globals->socket && (globals->state_dir || !globals->run_dir);

	return paths->state_dir[0] && holder_find(paths->state_dir, ret) &&
	       (is_meant || strcmp(ret->socket, paths->socket) == 0);
}

static int explain_absence(const struct globals *globals, const struct paths *paths, int error,
			   struct err *err)
{
	struct holder holder;

	if (!client_is_absent(error) || !client_holder(globals, paths, &holder))
		return error;
	if (!holder.socket[0] || strcmp(holder.socket, paths->socket) == 0)
		return err_set(err, error, ERR_UNAVAILABLE,
			       "berthd (pid %d) does not answer on %s: it is starting or stopping, "
			       "or has lost its socket",
			       (int)holder.pid, paths->socket);
	return err_set(err, error, ERR_UNAVAILABLE,
		       "no berthd answers on %s, but one (pid %d) serves on %s: use `--socket %s`",
		       paths->socket, (int)holder.pid, holder.socket, holder.socket);
}

const char *client_command(const struct globals *globals, const char *verb,
			   char ret[CLIENT_COMMAND_MAX])
{
	const struct {
		const char *flag, *value;
	} places[] = {
		{"--state-dir", globals->state_dir},
		{"--run-dir", globals->run_dir},
		{"--socket", globals->socket},
		{"--url", globals->url},
	};
	size_t len = (size_t)snprintf(ret, CLIENT_COMMAND_MAX, "berth");

	for (size_t i = 0; i < array_len(places) && len < CLIENT_COMMAND_MAX; i++)
		if (places[i].value)
			len += (size_t)snprintf(ret + len, CLIENT_COMMAND_MAX - len, " %s %s",
						places[i].flag,
						screen_text(str_of(places[i].value)).text);
	/* Better none than half of them. */
	if (len + strlen(verb) + 1 >= CLIENT_COMMAND_MAX)
		len = strlen("berth");
	snprintf(ret + len, CLIENT_COMMAND_MAX - len, " %s", verb);
	return ret;
}

/* A request under way. */
struct transfer {
	const struct client_request *request;
	CURL *curl;
	struct answer *answer;
	const char *where; /* whom we ask, for sentences */
	struct sse_reader reader;
	bool is_stream;   /* the answer is one, of events */
	bool is_bytes;    /* it is handed on as it is */
	bool is_finished; /* its last event has come */
	bool is_starved;  /* the body waits for bytes */
	int error;        /* of ours, not curl's */
};

static void transfer_closep(struct transfer *t)
{
	sse_reader_close(&t->reader);
}

/* Is the answer a stream, as wanted? Known once its head is there. */
static bool is_event_stream(struct transfer *t)
{
	const char *type = NULL;
	long status = 0;

	curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(t->curl, CURLINFO_CONTENT_TYPE, &type);
	return t->request->stream && t->request->stream->event && status == 200 && type &&
	       str_starts_with(str_of(type), STR("text/event-stream"));
}

static bool is_wanted_bytes(struct transfer *t)
{
	long status = 0;

	curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
	return t->request->stream && t->request->stream->bytes && status >= 200 && status < 300;
}

static int take_events(struct transfer *t, struct str bytes)
{
	const struct client_stream *stream = t->request->stream;
	struct sse_event event;
	int r;

	while ((r = sse_reader_next(&t->reader, &bytes, &event)) > 0) {
		r = stream->event(stream->arg, &event);
		if (r < 0)
			return r;
		if (r > 0) {
			t->is_finished = true;
			return 0;
		}
	}
	return r;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	struct str piece = {bytes, size * count};

	t->is_stream = t->is_stream || is_event_stream(t);
	t->is_bytes = t->is_bytes || is_wanted_bytes(t);
	/* Anything but the full count makes curl stop with CURLE_WRITE_ERROR. */
	if (t->is_bytes)
		t->error = t->request->stream->bytes(t->request->stream->arg, piece);
	else if (!t->is_stream)
		return buf_append_str(&t->answer->body, piece) < 0 ? 0 : piece.len;
	else if (!t->is_finished)
		t->error = take_events(t, piece);
	return t->error < 0 ? 0 : piece.len;
}

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/* The body never blocks the answer: without bytes curl is told to ask again later. */
static size_t on_read(char *room, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	const struct client_stream *stream = t->request->stream;
	int fd = stream->body_fd;
	ssize_t n;

	if (!is_readable(fd)) {
		t->is_starved = true;
		return CURL_READFUNC_PAUSE;
	}
	do
		n = read(fd, room, size * count);
	while (n < 0 && errno == EINTR);
	t->error = n < 0 ? -errno : stream->sent ? stream->sent(stream->arg, (size_t)n) : 0;
	return t->error < 0 ? CURL_READFUNC_ABORT : (size_t)n;
}

/* Keeps a copy of curl's socket, which is closed by the time we want to know its peer. */
static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);

	if (fd >= 0)
		*(int *)arg = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* {"error", "code"} and any further facts. */
struct failure {
	struct str error, code;
};

/* clang-format off */
static const struct json_field failure_fields[] = {
	{ "error", JSON_STRING,  offsetof(struct failure, error), true },
	{ "code",  JSON_STRING,  offsetof(struct failure, code) },
	{ "*",     JSON_IGNORED },
	{ NULL },
};
/* clang-format on */

static int answer_judge(const struct answer *answer, const char *where, struct err *err)
{
	struct str text = {buf_at(&answer->body), buf_len(&answer->body)};
	struct failure failure = {.code = STR("no code")};
	struct arena arena;
	int r;

	if (answer->status >= 200 && answer->status < 300)
		return 0;
	arena_init(&arena, ERROR_ARENA_MAX);
	r = json_parse(&arena, text, failure_fields, &failure, NULL);
	if (r == 0)
		r = err_set(err, -EREMOTEIO, ERR_INTERNAL, "%s (%s)",
			    screen_text(failure.error).text, screen_text(failure.code).text);
	else
		r = err_set(err, -EREMOTEIO, ERR_INTERNAL,
			    "%s answered %ld without saying why: is it berthd?", where,
			    answer->status);
	arena_close(&arena);
	return r;
}

static int not_an_address(const char *url, struct err *err)
{
	return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
		       "\"%s\" is no address of a daemon: http://HOST:PORT is",
		       screen_text(str_of(url)).text);
}

static int curl_failed(CURLcode code, const char *where, const char *detail, struct err *err)
{
	switch (code) {
	case CURLE_WRITE_ERROR:
		return err_set(err, -EMSGSIZE, ERR_INTERNAL, "%s answered with more than %d MiB",
			       where, CLIENT_ANSWER_MAX / 1024 / 1024);
	case CURLE_OPERATION_TIMEDOUT:
		return err_set(err, -ETIMEDOUT, ERR_TIMEOUT, "%s does not answer", where);
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
		return err_set(err, -ECONNREFUSED, ERR_UNAVAILABLE, "no berthd answers on %s: %s",
			       where, screen_text(str_of(detail)).text);
	case CURLE_GOT_NOTHING:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
		return err_set(err, -ECONNRESET, ERR_UNAVAILABLE,
			       "%s closed the connection without an answer", where);
	case CURLE_URL_MALFORMAT:
		return not_an_address(where, err);
	default:
		return err_set(
			err, -EIO, ERR_UNAVAILABLE, "%s gave no proper answer: %s", where,
			screen_text(str_of(*detail ? detail : curl_easy_strerror(code))).text);
	}
}

static void curl_closep(CURL **curl)
{
	curl_easy_cleanup(*curl);
}

static void slist_freep(struct curl_slist **list)
{
	curl_slist_free_all(*list);
}

/* A token travels in a header line: nothing in it may end the line. */
static int token_header(const char *token, struct curl_slist **ret, struct err *err)
{
	cleanup_free char *line = NULL;

	for (const char *c = token; *c; c++)
		if (*c <= ' ' || *c >= 0x7f)
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
				       "BERTH_TOKEN holds a character that no token has");
	if (asprintf(&line, "Authorization: Bearer %s", token) < 0) {
		line = NULL;
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	}
	*ret = curl_slist_append(NULL, line);
	return *ret ? 0 : err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
}

/* What became of our own part, of the stream, and only then of curl's. */
static int judge(struct transfer *t, CURLcode code, const char *detail, struct err *err)
{
	if (t->error == -EINTR)
		return err_set(err, -EINTR, ERR_UNAVAILABLE, "interrupted");
	if (t->error == -EMSGSIZE)
		return err_set(err, -EMSGSIZE, ERR_INTERNAL, "%s sent an event that is too large",
			       t->where);
	if (t->error < 0)
		return err_set(err, t->error, ERR_INTERNAL, "cannot pass on input or output: %s",
			       strerror(-t->error));
	if (t->is_finished)
		return 0;
	if (t->is_stream && t->request->stream->may_end && code == CURLE_OK)
		return 0;
	if (t->is_stream)
		return err_set(err, -ECONNRESET, ERR_UNAVAILABLE, "%s broke off: %s", t->where,
			       t->request->stream->broken
				       ? t->request->stream->broken
				       : "how the command ended, or whether, is not known");
	/* Its head has come, with or without some of the rest. */
	if (code == CURLE_PARTIAL_FILE || (t->is_bytes && code != CURLE_OK))
		return err_set(err, -ECONNRESET, ERR_UNAVAILABLE,
			       "%s broke off: not everything has come; its log may say why",
			       t->where);
	if (code != CURLE_OK)
		return curl_failed(code, t->where, detail, err);
	return answer_judge(t->answer, t->where, err);
}

/* Waits for whatever can happen. */
static int await(struct transfer *t, CURLM *multi)
{
	const struct client_stream *stream = t->request->stream;
	struct curl_waitfd fds[2];
	unsigned count = 0;

	if (stream && stream->interrupt_fd >= 0)
		fds[count++] = (struct curl_waitfd){stream->interrupt_fd, CURL_WAIT_POLLIN, 0};
	if (stream && t->is_starved)
		fds[count++] = (struct curl_waitfd){stream->body_fd, CURL_WAIT_POLLIN, 0};
	curl_multi_poll(multi, fds, count, POLL_MS, NULL);
	if (stream && stream->interrupt_fd >= 0 && is_readable(stream->interrupt_fd))
		return -EINTR;
	/* curl does not tell that a pipe was closed: ask again. */
	if (t->is_starved && is_readable(stream->body_fd)) {
		t->is_starved = false;
		curl_easy_pause(t->curl, CURLPAUSE_CONT);
	}
	return 0;
}

static CURLcode run(struct transfer *t, CURLM *multi)
{
	for (;;) {
		const CURLMsg *message;
		int count;

		curl_multi_perform(multi, &count);
		if (t->is_finished || t->error < 0)
			return CURLE_OK;
		message = curl_multi_info_read(multi, &count);
		if (message)
			return message->data.result;
		t->error = await(t, multi);
		if (t->error < 0)
			return CURLE_OK;
	}
}

static int set_headers(struct transfer *t, struct curl_slist **headers)
{
	const struct client_stream *stream = t->request->stream;
	const char *const lines[] = {
		stream && stream->event   ? "Accept: text/event-stream"
		: stream && stream->bytes ? "Accept: */*"
					  : "Accept: application/json",
		stream && stream->body_fd >= 0 ? "Content-Type: application/octet-stream"
		: t->request->body.len         ? "Content-Type: application/json"
					       : "Content-Type:", /* not curl's guess */
		/* It would cost a round trip, and a second where nobody answers it. */
		"Expect:",
		stream && stream->body_fd >= 0 ? "Transfer-Encoding: chunked" : NULL,
		t->request->header,
	};

	for (size_t i = 0; i < array_len(lines); i++) {
		struct curl_slist *longer =
			lines[i] ? curl_slist_append(*headers, lines[i]) : *headers;

		if (!longer)
			return -ENOMEM;
		*headers = longer;
	}
	curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, *headers);
	return 0;
}

static void set_request(struct transfer *t)
{
	const struct client_request *request = t->request;
	bool is_streamed = request->stream && request->stream->body_fd >= 0;

	if (is_streamed || request->body.len || strcmp(request->method, "POST") == 0) {
		curl_easy_setopt(t->curl, CURLOPT_POST, 1L);
		curl_easy_setopt(t->curl, CURLOPT_POSTFIELDSIZE_LARGE,
				 is_streamed ? (curl_off_t)-1 : (curl_off_t)request->body.len);
	}
	if (is_streamed) {
		curl_easy_setopt(t->curl, CURLOPT_READFUNCTION, on_read);
		curl_easy_setopt(t->curl, CURLOPT_READDATA, t);
	} else if (request->body.len || strcmp(request->method, "POST") == 0) {
		curl_easy_setopt(t->curl, CURLOPT_POSTFIELDS,
				 request->body.len ? request->body.at : "");
	}
	if (strcmp(request->method, "GET") != 0)
		curl_easy_setopt(t->curl, CURLOPT_CUSTOMREQUEST, request->method);
}

static int perform(struct transfer *t, struct curl_slist **headers, struct err *err)
{
	char detail[CURL_ERROR_SIZE] = "";
	CURL *curl = t->curl;
	CURLM *multi;
	CURLcode code;
	int r;

	set_request(t);
	if (set_headers(t, headers) < 0)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	/* A proxy in the environment would read the token, and loopback is not its own. */
	curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)t->request->timeout_ms);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
	/* What ".." in a sandbox's path means is the sandbox's affair. */
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, PIECE_SIZE);
	curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, PIECE_SIZE);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "berth/" BERTH_VERSION);
	multi = curl_multi_init();
	if (!multi)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	curl_multi_add_handle(multi, curl);
	code = run(t, multi);
	t->is_stream = t->is_stream || is_event_stream(t);
	t->is_bytes = t->is_bytes || is_wanted_bytes(t);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &t->answer->status);
	r = judge(t, code, detail, err);
	curl_multi_remove_handle(multi, curl);
	curl_multi_cleanup(multi);
	return r;
}

static int send_by_url(const struct globals *globals, struct transfer *t, struct err *err)
{
	struct screen_text where = screen_text(str_of(globals->url));
	cleanup(slist_freep) struct curl_slist *headers = NULL;
	cleanup_free char *url = NULL;
	size_t len = strlen(globals->url);
	int r;

	if (strncasecmp(globals->url, "http://", 7) != 0 &&
	    strncasecmp(globals->url, "https://", 8) != 0)
		return not_an_address(globals->url, err);
	while (len > 0 && globals->url[len - 1] == '/')
		len--;
	if (asprintf(&url, "%.*s%s", (int)len, globals->url, t->request->path) < 0) {
		url = NULL;
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	}
	if (globals->token) {
		r = token_header(globals->token, &headers, err);
		if (r < 0)
			return r;
	}
	t->where = where.text;
	curl_easy_setopt(t->curl, CURLOPT_URL, url);
	r = perform(t, &headers, err);
	if (r == -EREMOTEIO && t->answer->status == 401)
		return err_set(err, r, ERR_UNAUTHORIZED, "%s wants a token: %s", where.text,
			       globals->token ? "the one in BERTH_TOKEN is not accepted"
					      : "set BERTH_TOKEN");
	return r;
}

static int send_by_socket(const struct globals *globals, struct transfer *t, struct err *err)
{
	cleanup(address_closep) struct address address = {.dir = -1};
	cleanup(slist_freep) struct curl_slist *headers = NULL;
	char where[PATH_MAX + 16], start[CLIENT_COMMAND_MAX];
	struct paths paths;
	cleanup_free char *url = NULL;
	cleanup_fd int copy = -1;
	long error = 0;
	int r;

	r = client_way(globals, &paths, err);
	if (r < 0)
		return r;
	snprintf(where, sizeof(where), "berthd on %s", paths.socket);
	t->where = where;
	r = address_fill(&address, paths.socket);
	if (r < 0)
		return explain_absence(
			globals, &paths,
			address_failed(paths.socket, -r, client_command(globals, "up", start), err),
			err);
	if (asprintf(&url, "http://localhost%s", t->request->path) < 0) {
		url = NULL;
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	}
	curl_easy_setopt(t->curl, CURLOPT_UNIX_SOCKET_PATH, address.un.sun_path);
	curl_easy_setopt(t->curl, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(t->curl, CURLOPT_OPENSOCKETDATA, &copy);
	curl_easy_setopt(t->curl, CURLOPT_URL, url);
	r = perform(t, &headers, err);
	if (copy >= 0)
		t->answer->peer = address_peer(copy);
	curl_easy_getinfo(t->curl, CURLINFO_OS_ERRNO, &error);
	if (r == -ECONNREFUSED)
		r = address_failed(paths.socket, error ? (int)error : EIO,
				   client_command(globals, "up", start), err);
	return explain_absence(globals, &paths, r, err);
}

int client_send(const struct globals *globals, const struct client_request *request,
		struct answer *ret, struct err *err)
{
	cleanup(curl_closep) CURL *curl = NULL;
	cleanup(transfer_closep) struct transfer t = {.request = request, .answer = ret};

	sse_reader_init(&t.reader, CLIENT_EVENT_MAX);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	t.curl = curl = curl_easy_init();
	if (!curl)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	return globals->url ? send_by_url(globals, &t, err) : send_by_socket(globals, &t, err);
}

int client_get(const struct globals *globals, const char *path, struct answer *ret, struct err *err)
{
	struct client_request request = {
		.method = "GET", .path = path, .timeout_ms = globals->timeout_ms};

	return client_send(globals, &request, ret, err);
}

bool client_is_absent(int error)
{
	return error == -ENOENT || error == -ECONNREFUSED;
}

int client_failed(const struct globals *globals, const struct answer *answer, int error,
		  const struct err *err)
{
	if (globals->json && error == -EREMOTEIO && buf_len(&answer->body))
		printf("%.*s\n", (int)buf_len(&answer->body), buf_at(&answer->body));
	screen_error("%s", err->sentence);
	if (error == -EDESTADDRREQ)
		return EXIT_USAGE;
	return client_is_absent(error) || error == -ETIMEDOUT ? EXIT_NO_DAEMON : EXIT_FAILED;
}
