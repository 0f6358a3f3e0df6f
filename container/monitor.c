#include "container/monitor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process_stat.h"
#include "base/list.h"
#include "base/log.h"
#include "container/loop.h"
#include "container/monitor_link.h"
#include "container/process.h"

#define KEPT_MAX       16384
#define STEADY_MS      10000 /* a keeper that lived this long did not die of its start */
#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 5000
#define STOP_MS        20000 /* longer than the keeper waits for its own children */

/* An exit status that nobody has seen off. */
struct kept {
	struct list node;
	struct monitor_record record;
	bool is_sent;
};

struct monitor {
	const struct monitor_config *config;
	int link_fd, signal_fd;
	pid_t keeper_pid; /* 0: none runs */
	uint64_t started_ms, restart_ms, stop_ms;
	unsigned backoff_ms;
	bool was_ready, is_synced, is_blocked, is_stopping, is_done;
	int result;
	struct list kept;
	unsigned kept_count;
};

static struct kept *find_kept(struct monitor *m, int32_t pid, uint64_t start)
{
	list_for_each (node, &m->kept) {
		struct kept *kept = list_entry(node, struct kept, node);

		if (kept->record.pid == pid && kept->record.start == start)
			return kept;
	}
	return NULL;
}

static void drop_kept(struct monitor *m, struct kept *kept)
{
	list_remove(&kept->node);
	free(kept);
	m->kept_count--;
}

static void keep(struct monitor *m, const struct monitor_record *record, bool is_sent)
{
	struct kept *kept = calloc(1, sizeof(*kept));

	if (m->kept_count >= KEPT_MAX)
		drop_kept(m, list_entry(m->kept.next, struct kept, node));
	if (!kept) {
		log_error("an exit status is lost, out of memory pid=%d", record->pid);
		return;
	}
	kept->record = *record;
	kept->record.kind = MONITOR_EXIT;
	kept->is_sent = is_sent;
	list_append(&m->kept, &kept->node);
	m->kept_count++;
}

/* --- the keeper --- */

static void start_keeper(struct monitor *m)
{
	pid_t monitor = getpid(), pid;
	int fds[2];

	m->restart_ms = loop_now_ms() + BACKOFF_MAX_MS; /* if it cannot even be forked */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return;
	pid = fork();
	if (pid == 0) {
		sigset_t none;

		/* SIGTERM, as if we were told to end: what its children are at is finished. */
		if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != monitor)
			_exit(1);
		close(fds[0]);
		close(m->signal_fd);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		prctl(PR_SET_NAME, "berth-keeper");
		_exit(m->config->run_keeper(m->config->arg, fds[1]));
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return;
	}
	m->link_fd = fds[0];
	m->keeper_pid = pid;
	m->started_ms = loop_now_ms();
	m->is_synced = false;
	list_for_each (node, &m->kept)
		list_entry(node, struct kept, node)->is_sent = false;
}

static void finish(struct monitor *m, int result)
{
	m->is_done = true;
	m->result = result;
}

static void on_keeper_end(struct monitor *m, int status)
{
	uint64_t now = loop_now_ms();

	m->keeper_pid = 0;
	close(m->link_fd);
	m->link_fd = -1;
	if (m->is_stopping || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
		finish(m, 0);
	} else if (!m->was_ready) {
		finish(m, 1);
	} else {
		bool is_steady = now - m->started_ms >= STEADY_MS;

		m->restart_ms = now + (is_steady ? 0 : m->backoff_ms);
		m->backoff_ms = is_steady ? BACKOFF_MIN_MS : m->backoff_ms * 2;
		if (m->backoff_ms > BACKOFF_MAX_MS)
			m->backoff_ms = BACKOFF_MAX_MS;
		log_warn("the keeper ended and is started again status=%d", status);
	}
}

/* As many as the keeper takes; a keeper that goes away is noticed by its end. */
static void send_kept(struct monitor *m)
{
	const struct monitor_record synced = {.kind = MONITOR_SYNCED};

	m->is_blocked = false;
	if (m->link_fd < 0)
		return;
	list_for_each (node, &m->kept) {
		struct kept *kept = list_entry(node, struct kept, node);

		if (kept->is_sent)
			continue;
		m->is_blocked = monitor_link_send(m->link_fd, &kept->record) == -EAGAIN;
		if (m->is_blocked)
			return;
		kept->is_sent = true;
	}
	if (!m->is_synced) {
		m->is_blocked = monitor_link_send(m->link_fd, &synced) == -EAGAIN;
		m->is_synced = !m->is_blocked;
	}
}

