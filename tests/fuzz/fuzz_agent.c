/*
 * An init that lies, against all that hears it: the channel, the agent, execs, connections to ports
 * and pings, with a keeper, owners and a sandbox that do what the script says. The input is that
 * script: each step is a byte that says what happens, with a few behind it. Whatever comes, and in
 * whatever order: who waits for an end hears of one, once, and of nothing after it; and no
 * descriptor, handle or byte of memory is left.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/exec_stranger.h"
#include "tests/fuzz/agent_stage.h"

#define STEPS_MAX 192
#define KEPT      (UINT64_C(1) << 62 | UINT64_C(7) << 32)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- what berthd does meanwhile --- */

static void adopt(struct owner *o, unsigned how)
{
	struct err err;

	o->is_kept = true;
	o->number = KEPT + ((uint64_t)(how & 3) << 32) + (t.has_groups ? how & 3 : 0);
	o->exec = exec_adopt(&t.sb, o->number, &kept_ops, o, &err);
}

static void start(struct owner *o, unsigned how)
{
	struct exec_request request = {
		.argv = STR("true\0"),
		.cwd = STR("/"),
		.has_stdin = how & 1,
		.is_kept = how & 2,
		.is_terminal = (how & 6) == 6,
		.timeout_ms = how & 8 ? 1 : 0,
	};
	struct err err;

	leave(o);
	o->has_begun = false;
	o->is_kept = request.is_kept;
	o->is_hasty = how & 16;
	if (t.sb.state == SANDBOX_STARTING)
		adopt(o, how);
	if (t.sb.state != SANDBOX_RUNNING)
		return;
	o->exec = exec_new(&t.sb, &request, o->is_kept ? &kept_ops : &plain_ops, o, &err);
	if (o->exec)
		o->number = exec_number(o->exec);
}

static void use(struct owner *o, unsigned how)
{
	if (!o->exec)
		return;
	switch (how % 8) {
	case 0:
		exec_kill(o->exec);
		break;
	case 1:
		exec_stdin(o->exec, STR("some bytes"));
		break;
	case 2:
		exec_stdin_end(o->exec);
		break;
	case 3:
		exec_pause(o->exec);
		break;
	case 4:
		exec_resume(o->exec);
		break;
	case 5:
		leave(o);
		break;
	case 6:
		exec_signal(o->exec, SIGINT);
		if (o->is_kept)
			exec_resize(o->exec, how, how);
		break;
	default:
		if (o->is_kept)
			exec_ask_end(o->exec);
		break;
	}
}

static void visit(struct port_connect *c, unsigned how)
{
	if (c->done && how % 4 == 3) {
		port_connect_cancel(c);
		c->done = NULL;
	}
	if (c->done)
		return;
	c->done = on_connect;
	if ((how & 1 ? port_list(&t.sb, c) : port_connect(&t.sb, c, 80)) < 0)
		c->done = NULL;
	if (how & 2 && t.sb.agent && ping_send(&t.sb, on_ping, NULL) == 0)
		t.pings++;
}

/* --- what init says --- */

static int keep_end(int pair[2], int given)
{
	if (t.ends_len < ENDS)
		t.ends[t.ends_len++] = pair[!given];
	else
		close(pair[!given]);
	return pair[given];
}

/* Of any kind; some of them fit. */
static int make_fd(unsigned kind)
{
	int pair[2];

	switch (kind % 8) {
	case 0:
	case 1:
		return pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0 ? -1 : keep_end(pair, kind % 8);
	case 2:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case 3:
		return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	case 4:
		return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0
			       ? -1
			       : keep_end(pair, 0);
	case 5:
		return eventfd(0, EFD_CLOEXEC);
	case 6:
		return open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	default:
		return memfd_create("any", MFD_CLOEXEC);
	}
}

