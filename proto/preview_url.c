#include "proto/preview_url.h"

#include <errno.h>
#include <stdio.h>

#include "proto/port_request.h"

#define PORT_HTTP  80
#define PORT_HTTPS 443

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_dns_label(struct str s)
{
	if (!s.len || s.len > PREVIEW_LABEL_MAX || !is_word(s.at[0]) || !is_word(s.at[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (!is_word(s.at[i]) && s.at[i] != '-')
			return false;
	}
	return true;
}

static bool is_number(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9')
			return false;
	}
	return true;
}

/* Its last part is never a number, or it would be an address. */
static bool is_domain(struct str s)
{
	struct str part;

	if (!s.len || s.at[s.len - 1] == '.')
		return false;
	do {
		part = str_cut(&s, '.');
		if (!is_dns_label(part))
			return false;
	} while (s.len);
	return !is_number(part);
}

static int take_scheme(struct str *text, bool *ret_is_https)
{
	static const struct str schemes[] = {STR("http://"), STR("https://")};

	for (int i = 0; i < 2; i++) {
		size_t len = schemes[i].len;

		if (text->len < len || !str_eq_nocase((struct str){text->at, len}, schemes[i]))
			continue;
		*ret_is_https = i == 1;
		*text = (struct str){text->at + len, text->len - len};
		return 0;
	}
	return -EINVAL;
}

int preview_url_parse(struct str text, struct preview_url *ret)
{
	struct preview_url url;
	struct str domain;
	bool has_port;

	memset(&url, 0, sizeof(url)); /* whoever compares them does so byte by byte */
	if (take_scheme(&text, &url.is_https) < 0)
		return -EINVAL;
	if (text.len && text.at[text.len - 1] == '/')
		text.len--;
	has_port = text.len && memchr(text.at, ':', text.len);
	domain = str_cut(&text, ':');
	if (domain.len >= sizeof(url.domain) ||
	    (has_port && port_number_parse(text, &url.port) < 0))
		return -EINVAL;
	for (size_t i = 0; i < domain.len; i++) {
		char c = domain.at[i];

		url.domain[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
	}
	if (!is_domain((struct str){url.domain, domain.len}))
		return -EINVAL;
	if (url.port == (url.is_https ? PORT_HTTPS : PORT_HTTP))
		url.port = 0;
	*ret = url;
	return 0;
}

void preview_url_host(const struct preview_url *url, const char *label, char ret[PREVIEW_HOST_SIZE])
{
	snprintf(ret, PREVIEW_HOST_SIZE, "%s.%s", label, url->domain);
}

void preview_url_format(const struct preview_url *url, const char *label,
			char ret[PREVIEW_URL_SIZE])
{
	char port[sizeof(":65535")] = "";

	if (url->port)
		snprintf(port, sizeof(port), ":%u", (unsigned)url->port);
	snprintf(ret, PREVIEW_URL_SIZE, "%s://%s%s%s%s%s", url->is_https ? "https" : "http", label,
		 label[0] ? "." : "", url->domain, port, label[0] ? "/" : "");
}

int preview_url_label(const struct preview_url *url, struct str host,
		      char ret[PREVIEW_LABEL_MAX + 1])
{
	struct str rest = host, label, domain = str_of(url->domain);

	host = str_cut(&rest, ':');
	label = str_cut(&host, '.');
	if (!label.len || label.len > PREVIEW_LABEL_MAX || !str_eq_nocase(host, domain))
		return -EINVAL;
	for (size_t i = 0; i < label.len; i++)
		ret[i] = (char)(label.at[i] >= 'A' && label.at[i] <= 'Z' ? label.at[i] | 0x20
									 : label.at[i]);
	ret[label.len] = '\0';
	return 0;
}
