#include "container/keeper.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "container/keeper_state.h"

#define LINK_MS      5000  /* the monitor does nothing that takes long */
#define STOP_MS      15000 /* for children under way when we are told to end */
#define ERRANDS      4     /* removals at once: they are after the disk */
#define COUNTS       2     /* of disks; apart, since a sandbox decides how long one takes */
#define LIMITS       8     /* that are lowered; apart, as it is with counts */
#define UNSEEN_TIMES 20    /* so much longer do we wait while an exit is not forgotten */

/* --- answers --- */

void keeper_answer_done(struct keeper *k, struct keeper_asker asker)
{
	keeper_conn_answer(
		&k->conn, asker,
		&(struct keeper_answer){.type = KEEPER_DONE, .fields = keeper_done_fields});
}

void keeper_answer_failed(struct keeper *k, struct keeper_asker asker, const struct err *err)
{
	struct keeper_failed failed = {
		.code = err->code ? err->code : ERR_INTERNAL,
		.sentence = {err->sentence, strnlen(err->sentence, KEEPER_SENTENCE_MAX)}};

	keeper_conn_answer(&k->conn, asker,
			   &(struct keeper_answer){.type = KEEPER_FAILED,
						   .fields = keeper_failed_fields,
						   .value = &failed});
}

void keeper_refuse(struct keeper *k, struct keeper_asker asker, enum err_code code,
		   const char *format, ...)
{
	struct err err = {.code = code};
	va_list args;

	va_start(args, format);
	vsnprintf(err.sentence, sizeof(err.sentence), format, args);
	va_end(args);
	keeper_answer_failed(k, asker, &err);
}

/* --- the monitor --- */

static void stop(struct keeper *k);

void keeper_tell_monitor(struct keeper *k, const struct monitor_record *record)
{
	struct pollfd room = {.fd = k->link.fd, .events = POLLOUT};
	int r = -EPIPE;

	while (k->link.fd >= 0 && (r = monitor_link_send(k->link.fd, record)) == -EAGAIN)
		if (poll(&room, 1, LINK_MS) == 0)
			break;
	if (r < 0 && !k->is_stopping)
		log_error("the monitor does not hear us: %s", strerror(-r));
}

static void on_link_ready(struct watch *watch)
{
	struct keeper *k = container_of(watch, struct keeper, link);
	struct monitor_record record;
	int r = monitor_link_receive(watch->fd, &record);

	if (r == 0 && record.kind == MONITOR_EXIT)
		keeper_take_status(k, &record);
	if (r == 0 || r == -EAGAIN)
		return;
	/* Nobody would reap the inits for us any more: a new start adopts them. */
	log_error("the monitor has ended, and so do we: %s", strerror(-r));
	watch_stop(&k->link, &k->loop);
	stop(k);
}

/* --- the end --- */

static bool has_work(const struct keeper *k)
{
	return k->runtimes.running || k->runtimes.waiting_count || k->syncs.running ||
	       k->errands.running || k->errands.waiting_count || k->counts.running ||
	       k->counts.waiting_count || k->limits.running || k->limits.waiting_count;
}

void keeper_settle(struct keeper *k)
{
	bool is_idle = !keeper_conn_has_peer(&k->conn) && k->sandboxes == k->exited && !has_work(k);
	uint64_t idle_ms = k->config->idle_ms * (k->exited ? UNSEEN_TIMES : 1);

	if (k->hello_waits && k->unwanted == 0)
		keeper_greet(k);
	if (k->is_stopping && !has_work(k))
		loop_stop(&k->loop);
	if (!is_idle)
		timer_stop(&k->idle);
	else if (list_is_empty(&k->idle.node) || k->idle.at_ms > loop_now_ms() + idle_ms)
		timer_start(&k->idle, &k->loop, idle_ms);
}

static void on_idle(struct timer *timer)
{
	struct keeper *k = container_of(timer, struct keeper, idle);

	if (keeper_conn_leave(&k->conn) == 0) {
		log_info("no berthd and no sandbox: ending");
		loop_stop(&k->loop);
	}
}

static void on_stop_time(struct timer *timer)
{
	loop_stop(&container_of(timer, struct keeper, stop)->loop);
}

/* Sandboxes run on. What our children are at is finished, so that nothing is left half-made. */
static void stop(struct keeper *k)
{
	if (k->is_stopping)
		return;
	k->is_stopping = true;
	timer_start(&k->stop, &k->loop, STOP_MS);
	keeper_conn_close(&k->conn);
	keeper_settle(k);
}

static void on_signal(struct watch *watch)
{
	struct keeper *k = container_of(watch, struct keeper, signals);
	struct signalfd_siginfo info;

	if (read(watch->fd, &info, sizeof(info)) == sizeof(info) && info.ssi_signo != SIGHUP)
		stop(k);
}

/* --- berthd --- */

