#include "cmd/berth-init/init.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/clock.h"
#include "cmd/berth-init/session.h"
#include "cmd/berth-init/supervisor.h"

#define TICK_MS 50

/* What epoll gives back: one of these, or a supervised exec, or a session, which is odd. */
enum source { SOURCE_LISTENER, SOURCE_CONNECTION, SOURCE_SIGNALS, SOURCE_HEARTBEAT };
#define IS_SESSION 1

static_assert(_Alignof(struct exec) > IS_SESSION && sizeof(struct exec) > SOURCE_HEARTBEAT,
	      "a pointer to an exec can be told from all of these");

static int watch(struct init *init, int fd, uint64_t source)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = source};

	return epoll_ctl(init->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int loop_watch_supervisor(struct init *init, struct exec *exec)
{
	return watch(init, exec->supervisor_fd, (uintptr_t)exec);
}

void loop_resize(struct init *init, struct exec *exec)
{
	int error = supervisor_resize(exec->supervisor_fd, exec->cols, exec->rows);

	init->execs.resizes_pending -= exec->is_resize_pending;
	exec->is_resize_pending = error == -EAGAIN;
	init->execs.resizes_pending += exec->is_resize_pending;
}

int loop_watch_session(struct init *init, struct exec *exec)
{
	return watch(init, exec->session_fd, (uintptr_t)exec | IS_SESSION);
}

static void main_exited(struct init *init, struct exec *exec, int status,
			const struct rusage *usage)
{
	if (exec->is_session)
		session_exited(init, exec, status, usage);
	else
		exec_exited(&init->execs, exec, status, usage);
}

/* False when there is none now or ever, or when `exec` is gone. */
static bool take_note(struct init *init, struct exec *exec)
{
	struct supervisor_note note;
	bool stays = !exec->is_forgotten;
	int pidfd, ret = supervisor_receive(exec->supervisor_fd, &note, &pidfd);

	/* Its end shows here first, but only a reaped process has handed on its children. */
	if (ret < 0)
		epoll_ctl(init->epoll_fd, EPOLL_CTL_DEL, exec->supervisor_fd, NULL);
	if (ret <= 0)
		return false;
	switch (note.event) {
	case SUPERVISOR_STARTED:
		if (exec->is_session)
			session_launched(init, exec, note.pid, pidfd);
		else
			exec_started(&init->execs, exec, note.pid, pidfd);
		return true;
	case SUPERVISOR_REFUSED:
		exec_refused(&init->execs, exec, note.stage, note.error);
		return false;
	case SUPERVISOR_EXITED:
		stays = stays && exec->state == EXEC_LIVE;
		main_exited(init, exec, note.status, &note.usage);
		return stays;
	case SUPERVISOR_ENDED:
		exec_ended(&init->execs, exec, note.is_proven);
		if (exec->is_session)
			session_tree_ended(init, exec, note.is_proven);
		return true;
	}
	return false;
}

/*
 * Whoever kills a supervisor makes its children ours. If its command is among them we will see how
 * it ends; if it was reaped already, nobody knows.
 */
static void on_supervisor_end(struct init *init, pid_t pid, int status)
{
	bool is_empty = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	struct exec *exec = execs_find_pid(&init->execs, pid);
	siginfo_t info;

	while (take_note(init, exec))
		;
	exec = execs_find_pid(&init->execs, pid); /* a note may have been its last */
	if (!exec)
		return;
	execs_drop_supervisor(&init->execs, exec);
	execs_set_pid(&init->execs, exec, 0);
	exec_unsupervised(&init->execs, exec, is_empty);
	exec_ended(&init->execs, exec, is_empty);
	if (exec->is_session)
		session_tree_ended(init, exec, is_empty);
	if (exec->state == EXEC_LIVE &&
	    waitid((idtype_t)P_PIDFD, (id_t)exec->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
		exec->is_supervised = false;
		execs_set_pid(&init->execs, exec, exec->pid);
	} else if (exec->is_session && (exec->state == EXEC_LIVE || exec->state == EXEC_STARTING)) {
		session_lost(init, exec);
	} else if (exec->state == EXEC_LIVE || exec->state == EXEC_STARTING) {
		exec_lost(&init->execs, exec);
	}
}

static void reap(struct init *init)
{
	struct rusage usage;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG | __WALL, &usage)) > 0) {
		struct exec *exec = execs_find_pid(&init->execs, pid);

		if (!exec)
			continue; /* an orphan of some exec */
		if (exec->is_supervised) {
			on_supervisor_end(init, pid, status);
		} else {
			execs_set_pid(&init->execs, exec, 0);
			main_exited(init, exec, status, &usage);
		}
	}
	init->has_children = pid == 0;
}

