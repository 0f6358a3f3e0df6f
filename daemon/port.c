#include "daemon/port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/preview.h"
#include "daemon/registry.h"
#include "daemon/upstream.h"
#include "proto/time_text.h"

/* The label of a port that went with its sandbox. */
struct grave {
	struct list link; /* the oldest first */
	struct label_entry by_label;
	char label[LABEL_SIZE];
};

struct ports {
	struct ports_config config;
	struct label_table labels, claims, gone;
	struct list graves;
	struct ports_kept kept;
};

static struct ports *ports_of(const struct sandbox *sb)
{
	return registry_ports(sb->registry);
}

struct ports_kept *ports_kept(const struct sandbox *sb)
{
	return &ports_of(sb)->kept;
}

/* --- finding --- */

struct port *port_next(const struct sandbox *sb, const struct port *port)
{
	struct list *next = port ? port->link.next : sb->ports.next;

	return next == &sb->ports ? NULL : list_entry(next, struct port, link);
}

struct port *port_find(const struct sandbox *sb, uint16_t number)
{
	for (struct port *p = NULL; (p = port_next(sb, p));) {
		if (p->number == number)
			return p;
	}
	return NULL;
}

struct port *ports_route(struct ports *ports, struct str label, bool *ret_is_gone)
{
	struct label_entry *e = label_table_find(&ports->labels, label);

	*ret_is_gone = !e && label_table_find(&ports->gone, label);
	return e ? container_of(e, struct port, by_label) : NULL;
}

bool ports_have_label(const struct ports *ports, const char *label)
{
	return label_table_find(&ports->labels, str_of(label)) ||
	       label_table_find(&ports->claims, str_of(label));
}

void ports_claim(struct ports *ports, struct label_entry *entry, const char *label)
{
	label_table_add(&ports->claims, entry, label);
}

void ports_disclaim(struct ports *ports, struct label_entry *entry)
{
	label_table_remove(&ports->claims, entry);
}

/* --- graves --- */

static void unbury(struct ports *ports, struct grave *g)
{
	label_table_remove(&ports->gone, &g->by_label);
	list_remove(&g->link);
	free(g);
}

static void unbury_label(struct ports *ports, const char *label)
{
	struct label_entry *e = label_table_find(&ports->gone, str_of(label));

	if (e)
		unbury(ports, container_of(e, struct grave, by_label));
}

/* Without memory it is as if it had never been. */
static void bury(struct ports *ports, const char label[LABEL_SIZE])
{
	struct grave *g = calloc(1, sizeof(*g));

	if (!g)
		return;
	unbury_label(ports, label);
	memcpy(g->label, label, sizeof(g->label));
	label_table_add(&ports->gone, &g->by_label, g->label);
	list_append(&ports->graves, &g->link);
	if (ports->gone.len > PORT_TOMBSTONES_MAX)
		unbury(ports, list_entry(ports->graves.next, struct grave, link));
}

/* --- life --- */

/* Whoever came by its label goes with it. */
static void port_forget_connections(struct port *port)
{
	preview_evict(port);
	upstream_drop_idle(port);
}

struct port *port_hold(struct port *port)
{
	port->holders++;
	return port;
}

void port_let_go(struct port *port)
{
	if (--port->holders == 0)
		free(port);
}

void port_leave(struct port *port)
{
	port_forget_connections(port);
	label_table_remove(&ports_of(port->sb)->labels, &port->by_label);
	list_remove(&port->link);
	port->sb->ports_len--;
	port->sb = NULL;
	port_let_go(port);
}

static struct port *begin(struct sandbox *sb, uint16_t number, struct port **fresh)
{
	struct port *p = take(*fresh), *behind = NULL;

	*p = (struct port){.sb = sb, .holders = 1, .number = number};
	list_init(&p->idle);
	list_init(&p->visits);
	while ((behind = port_next(sb, behind)) && behind->number < number)
		;
	list_append(behind ? &behind->link : &sb->ports, &p->link);
	sb->ports_len++;
	return p;
}

struct port *port_become(struct sandbox *sb, const struct port_fact *fact, struct port **fresh)
{
	struct ports *ports = ports_of(sb);
	struct port *p = port_find(sb, fact->number);

