/* Durations, sizes and addresses as people write them. Nothing is resolved, nothing allocated. */
#ifndef BERTH_PROTO_UNITS_H
#define BERTH_PROTO_UNITS_H

#include <stdint.h>

#include "base/str.h"

/*
 * "250ms" "90s" "10m" "2h" "1d": a whole number and its unit. -EINVAL for anything else, -ERANGE
 * when the milliseconds do not fit into an int64_t.
 */
int duration_parse(struct str text, uint64_t *ret_ms);

#define DURATION_TEXT_SIZE sizeof("18446744073709551615ms")

/* In the largest unit that leaves no rest, so that it reads back as the same: "90s", "2h". */
void duration_format(uint64_t ms, char ret[DURATION_TEXT_SIZE]);

/* "4096" "64K" "512M" "2G" "1T", by 1024. -EINVAL, or -ERANGE past INT64_MAX. */
int size_parse(struct str text, uint64_t *ret_bytes);

#define HOST_MAX 254 /* a DNS name has at most 253 characters */

struct host_port {
	char host[HOST_MAX]; /* without brackets; "" means that no address was given */
	uint16_t port;       /* 0: whichever is free */
};

/*
 * "127.0.0.1:8080" "[::1]:0" "localhost:80". An address with colons needs its brackets. -EINVAL
 * when it is not of that form, -ERANGE when the port is above 65535.
 */
int host_port_parse(struct str text, struct host_port *ret);

#define HOST_PORT_TEXT_SIZE (HOST_MAX + sizeof("[]:65535"))

/* The same text again; "" if no address was given. */
void host_port_format(const struct host_port *address, char ret[HOST_PORT_TEXT_SIZE]);

#endif