static void on_record(struct monitor *m, const struct monitor_record *record)
{
	struct kept *kept = find_kept(m, record->pid, record->start);

	if (record->kind == MONITOR_READY && !m->was_ready) {
		m->was_ready = true;
		m->config->on_ready(m->config->arg);
	} else if (record->kind == MONITOR_SEEN && kept) {
		drop_kept(m, kept);
	} else if (record->kind == MONITOR_KEEP && kept) {
		kept->record = *record;
		kept->record.kind = MONITOR_EXIT;
	} else if (record->kind == MONITOR_KEEP) {
		keep(m, record, true);
	}
}

static void read_link(struct monitor *m)
{
	struct monitor_record record;

	while (m->link_fd >= 0 && monitor_link_receive(m->link_fd, &record) == 0)
		on_record(m, &record);
}

/* --- signals --- */

static void reap(struct monitor *m)
{
	for (;;) {
		siginfo_t info = {0};
		struct process_stat stat = {0};
		int status;

		/* Left as a zombie at first, so that its start time can still be read. */
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
			return;
		process_stat(info.si_pid, &stat);
		if (waitpid(info.si_pid, &status, WNOHANG) != info.si_pid)
			return;
		if (info.si_pid == m->keeper_pid) {
			read_link(m); /* what it said last counts */
			on_keeper_end(m, status);
			continue;
		}
		keep(m,
		     &(struct monitor_record){.pid = info.si_pid,
					      .start = stat.start,
					      .status = (uint32_t)status,
					      .is_known = 1},
		     false);
	}
}

static void on_signal(struct monitor *m)
{
	struct signalfd_siginfo info;

	while (read(m->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD || info.ssi_signo == SIGHUP)
			continue;
		m->is_stopping = true;
		m->stop_ms = loop_now_ms() + STOP_MS;
		if (m->keeper_pid)
			kill(m->keeper_pid, SIGTERM); /* our child, not reaped: the pid is its */
		else
			finish(m, 0);
	}
	reap(m);
}

/* What is due by now, and how long nothing will be. */
static int run_clock(struct monitor *m)
{
	uint64_t now = loop_now_ms();

	if (!m->keeper_pid && !m->is_done && now >= m->restart_ms)
		start_keeper(m);
	if (!m->keeper_pid)
		return m->restart_ms > now ? (int)(m->restart_ms - now) : 0;
	if (!m->is_stopping)
		return -1;
	if (now >= m->stop_ms)
		kill(m->keeper_pid, SIGKILL);
	return now >= m->stop_ms ? -1 : (int)(m->stop_ms - now);
}

static int loop(struct monitor *m, struct err *err)
{
	while (!m->is_done) {
		struct pollfd fds[2] = {{.events = POLLIN}, {.events = POLLIN}};
		int timeout = run_clock(m);

		send_kept(m);
		fds[0].fd = m->signal_fd;
		fds[1].fd = m->link_fd;
		fds[1].events |= m->is_blocked ? POLLOUT : 0;
		if (poll(fds, 2, timeout) < 0 && errno != EINTR)
			return err_set(err, -errno, ERR_INTERNAL, "the monitor cannot wait: %s",
				       strerror(errno));
		read_link(m);
		on_signal(m);
		/* A keeper that closed its end without ending yet must not make us spin. */
		if (fds[1].revents & POLLHUP && m->keeper_pid)
			poll(fds, 1, BACKOFF_MIN_MS);
	}
	return 0;
}

int monitor_run(const struct monitor_config *config, struct err *err)
{
	struct monitor m = {.config = config, .link_fd = -1, .backoff_ms = BACKOFF_MIN_MS};
	sigset_t set;
	int r;

	list_init(&m.kept);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	prctl(PR_SET_NAME, "berth-monitor");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot become a subreaper: %s",
			       strerror(errno));
	m.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (m.signal_fd < 0)
		return err_set(err, -errno, ERR_INTERNAL, "cannot watch for signals: %s",
			       strerror(errno));
	r = loop(&m, err);
	while (!list_is_empty(&m.kept))
		drop_kept(&m, list_entry(m.kept.next, struct kept, node));
	close_fdp(&m.link_fd);
	close(m.signal_fd);
	return r < 0 ? r : m.result;
}
