#include "cmd/berthd/sockets.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/systemd.h"

struct passed {
	bool has_unix, has_tcp, has_preview;
};

static int need_tokens(bool has_tokens, struct err *err)
{
	if (has_tokens)
		return 0;
	return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
		       "the service manager passed a TCP socket, but there is no token file: add "
		       "--token-file FILE");
}

int sockets_take(struct sockets *ret, struct err *err)
{
	const struct systemd_socket *list = ret->passed;
	int count;

	*ret = (struct sockets){0};
	count = systemd_sockets(ret->passed, err);
	if (count < 0)
		return count;
	ret->passed_len = count;
	for (int i = 0; i < count && !ret->passed_path[0]; i++) {
		if (list[i].is_unix && !listen_path_of(list[i].fd, ret->passed_path))
			snprintf(ret->passed_path, sizeof(ret->passed_path), "unnamed");
	}
	return 0;
}

static void add(struct sockets *sockets, int fd, bool is_preview, bool needs_token)
{
	assert(sockets->bound_len < SOCKETS_MAX);
	sockets->bound[sockets->bound_len++] = (struct socket_bound){fd, is_preview, needs_token};
}

static int open_passed(struct sockets *sockets, struct berthd *b, bool has_tokens,
		       struct passed *ret, struct err *err)
{
	const struct systemd_socket *list = sockets->passed;
	int r = 0;

	*ret = (struct passed){0};
	for (int i = 0; i < sockets->passed_len; i++) {
		bool is_preview = !list[i].is_unix && strcmp(list[i].name, "preview") == 0;
		struct host_port *bound = is_preview ? &b->preview_bound : &b->listen_bound;

		if (r == 0 && !list[i].is_unix && !is_preview)
			r = need_tokens(has_tokens, err);
		if (r < 0) {
			close(list[i].fd);
			continue;
		}
		if (!list[i].is_unix && !bound->host[0])
			listen_address_of(list[i].fd, bound);
		ret->has_unix |= list[i].is_unix;
		ret->has_preview |= is_preview;
		ret->has_tcp |= !list[i].is_unix && !is_preview;
		add(sockets, list[i].fd, is_preview, !list[i].is_unix && !is_preview);
	}
	return r;
}

static int open_unix(struct sockets *sockets, struct berthd *b, struct err *err)
{
	struct listen_access access = {config_socket_mode(&b->config), b->config.socket_gid,
				       b->config.socket_group};
	const struct paths *paths = &b->config.paths;
	int fd, r;

	r = listen_unix(&fd, &sockets->file, paths->socket, &access, err);
	if (r == 0)
		add(sockets, fd, false, false);
	return r;
}

static int open_tcp(struct sockets *sockets, const struct host_port *where, bool is_preview,
		    struct host_port *bound, struct err *err)
{
	int fds[LISTEN_TCP_MAX];
	int count = listen_tcp(fds, where, err);

	for (int i = 0; i < count; i++)
		add(sockets, fds[i], is_preview, !is_preview);
	if (count > 0) {
		*bound = *where;
		bound->port = (uint16_t)listen_port(fds[0]);
	}
	return count < 0 ? count : 0;
}

/* If anywhere will do, another port's owner is no reason not to start. */
static int open_preview(struct sockets *sockets, struct berthd *b, struct err *err)
{
	struct host_port where = b->config.preview;
	char text[HOST_PORT_TEXT_SIZE];
	int r = open_tcp(sockets, &where, true, &b->preview_bound, err);

	if (r != -EADDRINUSE || !b->config.preview_is_auto)
		return r;
	b->preview_taken = where;
	host_port_format(&where, text);
	where.port = 0;
	r = open_tcp(sockets, &where, true, &b->preview_bound, err);
	if (r == 0)
		log_warn("preview=%s is taken: port=%u is used instead", text,
			 (unsigned)b->preview_bound.port);
	return r;
}

int sockets_open(struct sockets *sockets, struct berthd *b, bool has_tokens, struct err *err)
{
	const struct config *config = &b->config;
	struct passed passed;
	int r;

	r = open_passed(sockets, b, has_tokens, &passed, err);
	if (r == 0 && passed.has_unix && config->socket_group[0])
		log_warn("setting=socket_group has no effect: the service manager made the socket "
			 "socket=%s",
			 log_value(str_of(b->socket)).text);
	if (r == 0 && !passed.has_unix)
		r = open_unix(sockets, b, err);
	if (r == 0 && !passed.has_tcp && config->listen.host[0])
		r = open_tcp(sockets, &config->listen, false, &b->listen_bound, err);
	if (r == 0 && !passed.has_preview && config->preview.host[0])
		r = open_preview(sockets, b, err);
	if (r < 0)
		sockets_close(sockets);
	return r;
}

int sockets_serve(struct sockets *sockets, struct berthd *b, struct err *err)
{
	while (sockets->bound_len) {
		struct socket_bound *bound = &sockets->bound[--sockets->bound_len];
		int r = server_listen(bound->is_preview ? b->preview : b->api, bound->fd,
				      bound->needs_token, err);

		if (r < 0)
			return r;
	}
	return 0;
}

bool sockets_can_unlink(const struct sockets *sockets)
{
	char dir[sizeof(sockets->file.path)] = ".";
	const char *slash = strrchr(sockets->file.path, '/');

	if (slash)
		snprintf(dir, sizeof(dir), "%.*s/", (int)(slash - sockets->file.path),
			 sockets->file.path);
	return !sockets->file.path[0] || access(dir, W_OK | X_OK) == 0;
}

void sockets_close(struct sockets *sockets)
{
	while (sockets->bound_len)
		close(sockets->bound[--sockets->bound_len].fd);
	if (sockets->file.path[0])
		listen_unlink(&sockets->file);
	sockets->file.path[0] = '\0';
}
