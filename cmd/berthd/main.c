/*
 * berthd: the loop. This file wires the parts together, in the order in which they can fail, and
 * decides the exit code: 0 after an orderly end, 1 when it could not start, 2 for bad flags.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <uv.h>

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "cmd/berthd/confine.h"
#include "cmd/berthd/directories.h"
#include "cmd/berthd/file_limit.h"
#include "cmd/berthd/keeper_start.h"
#include "cmd/berthd/options.h"
#include "cmd/berthd/privileges.h"
#include "cmd/berthd/sockets.h"
#include "daemon/access_log.h"
#include "daemon/berthd.h"
#include "daemon/capacity.h"
#include "daemon/events.h"
#include "daemon/lock.h"
#include "daemon/logs.h"
#include "daemon/preview.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/pool.h"
#include "daemon/run.h"
#include "daemon/systemd.h"
#include "daemon/token.h"

#define KEPT_PART 4 /* of the connections: how many to ports may wait for the next visit */

struct program {
	struct berthd berthd;
	uv_loop_t loop;
	struct sockets sockets;
	struct tokens *tokens;
	struct privileges privileges;
	struct logs *logs;
	bool is_loaded; /* the registry knows its sandboxes, or `load_err` says why not */
	struct err load_err;
	int lock_fd, keeper_fd;
	uv_signal_t on_term, on_int, on_hup;
	unsigned servers_open;
	bool has_loop, has_signals;
	bool is_stopping;
	int argc;
	char **argv;
};

/* Whatever comes is for a port of a sandbox, if it is for anybody. */
static const struct route preview_route = {
	.pattern = "",
	.handle = handle_preview,
	.body = BODY_STREAMED,
	.is_open = true,
};

static bool authorize(void *arg, struct str token)
{
	struct berthd *b = arg;
	struct program *p = container_of(b, struct program, berthd);

	return p->tokens && tokens_match(p->tokens, token);
}

/* --- stopping and reloading --- */

static void close_signals(struct program *p)
{
	uv_close((uv_handle_t *)&p->on_term, NULL);
	uv_close((uv_handle_t *)&p->on_int, NULL);
	uv_close((uv_handle_t *)&p->on_hup, NULL);
}

static void on_drained(void *arg)
{
	struct program *p = arg;

	if (--p->servers_open == 0)
		uv_stop(&p->loop);
}

static void drain(struct program *p, unsigned grace_ms)
{
	if (p->berthd.api)
		server_drain(p->berthd.api, grace_ms, on_drained, p);
	if (p->berthd.preview)
		server_drain(p->berthd.preview, grace_ms, on_drained, p);
}

/* The first signal lets requests finish; the second does not wait. */
static void on_stop(uv_signal_t *handle, int number)
{
	struct program *p = handle->data;

	if (p->is_stopping) {
		log_info("stopping at once signal=%d", number);
		drain(p, 0);
		return;
	}
	p->is_stopping = true;
	log_info("stopping signal=%d connections=%u", number, server_connections(p->berthd.api));
	systemd_notify_stopping();
	sockets_close(&p->sockets);
	events_end_all(registry_events(p->berthd.registry));
	drain(p, p->berthd.config.drain_ms ? p->berthd.config.drain_ms : 1);
}

static struct capacity_limits limits_of(const struct berthd *b)
{
	const struct config *config = &b->config;

	return (struct capacity_limits){
		.sandboxes = config->max_sandboxes,
		.running = config->max_running,
		.memory_floor = config->memory_floor == CONFIG_FLOOR_DEFAULT
					? capacity_floor_default(b->host.memory_bytes)
					: config->memory_floor,
	};
}

static int load_tokens(struct tokens **ret, const struct config *config, struct err *err)
{
	*ret = NULL;
	return config->token_file[0] ? tokens_load(ret, config->token_file, err) : 0;
}

static int read_again(const struct program *p, struct config *ret, struct tokens **ret_tokens,
		      unsigned *ret_stale, struct err *err)
{
	int r;

	*ret = p->berthd.config;
	r = options_reload(p->argc, p->argv, ret, ret_stale, err);
	return r < 0 ? r : load_tokens(ret_tokens, ret, err);
}

/* Opened, or anew for whoever has moved the file away; or closed. */
static int open_access_log(struct program *p, const struct config *config, struct err *err)
{
	struct access_log **log = &p->berthd.access_log;

	if (config->access_log[0])
		return *log ? access_log_reopen(*log, config->access_log, err)
			    : access_log_open(log, &p->loop, config->access_log, err);
	if (*log)
		access_log_close(*log);
	*log = NULL;
	return 0;
}