/* One message; `kinds` has four bits for each descriptor, 15 for none. */
static void say(struct str bytes, unsigned kinds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 16)];
	} control = {0};
	struct iovec part = {(char *)bytes.at, bytes.len};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
	unsigned count = kinds >> 16 & 15;
	int fds[16];
	struct cmsghdr *c;

	for (unsigned i = 0; i < count; i++)
		fds[i] = make_fd(kinds >> (i % 4 * 4) & 15);
	if (count) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * count);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
	}
	if (t.line >= 0)
		sendmsg(t.line, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	for (unsigned i = 0; i < count; i++)
		close_fdp(&fds[i]);
}

/* Of an exec that there is or was, or of none. */
static uint64_t choose_number(unsigned how)
{
	uint64_t number = t.owners[how % EXECS].number;

	if (how & 8)
		return KEPT + ((uint64_t)(how & 3) << 32) + (how >> 4 & 3);
	if (how & 16)
		return number ^ UINT64_C(1) << (how >> 2 & 63);
	return number;
}

static void put(char *at, uint64_t value, size_t size)
{
	for (size_t i = 0; i < size; i++)
		at[i] = (char)(value >> 8 * i);
}

/* A frame that can be decoded, if its length fits its type: fields of 4 or 8 bytes. */
static void say_frame(unsigned type)
{
	static const uint8_t sizes[] = {12, 12, 12, 16, 36, 12, 8, 8, 8, 8, 0, 0, 0, 4, 8};
	unsigned who = next_byte(), value = next_byte(), count = next_byte();
	unsigned kinds = next_byte() | next_byte() << 8 | (count & 15) << 16;
	size_t len = FRAME_HEADER_SIZE + sizes[type % array_len(sizes)];
	char bytes[64] = {0};

	if (count & 16)
		len += 4;
	put(bytes, len, 4);
	put(bytes + 4, AGENT_WELCOME + type % array_len(sizes), 2);
	put(bytes + 6, count & 32 ? value : FRAME_VERSION, 2);
	put(bytes + 8, count & 64 ? value : t.sb.last_connect, 4);
	if (type % array_len(sizes) == 0 || type % array_len(sizes) >= 13) {
		put(bytes + 16, value, 4);
		put(bytes + 20, who, 4);
	} else if (type % array_len(sizes) == AGENT_PONG - AGENT_WELCOME) {
		put(bytes + 16, value & 1 ? t.sb.last_ping : value, 8);
	} else {
		put(bytes + 16, choose_number(who), 8);
		put(bytes + 24, value, 4);
	}
	say((struct str){bytes, len}, kinds);
}

static void say_raw(void)
{
	size_t len = next_byte();
	unsigned kinds = (len & 15) << 16 | next_byte();
	cleanup_free char *exact = NULL;

	len = len < (size_t)(t.end - t.at) ? len : (size_t)(t.end - t.at);
	exact = malloc(len ? len : 1);
	assert(exact);
	memcpy(exact, t.at, len);
	t.at += len;
	say((struct str){exact, len}, kinds);
}

/* The process inside prints, or closes its end. */
static void print(unsigned how)
{
	int *fd = &t.ends[t.ends_len ? how % t.ends_len : 0];

	if (!t.ends_len || *fd < 0)
		return;
	if (how & 16)
		close(take_fd(fd));
	else if (write(*fd, "x", 1) < 0)
		assert(errno != EFAULT); /* it may be full, or a reading end */
}

/* --- the sandbox --- */

static void on_agent_ready(void *arg)
{
	if (t.sb.state != SANDBOX_STARTING)
		return;
	exec_stranger_seen(&t.sb, agent_serial_seen(t.sb.agent));
	t.sb.is_adopting = false;
	t.sb.state = SANDBOX_RUNNING;
	exec_adopted_all(&t.sb);
}

static void on_agent_event(void *arg, const struct agent_event *event)
{
	switch (event->type) {
	case AGENT_PONG:
		ping_answered(&t.sb, event->pong.nonce);
		break;
	case AGENT_USAGE_IS:
	case AGENT_QUIET:
	case AGENT_HEARTBEAT:
		break;
	case AGENT_CONNECTED:
	case AGENT_CONNECT_FAILED:
	case AGENT_LISTENING_IS:
		port_connect_answered(&t.sb, event);
		break;
	default:
		exec_event(&t.sb, event);
	}
}

