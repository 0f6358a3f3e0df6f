#include "cmd/berth/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <curl/curl.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "cmd/berth/screen.h"
#include "proto/json.h"

#define ERROR_ARENA_MAX (1024 * 1024)

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

bool client_holder(const struct globals *globals, const struct paths *paths, struct holder *ret)
{
	bool is_meant = !globals->socket && (globals->state_dir || !globals->run_dir);

	return holder_find(paths->state_dir, ret) &&
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

static int connect_failed(const char *path, int error, struct err *err)
{
	struct stat st;

	switch (error) {
	case ENOENT:
	case ENOTDIR:
		return err_set(err, -ENOENT, ERR_UNAVAILABLE,
			       "no berthd answers on %s: start one with `berth up`", path);
	case ECONNREFUSED:
		if (stat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
			return err_set(err, -ENOTSOCK, ERR_INVALID_REQUEST, "%s is not a socket",
				       path);
		return err_set(err, -ECONNREFUSED, ERR_UNAVAILABLE,
			       "%s was left behind by a berthd that is gone: start a new one with "
			       "`berth up`",
			       path);
	case EACCES:
	case EPERM:
		return err_set(err, -EACCES, ERR_FORBIDDEN,
			       "you may not connect to %s: ask as the user who started berthd, or "
			       "join the group that owns the socket",
			       path);
	case EAGAIN:
		return err_set(err, -ETIMEDOUT, ERR_TIMEOUT,
			       "berthd on %s does not answer: it is overloaded or hangs", path);
	default:
		return err_set(err, -error, ERR_UNAVAILABLE, "cannot connect to %s: %s", path,
			       strerror(error));
	}
}

/* An address holds 108 bytes; a longer path is reached through its directory's descriptor. */
struct address {
	struct sockaddr_un un;
	int dir; /* -1: not needed */
};

static void address_closep(struct address *address)
{
	close_fdp(&address->dir);
}

static int address_fill(struct address *ret, const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	int n;

	ret->un.sun_family = AF_UNIX;
	if (strlen(path) < sizeof(ret->un.sun_path)) {
		memcpy(ret->un.sun_path, path, strlen(path) + 1);
		return 0;
	}
	if (!slash || strlen(path) >= sizeof(dir))
		return -ENAMETOOLONG;
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path + 1), path);
	ret->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ret->dir < 0)
		return -errno;
	n = snprintf(ret->un.sun_path, sizeof(ret->un.sun_path), "/proc/self/fd/%d/%s", ret->dir,
		     slash + 1);
	return n < (int)sizeof(ret->un.sun_path) ? 0 : -ENAMETOOLONG;
}

/* Of a connected socket; 0 if it cannot be told. */
static pid_t peer_pid(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 ? peer.pid : 0;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
	struct answer *answer = arg;

	/* Anything but the full count makes curl stop with CURLE_WRITE_ERROR. */
	return buf_append(&answer->body, bytes, size * count) < 0 ? 0 : size * count;
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

static int perform(CURL *curl, int timeout_ms, struct answer *ret, const char *where,
		   struct err *err)
{
	char detail[CURL_ERROR_SIZE] = "";
	CURLcode code;

	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	/* A proxy in the environment would read the token, and loopback is not its own. */
	curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "berth/" BERTH_VERSION);
	code = curl_easy_perform(curl);
	if (code != CURLE_OK)
		return curl_failed(code, where, detail, err);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &ret->status);
	return answer_judge(ret, where, err);
}

static int get_by_url(const struct globals *globals, CURL *curl, const char *path,
		      struct answer *ret, struct err *err)
{
	cleanup(slist_freep) struct curl_slist *headers = NULL;
	cleanup_free char *url = NULL;
	size_t len = strlen(globals->url);
	int r;

	if (strncasecmp(globals->url, "http://", 7) != 0 &&
	    strncasecmp(globals->url, "https://", 8) != 0)
		return not_an_address(globals->url, err);
	while (len > 0 && globals->url[len - 1] == '/')
		len--;
	if (asprintf(&url, "%.*s%s", (int)len, globals->url, path) < 0) {
		url = NULL;
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	}
	if (globals->token) {
		r = token_header(globals->token, &headers, err);
		if (r < 0)
			return r;
		curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	}
	curl_easy_setopt(curl, CURLOPT_URL, url);
	r = perform(curl, globals->timeout_ms, ret, screen_text(str_of(globals->url)).text, err);
	if (r == -EREMOTEIO && ret->status == 401)
		return err_set(err, r, ERR_UNAUTHORIZED, "%s wants a token: %s",
			       screen_text(str_of(globals->url)).text,
			       globals->token ? "the one in BERTH_TOKEN is not accepted"
					      : "set BERTH_TOKEN");
	return r;
}

static int get_by_socket(const struct globals *globals, CURL *curl, const char *path,
			 struct answer *ret, struct err *err)
{
	cleanup(address_closep) struct address address = {.dir = -1};
	char where[PATH_MAX + 16];
	struct paths paths;
	cleanup_free char *url = NULL;
	cleanup_fd int copy = -1;
	long error = 0;
	int r;

	r = client_paths(globals, &paths, err);
	if (r < 0)
		return r;
	snprintf(where, sizeof(where), "berthd on %s", paths.socket);
	r = address_fill(&address, paths.socket);
	if (r < 0)
		return explain_absence(globals, &paths, connect_failed(paths.socket, -r, err), err);
	if (asprintf(&url, "http://localhost%s", path) < 0) {
		url = NULL;
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	}
	curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, address.un.sun_path);
	curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, &copy);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	r = perform(curl, globals->timeout_ms, ret, where, err);
	if (copy >= 0)
		ret->peer = peer_pid(copy);
	curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &error);
	if (r == -ECONNREFUSED)
		r = connect_failed(paths.socket, error ? (int)error : EIO, err);
	return explain_absence(globals, &paths, r, err);
}

int client_get(const struct globals *globals, const char *path, struct answer *ret, struct err *err)
{
	cleanup(curl_closep) CURL *curl = NULL;

	curl_global_init(CURL_GLOBAL_DEFAULT);
	curl = curl_easy_init();
	if (!curl)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	return globals->url ? get_by_url(globals, curl, path, ret, err)
			    : get_by_socket(globals, curl, path, ret, err);
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
