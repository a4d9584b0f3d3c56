/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of a communicator, which runs the jobs of oriel/progress.h. Jobs wait for their
 * streams in one list and have their steps in another, and only this thread accesses the two. A
 * posting thread adds its job to a third list, under a lock. The driver sets a flag in a job that
 * no graph holds any more.
 */
#include "progress/engine.h"

#include <errno.h>
#include <stdlib.h>

#include <oriel/dev/detail/order.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sleep.h"
#include "base/thread.h"
#include "base/yield.h"
#include "comm/health.h"

#define ENGINE_SPIN_NS 50000u    /* since the last progress: polls only */
#define ENGINE_YIELD_NS 4000000u /* ... yields the core between two polls */
#define ENGINE_SLEEP_NS 50000u   /* ... sleeps that long between two polls */
#define ENGINE_IDLE_NS 1000000000u
#define ENGINE_IDLE_SLEEP_NS 500000u
#define ENGINE_POST_SLEEP_NS 50000u
#define ENGINE_LEAVE_NS 2000000000u /* time for the streams while the communicator is destroyed */

static void list_open(struct ori_job_list *list)
{
	list->first = NULL;
	list->last = &list->first;
}

static void list_add(struct ori_job_list *list, struct ori_job *job)
{
	job->next = NULL;
	*list->last = job;
	list->last = &job->next;
}

/* Removes the job that *@at points to. */
static struct ori_job *list_take(struct ori_job_list *list, struct ori_job **at)
{
	struct ori_job *job = *at;

	*at = job->next;
	if (list->last == &job->next)
		list->last = at;
	return job;
}

static void job_unref(struct ori_job *job)
{
	if (atomic_fetch_sub_explicit(&job->refs, 1, memory_order_acq_rel) == 1)
		free(job);
}

/* A thread of the driver calls it, possibly after the engine was freed. */
static void job_drop(void *object)
{
	struct ori_job *job = object;

	atomic_store_explicit(&job->is_dropped, true, memory_order_release);
	job_unref(job);
}

static void job_release(struct ori_job *job)
{
	if (job->call.release)
		job->call.release(job->call.context);
	job->call.release = NULL;
}

/* The job is in no list any more. */
static void job_close(struct ori_engine *engine, struct ori_job *job)
{
	if (!atomic_load(&job->is_lost))
		job_release(job);
	if (job->line && !atomic_load(&job->is_torn))
		ori_line_close(engine, job->line);
	if (!job->is_captured)
		atomic_fetch_sub(&engine->under_way, 1);
	job_unref(job);
}

struct engine_lists {
	struct ori_job_list waiting, running;
	bool has_moved;
};

/* Takes the whole list under the lock, so that posting threads wait only for that. */
static void engine_take_posted(struct ori_engine *engine, struct engine_lists *l)
{
	struct ori_job_list posted;
	struct ori_job *job;

	pthread_mutex_lock(&engine->lock);
	posted = engine->posted;
	list_open(&engine->posted);
	pthread_mutex_unlock(&engine->lock);
	while (posted.first) {
		job = posted.first;
		posted.first = job->next;
		l->has_moved = true;
		list_add(job->line ? &l->waiting : &l->running, job);
	}
}

/* Will its stream never reach it again? */
static bool job_is_finished(struct ori_job *job)
{
	if (atomic_load_explicit(&job->is_dropped, memory_order_acquire) ||
	    atomic_load_explicit(&job->is_lost, memory_order_acquire))
		return true;
	return job->state == JOB_LEAVING &&
	       (atomic_load(&job->is_torn) || !ori_dev_load_acquire32(&job->line->done));
}

/* Polls a job that waits for its stream; true if the job left the list. */
static bool engine_poll_stream(struct ori_engine *engine, struct engine_lists *l,
			       struct ori_job **at)
{
	struct ori_job *job = *at;

	if (job_is_finished(job)) {
		job_close(engine, list_take(&l->waiting, at));
		return true;
	}
	if (job->state == JOB_LEAVING || !ori_dev_load_acquire32(&job->line->begun))
		return false;
	/*
	 * After the load of 1 and before done is set: the stream sets begun again only after it has
	 * seen done.
	 */
	ori_dev_store_release32(&job->line->begun, 0);
	job->state = JOB_RUNNING;
	list_add(&l->running, list_take(&l->waiting, at));
	l->has_moved = true;
	return true;
}

