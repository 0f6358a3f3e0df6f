#include "cmd/berth-init/ports.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "proto/agent.h"

#define STATE_LISTEN "0A"

/* --- connecting --- */

/*
 * A connection to a port on which nobody listens may be one to itself, when the kernel chose that
 * very port for our end. Both addresses have the port in the same place.
 */
static bool is_own(int fd, const struct sockaddr *address)
{
	struct sockaddr_in6 ours;
	socklen_t size = sizeof(ours);

	return getsockname(fd, (struct sockaddr *)&ours, &size) < 0 ||
	       ours.sin6_port == ((const struct sockaddr_in6 *)address)->sin6_port;
}

static int connect_to(const struct sockaddr *address, socklen_t size)
{
	cleanup_fd int fd =
		socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct pollfd state = {.fd = fd, .events = POLLOUT};
	socklen_t error_size = sizeof(int);
	int error = 0, yes = 1;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) < 0)
		return -errno;
	if (connect(fd, address, size) < 0 && errno != EINPROGRESS)
		return -errno;
	if (poll(&state, 1, 0) > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size) < 0)
		return -errno;
	if (error)
		return -error;
	return is_own(fd, address) ? -ECONNREFUSED : take_fd(&fd);
}

int ports_connect(uint16_t port)
{
	struct sockaddr_in v4 = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	int fd = connect_to((struct sockaddr *)&v4, sizeof(v4)), other;

	if (fd != -ECONNREFUSED)
		return fd;
	other = connect_to((struct sockaddr *)&v6, sizeof(v6));
	return other < 0 ? fd : other; /* the machine may have no such address at all */
}

/* --- looking --- */

static size_t read_table(int proc_fd, const char *path, char *room, size_t size)
{
	cleanup_fd int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	ssize_t n;

	/* A page at a time, whatever is asked for. Who listens stands first. */
	while (fd >= 0 && have < size && (n = read(fd, room + have, size - have)) > 0)
		have += (size_t)n;
	return have;
}

/* As the tables write them: the words of memory, each as a number. */
static bool is_reached(struct str address)
{
	/* clang-format off */
	static const char *const local[] = {
		"00000000", "0100007F",                                                 /* IPv4 */
		"00000000000000000000000000000000", "00000000000000000000000001000000", /* ::, ::1 */
		"0000000000000000FFFF000000000000", "0000000000000000FFFF00000100007F", /* in IPv6 */
	};
	/* clang-format on */

	for (size_t i = 0; i < array_len(local); i++) {
		if (strlen(local[i]) == address.len &&
		    memcmp(local[i], address.at, address.len) == 0)
			return true;
	}
	return false;
}

/* Takes a word from the front. */
static struct str next_word(struct str *line)
{
	struct str word;

	while (line->len && *line->at == ' ') {
		line->at++;
		line->len--;
	}
	word = (struct str){line->at, 0};
	while (word.len < line->len && word.at[word.len] != ' ')
		word.len++;
	line->at += word.len;
	line->len -= word.len;
	return word;
}

/* Of "0: 0100007F:1F90 00000000:0000 0A ..."; 0: nobody listens there, or not for us. */
static uint16_t port_of(struct str line)
{
	struct str local, state;
	const char *colon;
	unsigned port = 0;

	next_word(&line);
	local = next_word(&line);
	next_word(&line);
	state = next_word(&line);
	colon = memchr(local.at, ':', local.len);
	if (!colon || local.at + local.len - colon != 5 || state.len != 2 ||
	    memcmp(state.at, STATE_LISTEN, 2) != 0 ||
	    !is_reached((struct str){local.at, (size_t)(colon - local.at)}))
		return 0;
	for (int i = 1; i < 5; i++)
		port = port * 16 +
		       (unsigned)(colon[i] <= '9' ? colon[i] - '0' : colon[i] - 'A' + 10);
	return (uint16_t)port;
}

/* Into its place among those that are there; of too many, the highest are left out. */
static size_t insert(uint16_t *ports, size_t count, uint16_t port)
{
	size_t at = 0;

	while (at < count && ports[at] < port)
		at++;
	if (at == AGENT_PORTS_MAX || (at < count && ports[at] == port))
		return count;
	count -= count == AGENT_PORTS_MAX;
	memmove(ports + at + 1, ports + at, (count - at) * sizeof(*ports));
	ports[at] = port;
	return count + 1;
}

size_t ports_listening(int proc_fd, char *room, size_t size, char *ret_ports)
{
	static const char *const tables[] = {"net/tcp", "net/tcp6"};
	uint16_t ports[AGENT_PORTS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < array_len(tables); i++) {
		struct str left = {room, read_table(proc_fd, tables[i], room, size)};

		while (left.len) {
			uint16_t port = port_of(str_cut(&left, '\n'));

			count = port ? insert(ports, count, port) : count;
		}
	}
	for (size_t i = 0; i < count; i++) {
		ret_ports[2 * i] = (char)(ports[i] & 0xff);
		ret_ports[2 * i + 1] = (char)(ports[i] >> 8);
	}
	return count;
}