	if (!p) {
		p = begin(sb, fact->number, fresh);
	} else {
		if (strcmp(p->label, fact->label) != 0)
			preview_evict(p); /* they came by a label that leads nowhere now */
		label_table_remove(&ports->labels, &p->by_label);
	}
	p->is_public = !fact->token[0];
	memcpy(p->name, fact->name, sizeof(p->name));
	memcpy(p->token, fact->token, sizeof(p->token));
	memcpy(p->label, fact->label, sizeof(p->label));
	p->created_at_ms = fact->created_at_ms;
	label_table_add(&ports->labels, &p->by_label, p->label);
	unbury_label(ports, p->label);
	return p;
}

void port_free_all(struct sandbox *sb)
{
	while (!list_is_empty(&sb->ports))
		port_leave(list_entry(sb->ports.next, struct port, link));
}

void port_bury_all(struct sandbox *sb)
{
	for (struct port *p = NULL; (p = port_next(sb, p));)
		bury(ports_of(sb), p->label);
	port_free_all(sb);
}

void ports_load(struct ports *ports, struct sandbox *sb, enum port_row row,
		const struct port_fact *fact)
{
	cleanup_free struct port *fresh = NULL;

	if (row == PORT_ROW_TOMBSTONE) {
		bury(ports, fact->label);
		return;
	}
	if (!sb)
		return;
	if (row == PORT_ROW_ALIAS) {
		memcpy(sb->alias, fact->alias, sizeof(sb->alias));
		return;
	}
	fresh = calloc(1, sizeof(*fresh));
	if (fresh)
		port_become(sb, fact, &fresh);
	else
		log_error("sandbox=%s port=%u is not exposed: out of memory", sb->id.text,
			  (unsigned)fact->number);
}

struct ports *ports_new(const struct ports_config *config)
{
	struct ports *ports = calloc(1, sizeof(*ports));

	if (!ports)
		return NULL;
	ports->config = *config;
	ports->kept.max = config->kept_max;
	list_init(&ports->graves);
	if (label_table_init(&ports->labels) < 0 || label_table_init(&ports->claims) < 0 ||
	    label_table_init(&ports->gone) < 0) {
		ports_free(ports);
		return NULL;
	}
	return ports;
}

void ports_free(struct ports *ports)
{
	while (!list_is_empty(&ports->graves))
		unbury(ports, list_entry(ports->graves.next, struct grave, link));
	label_table_close(&ports->labels);
	label_table_close(&ports->claims);
	label_table_close(&ports->gone);
	free(ports);
}

/* --- showing --- */

static void write_text(struct json_writer *w, const char *key, const char *text)
{
	json_key(w, key);
	if (text[0])
		json_str(w, (struct str){text, utf8_valid_len(str_of(text))});
	else
		json_null(w);
}

static void write_place(const struct port *port, struct json_writer *w)
{
	const struct ports_config *config = &ports_of(port->sb)->config;
	char url[PREVIEW_URL_SIZE] = "", host[PREVIEW_HOST_SIZE];

	if (config->is_served)
		preview_url_format(&config->url, port->label, url);
	preview_url_host(&config->url, port->label, host);
	json_key(w, "port");
	json_int(w, port->number);
	write_text(w, "url", url);
	write_text(w, "hostname", host);
}

void port_write_event(struct json_writer *w, const void *arg)
{
	const struct port *port = arg;

	write_place(port, w);
	write_text(w, "name", port->name);
	json_key(w, "public");
	json_bool(w, port->is_public);
}

void port_write(const struct port *port, struct json_writer *w)
{
	json_object(w);
	port_write_event(w, port);
	write_text(w, "token", port->token);
	time_text_write(w, "created_at", port->created_at_ms);
	json_object_end(w);
}

/* Its clients know a name that is not there, and none that is null. */
void port_write_tunnel(const struct port *port, struct json_writer *w)
{
	json_object(w);
	write_text(w, "id", port->label);
	write_place(port, w);
	if (port->name[0])
		write_text(w, "name", port->name);
	time_text_write(w, "createdAt", port->created_at_ms);
	json_object_end(w);
}

void port_write_all(const struct sandbox *sb, struct json_writer *w)
{
	json_key(w, "ports");
	json_array(w);
	for (const struct port *p = NULL; (p = port_next(sb, p));)
		port_write(p, w);
	json_array_end(w);
}
