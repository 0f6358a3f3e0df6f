#include "cmd/berth/plain.h"

#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth/command.h"
#include "proto/utf8.h"

#define TEXT_MAX (256 * 1024 * 1024)

/* How many bytes a terminal may be given as they are; 0: the first one is a control, or no text. */
static size_t harmless_len(struct str s)
{
	unsigned char first = (unsigned char)s.at[0];
	size_t len = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

	if (first == '\n' || first == '\t')
		return 1;
	if (first < ' ' || first == 0x7f)
		return 0;
	if (len > s.len || utf8_valid_len((struct str){s.at, len}) < len)
		return 0;
	/* C1 controls: there are terminals that obey them in UTF-8, too. */
	return first == 0xc2 && (unsigned char)s.at[1] < 0xa0 ? 0 : len;
}

int plain_append(struct buf *out, struct str text)
{
	int r = 0;

	while (r == 0 && text.len) {
		size_t len = harmless_len(text);

		r = len ? buf_append(out, text.at, len)
			: buf_printf(out, "\\x%02x", (unsigned)(unsigned char)text.at[0]);
		text.at += len ? len : 1;
		text.len -= len ? len : 1;
	}
	return r;
}

int plain_print(int interrupt_fd, int fd, struct str text)
{
	cleanup(buf_close) struct buf out;
	bool is_ended = text.len && text.at[text.len - 1] == '\n';
	int r;

	buf_init(&out, TEXT_MAX);
	r = isatty(fd) ? plain_append(&out, text) : buf_append_str(&out, text);
	if (r == 0 && !is_ended)
		r = buf_append(&out, "\n", 1);
	return r < 0 ? r : command_pass_on(interrupt_fd, fd, buf_at(&out), buf_len(&out));
}
