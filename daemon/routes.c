#include "daemon/routes.h"

#include "proto/code_request.h"
#include "proto/run_request.h"

/* clang-format off */
#define SETTINGS_BODY_MAX (1024 * 1024)
#define PROCESS_BODY_MAX  (6 * 1024 * 1024)
#define SESSION_BODY_MAX  (3 * 1024 * 1024)
#define ALARM_BODY_MAX    (512 * 1024) /* its argv, escaped */
#define PORT_BODY_MAX     4096
#define EMPTY_BODY_MAX    64
#define TREE_BODY_MAX     (64 * 1024) /* two paths, escaped */

const struct route routes[] = {
	{ HTTP_METHOD_GET,    "/health",                  handle_health,          BODY_NONE,     0, true },
	{ HTTP_METHOD_GET,    "/metrics",                 handle_metrics,         BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/info",                 handle_info,            BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/openapi.json",         handle_openapi_json,    BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/openapi.html",         handle_openapi_html,    BODY_NONE,     0, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/exec",    handle_exec,            BODY_STREAMED, 0, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox",              handle_sandbox_create,  BODY_BUFFERED, SETTINGS_BODY_MAX, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox",              handle_sandbox_list,    BODY_NONE,     0, false },
	{ HTTP_METHOD_PUT,    "/v1/sandbox/{id}",         handle_sandbox_put,     BODY_BUFFERED, SETTINGS_BODY_MAX, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}",         handle_sandbox_get,     BODY_NONE,     0, false },
	{ HTTP_METHOD_DELETE, "/v1/sandbox/{id}",         handle_sandbox_delete,  BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/running", handle_sandbox_running, BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/stats",   handle_sandbox_stats,   BODY_NONE,     0, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/start",   handle_sandbox_start,   BODY_BUFFERED, 1024, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/wake",    handle_sandbox_start,   BODY_BUFFERED, 1024, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/sleep",   handle_sandbox_sleep,   BODY_BUFFERED, 1024, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/heartbeat", handle_sandbox_heartbeat, BODY_BUFFERED, 1024, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/events",  handle_sandbox_events,  BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/events",               handle_events,          BODY_NONE,     0, false },
	{ HTTP_METHOD_PUT,    "/v1/sandbox/{id}/env",     handle_environment,     BODY_BUFFERED, SETTINGS_BODY_MAX, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/alarms",  handle_alarm_list,      BODY_NONE,     0, false },
	{ HTTP_METHOD_PUT,    "/v1/sandbox/{id}/alarm/{name}", handle_alarm_put,    BODY_BUFFERED, ALARM_BODY_MAX, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/alarm/{name}", handle_alarm_get,    BODY_NONE,     0, false },
	{ HTTP_METHOD_DELETE, "/v1/sandbox/{id}/alarm/{name}", handle_alarm_delete, BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/port",        handle_port_list,   BODY_NONE,     0, false },
	{ HTTP_METHOD_PUT,    "/v1/sandbox/{id}/port/{port}", handle_port_put,    BODY_BUFFERED, PORT_BODY_MAX, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/port/{port}", handle_port_get,    BODY_NONE,     0, false },
	{ HTTP_METHOD_DELETE, "/v1/sandbox/{id}/port/{port}", handle_port_delete, BODY_NONE,     0, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/tunnel/{port}", handle_tunnel_put,  BODY_BUFFERED, PORT_BODY_MAX, false },
	{ HTTP_METHOD_DELETE, "/v1/sandbox/{id}/tunnel/{port}", handle_port_delete, BODY_NONE,     0, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/processes", handle_process_start,      BODY_BUFFERED, PROCESS_BODY_MAX, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/processes", handle_process_list,       BODY_NONE,     0, false },
	{ HTTP_METHOD_DELETE, "/v1/sandbox/{id}/processes", handle_process_delete_all, BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/processes/{process}",       handle_process_get,    BODY_NONE,     0, false },
	{ HTTP_METHOD_DELETE, "/v1/sandbox/{id}/processes/{process}",       handle_process_delete, BODY_NONE,     0, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/processes/{process}/kill",  handle_process_kill,   BODY_BUFFERED, 1024, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/processes/{process}/logs",  handle_process_logs,   BODY_NONE,     0, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/processes/{process}/stdin", handle_process_stdin,  BODY_STREAMED, 0, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/processes/{process}/wait",  handle_process_wait,   BODY_BUFFERED, 16384, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/session", handle_session_create,  BODY_BUFFERED, SESSION_BODY_MAX, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/session", handle_session_list,    BODY_NONE,     0, false },
	{ HTTP_METHOD_DELETE, "/v1/sandbox/{id}/session/{session}", handle_session_delete, BODY_NONE, 0, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/context", handle_context_create,  BODY_BUFFERED, SESSION_BODY_MAX, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/context", handle_context_list,    BODY_NONE,     0, false },
	{ HTTP_METHOD_DELETE, "/v1/sandbox/{id}/context/{context}", handle_context_delete, BODY_NONE, 0, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/context/{context}/interrupt", handle_context_interrupt, BODY_EMPTY, EMPTY_BODY_MAX, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/code",    handle_code,            BODY_BUFFERED, CODE_BODY_MAX, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/terminals", handle_terminal_start,     BODY_BUFFERED, PROCESS_BODY_MAX, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/terminals", handle_terminal_list,      BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/terminals/{terminal}",           handle_terminal_get,       BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/terminals/{terminal}/connect",   handle_terminal_connect,   BODY_NONE,     0, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/terminals/{terminal}/interrupt", handle_terminal_interrupt, BODY_EMPTY, EMPTY_BODY_MAX, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/terminals/{terminal}/terminate", handle_terminal_terminate, BODY_EMPTY, EMPTY_BODY_MAX, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/pty",       handle_pty,                BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/connect/{port}", handle_connect,     BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/file/{path...}", handle_file_get,    BODY_NONE,     0, false },
	{ HTTP_METHOD_PUT,    "/v1/sandbox/{id}/file/{path...}", handle_file_put,    BODY_STREAMED, 0, false },
	{ HTTP_METHOD_DELETE, "/v1/sandbox/{id}/file/{path...}", handle_file_delete, BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/dir/{path...}",  handle_dir_get,     BODY_NONE,     0, false },
	{ HTTP_METHOD_PUT,    "/v1/sandbox/{id}/dir/{path...}",  handle_dir_put,     BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/stat/{path...}", handle_stat,        BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/sandbox/{id}/watch/{path...}", handle_watch,      BODY_NONE,     0, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/move",    handle_move,            BODY_BUFFERED, TREE_BODY_MAX, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/copy",    handle_copy,            BODY_BUFFERED, TREE_BODY_MAX, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/persist", handle_persist,         BODY_EMPTY, EMPTY_BODY_MAX, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/hydrate", handle_hydrate,         BODY_STREAMED, 0, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/chmod",   handle_chmod,           BODY_BUFFERED, TREE_BODY_MAX, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/mount",   handle_mount,           BODY_BUFFERED, TREE_BODY_MAX, false },
	{ HTTP_METHOD_POST,   "/v1/sandbox/{id}/unmount", handle_mount,           BODY_BUFFERED, TREE_BODY_MAX, false },
	{ HTTP_METHOD_POST,   "/v1/runs",             handle_run_create, BODY_BUFFERED, RUN_BODY_MAX, false },
	{ HTTP_METHOD_GET,    "/v1/runs",             handle_run_list,   BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/runs/{run}",       handle_run_get,    BODY_NONE,     0, false },
	{ HTTP_METHOD_DELETE, "/v1/runs/{run}",       handle_run_cancel, BODY_NONE,     0, false },
	{ HTTP_METHOD_POST,   "/v1/runs/{run}/wait",  handle_run_wait,   BODY_BUFFERED, 1024, false },
	{ HTTP_METHOD_GET,    "/v1/runs/{run}/logs",  handle_run_logs,   BODY_NONE,     0, false },
	{ HTTP_METHOD_GET,    "/v1/pool/stats",       handle_pool_stats, BODY_NONE,     0, false },
	{ HTTP_METHOD_POST,   "/v1/pool/prime",       handle_pool_prime, BODY_EMPTY, EMPTY_BODY_MAX, false },
	{ HTTP_METHOD_POST,   "/v1/pool/shutdown-prewarmed", handle_pool_shutdown, BODY_EMPTY, EMPTY_BODY_MAX, false },
	{ .pattern = NULL },
};
/* clang-format on */

size_t routes_body_max(void)
{
	size_t max = 0;

	for (const struct route *r = routes; r->pattern; r++)
		if (r->body == BODY_BUFFERED && r->body_max > max)
			max = r->body_max;
	return max;
}
