#include <string.h>

#include "cmd/berth/verb.h"

const struct verb *const verbs[] = {
	&verb_run,     &verb_exec,   &verb_code,     &verb_repl,     &verb_context, &verb_runs,
	&verb_debug,   &verb_shell,  &verb_attach,   &verb_create,   &verb_ls,      &verb_top,
	&verb_inspect, &verb_start,  &verb_sleep,    &verb_wake,     &verb_stop,    &verb_rm,
	&verb_prune,   &verb_events, &verb_ps,       &verb_logs,     &verb_wait,    &verb_kill,
	&verb_session, &verb_alarm,  &verb_expose,   &verb_unexpose, &verb_ports,   &verb_open,
	&verb_forward, &verb_files,  &verb_cat,      &verb_put,      &verb_cp,      &verb_tar,
	&verb_watch,   &verb_up,     &verb_down,     &verb_info,     &verb_doctor,  &verb_selftest,
	&verb_version, &verb_help,   &verb_complete, NULL,
};

const struct verb *verb_find(const char *name)
{
	for (size_t i = 0; verbs[i]; i++)
		if (strcmp(verbs[i]->name, name) == 0)
			return verbs[i];
	return NULL;
}
