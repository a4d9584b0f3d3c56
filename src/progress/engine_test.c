/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs without a stream, of one rank. tests/fakecuda/gpu_progress.c tests jobs in streams. */
#include <oriel/oriel.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "progress/engine.h"

#define TIMEOUT_NS UINT64_C(60000000000)
#define SHORT_NS UINT64_C(200000000)
#define IDLE_NS UINT64_C(1000000000) /* half of what the engine leaves to its jobs */

struct fixture {
	struct oriel_local_job *job;
	struct oriel_bootstrap bootstrap;
	struct oriel_comm *comm;
};

static void open_comm(struct fixture *f, uint64_t timeout_ns)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr), .timeout_ns = timeout_ns};

	assert_int_equal(oriel_local_job_create(1, &f->job), ORIEL_OK);
	assert_int_equal(oriel_bootstrap_open_local(f->job, 0, &f->bootstrap), ORIEL_OK);
	assert_int_equal(oriel_comm_create(&f->bootstrap, &attr, &f->comm), ORIEL_OK);
}

static void close_comm(struct fixture *f)
{
	oriel_comm_destroy(f->comm);
	oriel_bootstrap_close(&f->bootstrap);
	oriel_local_job_destroy(f->job);
}

/* The work of a job, and its results. */
struct work {
	unsigned steps; /* before it ends */
	enum oriel_status end;
	atomic_uint done, released;
	atomic_uint *order;        /* counts the ends of several */
	unsigned position;         /* of this one among them */
	atomic_bool *gate;         /* the job ends only once this is true */
	atomic_bool *release_gate; /* its release, too */
	struct oriel_comm *comm;
	enum oriel_status posted; /* status of the post by its step */
};

static enum oriel_status work_step(void *context, bool *has_moved)
{
	struct work *w = context;

	if (w->gate && !atomic_load(w->gate))
		return ORIEL_AGAIN;
	*has_moved = true;
	if (atomic_fetch_add(&w->done, 1) + 1 < w->steps)
		return ORIEL_AGAIN;
	if (w->order)
		w->position = atomic_fetch_add(w->order, 1);
	return w->end;
}

static void work_release(void *context)
{
	struct work *w = context;

	atomic_fetch_add(&w->released, 1);
	while (w->release_gate && !atomic_load(w->release_gate))
		sched_yield();
}

static enum oriel_status post(struct oriel_comm *comm, struct work *w)
{
	struct oriel_job job = {sizeof(job), work_step, work_release, w};

	return oriel_comm_post(comm, &job);
}

static void await_count(atomic_uint *word, unsigned value)
{
	const struct timespec nap = {0, 100000};

	while (atomic_load(word) < value)
		nanosleep(&nap, NULL);
}

static void test_a_job_has_its_steps_and_is_released_once(void **state)
{
	struct work works[50] = {{0}};
	struct fixture f;
	unsigned i;

	(void)state;
	open_comm(&f, TIMEOUT_NS);
	for (i = 0; i < 50; i++) {
		works[i].steps = i % 7 + 1;
		assert_int_equal(post(f.comm, &works[i]), ORIEL_OK);
	}
	for (i = 0; i < 50; i++) {
		await_count(&works[i].released, 1);
		assert_int_equal(atomic_load(&works[i].done), works[i].steps);
	}
	close_comm(&f);
	for (i = 0; i < 50; i++)
		assert_int_equal(atomic_load(&works[i].released), 1);
}

/* The first job ends only after the second one. */
static void test_no_job_waits_for_another(void **state)
{
	atomic_bool gate = false;
	atomic_uint order = 0;
	struct work first = {.steps = 1, .gate = &gate, .order = &order};
	struct work second = {.steps = 3, .order = &order};
	struct fixture f;

	(void)state;
	open_comm(&f, TIMEOUT_NS);
	assert_int_equal(post(f.comm, &first), ORIEL_OK);
	assert_int_equal(post(f.comm, &second), ORIEL_OK);
	await_count(&second.released, 1);
	assert_int_equal(atomic_load(&first.released), 0);
	atomic_store(&gate, true);
	await_count(&first.released, 1);
	assert_int_equal(second.position, 0);
	assert_int_equal(first.position, 1);
	close_comm(&f);
}