/* All or nothing: a mistake in the file or in the tokens leaves everything as it was. */
static int reload(struct program *p, unsigned *ret_stale, struct err *err)
{
	struct capacity_limits limits;
	struct config fresh;
	struct tokens *tokens;
	int r;

	r = read_again(p, &fresh, &tokens, ret_stale, err);
	if (r < 0)
		return r;
	r = open_access_log(p, &fresh, err);
	if (r < 0) {
		tokens_free(tokens);
		return r;
	}
	tokens_free(p->tokens);
	p->tokens = tokens;
	p->berthd.config = fresh;
	log_set_level(fresh.log_level);
	limits = limits_of(&p->berthd);
	capacity_set(registry_capacity(p->berthd.registry), &limits);
	runs_set_max(p->berthd.runs, runs_max_of(fresh.max_runs, p->berthd.host.cpus));
	pool_renew(runs_pool(p->berthd.runs));
	return 0;
}

static void on_reload(uv_signal_t *handle, int number)
{
	struct program *p = handle->data;
	unsigned stale = 0;
	struct err err;
	int r;

	systemd_notify_reloading();
	r = reload(p, &stale, &err);
	if (r < 0)
		log_error("reload failed, the old settings stay: %s%s", err.sentence,
			  r == -EACCES && p->berthd.confinement.landlock_abi
				  ? " (only files beside those that berthd started with can be "
				    "opened now: others wait for a restart)"
				  : "");
	else
		log_info("settings and tokens read again");
	for (unsigned i = 0; i < CONFIG_SETTING_COUNT; i++) {
		if (stale & 1u << i)
			log_warn("setting=%s has changed and waits for a restart",
				 config_setting_name(i));
	}
	systemd_notify_ready();
}

/* --- starting --- */

/* What must come before anything is opened; else there is nothing to finish. */
static int prepare(struct program *p, struct err *err)
{
	struct berthd *b = &p->berthd;
	bool has_preview;
	int r;

	log_set_level(b->config.log_level);
	r = sockets_take(&p->sockets, err);
	if (r < 0)
		return r;
	b->socket = p->sockets.passed_path[0] ? p->sockets.passed_path : b->config.paths.socket;
	has_preview = b->config.preview.host[0] || p->sockets.passed_len;
	b->limits = SERVER_LIMITS_DEFAULT;
	if (b->config.max_connections)
		b->limits.connections = b->config.max_connections;
	return file_limit_fit(&b->limits, has_preview ? 3 : 1, b->config.max_connections, err);
}

/*
 * After the filter: libuv since 1.45 makes an io_uring for its epoll_ctl() calls, and aborts if
 * that cannot be used later. Where none can be made it does without.
 */
static int make_loop(struct program *p, struct err *err)
{
	int r = uv_loop_init(&p->loop);

	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "the event loop cannot start: %s",
			       uv_strerror(r));
	p->has_loop = true;
	return 0;
}

static int make_servers(struct program *p, struct err *err)
{
	struct berthd *b = &p->berthd;
	struct server_config config = {
		.loop = &p->loop,
		.routes = routes,
		.nothing_here =
			"there is nothing at this path; /v1/openapi.html lists what there is",
		.limits = b->limits,
		.authorize = authorize,
		.arg = b,
	};

	if (server_new(&b->api, &config) < 0)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	p->servers_open++;
	config.any = &preview_route;
	config.nothing_here = "no port of a sandbox is exposed under this host name";
	if (server_new(&b->preview, &config) < 0)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	p->servers_open++;
	return 0;
}

static int open_store(struct program *p, struct err *err)
{
	struct berthd *b = &p->berthd;
	char path[PATH_MAX];
	int r;

	r = lock_take(&p->lock_fd, b->config.paths.state_dir, b->socket, err);
	if (r < 0)
		return r;
	if (snprintf(path, sizeof(path), "%s/berthd/state.db", b->config.paths.state_dir) >=
	    (int)sizeof(path))
		return err_set(err, -ENAMETOOLONG, ERR_INVALID_REQUEST,
			       "the state directory's path is too long");
	return store_open(&b->store, &p->loop, path, b->config.store_sync, err);
}

/* Landlock knows where a link leads, and says only that it is not ours. */
static int check_logs(const struct program *p, const char *path, struct err *err)
{
	cleanup_free char *real = realpath(path, NULL);
	char own[PATH_MAX];
	cleanup_free char *real_own = NULL;
	size_t len;

	snprintf(own, sizeof(own), "%.*s", (int)(strrchr(path, '/') - path), path);
	real_own = realpath(own, NULL);
	len = real_own ? strlen(real_own) : 0;
	if (!p->berthd.confinement.landlock_abi || !real || !real_own ||
	    (strncmp(real, real_own, len) == 0 && real[len] == '/'))
		return 0;
	return err_set(err, -EACCES, ERR_FORBIDDEN,
		       "%s leads to %s, and berthd has confined itself to %s: mount that directory "
		       "there instead (`mount --bind`), or start berthd with --no-confine",
		       path, real, own);
}

