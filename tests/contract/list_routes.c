/*
 * Prints berthd's route table for the contract suite, one "METHOD pattern body_max access" a line;
 * body_max is "-" for a route that takes no body and "0" for one without a limit.
 */
#include <stdio.h>

#include "daemon/routes.h"

static const char *method_name(enum http_method method)
{
	static const char *const names[] = {
		[HTTP_METHOD_GET] = "GET",         [HTTP_METHOD_HEAD] = "HEAD",
		[HTTP_METHOD_POST] = "POST",       [HTTP_METHOD_PUT] = "PUT",
		[HTTP_METHOD_DELETE] = "DELETE",   [HTTP_METHOD_PATCH] = "PATCH",
		[HTTP_METHOD_OPTIONS] = "OPTIONS", [HTTP_METHOD_OTHER] = "OTHER",
	};

	return names[method];
}

int main(void)
{
	for (const struct route *r = routes; r->pattern; r++) {
		printf("%s %s ", method_name(r->method), r->pattern);
		if (r->body == BODY_NONE || r->body == BODY_EMPTY)
			printf("- ");
		else
			printf("%zu ", r->body_max);
		printf("%s\n", r->is_open ? "open" : "token");
	}
	return 0;
}
