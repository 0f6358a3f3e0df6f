#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <uv.h>

#include "base/cleanup.h"
#include "daemon/access_log.h"
#include "daemon/berthd.h"
#include "daemon/counts.h"
#include "daemon/exchange.h"
#include "daemon/metrics.h"
#include "daemon/pool.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/run.h"
#include "daemon/sandbox.h"
#include "daemon/server.h"
#include "daemon/store.h"
#include "daemon/survey.h"

static void put_gauge(struct metrics *m, const char *name, uint64_t value, const char *help)
{
	metrics_family(m, name, METRIC_GAUGE, help);
	metrics_sample(m, value, "%s", "");
}

static void put_counter(struct metrics *m, const char *name, uint64_t value, const char *help)
{
	metrics_family(m, name, METRIC_COUNTER, help);
	metrics_sample(m, value, "%s", "");
}

/* 0: it cannot be known. */
static uint64_t resident_bytes(void)
{
	cleanup_fd int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	unsigned long long all, resident = 0;
	char text[128];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	if (sscanf(text, "%llu %llu", &all, &resident) != 2)
		return 0;
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Linux counts them since 6.2; before, the size of that directory is 0. */
static uint64_t open_files(void)
{
	struct stat st;

	return stat("/proc/self/fd", &st) < 0 ? 0 : (uint64_t)st.st_size;
}

static void put_process(struct metrics *m, const struct berthd *d)
{
	uint64_t resident = resident_bytes(), files = open_files();

	metrics_family(m, "berth_build_info", METRIC_GAUGE,
		       "Always 1; the label tells the version.");
	metrics_sample(m, 1, "version=\"%s\"", BERTH_VERSION);
	put_gauge(m, "berth_uptime_seconds", (uv_hrtime() - d->started_ns) / 1000000000,
		  "How long berthd has been serving.");
	if (resident)
		put_gauge(m, "berth_resident_memory_bytes", resident, "Memory that berthd uses.");
	if (files)
		put_gauge(m, "berth_open_files", files, "Files and sockets that berthd has open.");
	put_gauge(m, "berth_store_queue", store_queue_len(d->store),
		  "Changes that are on their way to the disk.");
	if (d->access_log)
		put_counter(m, "berth_access_log_dropped_total", access_log_dropped(d->access_log),
			    "Lines of the access log that could not be written.");
}

static void put_servers(struct metrics *m, const struct berthd *d)
{
	const struct {
		const char *name;
		const struct server *server;
	} servers[] = {{"api", d->api}, {"preview", d->preview}};

	metrics_family(m, "berth_connections", METRIC_GAUGE, "Connections that are open.");
	for (size_t i = 0; i < array_len(servers); i++)
		metrics_sample(m, server_connections(servers[i].server), "server=\"%s\"",
			       servers[i].name);
	metrics_family(m, "berth_http_responses_total", METRIC_COUNTER,
		       "Requests that were answered, by the class of the status.");
	for (size_t i = 0; i < array_len(servers); i++) {
		for (unsigned class = 1; class < SERVER_CLASSES; class ++)
			metrics_sample(m, server_answers(servers[i].server, class),
				       "server=\"%s\",class=\"%uxx\"", servers[i].name, class);
	}
}

static void put_sandboxes(struct metrics *m, struct registry *registry)
{
	unsigned states[SANDBOX_WORDS] = {0};
	struct sandbox_id at = {""};
	struct sandbox *sb;
	uint64_t execs = 0;

	while ((sb = registry_next(registry, at.text))) {
		at = sb->id;
		execs += sb->execs_len;
		if (sb->is_stored)
			states[sandbox_state_number(sb)]++;
	}
	metrics_family(m, "berth_sandboxes", METRIC_GAUGE, "Sandboxes, by their state.");
	for (size_t i = 0; i < SANDBOX_WORDS; i++)
		metrics_sample(m, states[i], "state=\"%s\"", sandbox_state_word(i));
	put_gauge(m, "berth_execs", execs,
		  "Commands, background processes and file transfers in sandboxes.");
}

static void put_runs(struct metrics *m, const struct berthd *d)
{
	const struct counts *counts = registry_counts(d->registry);
	struct pool_stats pool = pool_stats(runs_pool(d->runs));
	unsigned waiting, active;

	runs_count(d->runs, &waiting, &active);
	put_gauge(m, "berth_runs_waiting", waiting, "Runs that wait for their turn.");
	put_gauge(m, "berth_runs_active", active, "Runs that have a sandbox, or are given one.");
	put_gauge(m, "berth_pool_warm", pool.warm, "Sandboxes that wait for a run, ready for it.");
	put_gauge(m, "berth_pool_assigned", pool.assigned, "Sandboxes of the pool that a run has.");
	metrics_family(m, "berth_pool_taken_total", METRIC_COUNTER,
		       "Runs that got a sandbox of the pool.");
	metrics_sample(m, pool.taken, "%s", "");
	metrics_family(m, "berth_runs_total", METRIC_COUNTER,
		       "Runs that are over, by their status.");
	for (int i = 0; i < RUN_STATUS_COUNT; i++) {
		if (run_status_is_over(i))
			metrics_sample(m, counts->runs[i], "status=\"%s\"", run_status_name(i));
	}
}

static void put_counts(struct metrics *m, struct registry *registry)
{
	const struct counts *counts = registry_counts(registry);

	put_counter(m, "berth_execs_started_total", counts->execs,
		    "Commands, background processes and file transfers that were started.");
	put_counter(m, "berth_oom_kills_total", counts->oom_kills,
		    "Processes in sandboxes that the kernel was seen to kill for want of memory.");
	metrics_family(m, "berth_events_total", METRIC_COUNTER,
		       "What happened to sandboxes, by the type of the event.");
	for (size_t i = 0; i < EVENT_TYPE_COUNT; i++)
		metrics_sample(m, counts->events[i], "type=\"%s\"", event_type_name(i));
}

static void reply(struct exchange *x)
{
	const struct berthd *d = server_arg(exchange_server(x));
	struct metrics m;

	metrics_init(&m);
	put_process(&m, d);
	put_servers(&m, d);
	put_sandboxes(&m, d->registry);
	put_counts(&m, d->registry);
	put_runs(&m, d);
	metrics_usage(&m, d->registry);
	metrics_ports(&m, d->registry);
	if (m.is_cut)
		exchange_reply_no_memory(x);
	else
		exchange_reply(x, 200, METRICS_TYPE,
			       (struct str){buf_at(&m.text), buf_len(&m.text)});
	metrics_close(&m);
}

/* In the exchange's arena. */
struct scrape {
	struct exchange *x;
	struct survey_wait wait;
};

static void on_surveyed(struct survey_wait *wait)
{
	struct scrape *scrape = container_of(wait, struct scrape, wait);

	exchange_on_gone(scrape->x, NULL, NULL);
	reply(scrape->x);
}

static void on_gone(void *arg)
{
	struct scrape *scrape = arg;

	survey_cancel(&scrape->wait);
	exchange_reply_gone(scrape->x);
}

/* Looks, and neither wakes nor holds anything. */
void handle_metrics(struct exchange *x)
{
	const struct berthd *d = server_arg(exchange_server(x));
	struct scrape *scrape = arena_alloc(exchange_arena(x), sizeof(*scrape));

	if (!scrape) {
		exchange_reply_no_memory(x);
		return;
	}
	*scrape = (struct scrape){.x = x, .wait.done = on_surveyed};
	if (survey_begin(registry_survey(d->registry), false, &scrape->wait) == 0)
		exchange_on_gone(x, on_gone, scrape);
	else
		reply(x);
}