static void test_jobs_begin_in_the_order_of_their_posts(void **state)
{
	struct work works[ORIEL_JOBS / 2] = {{0}};
	atomic_uint order = 0;
	struct fixture f;
	unsigned i;

	(void)state;
	open_comm(&f, TIMEOUT_NS);
	for (i = 0; i < ORIEL_JOBS / 2; i++) {
		works[i].steps = 1;
		works[i].order = &order;
		assert_int_equal(post(f.comm, &works[i]), ORIEL_OK);
	}
	for (i = 0; i < ORIEL_JOBS / 2; i++) {
		await_count(&works[i].released, 1);
		assert_int_equal(works[i].position, i);
	}
	close_comm(&f);
}

static enum oriel_status posting_step(void *context, bool *has_moved)
{
	struct work *w = context;

	*has_moved = true;
	w->posted = post(w->comm, w);
	return ORIEL_OK;
}

static void test_a_step_cannot_post(void **state)
{
	struct work w = {.steps = 1};
	struct oriel_job job = {sizeof(job), posting_step, work_release, &w};
	struct fixture f;

	(void)state;
	open_comm(&f, TIMEOUT_NS);
	w.comm = f.comm;
	assert_int_equal(oriel_comm_post(f.comm, &job), ORIEL_OK);
	await_count(&w.released, 1);
	assert_int_equal(w.posted, ORIEL_ERR_STATE);
	close_comm(&f);
}

static void test_an_invalid_job_is_rejected(void **state)
{
	struct work w = {.steps = 1};
	struct oriel_job job = {sizeof(job), NULL, work_release, &w};
	struct fixture f;

	(void)state;
	open_comm(&f, TIMEOUT_NS);
	assert_int_equal(oriel_comm_post(f.comm, &job), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_comm_post(f.comm, NULL), ORIEL_ERR_INVALID);
	job.step = work_step;
	assert_int_equal(oriel_comm_post_on_stream(f.comm, &job, NULL), ORIEL_ERR_INVALID);
	assert_non_null(strstr(oriel_last_error(), "no GPU"));
	assert_int_equal(atomic_load(&w.released), 0);
	close_comm(&f);
}

/* Every other job has one last step, even one that had none before. */
static void test_a_failed_job_ends_every_other_job(void **state)
{
	atomic_bool gate = false;
	struct work stuck = {.steps = 1, .gate = &gate};
	struct work bad = {.steps = 2, .end = ORIEL_ERR_PEER};
	struct work late = {.steps = 1};
	struct oriel_health health = {.size = sizeof(health)};
	struct fixture f;

	(void)state;
	open_comm(&f, TIMEOUT_NS);
	assert_int_equal(post(f.comm, &stuck), ORIEL_OK);
	assert_int_equal(post(f.comm, &bad), ORIEL_OK);
	await_count(&stuck.released, 1);
	await_count(&bad.released, 1);
	assert_int_equal(atomic_load(&stuck.done), 0);
	oriel_comm_health(f.comm, &health);
	assert_int_equal(health.status, ORIEL_ERR_PEER);
	assert_string_equal(health.what, "job");
	assert_int_equal(post(f.comm, &late), ORIEL_ERR_PEER);
	close_comm(&f);
	assert_int_equal(atomic_load(&late.released), 0);
}

/* A post beyond the limit waits for a job to end, and no longer than the timeout. */
static void test_a_post_beyond_the_limit_times_out(void **state)
{
	static struct work works[ORIEL_JOBS];
	atomic_bool gate = false;
	struct work more = {.steps = 1};
	struct fixture f;
	unsigned i;

	(void)state;
	memset(works, 0, sizeof(works));
	open_comm(&f, SHORT_NS);
	for (i = 0; i < ORIEL_JOBS; i++) {
		works[i].steps = 1;
		works[i].gate = &gate;
		assert_int_equal(post(f.comm, &works[i]), ORIEL_OK);
	}
	assert_int_equal(post(f.comm, &more), ORIEL_ERR_TIMEOUT);
	assert_non_null(strstr(oriel_last_error(), "1024 jobs"));
	atomic_store(&gate, true);
	for (i = 0; i < ORIEL_JOBS; i++)
		await_count(&works[i].released, 1);
	assert_int_equal(post(f.comm, &more), ORIEL_OK);
	await_count(&more.released, 1);
	close_comm(&f);
}

