#include "container/job.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "container/process.h"

static void fill(struct job_pool *pool);

void job_pool_init(struct job_pool *pool, struct loop *loop, unsigned limit, unsigned waiting_max)
{
	*pool = (struct job_pool){.loop = loop, .limit = limit, .waiting_max = waiting_max};
	list_init(&pool->waiting);
}

static void finish(struct job *job, int result, int status)
{
	struct job_pool *pool = job->pool;

	pool->running--;
	job->on_end(job, result, status);
	fill(pool);
}

/* The status of a child; a stopped one has not ended. */
static int reap(int pidfd, int *ret_status)
{
	siginfo_t info = {0};

	if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) < 0)
		return -errno;
	if (info.si_pid == 0)
		return -EAGAIN;
	*ret_status =
		info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status & 0x7f;
	return 0;
}

static void on_pidfd(struct watch *watch)
{
	struct job *job = container_of(watch, struct job, watch);
	int status = 0, fd = watch->fd;
	int r = reap(fd, &status);

	if (r == -EAGAIN)
		return;
	watch_stop(watch, job->pool->loop);
	timer_stop(&job->timer);
	close(fd);
	finish(job, r, status);
}

static void on_late(struct timer *timer)
{
	struct job *job = container_of(timer, struct job, timer);

	job->is_late = true;
	process_pidfd_kill(job->watch.fd, SIGKILL);
}

static void run(struct job *job)
{
	struct job_pool *pool = job->pool;
	int pidfd, r;

	pool->running++;
	pidfd = job->begin(job);
	if (pidfd < 0) {
		finish(job, pidfd, 0);
		return;
	}
	r = watch_start(&job->watch, pool->loop, pidfd, EPOLLIN);
	if (r < 0) {
		process_pidfd_kill(pidfd, SIGKILL);
		waitid(P_PIDFD, (id_t)pidfd, &(siginfo_t){0}, WEXITED);
		close(pidfd);
		finish(job, r, 0);
		return;
	}
	timer_start(&job->timer, pool->loop, job->timeout_ms);
}

/* A job that fails at once comes back here through finish(): one level only, the loop goes on. */
static void fill(struct job_pool *pool)
{
	if (pool->is_filling)
		return;
	pool->is_filling = true;
	while (pool->running < pool->limit && !list_is_empty(&pool->waiting)) {
		struct job *job = list_entry(pool->waiting.next, struct job, node);

		list_remove(&job->node);
		pool->waiting_count--;
		run(job);
	}
	pool->is_filling = false;
}

void job_pool_hold(struct job_pool *pool)
{
	pool->running++;
}

void job_pool_release(struct job_pool *pool)
{
	pool->running--;
	fill(pool);
}

void job_init(struct job *job)
{
	list_init(&job->node);
	watch_init(&job->watch, on_pidfd);
	timer_init(&job->timer, on_late);
	job->is_late = false;
}

int job_queue(struct job *job, struct job_pool *pool, bool must)
{
	if (!must && pool->waiting_count >= pool->waiting_max)
		return -EBUSY;
	job->pool = pool;
	job->is_late = false;
	list_append(&pool->waiting, &job->node);
	pool->waiting_count++;
	fill(pool);
	return 0;
}

bool job_cancel(struct job *job)
{
	if (list_is_empty(&job->node))
		return false;
	list_remove(&job->node);
	job->pool->waiting_count--;
	return true;
}
