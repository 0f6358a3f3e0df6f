#include "daemon/autostart.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/registry.h"
#include "daemon/sandbox.h"

#define AT_ONCE 4

struct autostart_slot {
	struct sandbox_wait wait;
	struct autostart *of;
};

struct autostart {
	struct registry *registry;
	struct sandbox_id at; /* the last one that was looked at */
	struct autostart_slot slots[AT_ONCE];
};

static void next(struct autostart_slot *slot)
{
	struct autostart *a = slot->of;
	struct sandbox *sb;
	struct err err;

	while (!registry_is_stopping(a->registry) &&
	       (sb = registry_next(a->registry, a->at.text))) {
		int r;

		a->at = sb->id;
		if (!sb->is_start_due)
			continue;
		sb->is_start_due = false;
		log_info("sandbox=%s is started again: it ran when the machine went down",
			 sb->id.text);
		r = sandbox_use(sb, &slot->wait, &err);
		if (r == 0)
			return;
		if (r < 0)
			log_error("sandbox=%s is not started again: %s", sb->id.text, err.sentence);
	}
}

static void on_running(struct sandbox_wait *wait, struct sandbox *sb, const struct err *err)
{
	if (err)
		log_error("sandbox=%s is not started again: %s", sb->id.text, err->sentence);
	next(container_of(wait, struct autostart_slot, wait));
}

struct autostart *autostart_new(struct registry *registry)
{
	struct autostart *a = calloc(1, sizeof(*a));

	if (!a) {
		log_error("no memory to start sandboxes again");
		return NULL;
	}
	a->registry = registry;
	for (unsigned i = 0; i < AT_ONCE; i++) {
		a->slots[i].of = a;
		a->slots[i].wait.done = on_running;
		list_init(&a->slots[i].wait.link);
	}
	for (unsigned i = 0; i < AT_ONCE; i++)
		next(&a->slots[i]);
	return a;
}

void autostart_free(struct autostart *autostart)
{
	for (unsigned i = 0; i < AT_ONCE; i++)
		sandbox_cancel(&autostart->slots[i].wait);
	free(autostart);
}