static void on_gone(struct keeper_conn *conn)
{
	struct keeper *k = container_of(conn, struct keeper, conn);

	if (k->is_greeted || k->hello_waits)
		log_info("berthd has gone");
	k->is_greeted = k->hello_waits = false;
	timer_stop(&k->greeting);
	for (size_t i = 0; i < KEEPER_BUCKETS; i++) {
		list_for_each_safe (node, &k->buckets[i]) {
			struct keeper_sandbox *sb = list_entry(node, struct keeper_sandbox, node);

			keeper_freeze_abandon(sb);
			keeper_sandbox_abandon(sb);
		}
	}
	keeper_settle(k);
}

static void on_peer(struct keeper_conn *conn)
{
	keeper_settle(container_of(conn, struct keeper, conn));
}

static void on_greeting(struct timer *timer)
{
	keeper_greet(container_of(timer, struct keeper, greeting));
}

/* --- the start --- */

static int watch_signals(struct keeper *k, struct err *err)
{
	sigset_t set;
	int fd, r;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	r = fd < 0 ? -errno : watch_start(&k->signals, &k->loop, fd, EPOLLIN);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot watch for signals: %s", strerror(-r));
	return 0;
}

/* Each sandbox holds an fd or two; take what the hard limit gives. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int init(struct keeper *k, int link_fd, struct err *err)
{
	cpu_set_t cpus;
	unsigned count = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
	struct container_host_config host = k->config->host;
	int r = loop_init(&k->loop);

	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "no event loop: %s", strerror(-r));
	job_pool_init(&k->runtimes, &k->loop, 2 * count + 2, KEEPER_QUEUE_MAX);
	job_pool_init(&k->syncs, &k->loop, 2 * count + 2, KEEPER_QUEUE_MAX);
	job_pool_init(&k->errands, &k->loop, ERRANDS, KEEPER_ERRANDS_MAX);
	job_pool_init(&k->counts, &k->loop, COUNTS, KEEPER_ERRANDS_MAX);
	job_pool_init(&k->limits, &k->loop, LIMITS, KEEPER_SANDBOXES_MAX);
	job_pool_init(&k->looks, &k->loop, 2 * count + 2, KEEPER_QUEUE_MAX);
	list_init(&k->usages);
	list_init(&k->hangs);
	list_init(&k->changes);
	for (size_t i = 0; i < KEEPER_BUCKETS; i++)
		list_init(&k->buckets[i]);
	watch_init(&k->link, on_link_ready);
	watch_init(&k->signals, on_signal);
	watch_init(&k->conn.peer, NULL);
	watch_init(&k->conn.listener, NULL);
	timer_init(&k->idle, on_idle);
	timer_init(&k->stop, on_stop_time);
	timer_init(&k->greeting, on_greeting);
	keeper_pool_init(k);
	keeper_io_init(k);
	raise_file_limit();
	r = watch_start(&k->link, &k->loop, link_fd, EPOLLIN);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot watch the monitor: %s", strerror(-r));
	r = watch_signals(k, err);
	if (r < 0)
		return r;
	host.init_parent = monitor_link_pid(link_fd);
	r = container_host_init(&k->host, &host, err);
	if (r < 0)
		return r;
	snprintf(k->warning, sizeof(k->warning), "%s%s%s", k->config->warning,
		 *k->config->warning && *container_host_warning(k->host) ? "; " : "",
		 container_host_warning(k->host));
	return 0;
}

static int serve(struct keeper *k, struct err *err)
{
	int r = keeper_adopt(k, err);

	if (r < 0)
		return r;
	k->conn = (struct keeper_conn){
		.loop = &k->loop,
		.run_fd = container_host_run_fd(k->host),
		.daemon_uid = k->config->host.daemon_uid,
		.daemon_gid = k->config->host.daemon_gid,
		.on_frame = keeper_on_frame,
		.on_gone = on_gone,
		.on_peer = on_peer,
	};
	r = keeper_conn_listen(&k->conn, err);
	if (r < 0)
		return r;
	if (*k->warning)
		log_warn("%s", k->warning);
	log_info("keeper.sock serves runtime=%s sandboxes=%u", container_host_runtime(k->host),
		 k->sandboxes);
	keeper_tell_monitor(k, &(struct monitor_record){.kind = MONITOR_READY});
	keeper_disk_sweep(k);
	k->config->on_ready(k->config->arg);
	keeper_settle(k);
	r = loop_run(&k->loop);
	return r < 0 ? err_set(err, r, ERR_INTERNAL, "the loop broke: %s", strerror(-r)) : 0;
}

int keeper_run(const struct keeper_config *config, int link_fd, struct err *err)
{
	struct keeper *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	k->config = config;
	r = init(k, link_fd, err);
	if (r == 0)
		r = serve(k, err);
	/* It removes what it made for all. The rest is the kernel's to free: the process ends. */
	container_host_free(k->host);
	return r;
}
