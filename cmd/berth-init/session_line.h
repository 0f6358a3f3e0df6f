/*
 * The line that makes a shell run one command, and tell how it ended.
 *
 *	A='…' \command eval '<text>' </proc/7/fd/8 >/proc/7/fd/9 2>/proc/7/fd/10;\command echo 3
 *"$?" …
 *
 * `command` takes from eval what makes it special: then variables in front of it last as long as it
 * does, and an error in the text does not end the shell. The backslashes keep aliases away. With a
 * directory of its own, PWD and OLDPWD are among the variables, and the shell goes back after it.
 */
#ifndef BERTH_INIT_SESSION_LINE_H
#define BERTH_INIT_SESSION_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "proto/agent.h"

/* Four bytes for a quote, and what stands around it all. */
#define SESSION_LINE_MAX (4 * AGENT_ARGS_MAX + 4096)

struct session_line {
	int feeder; /* its pid */
	uint32_t serial;
	int fds[3];    /* the feeder's; -1: /dev/null */
	int status_fd; /* where the shell writes the status */
	int cwd_fd;    /* where the command runs; -1: where the shell is */
	int back_fd;   /* where the shell was, if its path is gone; -1: unknown */
	struct str text;
	struct str env; /* a frame list of NAME=value */
};

/* The length of the line; -EINVAL for names that a shell cannot have, -E2BIG past the room. */
int session_line_make(const struct session_line *line, char *at, size_t room);

/* For a bash, which reads its script byte by byte: one that reads `fd`, a line and a NUL. */
int session_line_make_read(const struct session_line *line, int fd, char *at, size_t room);

/* The first line: a status of SESSION_LINE_BASH for a bash, 0 for others. */
#define SESSION_LINE_BASH 10
int session_line_make_probe(const struct session_line *line, char *at, size_t room);

/* Of the last whole report in `text`: 1 and `ret`; 0: there is none of this serial. */
int session_line_parse_report(struct str text, uint32_t serial, int *ret);

#endif
