#include "daemon/usage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/registry.h"
#include "daemon/sandbox.h"
#include "proto/time_text.h"

#define COUNTED_BY_CGROUPS                                                                         \
	(KEEPER_CAN_LIMIT_MEMORY | KEEPER_CAN_LIMIT_CPU | KEEPER_CAN_LIMIT_PIDS |                  \
	 KEEPER_CAN_FREEZE | KEEPER_HAS_GROUPS)

struct measuring {
	struct sandbox *sb;
	struct list waits;
	struct keeper_call call;
	uv_timer_t deadline;
	struct usage_figures figures;
	bool is_init_asked;
};

static const struct usage_figures nothing = {0, 0, -1, -1, -1, -1, -1, -1, -1};

static bool has_container(const struct sandbox *sb)
{
	return sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_FROZEN;
}

static uint64_t now_of(const struct sandbox *sb)
{
	return uv_now(registry_loop(sb->registry));
}

static void tell_all(struct list *waits, const struct err *err)
{
	while (!list_is_empty(waits)) {
		struct usage_wait *wait = list_entry(waits->next, struct usage_wait, link);

		list_remove(&wait->link);
		wait->done(wait, err);
	}
}

void usage_cancel(struct usage_wait *wait)
{
	list_remove(&wait->link);
}

/* --- measuring --- */

static void on_closed(uv_handle_t *handle)
{
	free(container_of((uv_timer_t *)handle, struct measuring, deadline));
}

static void finish(struct measuring *m)
{
	struct sandbox *sb = m->sb;

	keeper_cancel(registry_keeper(sb->registry), &m->call);
	uv_close((uv_handle_t *)&m->deadline, on_closed);
	sb->usage.measuring = NULL;
	if (m->figures.at_ms) {
		sb->usage.figures = m->figures;
		sb->usage.measured_ms = now_of(sb);
	}
	tell_all(&m->waits, NULL);
}

static void on_deadline(uv_timer_t *timer)
{
	finish(container_of(timer, struct measuring, deadline));
}

/* Where no cgroup counts it. One that is frozen cannot be asked. */
static void ask_init(struct measuring *m)
{
	struct sandbox *sb = m->sb;

	m->is_init_asked = sb->state == SANDBOX_RUNNING && sb->agent &&
			   agent_send(sb->agent, &(struct channel_message){
							 .head = {AGENT_USAGE, FRAME_VERSION, 0},
							 .fields = agent_empty_fields,
						 }) == 0;
	if (!m->is_init_asked)
		finish(m);
}

void usage_told(struct sandbox *sb, uint64_t cpu_us)
{
	struct measuring *m = sb->usage.measuring;

	if (!m || !m->is_init_asked)
		return;
	m->figures.at_ms = registry_now_ms();
	m->figures.cpu_us = (int64_t)cpu_us;
	finish(m);
}

/* The keeper says 0 of what its host does not count, and no container has nothing of these. */
static int64_t known(uint64_t n)
{
	return n ? (int64_t)n : -1;
}

static void on_stats(struct keeper_call *call, struct keeper_answer *answer)
{
	struct measuring *m = container_of(call, struct measuring, call);
	uint32_t abilities = keeper_abilities(registry_keeper(m->sb->registry));
	const struct keeper_stats *stats = &answer->stats;

	if (answer->result < 0) {
		finish(m);
		return;
	}
	m->figures.at_ms = registry_now_ms();
	m->figures.cpu_us = known(stats->cpu_us);
	m->figures.memory_bytes = known(stats->memory_bytes);
	m->figures.memory_peak_bytes = known(stats->memory_peak_bytes);
	m->figures.pids = known(stats->pids);
	m->figures.held_bytes = known(stats->held_bytes);
	m->figures.limit_bytes = known(stats->limit_bytes);
	if (abilities & KEEPER_CAN_LIMIT_MEMORY)
		m->figures.oom_kills = (int64_t)stats->oom_kills;
	if (m->figures.cpu_us < 0)
		ask_init(m);
	else
		finish(m);
}

static bool is_counted(const struct sandbox *sb)
{
	return sb->usage_fd >= 0 ||
	       keeper_abilities(registry_keeper(sb->registry)) & COUNTED_BY_CGROUPS;
}

/* False: nobody can be asked. */
static bool begin(struct sandbox *sb)
{
	struct keeper_ref ref = {str_of(sb->id.text), sb->generation};
	struct keeper *keeper = registry_keeper(sb->registry);
	bool is_keeper_asked = keeper && keeper_is_ready(keeper) && is_counted(sb);
	struct measuring *m;

	if (!is_keeper_asked && (sb->state != SANDBOX_RUNNING || !sb->agent))
		return false;
	m = calloc(1, sizeof(*m));
	if (!m)
		return false;
	m->sb = sb;
	m->figures = nothing;
	m->figures.generation = sb->generation;
	list_init(&m->waits);
	list_init(&m->call.link);
	m->call.done = on_stats;
	uv_timer_init(registry_loop(sb->registry), &m->deadline);
	uv_timer_start(&m->deadline, on_deadline, USAGE_WAIT_MS, 0);
	sb->usage.measuring = m;
	if (is_keeper_asked)
		keeper_ask(keeper, &m->call, KEEPER_STATS, &ref);
	else
		ask_init(m);
	return sb->usage.measuring != NULL;
}