/* The release of done publishes to the stream all that the steps wrote, or caused to be written. */
static void engine_end(struct ori_engine *engine, struct engine_lists *l, struct ori_job *job)
{
	l->has_moved = true;
	if (!job->line) {
		job_close(engine, job);
		return;
	}
	job->state = job->is_captured ? JOB_WAITING : JOB_LEAVING;
	if (!job->is_captured)
		job_release(job);
	ori_dev_store_release32(&job->line->done, 1);
	list_add(&l->waiting, job);
}

/*
 * Runs one step; true if it was the last of this execution. The health is read before the step:
 * each job gets one step after the break, in which it can end its work, and that step is the last.
 */
static bool engine_step(struct ori_engine *engine, struct engine_lists *l, struct ori_job **at)
{
	bool is_well = ori_comm_is_well(engine->comm), has_moved = false;
	struct ori_job *job = *at;
	enum oriel_status status;

	ori_error_clear();
	status = job->call.step(job->call.context, &has_moved);
	l->has_moved |= has_moved;
	if (status == ORIEL_AGAIN && is_well)
		return false;
	if (status < 0 && is_well) {
		ori_log_rank(ORIEL_LOG_WARN, engine->comm->rank, "a job failed: %s: %s",
			     oriel_status_name(status), oriel_last_error());
		ori_comm_break_all(engine->comm, status, ORIEL_DEV_JOB, ORIEL_DEV_NO_RANK, 0);
	}
	engine_end(engine, l, list_take(&l->running, at));
	return true;
}

/* One pass over both lists. A job that becomes ready has its first step in the same pass. */
static void engine_pass(struct ori_engine *engine, struct engine_lists *l)
{
	struct ori_job **at;

	l->has_moved = false;
	engine_take_posted(engine, l);
	for (at = &l->waiting.first; *at;)
		if (!engine_poll_stream(engine, l, at))
			at = &(*at)->next;
	for (at = &l->running.first; *at;)
		if (!engine_step(engine, l, at))
			at = &(*at)->next;
}

/*
 * A posting thread adds its job and then sets @asleep to 0. This thread sets it to 1 and then looks
 * for jobs. So at least one of them sees the other, and no job is missed.
 */
static void engine_sleep(struct ori_engine *engine, uint64_t ns)
{
	bool has_work;

	(void)ori_dev_exchange_acquire32(&engine->asleep, 1);
	pthread_mutex_lock(&engine->lock);
	has_work = engine->posted.first || engine->is_closing;
	pthread_mutex_unlock(&engine->lock);
	if (!has_work)
		ori_sleep_until_woken(&engine->asleep, ns);
	(void)ori_dev_exchange_acquire32(&engine->asleep, 0);
}

/* Backs off in stages: the longer there was no progress, the longer the thread sleeps. */
static void engine_rest(struct ori_engine *engine, const struct engine_lists *l, uint64_t moved)
{
	uint64_t idle = ori_clock_ns() - moved;

	if (!l->waiting.first && !l->running.first && idle > ENGINE_SPIN_NS)
		engine_sleep(engine, ENGINE_IDLE_NS);
	else if (idle > ENGINE_IDLE_NS)
		engine_sleep(engine, ENGINE_IDLE_SLEEP_NS);
	else if (idle > ENGINE_YIELD_NS)
		engine_sleep(engine, ENGINE_SLEEP_NS);
	else if (idle > ENGINE_SPIN_NS || engine->comm->is_oversubscribed)
		ori_yield();
}

/* Is there a job whose end the thread has to see? A captured one may wait for ever. */
static bool engine_is_busy(const struct engine_lists *l)
{
	const struct ori_job *job;

	for (job = l->waiting.first; job; job = job->next)
		if (!job->is_captured)
			return true;
	return l->running.first != NULL;
}

/*
 * Frees all jobs. If some stream has not passed its job in time, the words stay allocated, since
 * the stream still waits for them or writes to them.
 */
static void engine_leave(struct ori_engine *engine, struct engine_lists *l)
{
	bool is_over = !engine_is_busy(l);
	struct ori_job *job;

	if (!is_over)
		ori_log_rank(ORIEL_LOG_WARN, engine->comm->rank,
			     "the communicator is destroyed while streams still wait for its jobs");
	while (l->waiting.first) {
		job = list_take(&l->waiting, &l->waiting.first);
		job_release(job);
		job_unref(job);
	}
	while (l->running.first) {
		job = list_take(&l->running, &l->running.first);
		if (job->line)
			ori_dev_store_release32(&job->line->done, 1);
		job_release(job);
		job_unref(job);
	}
	ori_lines_close(engine, is_over);
}

