/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that step a lane: that of the proxy, and those that post and wait while it
 * sleeps.
 */
#include "rdma/rdma_proxy_thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/help.h"
#include "rdma/lane_test.h"

#define PATIENCE_NS UINT64_C(30000000000)
#define TRIES 1000u
#define POSTERS 4u
#define POSTS 2000u

/* The HCA of a script, which more than one thread calls in this test. */
static pthread_mutex_t posters_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t last_poster; /* guarded by posters_lock: the last thread that posted */

static enum oriel_status posters_post(struct ori_hca_qp *qp, const struct ori_hca_wr *wrs,
				      unsigned count, unsigned *posted)
{
	enum oriel_status status;

	pthread_mutex_lock(&posters_lock);
	last_poster = pthread_self();
	status = script_post(qp, wrs, count, posted);
	pthread_mutex_unlock(&posters_lock);
	return status;
}

static enum oriel_status posters_poll(struct ori_hca_cq *cq, struct ori_hca_wc *wcs, unsigned room,
				      unsigned *count)
{
	enum oriel_status status;

	pthread_mutex_lock(&posters_lock);
	status = script_poll(cq, wcs, room, count);
	pthread_mutex_unlock(&posters_lock);
	return status;
}

static void posters_fail(struct ori_hca_qp *qp)
{
	pthread_mutex_lock(&posters_lock);
	script_flush(qp);
	pthread_mutex_unlock(&posters_lock);
}

/* A lane that a thread steps, with a ring for threads of the CPU, or for kernels. */
struct posters {
	struct bench b;
	struct ori_hca_ops ops;
	struct ori_hca_calls calls;
	struct ori_proxy_thread *thread;
};

static void posters_open(struct posters *c, bool is_helped)
{
	void *seat;

	c->ops = script_ops;
	c->calls = (struct ori_hca_calls){.post = posters_post, .poll = posters_poll};
	c->ops.calls = &c->calls;
	c->ops.fail_qp = posters_fail;
	bench_open_with(&c->b, &c->ops, DEPTH, 1u << 30);
	assert_int_equal(ori_proxy_thread_start(0, "script", &c->thread), ORIEL_OK);
	ori_proxy_thread_add_loopback(c->thread, c->b.loopback);
	assert_int_equal(ori_proxy_thread_add(c->thread, c->b.lane, is_helped, &seat), ORIEL_OK);
	if (!is_helped)
		return;
	c->b.ring.asleep = ori_proxy_thread_asleep(c->thread);
	c->b.ring.seat = seat;
}

static void posters_close(struct posters *c)
{
	ori_proxy_thread_remove(c->thread, c->b.lane);
	ori_proxy_thread_remove_loopback(c->thread, c->b.loopback);
	ori_proxy_thread_stop(c->thread);
	bench_close(&c->b);
}

/* Ends @count requests well that are posted, or are going to be. */
static void posters_end(struct posters *c, struct ori_hca_qp *qp, unsigned count)
{
	uint64_t until = ori_clock_ns() + PATIENCE_NS;
	bool can_end;

	(void)c;
	do {
		pthread_mutex_lock(&posters_lock);
		can_end = qp->posted - qp->ended >= count;
		if (can_end)
			script_end(qp, count);
		pthread_mutex_unlock(&posters_lock);
		assert_true(ori_clock_ns() < until);
		/* Mutexes are not fair: without this no other thread might get it. */
		sched_yield();
	} while (!can_end);
}

/* Waits without a turn by the caller. */
static void posters_await(const struct posters *c, uint64_t completed)
{
	uint64_t until = ori_clock_ns() + PATIENCE_NS;

	while (oriel_dev_load_acquire(&c->b.words->completed) < completed)
		assert_true(ori_clock_ns() < until);
}

static void posters_await_sleep(const struct posters *c)
{
	uint64_t until = ori_clock_ns() + PATIENCE_NS;

	while (!ori_dev_proxy_is_asleep(&c->b.ring))
		assert_true(ori_clock_ns() < until);
}

static bool posters_has_posted(const struct posters *c, uint64_t posted)
{
	bool is_mine;

	pthread_mutex_lock(&posters_lock);
	is_mine = c->b.qp->posted == posted && pthread_equal(last_poster, pthread_self());
	pthread_mutex_unlock(&posters_lock);
	return is_mine;
}

/* The thread sleeps for a limited time, so that it may wake in between and post itself. */
static void test_the_poster_steps_the_lane_while_the_thread_sleeps(void **state)
{
	unsigned i, mine = 0;
	struct posters c;

	(void)state;
	posters_open(&c, true);
	for (i = 0; i < TRIES && mine < 10; i++) {
		posters_await_sleep(&c);
		bench_put(&c.b, i);
		mine += posters_has_posted(&c, i + 1);
		posters_end(&c, c.b.qp, 1);
		posters_await(&c, i + 1);
	}
	assert_int_equal(mine, 10);
	posters_close(&c);
}

static void test_a_waiter_learns_what_has_completed(void **state)
{
	struct ori_dev_link_wait_limits limits = {NULL, PATIENCE_NS, 1, 0};
	struct posters c;
	unsigned i;

	(void)state;
	posters_open(&c, true);
	c.b.qp->is_eager = c.b.loop->is_eager = true;
	for (i = 0; i < 100; i++) {
		bench_put(&c.b, i);
		bench_count(&c.b, i, 1);
		assert_int_equal(ori_dev_proxy_wait(&c.b.ring, 2 * i + 1, &limits), ORIEL_OK);
	}
	assert_int_equal(c.b.loop->posted, 100);
	posters_close(&c);
}

