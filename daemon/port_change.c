/*
 * Exposing ports, changing what is said of them, and taking them back. Changes of one sandbox are
 * made one after the other, since what a request does not say is what the one before it has left.
 * Nothing is said before it is stored.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "daemon/events.h"
#include "daemon/port.h"
#include "daemon/registry.h"

#define TOKEN_MADE_LEN 16
#define ALIAS_TRIES    8

struct change {
	struct list link;
	struct sandbox *sb; /* which is there: it is not deleted before */
	bool is_begun, is_removal, is_claiming;
	uint16_t number;
	struct port_request request;
	struct port_fact fact; /* what will be */
	struct label_entry claim;
	struct port *fresh; /* memory for a new one: when it is stored, nothing can fail */
	struct port_wait *wait;
};

static struct ports *ports_of(const struct change *c)
{
	return registry_ports(c->sb->registry);
}

static void free_change(struct change *c)
{
	list_remove(&c->link);
	if (c->is_claiming)
		ports_disclaim(ports_of(c), &c->claim);
	free(c->fresh);
	free(c);
}

/* --- what will be --- */

/* `len` characters of those, each as likely as any other. */
static int make_text(char *ret, size_t len, struct str of)
{
	unsigned char byte;
	size_t limit = 256 - 256 % of.len;

	for (size_t i = 0; i < len;) {
		if (getrandom(&byte, 1, 0) != 1)
			return -EIO;
		if (byte < limit)
			ret[i++] = of.at[byte % of.len];
	}
	return 0;
}

/* That is nobody's ID or alias. */
static bool is_free(struct registry *registry, const char *alias)
{
	struct sandbox_id at = {""};
	struct sandbox *sb;

	while ((sb = registry_next(registry, at.text))) {
		at = sb->id;
		if (strcmp(sb->alias, alias) == 0 || strcmp(sb->id.text, alias) == 0)
			return false;
	}
	return true;
}

static int take_alias(struct change *c, struct err *err)
{
	struct sandbox *sb = c->sb;

	if (strlen(sb->id.text) <= PORT_ID_MAX)
		return 0;
	memcpy(c->fact.alias, sb->alias, sizeof(c->fact.alias));
	for (int i = 0; !c->fact.alias[0] && i < ALIAS_TRIES; i++) {
		if (make_text(c->fact.alias, sizeof(c->fact.alias) - 1,
			      STR("abcdefghijklmnopqrstuvwxyz234567")) < 0)
			break;
		if (!is_free(sb->registry, c->fact.alias))
			c->fact.alias[0] = '\0';
	}
	if (c->fact.alias[0])
		return 0;
	return err_set(err, -EIO, ERR_INTERNAL, "the kernel gives no random bytes");
}

static int take_token(struct change *c, const struct port *port, struct err *err)
{
	const struct port_request *q = &c->request;
	bool is_public = q->public_given  ? q->is_public
			 : q->token_given ? false
					  : port && port->is_public;

	if (is_public)
		return 0;
	if (q->token_given)
		memcpy(c->fact.token, q->token, sizeof(c->fact.token));
	else if (port && !port->is_public)
		memcpy(c->fact.token, port->token, sizeof(c->fact.token));
	else if (make_text(c->fact.token, TOKEN_MADE_LEN,
			   STR("abcdefghijklmnopqrstuvwxyz0123456789")) < 0)
		return err_set(err, -EIO, ERR_INTERNAL, "the kernel gives no random bytes");
	return 0;
}

static int take_label(struct change *c, struct err *err)
{
	struct port_fact *f = &c->fact;
	char label[sizeof("65535--") + SANDBOX_ID_MAX + PORT_TOKEN_SIZE];
	int len = snprintf(label, sizeof(label), "%u-%s%s%s", (unsigned)f->number,
			   f->alias[0] ? f->alias : f->sandbox.text, f->token[0] ? "-" : "",
			   f->token);

	if (len >= (int)sizeof(f->label))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "token: of this sandbox and port it may have %d characters at most, "
			       "so that the host name's first part has no more than %d",
			       (int)(strlen(f->token) + sizeof(f->label)) - 1 - len,
			       LABEL_SIZE - 1);
	memcpy(f->label, label, (size_t)len);
	return 0;
}

static int describe(struct change *c, const struct port *port, struct err *err)
{
	struct port_fact *f = &c->fact;
	int r;

	*f = (struct port_fact){
		.sandbox = c->sb->id,
		.number = c->number,
		.created_at_ms = port ? port->created_at_ms : registry_now_ms(),
	};
	if (c->request.name_given || port)
		memcpy(f->name, c->request.name_given ? c->request.name : port->name,
		       sizeof(f->name));
	r = take_alias(c, err);
	if (r == 0)
		r = take_token(c, port, err);
	return r == 0 ? take_label(c, err) : r;
}

