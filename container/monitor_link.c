#include "container/monitor_link.h"

#include <errno.h>
#include <sys/socket.h>

pid_t monitor_link_pid(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ? 0 : cred.pid;
}

int monitor_link_send(int fd, const struct monitor_record *record)
{
	ssize_t n;

	do
		n = send(fd, record, sizeof(*record), MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0; /* SOCK_SEQPACKET: all of it, or nothing */
}

int monitor_link_receive(int fd, struct monitor_record *ret)
{
	ssize_t n;

	/* Who goes without having read all resets it: told once, and before what it said. */
	do
		n = recv(fd, ret, sizeof(*ret), MSG_DONTWAIT);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0)
		return -errno;
	if (n == 0)
		return -EPIPE;
	if (n != sizeof(*ret) || !ret->id.text[0])
		return n == sizeof(*ret) ? 0 : -EBADMSG;
	ret->id.text[SANDBOX_ID_MAX] = '\0';
	return sandbox_id_is_valid(str_of(ret->id.text)) ? 0 : -EBADMSG;
}