static bool engine_is_closing(struct ori_engine *engine)
{
	bool is_closing;

	pthread_mutex_lock(&engine->lock);
	is_closing = engine->is_closing;
	pthread_mutex_unlock(&engine->lock);
	return is_closing;
}

static void *engine_main(void *argument)
{
	struct ori_engine *engine = argument;
	uint64_t moved = ori_clock_ns(), deadline = 0;
	struct engine_lists l;
	bool is_closing;

	ori_log_set_rank(engine->comm->rank);
	list_open(&l.waiting);
	list_open(&l.running);
	for (;;) {
		/* All jobs were posted before it closes: this pass has those that the last one
		 * missed. */
		is_closing = engine_is_closing(engine);
		engine_pass(engine, &l);
		if (is_closing) {
			if (!deadline)
				deadline = ori_deadline(ENGINE_LEAVE_NS);
			if (!engine_is_busy(&l) || ori_deadline_passed(deadline))
				break;
		}
		if (l.has_moved)
			moved = ori_clock_ns();
		else
			engine_rest(engine, &l, moved);
	}
	engine_leave(engine, &l);
	return NULL;
}

static void engine_close(struct oriel_comm *comm, void *object)
{
	struct ori_engine *engine = object;

	(void)comm;
	pthread_mutex_lock(&engine->lock);
	engine->is_closing = true;
	pthread_mutex_unlock(&engine->lock);
	oriel_cpu_wake_thread(&engine->asleep);
	pthread_join(engine->thread, NULL);
	pthread_mutex_destroy(&engine->lock);
	free(engine);
}

static enum oriel_status engine_start(struct ori_engine *engine)
{
	int error = ori_thread_start(&engine->thread, engine_main, engine);

	if (!error)
		return ORIEL_OK;
	errno = error;
	return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot start a thread");
}

static enum oriel_status engine_open_locked(struct oriel_comm *comm, struct ori_attached *attached)
{
	struct ori_engine *engine = calloc(1, sizeof(*engine));
	enum oriel_status status = ORIEL_OK;

	if (!engine)
		return ori_fail_nomem(sizeof(*engine), "jobs");
	engine->comm = comm;
	list_open(&engine->posted);
	pthread_mutex_init(&engine->lock, NULL);
	if (comm->gpu)
		status = ori_lines_open(engine);
	if (status == ORIEL_OK)
		status = engine_start(engine);
	if (status != ORIEL_OK) {
		ori_lines_close(engine, true);
		pthread_mutex_destroy(&engine->lock);
		free(engine);
		return status;
	}
	attached->object = engine;
	attached->close = engine_close;
	return ORIEL_OK;
}

static enum oriel_status engine_get(struct oriel_comm *comm, struct ori_engine **engine)
{
	struct ori_attached *attached = &comm->attached[ORI_ATTACHED_ENGINE];
	enum oriel_status status = ORIEL_OK;

	pthread_mutex_lock(&attached->lock);
	if (!attached->object)
		status = engine_open_locked(comm, attached);
	*engine = attached->object;
	pthread_mutex_unlock(&attached->lock);
	return status;
}

enum oriel_status oriel_comm_prepare(struct oriel_comm *comm)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_engine *engine;

	if (status == ORIEL_OK)
		status = ori_comm_check(comm);
	return status == ORIEL_OK ? engine_get(comm, &engine) : status;
}

/* Waits until fewer than ORIEL_JOBS are in progress, and counts one more. */
static enum oriel_status engine_enter(struct ori_engine *engine)
{
	uint64_t deadline = ori_deadline(engine->comm->timeout_ns);
	uint32_t asleep =
		1; /* no thread clears it, so ori_sleep_until_woken() sleeps for its time */
	enum oriel_status status;

	while (atomic_fetch_add(&engine->under_way, 1) >= ORIEL_JOBS) {
		atomic_fetch_sub(&engine->under_way, 1);
		status = ori_comm_check(engine->comm);
		if (status != ORIEL_OK)
			return status;
		if (ori_deadline_passed(deadline))
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"%u jobs are posted, and none ended within %g s",
					ORIEL_JOBS, (double)engine->comm->timeout_ns / 1e9);
		ori_sleep_until_woken(&asleep, ENGINE_POST_SLEEP_NS);
	}
	return ORIEL_OK;
}