static int open_logs(struct program *p, struct err *err)
{
	const char *state_dir = p->berthd.config.paths.state_dir;
	char path[PATH_MAX];
	int r;

	if (snprintf(path, sizeof(path), "%s/berthd/logs", state_dir) >= (int)sizeof(path))
		return err_set(err, -ENAMETOOLONG, ERR_INVALID_REQUEST,
			       "the state directory's path is too long");
	r = check_logs(p, path, err);
	return r < 0 ? r : logs_open(&p->logs, &p->loop, path, err);
}

static void watch_signal(struct program *p, uv_signal_t *handle, uv_signal_cb callback, int number)
{
	uv_signal_init(&p->loop, handle);
	handle->data = p;
	uv_signal_start(handle, callback, number);
}

static void note_start(struct berthd *b)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	b->started_at_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	b->started_ns = uv_hrtime();
}

/* What needs root, if we are, and what a confined process may not; then no more of either. */
static int start_privileged(struct program *p, struct err *err)
{
	struct berthd *b = &p->berthd;
	int r;

	r = privileges_find(&p->privileges, b->config.user, err);
	if (r == 0)
		r = directories_make(&b->config.paths, &p->privileges, err);
	if (r == 0)
		r = sockets_open(&p->sockets, b, p->tokens != NULL, err);
	if (r == 0)
		r = keeper_start_up(&b->config, &p->privileges, &p->keeper_fd, err);
	if (r == 0)
		r = privileges_drop(&p->privileges, err);
	if (r == 0)
		r = confine_apply(&b->config, &b->confinement, err);
	return r;
}

/* What root could read or remove, the user that berthd has become may not: said now, not later. */
static void check_reach(const struct program *p)
{
	struct config fresh;
	struct tokens *tokens = NULL;
	unsigned stale = 0;
	struct err err;

	if (!p->privileges.is_root)
		return;
	if (read_again(p, &fresh, &tokens, &stale, &err) < 0)
		log_warn("SIGHUP would change nothing, because user=%s reads the files then: %s",
			 p->privileges.user, err.sentence);
	tokens_free(tokens);
	if (!sockets_can_unlink(&p->sockets))
		log_warn("the socket will be left behind, because user=%s cannot write to its "
			 "directory socket=%s",
			 p->privileges.user, log_value(str_of(p->berthd.socket)).text);
}

static void on_loaded(void *arg, const struct err *err)
{
	struct program *p = arg;

	p->is_loaded = true;
	p->load_err.code = ERR_NONE;
	if (err)
		p->load_err = *err;
}

/* As the settings say; else on this machine, where every name below localhost leads. */
static struct preview_url preview_url_of(const struct berthd *b)
{
	uint16_t port = b->preview_bound.port;
	struct preview_url url = {.port = port == 80 ? 0 : port, .domain = "localhost"};

	return b->config.preview_url.domain[0] ? b->config.preview_url : url;
}

static int load_sandboxes(struct program *p, struct err *err)
{
	struct berthd *b = &p->berthd;
	int r;

	b->preview_url = preview_url_of(b);
	r = registry_new(&b->registry,
			 &(struct registry_config){
				 .loop = &p->loop,
				 .store = b->store,
				 .run_dir = b->config.paths.run_dir,
				 .logs = p->logs,
				 .limits = limits_of(b),
				 .daemon = &b->config,
				 .autostart = b->config.autostart,
				 .init_timeout_ms = b->config.init_timeout_ms,
				 .ports = {b->preview_url, b->preview_bound.host[0] != '\0',
					   b->limits.connections / KEPT_PART},
				 .keeper_fd = p->keeper_fd,
				 .ready = on_loaded,
				 .arg = p,
			 },
			 err);
	if (r < 0)
		return r;
	p->keeper_fd = -1; /* the registry's now */
	while (!p->is_loaded)
		uv_run(&p->loop, UV_RUN_ONCE);
	if (p->load_err.code != ERR_NONE) {
		*err = p->load_err;
		return -EIO;
	}
	/* What a crash has left of runs is removed before anybody asks. */
	b->runs = runs_new(b->registry, runs_max_of(b->config.max_runs, b->host.cpus));
	return b->runs ? 0 : err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
}

