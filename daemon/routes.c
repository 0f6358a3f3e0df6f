#include "daemon/routes.h"

/* clang-format off */
const struct route routes[] = {
	{ HTTP_METHOD_GET, "/health",          handle_health,       BODY_NONE, 0, true },
	{ HTTP_METHOD_GET, "/v1/info",         handle_info,         BODY_NONE, 0, false },
	{ HTTP_METHOD_GET, "/v1/openapi.json", handle_openapi_json, BODY_NONE, 0, false },
	{ HTTP_METHOD_GET, "/v1/openapi.html", handle_openapi_html, BODY_NONE, 0, false },
	{ .pattern = NULL },
};
/* clang-format on */

size_t routes_body_max(void)
{
	size_t max = 0;

	for (const struct route *r = routes; r->pattern; r++)
		if (r->body == BODY_BUFFERED && r->body_max > max)
			max = r->body_max;
	return max;
}
