#include "daemon/port_connect.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/sandbox.h"
#include "daemon/vigil.h"

#define VERSION 2 /* of the agent's frames: the first that knows of ports */

/* --- asking --- */

static int ask(struct sandbox *sb, struct port_connect *c, struct channel_message message)
{
	int r;

	if (sb->state != SANDBOX_RUNNING || !sb->agent || sb->connects_len >= PORT_CONNECTS_MAX)
		return -EAGAIN;
	if (agent_version(sb->agent) < VERSION)
		return -EPROTONOSUPPORT;
	message.head.version = VERSION;
	message.head.tag = ++sb->last_connect;
	r = agent_send(sb->agent, &message);
	if (r < 0)
		return r;
	c->sb = sb;
	c->tag = message.head.tag;
	list_init(&c->link);
	list_append(&sb->connects, &c->link);
	sb->connects_len++;
	vigil_begin(sb);
	return 0;
}

int port_connect(struct sandbox *sb, struct port_connect *c, uint16_t port)
{
	struct agent_connect frame = {port};

	c->is_list = false;
	return ask(sb, c,
		   (struct channel_message){.head = {.type = AGENT_CONNECT},
					    .fields = agent_connect_fields,
					    .value = &frame});
}

int port_list(struct sandbox *sb, struct port_connect *c)
{
	c->is_list = true;
	return ask(sb, c,
		   (struct channel_message){.head = {.type = AGENT_LISTENING},
					    .fields = agent_empty_fields});
}

void port_connect_cancel(struct port_connect *c)
{
	if (!c->sb)
		return;
	c->sb->connects_len--;
	c->sb = NULL;
	list_remove(&c->link);
}

/* --- answers --- */

static bool has_option(int fd, int option, int wanted)
{
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == wanted;
}

/* What came may be anything. */
static int check_socket(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode))
		return -EPROTO;
	if (!has_option(fd, SO_DOMAIN, AF_INET) && !has_option(fd, SO_DOMAIN, AF_INET6))
		return -EPROTO;
	if (!has_option(fd, SO_TYPE, SOCK_STREAM) || !has_option(fd, SO_PROTOCOL, IPPROTO_TCP) ||
	    !has_option(fd, SO_ACCEPTCONN, 0))
		return -EPROTO;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -EPROTO;
	return fd;
}

static int take_socket(struct channel_frame *frame)
{
	int r;

	if (frame->is_cut)
		return -EMFILE;
	if (frame->fds_len != 1)
		return -EPROTO;
	r = check_socket(frame->fds[0]);
	return r < 0 ? r : take_fd(&frame->fds[0]);
}

static int read_ports(struct str bytes, struct port_listening *ret)
{
	const unsigned char *at = (const unsigned char *)bytes.at;

	ret->len = bytes.len / 2;
	for (size_t i = 0; i < ret->len; i++) {
		ret->ports[i] = (uint16_t)(at[2 * i] | at[2 * i + 1] << 8);
		if (ret->ports[i] <= (i ? ret->ports[i - 1] : 0))
			return -EPROTO;
	}
	return bytes.len % 2 ? -EPROTO : 0;
}

static struct port_connect *find(struct sandbox *sb, uint32_t tag)
{
	/* They are answered in the order in which they were asked: it is the first. */
	list_for_each (node, &sb->connects) {
		struct port_connect *c = list_entry(node, struct port_connect, link);

		if (c->tag == tag)
			return c;
	}
	return NULL;
}

void port_connect_answered(struct sandbox *sb, const struct agent_event *event)
{
	struct port_connect *c = find(sb, event->frame->head.tag);
	struct port_listening listening;
	int result = -EPROTO;

	if (!c)
		return; /* not any more; what came along is closed */
	if (event->type == AGENT_LISTENING_IS && c->is_list)
		result = read_ports(event->listening.ports, &listening);
	else if (event->type == AGENT_CONNECTED && !c->is_list)
		result = take_socket(event->frame);
	else if (event->type == AGENT_CONNECT_FAILED && !c->is_list && event->connect_failed.error)
		result = -(int)event->connect_failed.error;
	port_connect_cancel(c);
	c->done(c, result, result == 0 ? &listening : NULL);
}

void port_connect_lose_all(struct sandbox *sb)
{
	while (!list_is_empty(&sb->connects)) {
		struct port_connect *c = list_entry(sb->connects.next, struct port_connect, link);

		port_connect_cancel(c);
		c->done(c, -ECONNRESET, NULL);
	}
}

void port_connect_close(int fd)
{
	struct linger none = {0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}
