#include "daemon/metrics.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/port.h"
#include "daemon/registry.h"
#include "tests/unit/tap.h"

#define SANDBOXES 300
#define EACH      5

static struct sandbox sandboxes[SANDBOXES];
static struct port ports[SANDBOXES][EACH];
static unsigned used; /* of the sandboxes */

struct sandbox *registry_next(struct registry *registry, const char *cursor)
{
	for (unsigned i = 0; i < used; i++) {
		if (strcmp(sandboxes[i].id.text, cursor) > 0)
			return &sandboxes[i];
	}
	return NULL;
}

struct port *port_next(const struct sandbox *sb, const struct port *port)
{
	struct port *first = ports[sb - sandboxes];

	if (!port)
		return first;
	return port == first + EACH - 1 ? NULL : first + (port - first) + 1;
}

static void make(void)
{
	for (unsigned i = 0; i < SANDBOXES; i++) {
		snprintf(sandboxes[i].id.text, sizeof(sandboxes[i].id.text), "box-%03u%.56s", i,
			 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
		for (unsigned j = 0; j < EACH; j++) {
			struct port_counts counts = {
				.requests = 6,
				.answers = {1, 0, 2, 0, 3},
				.bytes_in = UINT64_C(1) << 40,
				.bytes_out = 7,
				.open = 1,
			};

			ports[i][j] = (struct port){.sb = &sandboxes[i],
						    .number = (uint16_t)(60000 + j),
						    .counts = counts};
		}
	}
}

static unsigned lines_of(const char *text, const char *beginning)
{
	size_t len = strlen(beginning);
	unsigned lines = 0;

	for (const char *p = text; *p; p = strchr(p, '\n') + 1)
		lines += strncmp(p, beginning, len) == 0;
	return lines;
}

static char *tell(unsigned count)
{
	struct metrics m;
	char *text;

	used = count;
	metrics_init(&m);
	metrics_ports(&m, NULL);
	check(!m.is_cut);
	text = buf_len(&m.text) ? strndup(buf_at(&m.text), buf_len(&m.text)) : strdup("");
	metrics_close(&m);
	return text;
}

static void test_few(void)
{
	char *text = tell(0);

	check_str(text, "");
	free(text);
	text = tell(1);
	check(lines_of(text, "berth_port_requests_total{sandbox=\"box-000x") == EACH);
	check(lines_of(text, "berth_port_responses_total{") == EACH * 6);
	check(lines_of(text, "# TYPE ") == 5 && !strstr(text, "\"*\""));
	check(strstr(text, "\",port=\"60004\",class=\"none\"} 1\n"));
	check(strstr(text, "\",port=\"60004\",class=\"2xx\"} 2\n"));
	check(strstr(text, "\",port=\"60004\",class=\"5xx\"} 0\n"));
	check(strstr(text, "\",port=\"60000\"} 1099511627776\n"));
	free(text);
	tap_ok("each port has all of its figures");
}

static void test_many(void)
{
	char *text = tell(SANDBOXES);

	check(lines_of(text, "berth_port_requests_total{") == METRICS_PORTS_MAX + 1);
	check(lines_of(text, "berth_port_responses_total{") == (METRICS_PORTS_MAX + 1) * 6);
	check(strstr(text, "berth_port_requests_total{sandbox=\"*\",port=\"*\"} 3000\n"));
	check(strstr(text, "berth_port_open{sandbox=\"*\",port=\"*\"} 500\n"));
	check(strstr(text, "{sandbox=\"*\",port=\"*\",class=\"4xx\"} 1500\n"));
	check(strlen(text) < METRICS_MAX / 2);
	free(text);
	tap_ok("of many those that are too many are one sum");
}

int main(void)
{
	make();
	test_few();
	test_many();
	return tap_done();
}
