/*
 * Where previews are reached: "scheme://domain[:port]". A preview's own host name is a label in
 * front of the domain, so the domain is a name, never an address.
 */
#ifndef BERTH_PROTO_PREVIEW_URL_H
#define BERTH_PROTO_PREVIEW_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define PREVIEW_LABEL_MAX   63
#define PREVIEW_HOST_SIZE   254 /* with its NUL: a DNS name has at most 253 characters */
#define PREVIEW_DOMAIN_SIZE (PREVIEW_HOST_SIZE - PREVIEW_LABEL_MAX - 1)
#define PREVIEW_URL_SIZE    (sizeof("https://:65535/") + PREVIEW_HOST_SIZE)

struct preview_url {
	bool is_https;
	uint16_t port;                    /* 0: the scheme's own */
	char domain[PREVIEW_DOMAIN_SIZE]; /* lower case; "": none was given */
};

/* http or https; a slash at the end may be there. -EINVAL: it is not of that form. */
int preview_url_parse(struct str text, struct preview_url *ret);

/*
 * The label in front of its domain, in lower case, of a host that may have a port behind it.
 * -EINVAL: it is not "{label}.{domain}".
 */
int preview_url_label(const struct preview_url *url, struct str host,
		      char ret[PREVIEW_LABEL_MAX + 1]);

/* "{label}.{domain}". */
void preview_url_host(const struct preview_url *url, const char *label,
		      char ret[PREVIEW_HOST_SIZE]);
/* "{scheme}://{label}.{domain}[:{port}]/"; without the label and its dot, and the slash, if it is
 * "". */
void preview_url_format(const struct preview_url *url, const char *label,
			char ret[PREVIEW_URL_SIZE]);

#endif
