/*
 * Every route that berthd answers. proto/openapi.json describes them one by one; the contract
 * suite fails when the two differ.
 */
#ifndef BERTH_DAEMON_ROUTES_H
#define BERTH_DAEMON_ROUTES_H

#include "daemon/exchange.h"

/* Ends with a pattern of NULL. */
extern const struct route routes[];

/* The longest body that any of them reads as a whole. */
size_t routes_body_max(void);

handler_fn handle_health;
handler_fn handle_info;
handler_fn handle_metrics;
handler_fn handle_openapi_json;
handler_fn handle_openapi_html;
handler_fn handle_sandbox_create;
handler_fn handle_sandbox_put;
handler_fn handle_sandbox_get;
handler_fn handle_sandbox_list;
handler_fn handle_sandbox_delete;
handler_fn handle_sandbox_running;
handler_fn handle_sandbox_stats;
handler_fn handle_sandbox_start;
handler_fn handle_sandbox_sleep;
handler_fn handle_sandbox_heartbeat;
handler_fn handle_events, handle_sandbox_events;
handler_fn handle_exec;
handler_fn handle_process_start, handle_process_list, handle_process_delete_all;
handler_fn handle_process_get, handle_process_delete, handle_process_kill;
handler_fn handle_process_logs, handle_process_stdin, handle_process_wait;
handler_fn handle_terminal_start, handle_terminal_list, handle_terminal_get;
handler_fn handle_terminal_connect, handle_terminal_interrupt, handle_terminal_terminate;
handler_fn handle_pty;
handler_fn handle_connect;
handler_fn handle_environment;
handler_fn handle_alarm_put, handle_alarm_get, handle_alarm_delete, handle_alarm_list;
handler_fn handle_port_put, handle_port_get, handle_port_delete, handle_port_list;
handler_fn handle_tunnel_put;
handler_fn handle_session_create, handle_session_list, handle_session_delete;
handler_fn handle_context_create, handle_context_list, handle_context_delete;
handler_fn handle_context_interrupt, handle_code;
handler_fn handle_file_get;
handler_fn handle_file_put;
handler_fn handle_file_delete;
handler_fn handle_dir_get;
handler_fn handle_dir_put;
handler_fn handle_stat;
handler_fn handle_watch;
handler_fn handle_move;
handler_fn handle_copy;
handler_fn handle_chmod, handle_persist, handle_hydrate;
handler_fn handle_mount;
handler_fn handle_run_create, handle_run_list, handle_run_get;
handler_fn handle_run_wait, handle_run_cancel, handle_run_logs;
handler_fn handle_pool_stats, handle_pool_prime, handle_pool_shutdown;

#endif