/* Counts calls of helpers: a waiter calls them when it backs off. */
static atomic_uint helper_calls;

static void posters_count(struct ori_helper *helper)
{
	(void)helper;
	atomic_fetch_add(&helper_calls, 1);
}

/*
 * A thread that loses the core may get it back after milliseconds. The proxy's thread may
 * wake in between, as above.
 */
static void test_a_waiter_that_took_a_completion_does_not_back_off_first(void **state)
{
	struct ori_dev_link_wait_limits limits = {NULL, PATIENCE_NS, 1, 0};
	struct ori_helper counter = {.help = posters_count};
	unsigned i, mine = 0;
	struct posters c;

	(void)state;
	posters_open(&c, true);
	c.b.qp->is_eager = true;
	ori_help_add(&counter);
	for (i = 0; i < TRIES && mine < 10; i++) {
		unsigned before = atomic_load(&helper_calls);
		bool is_begun;

		posters_await_sleep(&c);
		bench_put(&c.b, i);
		is_begun = posters_has_posted(&c, i + 1) &&
			   oriel_dev_load_acquire(&c.b.words->completed) == i;
		assert_int_equal(ori_dev_proxy_wait(&c.b.ring, i, &limits), ORIEL_OK);
		mine += is_begun && atomic_load(&helper_calls) == before;
	}
	assert_int_equal(mine, 10);
	ori_help_remove(&counter);
	posters_close(&c);
}

static void test_the_thread_does_what_no_poster_waits_for(void **state)
{
	struct posters c;
	uint64_t base;

	(void)state;
	posters_open(&c, true);
	posters_await_sleep(&c);
	bench_put(&c.b, 0);
	base = bench_reserve(&c.b, 1);
	bench_other(&c.b, base, ORIEL_PROXY_ADD, ORIEL_PROXY_FENCE_ALL, 8, 1);
	ori_dev_proxy_publish(&c.b.ring, base, 1);
	bench_count(&c.b, 16, 1);
	posters_end(&c, c.b.qp, 1);
	posters_await(&c, 1);
	posters_end(&c, c.b.qp, 1);
	posters_end(&c, c.b.loop, 1);
	posters_await(&c, 3);
	posters_close(&c);
}

static void test_the_thread_does_what_kernels_post(void **state)
{
	struct posters c;
	unsigned i;

	(void)state;
	posters_open(&c, false);
	for (i = 0; i < 3 * DEPTH; i++) {
		bench_put(&c.b, i);
		posters_end(&c, c.b.qp, 1);
		posters_await(&c, i + 1);
	}
	posters_close(&c);
}

/*
 * A full ring: a poster that does not wait wakes the thread where it leaves more than a
 * little.
 */
static void test_a_full_ring_is_emptied(void **state)
{
	struct posters c;
	unsigned i;

	(void)state;
	posters_open(&c, true);
	/* One by one: the queue has room again only behind requests that have ended. */
	for (i = 0; i < 21 * DEPTH; i++) {
		if (i >= DEPTH)
			posters_end(&c, c.b.qp, 1);
		if (i < 20 * DEPTH)
			bench_put(&c.b, i);
	}
	posters_await(&c, 20 * DEPTH);
	posters_close(&c);
}

struct poster {
	struct posters *posters;
	bool waits;
};

/* NULL if all went well. */
static void *poster_main(void *context)
{
	struct ori_dev_link_wait_limits limits = {NULL, PATIENCE_NS, 1, 0};
	struct poster *p = context;
	struct bench *b = &p->posters->b;
	enum oriel_status status;
	uint64_t base = 0;
	unsigned i;

	for (i = 0; i < POSTS; i++) {
		status = ori_dev_proxy_reserve(&b->ring, 1, &limits, &base);
		if (status != ORIEL_OK)
			return p;
		bench_write(b, base, base, LKEY, 8);
		ori_dev_proxy_publish(&b->ring, base, 1);
		if (p->waits)
			status = ori_dev_proxy_wait(&b->ring, base, &limits);
		else
			oriel_cpu_help();
		if (status != ORIEL_OK)
			return p;
	}
	return NULL;
}

static void test_many_threads_post_and_help_at_once(void **state)
{
	struct poster posters[POSTERS];
	pthread_t threads[POSTERS];
	struct posters c;
	void *failed;
	unsigned i;

	(void)state;
	posters_open(&c, true);
	c.b.qp->is_eager = true;
	for (i = 0; i < POSTERS; i++) {
		posters[i] = (struct poster){&c, i % 2 == 0};
		assert_int_equal(pthread_create(&threads[i], NULL, poster_main, &posters[i]), 0);
	}
	for (i = 0; i < POSTERS; i++)
		assert_true(pthread_join(threads[i], &failed) == 0 && !failed);
	posters_await(&c, POSTERS * POSTS);
	assert_int_equal(c.b.qp->posted, POSTERS * POSTS);
	posters_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_poster_steps_the_lane_while_the_thread_sleeps),
		cmocka_unit_test(test_a_waiter_learns_what_has_completed),
		cmocka_unit_test(test_a_waiter_that_took_a_completion_does_not_back_off_first),
		cmocka_unit_test(test_the_thread_does_what_no_poster_waits_for),
		cmocka_unit_test(test_the_thread_does_what_kernels_post),
		cmocka_unit_test(test_a_full_ring_is_emptied),
		cmocka_unit_test(test_many_threads_post_and_help_at_once),
	};

	return cmocka_run_group_tests_name("rdma_proxy_thread", tests, NULL, NULL);
}
