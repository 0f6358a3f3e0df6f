/*
 * What runs inside a sandbox and tries what must not work; `berth selftest` carries it along, puts
 * it into its sandboxes and judges what it says. Static, so that it needs nothing of an image.
 *
 * A verb says "hole <what>" for everything that worked and must not, "cannot <why>" for what could
 * not be tried, "note <what>" for what is no hole but should be known, and at its end "tried <n>":
 * who does not say that did not get there. Verbs that only tell facts say so. Run on a host,
 * outside of any sandbox, nearly every verb finds holes, and none does harm: what would change the
 * machine is only opened, never written.
 */
#ifndef BERTH_PROBE_H
#define BERTH_PROBE_H

#include <stdbool.h>
#include <sys/stat.h>

__attribute__((format(printf, 1, 2))) void hole(const char *format, ...);
__attribute__((format(printf, 1, 2))) void cannot(const char *format, ...);
__attribute__((format(printf, 1, 2))) void note(const char *format, ...);
/* Counts one attempt and returns what it was given, so that it can stand around a call. */
long tried(long result);
/* The last line; for a verb to return. */
int probe_end(void);

/* From here on it is said to a file, which has its name only when all is said. NULL: to nobody
 * else.
 */
void say_to(const char *path);

/* The start of a small file, terminated; "" if it cannot be read. */
#define TEXT_MAX 4096
const char *text_of(const char *path, char ret[TEXT_MAX]);

/* All below `path`, links not followed; `visit` returns whether to go into a directory. */
void walk(const char *path, bool (*visit)(const char *path, const struct stat *st));

/* Each ends with NULL and gives the exit code. */
int show_fds(char **args);
int show_ids(char **args);
int show_identity(char **args);
int show_namespaces(char **args);
int stay(char **args);
int loop_exe(char **args);
int touch_all(char **args);

int try_surfaces(char **args);
int try_writes(char **args);
int try_privileges(char **args);
int plant_privileges(char **args);
int try_calls(char **args);
int try_abi(char **args);
int try_devices(char **args);
int try_tty(char **args);

int try_sockets(char **args);
int try_reach(char **args);
int try_network(char **args);
int try_routes(char **args);

int plant_links(char **args);
int plant_special(char **args);
int swap(char **args);

int escape(char **args);
int show_alive(char **args);
int bomb(char **args);
int flood(char **args);
int make_noise(char **args);
int eat(char **args);

#endif