static void engine_add(struct ori_engine *engine, struct ori_job *job)
{
	pthread_mutex_lock(&engine->lock);
	list_add(&engine->posted, job);
	pthread_mutex_unlock(&engine->lock);
	oriel_cpu_wake_thread(&engine->asleep);
}

/*
 * The thread gets the job before the stream does, which may reach it at once. If the driver rejects
 * the first operation, the thread drops the job. If it rejects a later one, the job cannot be
 * withdrawn: it will be executed, and the communicator is broken.
 */
static enum oriel_status engine_post_in(struct ori_engine *engine, struct ori_job *job,
					void *stream)
{
	enum oriel_status status;
	bool has_begun;

	atomic_fetch_add(&job->refs, 1);
	engine_add(engine, job);
	status = ori_line_post(engine, job->line, stream, &has_begun);
	if (status != ORIEL_OK && has_begun) {
		ori_comm_break_all(engine->comm, status, ORIEL_DEV_JOB, ORIEL_DEV_NO_RANK, 0);
		atomic_store(&job->is_torn, true);
		status = ORIEL_OK;
	} else if (status != ORIEL_OK) {
		atomic_store_explicit(&job->is_lost, true, memory_order_release);
	}
	job_unref(job);
	return status;
}

/* A captured job is held by its graph and does not count; another one waits for room. */
static enum oriel_status engine_admit(struct ori_engine *engine, struct ori_job *job, void *stream)
{
	const struct ori_gpu *gpu = engine->comm->gpu;
	enum oriel_status status;

	if (stream) {
		status = ori_line_open(engine, &job->line);
		if (status != ORIEL_OK)
			return status;
		/* Before the graph can drop its reference. */
		atomic_fetch_add(&job->refs, 1);
		status = gpu->ops->graph_retain(gpu, stream, job, job_drop, &job->is_captured);
		if (status == ORIEL_OK && job->is_captured)
			return ORIEL_OK;
		atomic_fetch_sub(&job->refs, 1);
		if (status != ORIEL_OK)
			goto err_close_line;
	}
	status = engine_enter(engine);
	if (status == ORIEL_OK)
		return ORIEL_OK;

err_close_line:
	if (job->line)
		ori_line_close(engine, job->line);
	return status;
}

/* @stream NULL: the job is in none. */
static enum oriel_status post_read(const struct oriel_comm *comm, const struct oriel_job *caller,
				   const void *stream, const char *name, struct oriel_job *job)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, name);

	if (status != ORIEL_OK)
		return status;
	if (!caller)
		return ori_fail(ORIEL_ERR_INVALID, "%s: job is NULL", name);
	status = ori_attr_read("oriel_job", caller, job, sizeof(*job));
	if (status != ORIEL_OK)
		return status;
	if (!job->step)
		return ori_fail(ORIEL_ERR_INVALID, "%s: a job without a step", name);
	if (stream && !comm->gpu)
		return ori_fail(ORIEL_ERR_INVALID, "%s: the communicator has no GPU", name);
	return ori_comm_check(comm);
}

static enum oriel_status post_job(struct oriel_comm *comm, const struct oriel_job *caller,
				  void *stream, const char *name)
{
	struct ori_engine *engine = NULL;
	struct oriel_job call;
	struct ori_job *job;
	enum oriel_status status = post_read(comm, caller, stream, name, &call);

	if (status == ORIEL_OK)
		status = engine_get(comm, &engine);
	if (status == ORIEL_OK && pthread_equal(engine->thread, pthread_self()))
		status = ori_fail(ORIEL_ERR_STATE, "%s: called by a step of a job", name);
	if (status != ORIEL_OK)
		return status;
	job = calloc(1, sizeof(*job));
	if (!job)
		return ori_fail_nomem(sizeof(*job), "a job");
	job->call = call;
	atomic_store(&job->refs, 1);
	status = engine_admit(engine, job, stream);
	if (status != ORIEL_OK) {
		free(job);
		return status;
	}
	if (stream)
		return engine_post_in(engine, job, stream);
	engine_add(engine, job);
	return ORIEL_OK;
}

enum oriel_status oriel_comm_post(struct oriel_comm *comm, const struct oriel_job *job)
{
	return post_job(comm, job, NULL, __func__);
}

enum oriel_status oriel_comm_post_on_stream(struct oriel_comm *comm, const struct oriel_job *job,
					    struct CUstream_st *stream)
{
	return post_job(comm, job, ori_gpu_stream(stream), __func__);
}
