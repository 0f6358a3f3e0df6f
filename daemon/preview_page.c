/* What a visitor sees when there is no answer of a server inside: a page, or an error as JSON. */
#include <errno.h>
#include <stdio.h>

#include "daemon/preview_state.h"
#include "proto/api_error.h"

#define PAGE_MAX (32 * 1024)

struct page {
	int status;
	const char *title;
	const char *text;
	unsigned again_s; /* 0: it does not load itself again */
};

bool page_is_wanted(struct exchange *x)
{
	const struct http_head *head = exchange_head(x);
	const struct str *accept = http_header_find(head, STR("accept"));

	return (head->method == HTTP_METHOD_GET || head->method == HTTP_METHOD_HEAD) && accept &&
	       accept->len && memmem(accept->at, accept->len, "text/html", 9);
}

/* Sentences may hold what a person called a thing, so all of it is escaped. */
static void put_escaped(struct buf *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			buf_append_str(out, STR("&amp;"));
			break;
		case '<':
			buf_append_str(out, STR("&lt;"));
			break;
		case '>':
			buf_append_str(out, STR("&gt;"));
			break;
		default:
			buf_append(out, text, 1);
		}
	}
}

static const char style[] =
	"<style>body{font:16px/1.5 system-ui,sans-serif;max-width:38rem;margin:18vh auto;"
	"padding:0 1.5rem;color:#223}h1{font-size:1.4rem}p{color:#445}"
	"@media(prefers-color-scheme:dark){body{background:#15181c;color:#e6e8eb}p{color:#aab}}"
	"</style>";

static void reply_page(struct exchange *x, const struct page *page)
{
	struct buf out;

	buf_init(&out, PAGE_MAX);
	buf_append_str(&out, STR("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
				 "<meta name=\"viewport\" content=\"width=device-width\">"));
	if (page->again_s)
		buf_printf(&out, "<meta http-equiv=\"refresh\" content=\"%u\">", page->again_s);
	buf_append_str(&out, STR("<title>"));
	put_escaped(&out, page->title);
	buf_append_str(&out, STR("</title>"));
	buf_append_str(&out, str_of(style));
	buf_append_str(&out, STR("</head><body><h1>"));
	put_escaped(&out, page->title);
	buf_append_str(&out, STR("</h1><p>"));
	put_escaped(&out, page->text);
	buf_append_str(&out, STR("</p></body></html>\n"));
	exchange_header(x, "Cache-Control", "no-store");
	exchange_header(x, "Content-Security-Policy",
			"default-src 'none'; style-src 'unsafe-inline'");
	exchange_reply(x, page->status, "text/html; charset=utf-8",
		       (struct str){buf_at(&out), buf_len(&out)});
	buf_close(&out);
}

static const char *title_of(int status)
{
	switch (status) {
	case 404:
		return "There is nothing here";
	case 410:
		return "This sandbox is gone";
	case 502:
		return "The server inside did not answer";
	case 503:
		return "Not now";
	default:
		return http_status_text(status);
	}
}

void page_error(struct exchange *x, const struct err *err)
{
	int status = api_status(err->code);

	if (status == 503)
		exchange_header(x, "Retry-After", "1");
	if (page_is_wanted(x))
		reply_page(x, &(struct page){status, title_of(status), err->sentence, 0});
	else
		exchange_reply_err(x, err);
}

void page_waking(struct exchange *x, const struct sandbox *sb, uint16_t port)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "The sandbox %s was asleep. It is being woken, and this page shows what it serves "
		 "on port %u as soon as that is there.",
		 sb->id.text, port);
	exchange_header(x, "Retry-After", "1");
	reply_page(x, &(struct page){503, "Waking up", text, 1});
}

static void put_ports(struct buf *out, const struct port_listening *listening)
{
	for (size_t i = 0; i < listening->len; i++)
		buf_printf(out, "%s%u",
			   i == 0                    ? ""
			   : i + 1 == listening->len ? " and "
						     : ", ",
			   listening->ports[i]);
}

void page_silent(struct exchange *x, uint16_t port, const struct port_listening *listening)
{
	struct buf ports;
	struct err err;

	buf_init(&ports, 400);
	if (listening)
		put_ports(&ports, listening);
	if (!listening)
		err_set(&err, -ECONNREFUSED, ERR_PORT_NOT_LISTENING,
			"nothing listens on port %u in this sandbox", port);
	else if (!listening->len)
		err_set(&err, -ECONNREFUSED, ERR_PORT_NOT_LISTENING,
			"nothing listens on port %u in this sandbox, nor on any other: start the "
			"server, then load this again",
			port);
	else
		err_set(&err, -ECONNREFUSED, ERR_PORT_NOT_LISTENING,
			"nothing listens on port %u in this sandbox; something does on %.*s", port,
			(int)buf_len(&ports), buf_at(&ports));
	buf_close(&ports);
	page_error(x, &err);
}