/* The abort gives each job its last step; a job that is left is released with the communicator. */
static void test_destroying_a_communicator_releases_its_jobs(void **state)
{
	atomic_bool gate = false;
	struct work stuck = {.steps = 1, .gate = &gate};
	struct fixture f;

	(void)state;
	open_comm(&f, TIMEOUT_NS);
	assert_int_equal(post(f.comm, &stuck), ORIEL_OK);
	oriel_comm_abort(f.comm, "a test");
	close_comm(&f);
	assert_int_equal(atomic_load(&stuck.released), 1);
}

struct opener {
	pthread_t thread;
	atomic_bool *gate;
};

/* Opens the gate once the destroy is likely to wait for the job behind it. */
static void *opener_main(void *argument)
{
	struct timespec nap = {0, 100000000};
	struct opener *o = argument;

	nanosleep(&nap, NULL);
	atomic_store(o->gate, true);
	return NULL;
}

/* A job under way ends, if that takes less than the limit of the destroy. */
static void test_destroying_a_communicator_waits_for_its_jobs(void **state)
{
	atomic_bool gate = false;
	struct work slow = {.steps = 1, .gate = &gate};
	struct opener opener = {.gate = &gate};
	struct fixture f;

	(void)state;
	open_comm(&f, TIMEOUT_NS);
	assert_int_equal(post(f.comm, &slow), ORIEL_OK);
	assert_int_equal(pthread_create(&opener.thread, NULL, opener_main, &opener), 0);
	close_comm(&f);
	pthread_join(opener.thread, NULL);
	assert_int_equal(atomic_load(&slow.done), 1);
	assert_int_equal(atomic_load(&slow.released), 1);
}

/* The thread of the engine is in a pass over jobs that it has taken when the last one is posted. */
static void test_destroying_a_communicator_waits_for_a_job_just_posted(void **state)
{
	atomic_bool gate = false;
	struct work blocking = {.steps = 1, .release_gate = &gate}, last = {.steps = 1};
	struct opener opener = {.gate = &gate};
	struct fixture f;

	(void)state;
	open_comm(&f, TIMEOUT_NS);
	assert_int_equal(post(f.comm, &blocking), ORIEL_OK);
	await_count(&blocking.released, 1);
	assert_int_equal(post(f.comm, &last), ORIEL_OK);
	assert_int_equal(pthread_create(&opener.thread, NULL, opener_main, &opener), 0);
	close_comm(&f);
	pthread_join(opener.thread, NULL);
	assert_int_equal(atomic_load(&last.done), 1);
	assert_int_equal(atomic_load(&last.released), 1);
}

/* ... and no longer than that. */
static void test_destroying_a_communicator_gives_a_stuck_job_up(void **state)
{
	atomic_bool gate = false;
	struct work stuck = {.steps = 1, .gate = &gate};
	struct fixture f;

	(void)state;
	open_comm(&f, TIMEOUT_NS);
	assert_int_equal(post(f.comm, &stuck), ORIEL_OK);
	close_comm(&f);
	assert_int_equal(atomic_load(&stuck.done), 0);
	assert_int_equal(atomic_load(&stuck.released), 1);
}

/* Without a job the destroy does not wait for the limit; one of several tries has the time. */
static void test_destroying_an_idle_communicator_takes_no_limit(void **state)
{
	struct work done = {.steps = 1};
	uint64_t took = TIMEOUT_NS, begun;
	struct fixture f;
	unsigned i;

	(void)state;
	for (i = 0; i < 10 && took > IDLE_NS; i++) {
		memset(&done, 0, sizeof(done));
		done.steps = 1;
		open_comm(&f, TIMEOUT_NS);
		assert_int_equal(post(f.comm, &done), ORIEL_OK);
		await_count(&done.released, 1);
		begun = ori_clock_ns();
		close_comm(&f);
		took = ori_clock_ns() - begun;
	}
	assert_true(took <= IDLE_NS);
}