/*
 * Supervisors and feeders are deaf to it: they tell how their commands end. Shells that somebody
 * talks to are deaf as well, but not to a lost line. And who is stopped hears of nothing before it
 * goes on.
 */
static void signal_all(struct init *init)
{
	for (unsigned i = 0; i < init->execs.touched; i++) {
		if (init->execs.all[i].supervisor_fd >= 0)
			supervisor_hang_up(init->execs.all[i].supervisor_fd);
	}
	kill(-1, SIGTERM);
	kill(-1, SIGCONT);
}

void loop_terminate(struct init *init)
{
	if (!init->is_ending)
		signal_all(init);
	init->is_ending = true;
	reap(init); /* there may be nobody whose end would tell us that nobody is left */
}

/*
 * Anyone inside may send us a signal that we block; only from outside its sender has no pid, and
 * SI_USER cannot be claimed by others. But when no more signals can be queued, which those inside
 * can bring about, the kernel forgets who sent it, and then tells of SI_USER, pid 0 and uid 0.
 * Whoever is outside and may signal us is not our root, unless there is one id for both.
 */
static bool is_stop(const struct signalfd_siginfo *info)
{
	return info->ssi_signo == SIGTERM && info->ssi_code == SI_USER && info->ssi_pid == 0 &&
	       info->ssi_uid != 0;
}

static void on_signals(struct init *init)
{
	struct signalfd_siginfo info;

	while (read(init->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (is_stop(&info)) {
			init->is_stopping = true;
			init->is_ending = false; /* somebody else says so */
			loop_terminate(init);
		}
	}
	reap(init);
}

void loop_drop_answer(struct init *init)
{
	if (init->answer.type && init->answer.has_fd)
		close(init->answer.fd);
	init->answer.type = 0;
}

/* By hand, because a child that is just being made may hold it too for a moment. */
void loop_drop_connection(struct init *init)
{
	if (init->channel.fd >= 0) {
		epoll_ctl(init->epoll_fd, EPOLL_CTL_DEL, init->channel.fd, NULL);
		close(init->channel.fd);
	}
	init->channel.fd = -1;
	init->channel.version = 0;
	loop_drop_answer(init);
	init->quiets_due = 0;
	init->heartbeat.is_due = false;
	init->output = OUTPUT_OPEN;
}

static void watch_listener(struct init *init, bool is_watched)
{
	struct epoll_event event = {is_watched ? EPOLLIN : 0, {.u64 = SOURCE_LISTENER}};

	init->is_deaf = !is_watched;
	init->listen_ms = clock_ms() + TICK_MS;
	epoll_ctl(init->epoll_fd, EPOLL_CTL_MOD, init->channel.listen_fd, &event);
}

static void on_listener(struct init *init)
{
	int fd = channel_accept(&init->channel);

	/* Who waits stays in the queue, and would wake us again at once. */
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM)
		watch_listener(init, false);
	if (fd < 0)
		return;
	loop_drop_connection(init);
	init->channel.fd = fd;
	init->watched = EPOLLIN;
	if (watch(init, fd, SOURCE_CONNECTION) < 0)
		loop_drop_connection(init);
}

static void on_connection(struct init *init, uint32_t events)
{
	struct message message;
	int ret;

	/* Who has gone away while it did not read will not read any more. */
	if (init->output != OUTPUT_OPEN) {
		if (events & (EPOLLHUP | EPOLLERR))
			loop_drop_connection(init);
		return;
	}
	ret = channel_receive(&init->channel, &message);
	if (ret > 0)
		ret = request_handle(init, &message);
	if (ret < 0)
		loop_drop_connection(init);
}

