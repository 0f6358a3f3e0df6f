/* Who can be reached, and what can be made of the network. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-probe/probe.h"

#define ANSWER_MS 300

/* --- kinds of sockets --- */

int try_sockets(char **args)
{
	static const struct {
		const char *name;
		int family, type, protocol;
	} rows[] = {
		{"vsock", 40, SOCK_STREAM, 0},      {"packet", 17, SOCK_RAW, 0},
		{"raw IPv4", AF_INET, SOCK_RAW, 1}, {"raw IPv6", AF_INET6, SOCK_RAW, 58},
		{"audit", 16, SOCK_RAW, 9},         {"crypto", 38, SOCK_SEQPACKET, 0},
		{"bluetooth", 31, SOCK_RAW, 1},     {"can", 29, SOCK_RAW, 1},
	};

	for (size_t i = 0; i < array_len(rows); i++) {
		int fd = socket(rows[i].family, rows[i].type | SOCK_CLOEXEC, rows[i].protocol);

		if (tried(fd) >= 0) {
			hole("a %s socket can be opened", rows[i].name);
			close(fd);
		}
	}
	return probe_end();
}

/* "@name" is an abstract one. */
static void reach(const char *name, int type)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(name);
	int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	len = len < sizeof(address.sun_path) ? len : sizeof(address.sun_path);
	memcpy(address.sun_path, name, len);
	if (*name == '@')
		address.sun_path[0] = '\0';
	if (tried(connect(fd, (struct sockaddr *)&address,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len))) == 0)
		hole("the host's socket %s was reached", name);
	else if (errno == EPROTOTYPE || errno == EAGAIN)
		hole("the host's socket %s is in reach", name);
	close(fd);
}

int try_reach(char **args)
{
	for (; *args; args++) {
		if (**args == '/' && tried(access(*args, F_OK)) == 0)
			hole("%s is there", *args);
		reach(*args, SOCK_STREAM);
		reach(*args, SOCK_DGRAM);
		reach(*args, SOCK_SEQPACKET);
	}
	return probe_end();
}

/* --- the way out --- */

static bool is_way_closed(int error)
{
	return error == ENETUNREACH || error == EHOSTUNREACH || error == ENETDOWN ||
	       error == EADDRNOTAVAIL || error == EACCES || error == EPERM ||
	       error == EAFNOSUPPORT || error == EPROTONOSUPPORT;
}

/* Nobody answers at these addresses, which are for documents: that a packet can leave is enough. */
static void try_away(const char *what, int fd, const struct sockaddr *address, socklen_t len)
{
	bool is_out;

	if (fd < 0) {
		tried(0);
		return;
	}
	is_out = tried(connect(fd, address, len)) == 0 ? send(fd, "x", 1, MSG_NOSIGNAL) >= 0
						       : !is_way_closed(errno);
	if (is_out)
		hole("%s leaves the sandbox", what);
	close(fd);
}

static void try_family(int family, const char *text)
{
	static const struct {
		const char *name;
		int type, protocol, port;
	} rows[] = {
		{"TCP", SOCK_STREAM, 0, 80},
		{"UDP", SOCK_DGRAM, 0, 53},
		{"a ping", SOCK_DGRAM, 0, 0},
		{"a raw packet", SOCK_RAW, 255, 0},
	};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct sockaddr_in four = {.sin_family = AF_INET};
	char what[128];

	inet_pton(family, text,
		  family == AF_INET ? (void *)&four.sin_addr : (void *)&six.sin6_addr);
	for (size_t i = 0; i < array_len(rows); i++) {
		int protocol = rows[i].protocol, fd;

		if (rows[i].type == SOCK_DGRAM && !rows[i].port)
			protocol = family == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6;
		fd = socket(family, rows[i].type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
		four.sin_port = six.sin6_port = htons((uint16_t)rows[i].port);
		snprintf(what, sizeof(what), "%s to %s", rows[i].name, text);
		if (family == AF_INET)
			try_away(what, fd, (struct sockaddr *)&four, sizeof(four));
		else
			try_away(what, fd, (struct sockaddr *)&six, sizeof(six));
	}
}

/* On our own loopback nobody may listen there: it would be the host's. */
static void try_loopback(int family, int port)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in four = {.sin_family = AF_INET};
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	if (fd < 0)
		return;
	four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	four.sin_port = six.sin6_port = htons((uint16_t)port);
	r = family == AF_INET ? connect(fd, (struct sockaddr *)&four, sizeof(four))
			      : connect(fd, (struct sockaddr *)&six, sizeof(six));
	if (tried(r) == 0)
		hole("port %d of the host was reached by IPv%d loopback", port,
		     family == AF_INET ? 4 : 6);
	close(fd);
}

