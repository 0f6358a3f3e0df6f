#include "daemon/channel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "proto/agent.h"
#include "tests/unit/tap.h"

static struct {
	uv_loop_t loop;
	struct channel channel;
	int peer;
	unsigned frames, fds;
	bool is_cut;
	int failed;
} t;

static void on_frame(void *arg, struct channel_frame *frame)
{
	t.frames++;
	t.fds = frame->fds_len;
	t.is_cut = frame->is_cut;
}

static void on_failed(void *arg, int status)
{
	t.failed = status;
}

static const struct channel_ops ops = {on_frame, on_failed};

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Whatever a peer may send: any bytes, any number of descriptors. */
static void send_raw(struct str bytes, unsigned fds_len)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 16)];
	} control = {0};
	struct iovec part = {(char *)bytes.at, bytes.len};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
	struct cmsghdr *c;

	msg.msg_control = control.bytes;
	msg.msg_controllen = CMSG_SPACE(sizeof(int) * fds_len);
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * fds_len);
	for (unsigned i = 0; i < fds_len; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &t.peer, sizeof(int));
	check(sendmsg(t.peer, &msg, MSG_NOSIGNAL) == (ssize_t)bytes.len);
}

static struct str ping(char *room)
{
	struct frame_head head = {AGENT_PING, FRAME_VERSION, 0};
	struct agent_ping value = {7};
	int n = frame_encode(room, FRAME_MAX, &head, agent_ping_fields, &value);

	check(n > 0);
	return (struct str){room, (size_t)n};
}

static void begin(void)
{
	int ends[2];

	t.frames = t.fds = 0;
	t.is_cut = false;
	t.failed = 0;
	check(uv_loop_init(&t.loop) == 0);
	check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	t.peer = ends[1];
	check(channel_open(&t.channel, &t.loop, ends[0], &ops, NULL) == 0);
}

static void run_until_heard(void)
{
	while (!t.frames && !t.failed)
		uv_run(&t.loop, UV_RUN_ONCE);
}

static void end(const char *name)
{
	channel_close(&t.channel, NULL);
	uv_run(&t.loop, UV_RUN_DEFAULT);
	check(uv_loop_close(&t.loop) == 0);
	close(t.peer);
	tap_ok(name);
}

static void test_fds(void)
{
	char room[FRAME_MAX];
	unsigned before;

	begin();
	before = count_fds();
	send_raw(ping(room), 3);
	run_until_heard();
	check(t.frames == 1 && t.fds == 3 && !t.failed && count_fds() == before);
	end("descriptors that nobody takes are closed");
}

static void test_empty(void)
{
	unsigned before;

	begin();
	before = count_fds();
	send_raw(STR(""), 3);
	run_until_heard();
	check(t.frames == 0 && t.failed == -ECONNRESET && count_fds() == before);
	end("an empty message leaves no descriptors behind");
}

static void test_too_many(void)
{
	char room[FRAME_MAX];
	unsigned before;

	begin();
	before = count_fds();
	send_raw(ping(room), FRAME_FDS_MAX + 1);
	run_until_heard();
	check(t.frames == 0 && t.failed == -EBADMSG && count_fds() == before);
	end("more descriptors than a frame may have are nonsense");
}

static void test_no_room(void)
{
	char room[FRAME_MAX];
	struct rlimit limit, few;
	int spare;

	begin();
	spare = fcntl(t.peer, F_DUPFD_CLOEXEC, 0);
	send_raw(ping(room), 3);
	check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	few = (struct rlimit){(rlim_t)spare + 1, limit.rlim_max};
	close(spare); /* room for one of them */
	check(setrlimit(RLIMIT_NOFILE, &few) == 0);
	run_until_heard();
	check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	check(t.frames == 1 && t.is_cut && t.fds == 1 && !t.failed);
	end("a frame for whose descriptors there is no room is told from nonsense");
}

/* The kernel tells of the reset before it hands out what is there. */
static void test_last_words(void)
{
	struct channel_message unread = {
		.head = {AGENT_TERMINATE, FRAME_VERSION, 0},
		.fields = agent_empty_fields,
	};
	char room[FRAME_MAX];

	begin();
	check(channel_send(&t.channel, &unread) == 0);
	send_raw(ping(room), 0);
	send_raw(ping(room), 0);
	close(t.peer);
	t.peer = -1;
	while (!t.failed)
		uv_run(&t.loop, UV_RUN_ONCE);
	check(t.frames == 2 && t.failed == -ECONNRESET);
	end("what a peer said before it went counts, also if it did not read all");
}

int main(void)
{
	test_last_words();
	test_fds();
	test_empty();
	test_too_many();
	test_no_room();
	return tap_done();
}
