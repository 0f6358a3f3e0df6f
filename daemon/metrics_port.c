#include <stdio.h>

#include "base/cleanup.h"
#include "daemon/metrics.h"
#include "daemon/port.h"
#include "daemon/registry.h"

/* Those that are told one by one, and what the others come to. */
struct told {
	const struct port *ports[METRICS_PORTS_MAX];
	size_t len;
	struct port_counts rest;
	bool has_rest;
};

enum figure { FIGURE_REQUESTS, FIGURE_BYTES_IN, FIGURE_BYTES_OUT, FIGURE_OPEN };

/* clang-format off */
static const struct family {
	const char *name;
	enum metric_type type;
	const char *help;
} families[] = {
	[FIGURE_REQUESTS]  = {"berth_port_requests_total", METRIC_COUNTER,
			      "Requests through the preview of an exposed port."},
	[FIGURE_BYTES_IN]  = {"berth_port_request_bytes_total", METRIC_COUNTER,
			      "Bytes of bodies that went to the sandbox."},
	[FIGURE_BYTES_OUT] = {"berth_port_response_bytes_total", METRIC_COUNTER,
			      "Bytes of bodies that came from the sandbox."},
	[FIGURE_OPEN]      = {"berth_port_open", METRIC_GAUGE,
			      "Requests and upgraded connections under way."},
};
/* clang-format on */

static uint64_t figure_of(const struct port_counts *c, enum figure figure)
{
	switch (figure) {
	case FIGURE_REQUESTS:
		return c->requests;
	case FIGURE_BYTES_IN:
		return c->bytes_in;
	case FIGURE_BYTES_OUT:
		return c->bytes_out;
	case FIGURE_OPEN:
		break;
	}
	return c->open;
}

static void add(struct port_counts *sum, const struct port_counts *c)
{
	sum->requests += c->requests;
	for (size_t i = 0; i < array_len(sum->answers); i++)
		sum->answers[i] += c->answers[i];
	sum->bytes_in += c->bytes_in;
	sum->bytes_out += c->bytes_out;
	sum->open += c->open;
}

static void collect(struct told *told, struct registry *registry)
{
	struct sandbox_id at = {""};
	struct sandbox *sb;

	while ((sb = registry_next(registry, at.text))) {
		const struct port *port = NULL;

		at = sb->id;
		while ((port = port_next(sb, port))) {
			if (told->len < METRICS_PORTS_MAX) {
				told->ports[told->len++] = port;
				continue;
			}
			add(&told->rest, &port->counts);
			told->has_rest = true;
		}
	}
}

static void put_figure(struct metrics *m, const struct told *told, enum figure figure)
{
	const struct family *f = &families[figure];

	metrics_family(m, f->name, f->type, f->help);
	for (size_t i = 0; i < told->len; i++)
		metrics_sample(m, figure_of(&told->ports[i]->counts, figure),
			       "sandbox=\"%s\",port=\"%u\"", told->ports[i]->sb->id.text,
			       told->ports[i]->number);
	if (told->has_rest)
		metrics_sample(m, figure_of(&told->rest, figure), "sandbox=\"*\",port=\"*\"");
}

static void put_classes(struct metrics *m, const struct port_counts *c, const char *sandbox,
			const char *number)
{
	for (unsigned i = 0; i < array_len(c->answers); i++) {
		char class[4] = {(char)('0' + i), 'x', 'x', '\0'};

		metrics_sample(m, c->answers[i], "sandbox=\"%s\",port=\"%s\",class=\"%s\"", sandbox,
			       number, i ? class : "none");
	}
}

static void put_answers(struct metrics *m, const struct told *told)
{
	char number[8];

	metrics_family(m, "berth_port_responses_total", METRIC_COUNTER,
		       "How those requests were answered, by the class of the status.");
	for (size_t i = 0; i < told->len; i++) {
		snprintf(number, sizeof(number), "%u", told->ports[i]->number);
		put_classes(m, &told->ports[i]->counts, told->ports[i]->sb->id.text, number);
	}
	if (told->has_rest)
		put_classes(m, &told->rest, "*", "*");
}

void metrics_ports(struct metrics *m, struct registry *registry)
{
	struct told told = {.len = 0};

	collect(&told, registry);
	if (!told.len)
		return; /* a family has at least one sample */
	for (enum figure i = 0; i < array_len(families); i++)
		put_figure(m, &told, i);
	put_answers(m, &told);
}
