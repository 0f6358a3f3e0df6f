#include "tests/http/testd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <nettle/sha2.h>

#include "base/cleanup.h"
#include "proto/json.h"
#include "proto/uri.h"

uint64_t query_number(struct exchange *x, const char *name, uint64_t fallback)
{
	struct str value;
	char *end;
	uint64_t number;

	if (uri_query(exchange_arena(x), exchange_head(x)->query, str_of(name), &value) != 1)
		return fallback;
	number = strtoull(value.at, &end, 10);
	return end == value.at ? fallback : number;
}

void handle_ok(struct exchange *x)
{
	exchange_header(x, "Test-Header", "present");
	exchange_reply(x, 200, "text/plain", STR("ok\n"));
}

/* Whoever could smuggle a request would use this one. */
void handle_count(struct exchange *x)
{
	char text[32];

	snprintf(text, sizeof(text), "%u\n", ++testd_of(x)->handled);
	exchange_reply(x, 200, "text/plain", str_of(text));
}

void handle_buffered(struct exchange *x)
{
	struct str body = exchange_buffered(x);
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx sha;
	char text[128];
	int len;

	sha256_init(&sha);
	sha256_update(&sha, body.len, (const uint8_t *)body.at);
	sha256_digest(&sha, sizeof(digest), digest);
	len = snprintf(text, sizeof(text), "%zu ", body.len);
	for (size_t i = 0; i < sizeof(digest); i++)
		len += snprintf(text + len, sizeof(text) - (size_t)len, "%02x", digest[i]);
	exchange_reply(x, 200, "text/plain", str_of(text));
}

struct named {
	struct str name;
};

void handle_json(struct exchange *x)
{
	static const struct json_field fields[] = {
		{"name", JSON_STRING, offsetof(struct named, name), true},
		{NULL},
	};
	struct named named = {0};
	struct err err = {0};

	if (json_parse(exchange_arena(x), exchange_buffered(x), fields, &named, &err) < 0)
		exchange_reply_err(x, &err);
	else
		exchange_reply(x, 200, "text/plain", named.name);
}

void handle_refuse(struct exchange *x)
{
	struct err err;

	err_set(&err, -EACCES, ERR_FORBIDDEN, "this route refuses every body unread");
	exchange_reply_err(x, &err);
}

void handle_empty(struct exchange *x)
{
	exchange_reply_empty(x, 204);
}

void handle_not_modified(struct exchange *x)
{
	exchange_header(x, "ETag", "\"1\"");
	exchange_reply_empty(x, 304);
}

/* What was captured, decoded once. */
void handle_path(struct exchange *x)
{
	const struct route_captures *captures = exchange_captures(x);
	struct err err;
	struct str decoded;

	if (uri_decode(exchange_arena(x), captures->items[0], &decoded) < 0) {
		err_set(&err, -EINVAL, ERR_INVALID_REQUEST, "bad escape in the path");
		exchange_reply_err(x, &err);
		return;
	}
	exchange_reply(x, 200, "application/octet-stream", decoded);
}

static long resident_bytes(void)
{
	cleanup_file FILE *file = fopen("/proc/self/statm", "re");
	long total, resident;

	if (!file || fscanf(file, "%ld %ld", &total, &resident) != 2)
		return -1;
	return resident * sysconf(_SC_PAGESIZE);
}

void handle_stats(struct exchange *x)
{
	struct testd *t = testd_of(x);
	char text[512];

	snprintf(text, sizeof(text),
		 "{\"connections\": %u, \"rss\": %ld, \"handled\": %u, \"gone\": %u, \"slow\": %u,"
		 " \"aborted\": %u, \"cut_bodies\": %u, \"websockets\": %u, \"close_code\": %u}\n",
		 server_connections(t->server), resident_bytes(), t->handled, t->gone, t->slow,
		 t->aborted, t->cut_bodies, t->websockets, t->close_code);
	exchange_reply(x, 200, "application/json", str_of(text));
}

/* An answer that takes a while; with ?prompt=1 it is given up as soon as the client is gone. */
struct slow {
	struct exchange *x;
	struct testd *testd;
	uv_timer_t timer;
	bool is_prompt;
};

static void slow_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void slow_answer(struct slow *slow)
{
	slow->testd->slow--;
	exchange_reply(slow->x, 200, "text/plain", STR("slow\n"));
	uv_close((uv_handle_t *)&slow->timer, slow_closed);
}

static void on_slow_timer(uv_timer_t *timer)
{
	slow_answer(timer->data);
}

static void on_slow_gone(void *arg)
{
	struct slow *slow = arg;

	slow->testd->gone++;
	if (slow->is_prompt)
		slow_answer(slow);
}

void handle_slow(struct exchange *x)
{
	struct slow *slow = calloc(1, sizeof(*slow));

	if (!slow)
		abort();
	slow->x = x;
	slow->testd = testd_of(x);
	slow->is_prompt = query_number(x, "prompt", 0) != 0;
	slow->timer.data = slow;
	slow->testd->slow++;
	uv_timer_init(&slow->testd->loop, &slow->timer);
	uv_timer_start(&slow->timer, on_slow_timer, query_number(x, "ms", 100), 0);
	exchange_on_gone(x, on_slow_gone, slow);
}