/* --- one change --- */

static void run_next(struct sandbox *sb);

static void finish(struct change *c, const struct err *err)
{
	struct port_wait *wait = c->wait;

	free_change(c);
	wait->done(wait, err);
}

static void on_put(void *arg, int result, const struct err *err)
{
	struct change *c = arg;
	struct sandbox *sb = c->sb;
	struct port *port;

	if (result == 0) {
		memcpy(sb->alias, c->fact.alias, sizeof(sb->alias));
		port = port_become(sb, &c->fact, &c->fresh);
		event_add(sb, "port_exposed", port_write_event, port);
	}
	finish(c, result < 0 ? err : NULL);
	run_next(sb);
}

static void on_deleted(void *arg, int result, const struct err *err)
{
	struct change *c = arg;
	struct sandbox *sb = c->sb;
	struct port *port = port_find(sb, c->number);

	if (result == 0 && port) {
		event_add(sb, "port_unexposed", port_write_event, port);
		port_leave(port);
	}
	finish(c, result < 0 ? err : NULL);
	run_next(sb);
}

static int submitted(int r, struct err *err)
{
	return r == 0 ? 0 : store_refuse(err, r);
}

static int begin_put(struct change *c, const struct port *port, struct err *err)
{
	struct sandbox *sb = c->sb;
	int r;

	if (!port && sb->ports_len >= PORTS_MAX)
		return err_set(err, -EDQUOT, ERR_CONFLICT,
			       "the sandbox has %d exposed ports, and may have no more: DELETE "
			       "those that are not wanted",
			       PORTS_MAX);
	r = describe(c, port, err);
	if (r < 0)
		return r;
	if (port && strcmp(port->label, c->fact.label) == 0 &&
	    strcmp(port->name, c->fact.name) == 0)
		return 1;
	if (!port || strcmp(port->label, c->fact.label) != 0) {
		if (ports_have_label(ports_of(c), c->fact.label))
			return err_set(err, -EEXIST, ERR_CONFLICT,
				       "another port has the host name that this one would get: "
				       "choose another token");
		ports_claim(ports_of(c), &c->claim, c->fact.label);
		c->is_claiming = true;
	}
	c->fresh = port ? NULL : calloc(1, sizeof(*c->fresh));
	if (!port && !c->fresh)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	return submitted(store_port_save(registry_store(sb->registry), &c->fact, on_put, c), err);
}

/* As port_put(): 0 if it is under way. */
static int begin(struct change *c, struct err *err)
{
	struct sandbox *sb = c->sb;
	const struct port *port = port_find(sb, c->number);

	c->is_begun = true;
	if (sandbox_is_leaving(sb))
		return err_set(err, -EBUSY, ERR_CONFLICT,
			       "the sandbox is being deleted: try again when it is gone");
	if (registry_is_stopping(sb->registry))
		return submitted(-ESHUTDOWN, err);
	if (!c->is_removal)
		return begin_put(c, port, err);
	if (!port)
		return 1;
	return submitted(
		store_port_delete(registry_store(sb->registry), &sb->id, c->number, on_deleted, c),
		err);
}

/* Whoever is told may ask for more, which then has begun already. */
static void run_next(struct sandbox *sb)
{
	while (!list_is_empty(&sb->port_changes)) {
		struct change *c = list_entry(sb->port_changes.next, struct change, link);
		struct err err;
		int r;

		if (c->is_begun)
			return;
		r = begin(c, &err);
		if (r == 0)
			return;
		finish(c, r < 0 ? &err : NULL);
	}
}

/* Takes it. */
static int ask(struct change *c, struct err *err)
{
	bool is_first = list_is_empty(&c->sb->port_changes);
	int r;

	list_append(&c->sb->port_changes, &c->link);
	r = is_first ? begin(c, err) : 0;
	if (r != 0)
		free_change(c);
	return r;
}

static struct change *change_new(struct sandbox *sb, uint16_t number, struct port_wait *wait)
{
	struct change *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->sb = sb;
	c->number = number;
	c->wait = wait;
	return c;
}

int port_put(struct sandbox *sb, uint16_t number, const struct port_request *request,
	     struct port_wait *wait, struct err *err)
{
	struct change *c = change_new(sb, number, wait);

	if (!c)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	c->request = *request;
	return ask(c, err);
}

int port_delete(struct sandbox *sb, uint16_t number, struct port_wait *wait, struct err *err)
{
	struct change *c = change_new(sb, number, wait);

	if (!c)
		return err_set(err, -ENOMEM, ERR_INTERNAL, "out of memory");
	c->is_removal = true;
	return ask(c, err);
}