static void on_agent_lost(void *arg, const struct err *err)
{
	assert(!t.is_lost && *err->sentence);
	t.is_lost = true;
}

static const struct agent_ops agent_ops = {on_agent_ready, on_agent_event, on_agent_lost};

/* A name for as long as it takes to connect to it. */
static void line_up(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char dir[] = "/tmp/berth-fuzz-XXXXXX";
	cleanup_fd int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert(mkdtemp(dir));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/agent.sock", dir);
	assert(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0);
	assert(listen(listener, 1) == 0);
	t.sb.agent = agent_new(&(struct agent_config){
		.loop = &t.loop, .path = address.sun_path, .pid = getpid(), .ops = &agent_ops});
	assert(t.sb.agent);
	uv_run(&t.loop, UV_RUN_NOWAIT);
	t.line = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert(t.line >= 0);
	unlink(address.sun_path);
	rmdir(dir);
}

static void turn(bool is_read)
{
	char bytes[FRAME_MAX];

	while (is_read && t.line >= 0 && recv(t.line, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	uv_run(&t.loop, UV_RUN_NOWAIT);
}

/* Nothing of the container is left: as sandbox_gone(). */
static void end_sandbox(const struct err *why)
{
	t.sb.state = SANDBOX_COLD;
	agent_free(take(t.sb.agent));
	exec_lose_all(&t.sb, why);
	exec_stranger_forget_all(&t.sb);
	ping_lose_all(&t.sb);
	port_connect_lose_all(&t.sb);
}

static void play(void)
{
	for (int i = 0; i < STEPS_MAX && t.at < t.end; i++) {
		unsigned step = next_byte(), n = step >> 4;

		switch (step & 15) {
		case 0:
			start(&t.owners[n % EXECS], next_byte());
			break;
		case 1:
			use(&t.owners[n % EXECS], next_byte());
			break;
		case 2:
			visit(&t.connects[n % CONNECTS], next_byte());
			break;
		case 3:
			answer_call(n);
			break;
		case 4:
			print(next_byte());
			break;
		case 5:
			turn(n & 1);
			break;
		case 6:
			close(take_fd(&t.line));
			turn(false);
			break;
		case 7:
			say_raw();
			turn(n & 1);
			break;
		default:
			say_frame(n);
			if (!(step & 1))
				turn(true);
		}
	}
}

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void begin(const uint8_t *data, size_t size)
{
	memset(&t.sb, 0, sizeof(t) - offsetof(typeof(t), sb));
	t.at = data;
	t.end = data + size;
	t.has_groups = next_byte() & 1;
	t.line = -1;
	t.sb = (struct sandbox){.generation = 3, .id = {"one"}, .state = SANDBOX_STARTING};
	t.sb.is_adopting = true;
	list_init(&t.sb.execs);
	list_init(&t.sb.strangers);
	list_init(&t.sb.connects);
	list_init(&t.sb.pings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned fds;

	signal(SIGPIPE, SIG_IGN);
	if (!t.loop.data) /* one for all of them: it costs more than the rest */
		assert(uv_loop_init(&t.loop) == 0);
	t.loop.data = &t;
	fds = count_fds();
	begin(data, size);
	line_up();
	play();
	end_sandbox(t.is_lost ? &(struct err){ERR_INTERNAL, "the line broke"} : NULL);
	close_fdp(&t.line);
	for (unsigned i = 0; i < t.ends_len; i++)
		close_fdp(&t.ends[i]);
	uv_run(&t.loop, UV_RUN_DEFAULT);
	for (int i = 0; i < EXECS; i++)
		assert(!t.owners[i].exec);
	for (int i = 0; i < CONNECTS; i++)
		assert(!t.connects[i].done);
	for (int i = 0; i < CALLS; i++)
		assert(!t.calls[i]);
	assert(!t.pings && !t.sb.execs_len && !t.sb.connects_len && !uv_loop_alive(&t.loop));
	assert(count_fds() == fds);
	return 0;
}