/* Asks whoever the sandbox would ask for the address of example.com. */
static void try_dns(const char *server)
{
	static const char query[] = "\x42\x42\1\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1";
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(53)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd answer = {.fd = fd, .events = POLLIN};
	char text[512];

	if (inet_pton(AF_INET, server, &address.sin_addr) == 1 &&
	    tried(connect(fd, (struct sockaddr *)&address, sizeof(address))) == 0 &&
	    send(fd, query, sizeof(query) - 1, MSG_NOSIGNAL) > 0 &&
	    poll(&answer, 1, ANSWER_MS) > 0 && recv(fd, text, sizeof(text), 0) > 0)
		hole("the name server %s answers", server);
	if (fd >= 0)
		close(fd);
}

static void try_names(void)
{
	char text[TEXT_MAX], *rest = text, *line;

	text_of("/etc/resolv.conf", text);
	while ((line = strsep(&rest, "\n"))) {
		char server[64];

		if (sscanf(line, "nameserver %63s", server) == 1)
			try_dns(server);
	}
	try_dns("127.0.0.53");
}

static void look_at_interfaces(void)
{
	char text[TEXT_MAX], *rest = text, *line;
	int row = 0;

	text_of("/proc/net/dev", text);
	while ((line = strsep(&rest, "\n"))) {
		line += strspn(line, " ");
		if (row++ >= 2 && *line && tried(strncmp(line, "lo:", 3)) != 0)
			hole("there is the interface %.*s", (int)strcspn(line, ":"), line);
	}
	text_of("/proc/net/route", text);
	rest = strchr(text, '\n');
	if (tried(rest && rest[1]))
		hole("there is a route");
}

/* PORT: where somebody on the host listens. */
int try_network(char **args)
{
	if (!args[0])
		return 2;
	look_at_interfaces();
	try_family(AF_INET, "192.0.2.1");
	try_family(AF_INET, "169.254.169.254");
	try_family(AF_INET6, "2001:db8::1");
	try_loopback(AF_INET, atoi(args[0]));
	try_loopback(AF_INET6, atoi(args[0]));
	try_names();
	return probe_end();
}

/* --- changing it --- */

static void try_ioctl(const char *what, unsigned long request, void *data)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && tried(ioctl(fd, request, data)) == 0)
		hole("%s", what);
	else if (fd >= 0 && errno != EPERM && errno != EACCES)
		hole("%s is let in: %s", what, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* A link of a kind that has no hardware. */
static void try_netlink(void)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg link;
		struct rtattr info, kind;
		char name[8];
	} ask = {
		.head = {sizeof(ask), RTM_NEWLINK, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK, 1, 0},
		.info = {sizeof(ask.info) + sizeof(ask.kind) + sizeof(ask.name), IFLA_LINKINFO},
		.kind = {sizeof(ask.kind) + sizeof("dummy"), 1 /* IFLA_INFO_KIND */},
		.name = "dummy",
	};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char rest[512];
	} answer = {.error = {.error = -EPERM}};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	tried(0);
	if (fd < 0)
		return;
	if (send(fd, &ask, sizeof(ask), 0) > 0 && recv(fd, &answer, sizeof(answer), 0) > 0 &&
	    answer.error.error != -EPERM && answer.error.error != -EACCES)
		hole("an interface can be made: %s", strerror(-answer.error.error));
	close(fd);
}

/* What succeeds is taken back at once: whoever has this hole has a network to lose. */
int try_routes(char **args)
{
	const struct sockaddr_in nowhere = {.sin_family = AF_INET,
					    .sin_addr.s_addr = htonl(0xc0000209)};
	struct ifreq address = {.ifr_name = "lo:1"}, same = {.ifr_name = "lo"},
		     gone = {.ifr_name = "lo:1"};
	struct rtentry route = {.rt_flags = RTF_UP | RTF_HOST, .rt_dev = (char[]){"lo"}};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(&address.ifr_addr, &nowhere, sizeof(nowhere));
	memcpy(&route.rt_dst, &nowhere, sizeof(nowhere));
	try_ioctl("a route can be added", SIOCADDRT, &route);
	ioctl(fd, SIOCDELRT, &route);
	try_ioctl("an address can be added", SIOCSIFADDR, &address);
	ioctl(fd, SIOCSIFFLAGS, &gone);
	/* As it is: what may be set so may be shut, too. */
	if (ioctl(fd, SIOCGIFFLAGS, &same) == 0)
		try_ioctl("an interface can be shut", SIOCSIFFLAGS, &same);
	if (fd >= 0)
		close(fd);
	try_netlink();
	return probe_end();
}
