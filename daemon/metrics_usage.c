#include "base/cleanup.h"
#include "daemon/metrics.h"
#include "daemon/registry.h"
#include "daemon/sandbox.h"
#include "daemon/usage.h"

enum figure { FIGURE_CPU, FIGURE_MEMORY, FIGURE_PIDS };

/* clang-format off */
static const struct family {
	const char *name;
	enum metric_type type;
	const char *help;
} families[] = {
	[FIGURE_CPU]    = {"berth_sandbox_cpu_seconds_total", METRIC_COUNTER,
			   "Processor time that the sandbox has used since its start."},
	[FIGURE_MEMORY] = {"berth_sandbox_memory_bytes", METRIC_GAUGE,
			   "Memory that the sandbox uses, with its page cache."},
	[FIGURE_PIDS]   = {"berth_sandbox_pids", METRIC_GAUGE,
			   "Processes and threads in the sandbox."},
};
/* clang-format on */

/* Negative: it is not known. */
static int64_t figure_of(const struct usage_figures *f, enum figure figure)
{
	switch (figure) {
	case FIGURE_CPU:
		return f->cpu_us < 0 ? -1 : f->cpu_us / 1000;
	case FIGURE_MEMORY:
		return f->memory_bytes;
	case FIGURE_PIDS:
		break;
	}
	return f->pids;
}

/* A family has at least one sample, so it begins with the first. How many were left out. */
static unsigned put_figure(struct metrics *m, struct registry *registry, enum figure figure)
{
	const struct family *family = &families[figure];
	struct sandbox_id at = {""};
	unsigned told = 0, left = 0;
	struct sandbox *sb;

	while ((sb = registry_next(registry, at.text))) {
		const struct usage_figures *f = usage_figures(sb);
		int64_t value = f ? figure_of(f, figure) : -1;

		at = sb->id;
		if (value < 0)
			continue;
		if (told == METRICS_USAGE_MAX) {
			left++;
			continue;
		}
		if (!told++)
			metrics_family(m, family->name, family->type, family->help);
		if (figure == FIGURE_CPU)
			metrics_sample_ms(m, (uint64_t)value, "sandbox=\"%s\"", sb->id.text);
		else
			metrics_sample(m, (uint64_t)value, "sandbox=\"%s\"", sb->id.text);
	}
	return left;
}

void metrics_usage(struct metrics *m, struct registry *registry)
{
	unsigned left = 0;

	for (enum figure i = 0; i < array_len(families); i++) {
		unsigned n = put_figure(m, registry, i);

		left = n > left ? n : left;
	}
	metrics_family(m, "berth_sandboxes_untold", METRIC_GAUGE,
		       "Sandboxes with a container whose figures are left out, as there are too "
		       "many.");
	metrics_sample(m, left, "%s", "");
}