static int start(struct program *p, struct err *err)
{
	struct berthd *b = &p->berthd;
	int r;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of that write, no end */
	signal(SIGUSR1, SIG_IGN); /* habits from daemons that reopen their logs */
	signal(SIGUSR2, SIG_IGN);
	host_probe(&b->host,
		   b->config.runtime[0] ? b->config.runtime : NULL); /* as who started us */
	r = load_tokens(&p->tokens, &b->config, err);
	if (r == 0)
		r = start_privileged(p, err);
	if (r == 0)
		r = make_loop(p, err);
	if (r == 0)
		r = make_servers(p, err);
	if (r == 0)
		r = open_store(p, err);
	if (r == 0)
		r = open_logs(p, err);
	if (r == 0)
		r = open_access_log(p, &b->config, err);
	if (r == 0)
		r = load_sandboxes(p, err);
	if (r < 0)
		return r;
	check_reach(p);
	note_start(b);
	r = sockets_serve(&p->sockets, b, err);
	if (r < 0)
		return r;
	watch_signal(p, &p->on_term, on_stop, SIGTERM);
	watch_signal(p, &p->on_int, on_stop, SIGINT);
	watch_signal(p, &p->on_hup, on_reload, SIGHUP);
	p->has_signals = true;
	return 0;
}

static void announce(const struct program *p)
{
	const struct berthd *b = &p->berthd;
	char listen[HOST_PORT_TEXT_SIZE], preview[HOST_PORT_TEXT_SIZE], taken[HOST_PORT_TEXT_SIZE];
	struct stat st;

	host_port_format(&b->listen_bound, listen);
	host_port_format(&b->preview_bound, preview);
	host_port_format(&b->preview_taken, taken);
	log_info("started version=%s pid=%d socket=%s listen=%s state_dir=%s", BERTH_VERSION,
		 (int)getpid(), log_value(str_of(b->socket)).text, listen[0] ? listen : "none",
		 log_value(str_of(b->config.paths.state_dir)).text);
	log_info("confined landlock=%u seccomp=%s", b->confinement.landlock_abi,
		 b->confinement.has_seccomp ? "yes" : "no");
	printf("ready socket=%s", b->socket);
	if (listen[0])
		printf(" listen=%s", listen);
	if (preview[0])
		printf(" preview=%s", preview);
	if (taken[0])
		printf(" taken=%s", taken);
	printf("\n");
	fflush(stdout);
	/* Whoever waited for that line may close the pipe, or wait for its end. */
	if (fstat(STDOUT_FILENO, &st) == 0 && S_ISFIFO(st.st_mode) &&
	    descriptors_silence(STDOUT_FILENO) < 0)
		log_warn("stdout stays the pipe that it was");
	systemd_notify_ready();
}

/* After a failed start there may be servers that nobody has drained. */
static void finish(struct program *p)
{
	struct berthd *b = &p->berthd;

	if (p->has_signals)
		close_signals(p);
	if (p->servers_open) {
		drain(p, 0);
		uv_run(&p->loop, UV_RUN_DEFAULT);
	}
	/* What is being stored still names its sandbox. */
	if (b->runs)
		runs_stop(b->runs);
	if (b->registry)
		registry_stop(b->registry);
	if (b->store)
		store_close(b->store);
	if (b->registry)
		registry_free(b->registry);
	if (b->runs)
		runs_free(b->runs);
	if (p->logs)
		logs_close(p->logs);
	if (b->access_log)
		access_log_close(b->access_log);
	if (b->api)
		server_free(b->api);
	if (b->preview)
		server_free(b->preview);
	sockets_close(&p->sockets);
	tokens_free(p->tokens);
	if (p->has_loop) {
		uv_run(&p->loop, UV_RUN_DEFAULT);
		uv_loop_close(&p->loop);
	}
	close_fdp(&p->lock_fd);
	close_fdp(&p->keeper_fd);
}

/*
 * Whoever waits in a pipe for "ready" while stderr is a file cannot see the sentence there, and on
 * a full disk it is lost: it gets a line of its own.
 */
static void complain(const struct err *err)
{
	struct stat out, log;

	if (fstat(STDOUT_FILENO, &out) == 0 && S_ISFIFO(out.st_mode) &&
	    fstat(STDERR_FILENO, &log) == 0 && S_ISREG(log.st_mode)) {
		printf("failed %s\n", err->sentence);
		fflush(stdout);
	}
	fprintf(stderr, "berthd: %s\n", err->sentence);
}

int main(int argc, char **argv)
{
	static struct program p;
	enum options_action action;
	struct err err;
	int r;

	if (descriptors_fill_standard() < 0)
		return 1;
	r = options_parse(argc, argv, &p.berthd.config, &action, &err);
	if (r < 0) {
		complain(&err);
		return 2;
	}
	if (action != OPTIONS_RUN) {
		action == OPTIONS_HELP ? options_print_help(stdout)
				       : (void)puts("berthd " BERTH_VERSION);
		return 0;
	}
	p.argc = argc;
	p.argv = argv;
	p.lock_fd = p.keeper_fd = -1;
	r = prepare(&p, &err);
	if (r == 0) {
		r = start(&p, &err);
		if (r == 0) {
			announce(&p);
			uv_run(&p.loop, UV_RUN_DEFAULT);
		}
		finish(&p);
	}
	if (r < 0)
		complain(&err);
	return r < 0 ? 1 : 0;
}
