/*
 * Starts again, when berthd does, what ran when the machine went down: cold sandboxes in which a
 * process with `autostart` ran and whose end nobody saw. A few at a time; one that cannot be
 * started says so in the log and in its last_failure. Belongs to the registry.
 */
#ifndef BERTH_DAEMON_AUTOSTART_H
#define BERTH_DAEMON_AUTOSTART_H

struct autostart;
struct registry;

/* Begins with those whose is_start_due is set. NULL without memory, which is logged. */
struct autostart *autostart_new(struct registry *registry);
/* Before its sandboxes are freed. */
void autostart_free(struct autostart *autostart);

#endif
