/*
 * One line per decided failure or change, on stderr: "<time> <level> <what> key=value ...". Only
 * daemon/ and cmd/ log. Values that come from outside go through log_value(), so that they can
 * neither break a line nor a terminal. Nothing here waits: lines that a full pipe does not take are
 * dropped, and their number is told with the next line that it takes.
 */
#ifndef BERTH_BASE_LOG_H
#define BERTH_BASE_LOG_H

#include "base/str.h"

enum log_level { LOG_ERROR_LEVEL, LOG_WARN_LEVEL, LOG_INFO_LEVEL, LOG_DEBUG_LEVEL };

/* "error", "warn", "info" or "debug"; -EINVAL for any other word. */
int log_level_parse(struct str word, enum log_level *ret);
/* Those words, by their number; NULL behind the last. */
const char *log_level_name(size_t number);
void log_set_level(enum log_level level);

__attribute__((format(printf, 2, 3))) void log_line(enum log_level level, const char *format, ...);

#define log_error(...) log_line(LOG_ERROR_LEVEL, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN_LEVEL, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO_LEVEL, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG_LEVEL, __VA_ARGS__)

struct log_value {
	char text[128];
};

/* Quoted and escaped if it needs to be, cut with "..." if it is long. */
struct log_value log_value(struct str s);
/* The same, into `size` bytes (at least 16), of which the last is a NUL. How long it is. */
size_t log_escape(struct str s, char *ret, size_t size);

#endif