static void on_heartbeat(struct init *init)
{
	struct heartbeat *h = &init->heartbeat;

	if (!heartbeat_read(h)) {
		epoll_ctl(init->epoll_fd, EPOLL_CTL_DEL, h->fd, NULL);
		close_fdp(&h->fd);
		h->fd = -1;
	}
	/* To whoever comes later it would be old. */
	if (!init->channel.version)
		h->is_due = false;
}

static void on_event(struct init *init, const struct epoll_event *event)
{
	switch (event->data.u64) {
	case SOURCE_LISTENER:
		on_listener(init);
		return;
	case SOURCE_CONNECTION:
		on_connection(init, event->events);
		return;
	case SOURCE_SIGNALS:
		on_signals(init);
		return;
	case SOURCE_HEARTBEAT:
		on_heartbeat(init);
		return;
	default:
		if (event->data.u64 & IS_SESSION)
			session_take_note(
				init, (struct exec *)(uintptr_t)(event->data.u64 & ~IS_SESSION));
		else
			take_note(init, (struct exec *)(uintptr_t)event->data.u64);
	}
}

/* A supervisor that was stopped, or is stuck, has not answered. */
static void check_deadlines(struct init *init)
{
	uint64_t now = clock_ms();

	if ((!init->execs.ends_pending && !init->execs.resizes_pending) || now < init->next_tick_ms)
		return;
	init->next_tick_ms = now + TICK_MS;
	for (unsigned i = 0; i < init->execs.touched; i++) {
		struct exec *exec = &init->execs.all[i];

		if (exec->is_end_pending && now >= exec->end_deadline_ms)
			exec_ended(&init->execs, exec, false);
		if (exec->is_resize_pending)
			loop_resize(init, exec);
	}
}

/* A peer that does not read its answers is not asked for more requests. */
static void watch_connection(struct init *init)
{
	static const uint32_t wanted[] = {
		[OUTPUT_OPEN] = EPOLLIN,
		[OUTPUT_FULL] = EPOLLOUT,
		[OUTPUT_LATER] = 0,
	};
	struct epoll_event event = {wanted[init->output], {.u64 = SOURCE_CONNECTION}};

	if (init->channel.fd < 0 || init->watched == event.events)
		return;
	init->watched = event.events;
	if (epoll_ctl(init->epoll_fd, EPOLL_CTL_MOD, init->channel.fd, &event) < 0)
		loop_drop_connection(init);
}

static int prepare(struct init *init)
{
	sigset_t signals;
	int error;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	if (sigprocmask(SIG_SETMASK, &signals, NULL) < 0)
		return -errno;
	init->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	init->epoll_fd = init->execs.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (init->signal_fd < 0 || init->epoll_fd < 0)
		return -errno;
	error = watch(init, init->signal_fd, SOURCE_SIGNALS);
	if (error == 0 && init->heartbeat.fd >= 0)
		error = watch(init, init->heartbeat.fd, SOURCE_HEARTBEAT);
	return error < 0 ? error : watch(init, init->channel.listen_fd, SOURCE_LISTENER);
}

/* Until there is something to do by the clock alone. */
static int wait_ms(const struct init *init)
{
	if (init->execs.ends_pending || init->execs.resizes_pending ||
	    init->output == OUTPUT_LATER || init->is_deaf)
		return TICK_MS;
	return init->output == OUTPUT_OPEN ? heartbeat_wait_ms(&init->heartbeat) : -1;
}

int loop_run(struct init *init)
{
	int error = prepare(init);

	/* One event a turn, so that none outlives the exec that it points to. */
	while (error == 0 && (!init->is_stopping || init->has_children)) {
		struct epoll_event event;
		int n = epoll_wait(init->epoll_fd, &event, 1, wait_ms(init));

		if (n < 0 && errno != EINTR)
			error = -errno;
		if (n > 0)
			on_event(init, &event);
		if (init->is_deaf && clock_ms() >= init->listen_ms)
			watch_listener(init, true);
		check_deadlines(init);
		notices_flush(init);
		watch_connection(init);
	}
	return error;
}