/* Without work it takes no time of a processor; one of several tries is long after the last job. */
static void test_the_thread_sleeps_while_there_is_no_job(void **state)
{
	const struct timespec nap = {0, 100000000};
	struct work done = {.steps = 1};
	struct timespec before, after;
	struct ori_engine *engine;
	bool has_slept = false;
	struct fixture f;
	clockid_t clock;
	unsigned i;

	(void)state;
	open_comm(&f, TIMEOUT_NS);
	assert_int_equal(post(f.comm, &done), ORIEL_OK);
	await_count(&done.released, 1);
	engine = f.comm->attached[ORI_ATTACHED_ENGINE].object;
	assert_int_equal(pthread_getcpuclockid(engine->thread, &clock), 0);
	for (i = 0; i < 50 && !has_slept; i++) {
		assert_int_equal(clock_gettime(clock, &before), 0);
		nanosleep(&nap, NULL);
		assert_int_equal(clock_gettime(clock, &after), 0);
		has_slept = memcmp(&before, &after, sizeof(after)) == 0;
	}
	assert_true(has_slept);
	close_comm(&f);
}

struct poster {
	pthread_t thread;
	struct oriel_comm *comm;
	struct work works[200];
};

static void *poster_main(void *argument)
{
	struct poster *p = argument;
	unsigned i;

	for (i = 0; i < 200; i++) {
		p->works[i].steps = 2;
		if (post(p->comm, &p->works[i]) != ORIEL_OK)
			abort();
	}
	for (i = 0; i < 200; i++)
		await_count(&p->works[i].released, 1);
	return NULL;
}

static void test_any_thread_may_post(void **state)
{
	static struct poster posters[3];
	struct fixture f;
	unsigned i;

	(void)state;
	memset(posters, 0, sizeof(posters));
	open_comm(&f, TIMEOUT_NS);
	for (i = 0; i < 3; i++) {
		posters[i].comm = f.comm;
		assert_int_equal(pthread_create(&posters[i].thread, NULL, poster_main, &posters[i]),
				 0);
	}
	for (i = 0; i < 3; i++)
		pthread_join(posters[i].thread, NULL);
	close_comm(&f);
}

static void test_a_copy_without_a_gpu_is_done_in_its_call(void **state)
{
	char from[100], to[100] = {0};
	struct oriel_copies *copies;
	struct fixture f;

	(void)state;
	memset(from, 7, sizeof(from));
	open_comm(&f, TIMEOUT_NS);
	assert_int_equal(oriel_copies_create(f.comm, &copies), ORIEL_OK);
	assert_int_equal(oriel_copies_add(copies, 5, to, from, 100), ORIEL_OK);
	assert_memory_equal(to, from, 100);
	assert_int_equal(oriel_copies_test(copies), ORIEL_OK);
	oriel_copies_destroy(copies);
	close_comm(&f);
}

static void test_copies_allocate_memory_once(void **state)
{
	const char zero[100] = {0};
	struct oriel_copies *copies;
	void *memory, *other = NULL;
	struct fixture f;

	(void)state;
	open_comm(&f, TIMEOUT_NS);
	assert_int_equal(oriel_copies_create(f.comm, &copies), ORIEL_OK);
	assert_int_equal(oriel_copies_memory(copies, sizeof(zero), &memory), ORIEL_OK);
	assert_memory_equal(memory, zero, sizeof(zero));
	assert_int_equal(oriel_copies_memory(copies, 1, &other), ORIEL_ERR_STATE);
	assert_null(other);
	oriel_copies_destroy(copies);
	close_comm(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_job_has_its_steps_and_is_released_once),
		cmocka_unit_test(test_no_job_waits_for_another),
		cmocka_unit_test(test_jobs_begin_in_the_order_of_their_posts),
		cmocka_unit_test(test_a_step_cannot_post),
		cmocka_unit_test(test_an_invalid_job_is_rejected),
		cmocka_unit_test(test_a_failed_job_ends_every_other_job),
		cmocka_unit_test(test_a_post_beyond_the_limit_times_out),
		cmocka_unit_test(test_destroying_a_communicator_releases_its_jobs),
		cmocka_unit_test(test_destroying_a_communicator_waits_for_its_jobs),
		cmocka_unit_test(test_destroying_a_communicator_waits_for_a_job_just_posted),
		cmocka_unit_test(test_destroying_a_communicator_gives_a_stuck_job_up),
		cmocka_unit_test(test_destroying_an_idle_communicator_takes_no_limit),
		cmocka_unit_test(test_the_thread_sleeps_while_there_is_no_job),
		cmocka_unit_test(test_any_thread_may_post),
		cmocka_unit_test(test_a_copy_without_a_gpu_is_done_in_its_call),
		cmocka_unit_test(test_copies_allocate_memory_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
