/* The bundle's config.json, written from typed facts. Nothing in it comes from a client. */
#ifndef BERTH_CONTAINER_OCI_CONFIG_H
#define BERTH_CONTAINER_OCI_CONFIG_H

#include "base/buf.h"
#include "container/container.h"
#include "container/host_state.h"

#define OCI_CONFIG_MAX (256 * 1024)

/* c's range and its limits, with defaults filled in, are set. */
int oci_config_write(struct buf *out, const struct container_host *host, const struct container *c);

#endif
