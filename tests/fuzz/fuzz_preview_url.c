/* What is read is written so that it reads back as the same, and fits with any label. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "proto/preview_url.h"

#define LABEL "a23456789-123456789-123456789-123456789-123456789-123456789-123"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[PREVIEW_URL_SIZE], host[PREVIEW_HOST_SIZE];
	struct preview_url url, back;

	if (preview_url_parse((struct str){(const char *)data, size}, &url) < 0)
		return 0;
	preview_url_format(&url, "", text);
	assert(preview_url_parse(str_of(text), &back) == 0);
	assert(memcmp(&url, &back, sizeof(url)) == 0);
	preview_url_host(&url, LABEL, host);
	assert(strlen(host) == sizeof(LABEL) + strlen(url.domain));
	preview_url_format(&url, LABEL, text);
	assert(strstr(text, host) && text[strlen(text) - 1] == '/');
	return 0;
}