int usage_measure(struct sandbox *sb, struct usage_wait *wait)
{
	const struct usage *u = &sb->usage;
	bool is_fresh = usage_figures(sb) && now_of(sb) - u->measured_ms < USAGE_FRESH_MS;

	list_init(&wait->link);
	if (!has_container(sb) || (!u->measuring && (is_fresh || !begin(sb))))
		return 1;
	list_append(&u->measuring->waits, &wait->link);
	return 0;
}

/* As struct keeper_started says. */
int usage_read_cpu(const struct sandbox *sb, uint64_t *ret_us)
{
	static const char word[] = "usage_usec ";
	char text[128];
	ssize_t n = sb->usage_fd < 0 ? -1 : pread(sb->usage_fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return -1;
	text[n] = '\0';
	if (strncmp(text, word, sizeof(word) - 1) == 0)
		*ret_us = strtoull(text + sizeof(word) - 1, NULL, 10);
	else
		*ret_us = strtoull(text, NULL, 10) / 1000;
	return 0;
}

/* --- its disk --- */

static void on_counted(struct keeper_call *call, struct keeper_answer *answer)
{
	struct sandbox *sb = container_of(call, struct sandbox, usage.count);
	struct usage *u = &sb->usage;
	struct list waits;

	u->is_counting = false;
	u->counted_ms = now_of(sb);
	if (answer->result == 0)
		u->disk = (struct usage_disk){registry_now_ms(), u->counted_ms - u->count_began_ms,
					      (int64_t)answer->usage.disk_bytes,
					      (int64_t)answer->usage.files};
	list_init(&waits);
	list_for_each_safe (node, &u->count_waits)
		list_move(&waits, node);
	tell_all(&waits, answer->result < 0 ? &answer->err : NULL);
}

int usage_count_disk(struct sandbox *sb, struct usage_wait *wait)
{
	struct keeper_ref ref = {str_of(sb->id.text), 0};
	struct usage *u = &sb->usage;

	list_init(&wait->link);
	if (!u->is_counting && u->disk.at_ms && now_of(sb) - u->counted_ms < USAGE_DISK_MS)
		return 1;
	list_append(&u->count_waits, &wait->link);
	if (u->is_counting)
		return 0;
	u->is_counting = true;
	u->count_began_ms = now_of(sb);
	u->count.done = on_counted;
	keeper_ask(registry_keeper(sb->registry), &u->count, KEEPER_USAGE, &ref);
	return 0;
}

/* --- life --- */

void usage_init(struct sandbox *sb)
{
	sb->usage = (struct usage){.figures = nothing};
	list_init(&sb->usage.count.link);
	list_init(&sb->usage.count_waits);
}

void usage_close(struct sandbox *sb)
{
	struct err err;

	err_set(&err, -ENOENT, ERR_NOT_FOUND, "the sandbox is gone");
	if (sb->usage.measuring)
		finish(sb->usage.measuring);
	keeper_cancel(registry_keeper(sb->registry), &sb->usage.count);
	tell_all(&sb->usage.count_waits, &err);
}

/* --- showing --- */

const struct usage_figures *usage_figures(const struct sandbox *sb)
{
	const struct usage_figures *f = &sb->usage.figures;

	return has_container(sb) && f->at_ms && f->generation == sb->generation ? f : NULL;
}

static void write_figure(struct json_writer *w, const char *key, int64_t value)
{
	json_key(w, key);
	if (value < 0)
		json_null(w);
	else
		json_int(w, value);
}

void usage_write(const struct sandbox *sb, struct json_writer *w)
{
	const struct usage *u = &sb->usage;
	const struct usage_figures *f = usage_figures(sb);

	if (!f)
		f = &nothing;
	json_key(w, "usage");
	json_object(w);
	time_text_write(w, "at", f->at_ms);
	write_figure(w, "cpu_ms", f->cpu_us < 0 ? -1 : f->cpu_us / 1000);
	write_figure(w, "memory_bytes", f->memory_bytes);
	write_figure(w, "memory_peak_bytes", f->memory_peak_bytes);
	write_figure(w, "pids", f->pids);
	write_figure(w, "oom_kills", f->oom_kills);
	write_figure(w, "disk_bytes", u->disk.at_ms ? u->disk.bytes : -1);
	write_figure(w, "files", u->disk.at_ms ? u->disk.files : -1);
	time_text_write(w, "disk_at", u->disk.at_ms);
	write_figure(w, "rx_bytes", (int64_t)u->rx_bytes);
	write_figure(w, "tx_bytes", (int64_t)u->tx_bytes);
	json_object_end(w);
}
