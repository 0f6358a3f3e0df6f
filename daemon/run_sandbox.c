/*
 * Where the sandbox of a run comes from: a fresh one each time, by the run's own ID. Whoever keeps
 * some warm hands them out here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/registry.h"
#include "daemon/run_state.h"

/* If nothing else removes it: it counts while the sandbox has no container. */
#define LEFT_MS (3600ULL * 1000)

static const char label[] = "berth.run=";

static int make_settings(const struct run *run, struct settings *ret)
{
	size_t id_len = strlen(run->record.id.text), len = sizeof(label) - 1 + id_len + 1;
	char *labels = malloc(len);

	settings_init(ret);
	if (!labels)
		return -ENOMEM;
	memcpy(mempcpy(labels, label, sizeof(label) - 1), run->record.id.text, id_len + 1);
	ret->labels = (struct str){labels, len};
	/* In memory, so that its size is bounded wherever that runs, and nothing of it stays. */
	ret->is_ephemeral = true;
	ret->keep_alive = true;
	ret->times.delete_after = LEFT_MS;
	ret->trust = run->record.trust;
	ret->limits = run->request.limits;
	ret->limits.output_bytes = 0; /* that is ours to watch */
	return 0;
}

struct sandbox *run_sandbox(const struct run *run)
{
	return run->has_sandbox ? registry_find(run->runs->registry, &run->record.id) : NULL;
}

int run_sandbox_take(struct run *run, struct err *err)
{
	struct settings settings;
	struct sandbox *sb;
	int r = make_settings(run, &settings);

	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "out of memory");
	r = registry_make(run->runs->registry, &run->record.id, &sb, err);
	if (r < 0) {
		settings_close(&settings);
		return r;
	}
	run->has_sandbox = true;
	settings_close(&sb->settings);
	sb->settings = settings; /* its start stores them */
	r = sandbox_use(sb, &run->use, err);
	if (r < 0) {
		run->has_sandbox = false;
		sandbox_discard(sb);
	}
	return r;
}

int run_sandbox_give_back(struct run *run, struct err *err)
{
	struct sandbox *sb = run_sandbox(run);

	return sb ? sandbox_delete(sb, &run->gone, err) : 1;
}
