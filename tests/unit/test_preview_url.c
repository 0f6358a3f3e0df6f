#include "proto/preview_url.h"

#include <errno.h>

#include "tests/unit/tap.h"

#define LABEL63 "a23456789-123456789-123456789-123456789-123456789-123456789-123"

static void test_good(void)
{
	static const struct {
		const char *text, *url, *host, *base;
	} good[] = {
		{"http://localhost:8620", "http://8-a.localhost:8620/", "8-a.localhost",
		 "http://localhost:8620"},
		{"https://preview.example.com", "https://8-a.preview.example.com/",
		 "8-a.preview.example.com", "https://preview.example.com"},
		{"HTTPS://Preview.Example.COM/", "https://8-a.preview.example.com/",
		 "8-a.preview.example.com", "https://preview.example.com"},
		{"http://a.b:80", "http://8-a.a.b/", "8-a.a.b", "http://a.b"},
		{"https://a.b:443/", "https://8-a.a.b/", "8-a.a.b", "https://a.b"},
		{"http://a.b:443", "http://8-a.a.b:443/", "8-a.a.b", "http://a.b:443"},
		{"https://10.in-addr.arpa:65535", "https://8-a.10.in-addr.arpa:65535/",
		 "8-a.10.in-addr.arpa", "https://10.in-addr.arpa:65535"},
	};
	char url[PREVIEW_URL_SIZE], host[PREVIEW_HOST_SIZE];
	struct preview_url parsed;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		check(preview_url_parse(str_of(good[i].text), &parsed) == 0);
		preview_url_format(&parsed, "8-a", url);
		check_str(url, good[i].url);
		preview_url_host(&parsed, "8-a", host);
		check_str(host, good[i].host);
		preview_url_format(&parsed, "", url);
		check_str(url, good[i].base);
	}
	tap_ok("what people write, and the URLs that come of it");
}

static void test_long(void)
{
	static const char longest[] = "https://" LABEL63 "." LABEL63 "." LABEL63 ":65535";
	char url[PREVIEW_URL_SIZE], host[PREVIEW_HOST_SIZE], text[sizeof(longest) + 2];
	struct preview_url parsed;

	/* One character less than the 189 that leave room for a label. */
	snprintf(text, sizeof(text), "https://%s", longest + sizeof("https://") - 1 + 3);
	check(preview_url_parse(str_of(text), &parsed) == 0);
	preview_url_format(&parsed, LABEL63, url);
	preview_url_host(&parsed, LABEL63, host);
	check(strlen(host) == 63 + 1 + 188 && strstr(url, "123:65535/"));
	check(preview_url_parse(str_of(longest), &parsed) == -EINVAL);
	tap_ok("a domain leaves room for a label");
}

static void test_bad(void)
{
	static const char *const bad[] = {
		"",
		"localhost",
		"localhost:8620",
		"ftp://localhost",
		"http:/localhost",
		"http://",
		"http:///",
		"http://:80",
		"http://a:",
		"http://a:0",
		"http://a:08",
		"http://a:65536",
		"http://a:1x",
		"http://a:1:2",
		"http://127.0.0.1",
		"http://127.0.0.1:80",
		"http://[::1]:80",
		"http://a..b",
		"http://.a",
		"http://a.",
		"http://-a.b",
		"http://a-.b",
		"http://a_b",
		"http://*.a",
		"http://a b",
		"http://a//",
		"http://a/b",
		"http://a?b",
		"http://a#b",
		"http://u@a",
		"http://a\nb",
		"http://" LABEL63 "4.b",
	};
	struct preview_url parsed = {.domain = "untouched"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (preview_url_parse(str_of(bad[i]), &parsed) != -EINVAL) {
			printf("# %s\n", bad[i]);
			check(false);
		}
	}
	check(preview_url_parse((struct str){"http://a\0", 9}, &parsed) == -EINVAL);
	check_str(parsed.domain, "untouched");
	tap_ok("all else is refused");
}

int main(void)
{
	test_good();
	test_long();
	test_bad();
	return tap_done();
}
