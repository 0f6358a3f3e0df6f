#include "daemon/contract.h"
#include "daemon/exchange.h"
#include "daemon/routes.h"

/*
 * If-None-Match compares weakly: W/"x" matches "x". Our tags are hexadecimal digits, so a
 * comparison that ignores case cannot take one for another, and no comma in a foreign tag can make
 * ours.
 */
static bool is_known(struct exchange *x, const struct contract_file *file)
{
	const struct http_head *head = exchange_head(x);
	struct str tag = str_of(file->etag);

	for (size_t i = 0; i < head->headers_len; i++) {
		struct str value = head->headers[i].value;
		char *weak;

		if (!str_eq_nocase(head->headers[i].name, STR("If-None-Match")))
			continue;
		if (str_eq(value, STR("*")) || http_list_has(value, tag))
			return true;
		weak = arena_printf(exchange_arena(x), "W/%s", file->etag);
		if (weak && http_list_has(value, str_of(weak)))
			return true;
	}
	return false;
}

static void reply(struct exchange *x, const char *type, const struct contract_file *file)
{
	exchange_header(x, "ETag", file->etag);
	exchange_header(x, "Cache-Control", "no-cache");
	if (is_known(x, file)) {
		exchange_reply_empty(x, 304);
		return;
	}
	exchange_header(x, "X-Content-Type-Options", "nosniff");
	exchange_reply(x, 200, type, file->bytes);
}

void handle_openapi_json(struct exchange *x)
{
	reply(x, "application/json", &contract_json);
}

void handle_openapi_html(struct exchange *x)
{
	exchange_header(x, "Content-Security-Policy",
			"default-src 'none'; style-src 'unsafe-inline'");
	reply(x, "text/html; charset=utf-8", &contract_html);
}
