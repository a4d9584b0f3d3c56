/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the mlx5 rings of oriel/dev/detail/mlx5_ring.h: threads post to a ring, and
 * a thread plays the HCA.
 */
#include <oriel/dev/detail/mlx5_ring.h>

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define QPN 0x1234u
#define LOG_DEPTH 2u
#define DEPTH (1u << LOG_DEPTH)
#define THREADS_MAX 64
#define POLLS 64
#define NEVER UINT64_MAX

/* Long enough for any machine; a test that reaches it has failed. */
static const struct ori_dev_link_wait_limits patient = {NULL, 30000000000u, 1, 0};
/* For tests in which no thread could end the wait. */
static const struct ori_dev_link_wait_limits hasty = {NULL, 1000000, 1, 0};

/* An HCA that knows WRITE only: it copies and completes, in order. */
struct hca {
	_Alignas(64) char sq[DEPTH][ORIEL_MLX5_BLOCK];
	_Alignas(64) char cq[DEPTH][ORIEL_MLX5_BLOCK];
	struct ori_dev_mlx5_queue queue;
	uint64_t doorbell;
	uint32_t record[2];
	uint32_t asleep;
	pthread_t thread;
	_Atomic bool is_stopped;
	uint64_t next;    /* next WQE to execute */
	uint64_t fail_at; /* this WQE fails, the WQEs after it are flushed */
	const char *complaint;
};

static void hca_open(struct hca *a, uint64_t first)
{
	uint32_t i;

	memset(a, 0, sizeof(*a));
	for (i = 0; i < DEPTH; i++)
		ori_dev_mlx5_cqe_clear(a->cq[i]);
	a->queue.sq = a->sq[0];
	a->queue.cq = a->cq[0];
	a->queue.record = a->record;
	a->queue.doorbell = &a->doorbell;
	a->queue.asleep = &a->asleep;
	a->queue.qpn = QPN;
	a->queue.log_depth = LOG_DEPTH;
	ori_dev_mlx5_queue_begin(&a->queue, first);
	a->doorbell = ori_dev_mlx5_doorbell_value(QPN, first);
	a->record[1] = ori_dev_mlx5_record_value(first);
	a->next = first;
	a->fail_at = NEVER;
}

static void hca_complete(struct hca *a, uint64_t index, uint8_t syndrome)
{
	struct ori_dev_mlx5_cqe cqe = {index,    index, QPN, 8, 0, ORIEL_MLX5_WRITE,
				       syndrome, 0x53,  0};

	cqe.completion = syndrome ? ORIEL_MLX5_FAILED : ORIEL_MLX5_DONE;
	ori_dev_mlx5_cqe_write(a->cq[index % DEPTH], &cqe, LOG_DEPTH);
}

static void hca_execute(struct hca *a, uint64_t index)
{
	char *wqe = a->sq[index % DEPTH];
	uint32_t control = ori_dev_mlx5_get32(wqe, 0);

	if (control != ((uint32_t)(index & 0xffff) << 8 | ORIEL_MLX5_WRITE))
		a->complaint = "the slot does not hold the WQE that was rung";
	if (a->complaint || index >= a->fail_at) {
		hca_complete(a, index,
			     index == a->fail_at ? ORIEL_SYNDROME_REMOTE_ACCESS
						 : ORIEL_SYNDROME_FLUSHED);
		return;
	}
	memcpy((void *)(uintptr_t)ori_dev_mlx5_get64(wqe, 16),
	       (const void *)(uintptr_t)ori_dev_mlx5_get64(wqe, 40), ori_dev_mlx5_get32(wqe, 32));
	memset(wqe, 0xdb, ORIEL_MLX5_BLOCK);
	hca_complete(a, index, 0);
}

/* The number of WQEs up to the last doorbell. */
static uint64_t hca_posted(struct hca *a)
{
	uint64_t doorbell = oriel_dev_load_acquire(&a->doorbell);
	uint32_t record = ori_dev_load_acquire32(&a->record[1]);
	uint16_t posted = (uint16_t)((ori_dev_mlx5_get32(&doorbell, 0) >> 8) - a->next);

	if (ori_dev_mlx5_get32(&doorbell, 4) != QPN << 8)
		a->complaint = "the doorbell is of another queue";
	if (posted > DEPTH)
		a->complaint = "the doorbell went back, or posts more WQEs than fit";
	else if ((uint16_t)(ori_dev_swap_bytes32(record) - a->next) < posted)
		a->complaint = "the doorbell is ahead of its record";
	return a->complaint ? 0 : posted;
}

/* The sleeper's half of oriel_cpu_wake(). */
static void hca_sleep(struct hca *a)
{
	__atomic_store_n(&a->asleep, 1, __ATOMIC_RELAXED);
	ori_dev_fence_full();
	if (!hca_posted(a) && !a->is_stopped)
		while (ori_dev_load_relaxed32(&a->asleep))
			nanosleep(&(struct timespec){0, 20000}, NULL);
	__atomic_store_n(&a->asleep, 0, __ATOMIC_RELAXED);
}

static void *hca_run(void *argument)
{
	struct hca *a = argument;
	uint32_t polls = 0;
	uint64_t posted;

	while (!a->is_stopped && !a->complaint) {
		for (posted = hca_posted(a); posted; posted--) {
			hca_execute(a, a->next++);
			polls = 0;
		}
		if (++polls == POLLS)
			hca_sleep(a);
		oriel_cpu_back_off(0);
	}
	/* No poster may wait for completions that will not arrive. */
	if (a->complaint)
		ori_dev_mlx5_condemn(&a->queue,
				     ori_dev_queue_err(ORIEL_QUEUE_CONDEMNED, 0, 0, a->next));
	return NULL;
}

static void hca_start(struct hca *a)
{
	assert_int_equal(pthread_create(&a->thread, NULL, hca_run, a), 0);
}

static void hca_stop(struct hca *a)
{
	a->is_stopped = true;
	oriel_cpu_wake(&a->asleep);
	assert_int_equal(pthread_join(a->thread, NULL), 0);
	if (a->complaint)
		fail_msg("%s", a->complaint);
}

/* A thread that posts. */
struct poster {
	pthread_t thread;
	struct hca *hca;
	uint64_t source[2];
	uint64_t target[2];
	uint32_t posts;
	enum oriel_status status;
	uint64_t failed; /* first index that did not complete */
	uint64_t passed; /* highest index that did */
	bool is_wrong;
	bool is_trying; /* posts by try_post() */
};

/* Fill and publish the reserved slots. */
static enum oriel_status post_at(struct ori_dev_mlx5_queue *q, const uint64_t *source,
				 uint64_t *target, uint32_t count, uint64_t base,
				 const struct ori_dev_link_wait_limits *limits)
{
	enum oriel_status status;
	uint32_t i;

	for (i = 0; i < count; i++) {
		const struct ori_dev_rdma_address remote = {(uintptr_t)&target[i], 0};
		const struct ori_dev_rdma_address local = {(uintptr_t)&source[i], 0};

		ori_dev_mlx5_wqe_write(ori_dev_mlx5_slot(q, base + i),
				       ori_dev_mlx5_head_of(q, base + i, ORIEL_MLX5_FENCE_NONE),
				       remote, local, 8);
	}
	status = ori_dev_mlx5_publish(q, base, count, limits);
	if (status == ORIEL_OK)
		ori_dev_mlx5_ring(q);
	return status;
}

static enum oriel_status post(struct ori_dev_mlx5_queue *q, const uint64_t *source,
			      uint64_t *target, uint32_t count, uint64_t *base)
{
	enum oriel_status status = ori_dev_mlx5_reserve(q, count, &patient, base);

	return status == ORIEL_OK ? post_at(q, source, target, count, *base, &patient) : status;
}

/* The same without ever waiting; a publication that would have to wait fails at once. */
static enum oriel_status try_post(struct ori_dev_mlx5_queue *q, const uint64_t *source,
				  uint64_t *target, uint32_t count, uint64_t *base)
{
	const struct ori_dev_link_wait_limits now = {NULL, 0, 0, 0};
	enum oriel_status status = ori_dev_mlx5_try_reserve(q, count, base);

	return status == ORIEL_OK ? post_at(q, source, target, count, *base, &now) : status;
}

static void *poster_run(void *argument)
{
	struct poster *p = argument;
	struct ori_dev_mlx5_queue *q = &p->hca->queue;
	uint64_t base, last;
	uint32_t i, count;

	p->failed = NEVER;
	for (i = 0; i < p->posts && p->status == ORIEL_OK; i++) {
		count = 1 + i % 2;
		p->source[0] = p->source[1] = i + 1;
		do
			p->status = (p->is_trying ? try_post : post)(q, p->source, p->target, count,
								     &base);
		while (p->status == ORIEL_AGAIN && sched_yield() == 0);
		if (p->status != ORIEL_OK)
			break;
		last = base + count - 1;
		p->status = ori_dev_mlx5_wait(q, last, &patient);
		if (p->status == ORIEL_OK && p->target[count - 1] != i + 1)
			p->is_wrong = true;
		if (p->status == ORIEL_OK)
			p->passed = last;
		else
			p->failed = last;
	}
	return NULL;
}

/* Every @trying-th thread never waits to post; 0: none. */
static void run_posters(struct poster *posters, struct hca *a, unsigned threads, uint32_t posts,
			unsigned trying)
{
	unsigned i;

	hca_start(a);
	for (i = 0; i < threads; i++) {
		memset(&posters[i], 0, sizeof(posters[i]));
		posters[i].hca = a;
		posters[i].posts = posts;
		posters[i].is_trying = trying && i % trying == 0;
		assert_int_equal(pthread_create(&posters[i].thread, NULL, poster_run, &posters[i]),
				 0);
	}
	for (i = 0; i < threads; i++)
		assert_int_equal(pthread_join(posters[i].thread, NULL), 0);
	hca_stop(a);
}

static void check_complete(unsigned threads, uint32_t posts, uint64_t first, unsigned trying)
{
	struct poster posters[THREADS_MAX];
	struct hca a;
	unsigned i;

	hca_open(&a, first);
	run_posters(posters, &a, threads, posts, trying);
	for (i = 0; i < threads; i++) {
		assert_int_equal(posters[i].status, ORIEL_OK);
		assert_false(posters[i].is_wrong);
	}
	assert_true(a.next == first + (uint64_t)threads * (posts + posts / 2));
	assert_true(a.queue.done == a.next);
	assert_true(a.queue.turn == ori_dev_mlx5_turn(a.next, ORIEL_MLX5_RUNG));
	assert_true(a.queue.err == 0);
}

static void check_all_complete(unsigned threads, uint32_t posts, uint64_t first)
{
	check_complete(threads, posts, first, 0);
}

static void test_one_thread_sees_all_complete(void **state)
{
	(void)state;
	check_all_complete(1, 5000, 0);
}

static void test_four_threads_see_all_complete(void **state)
{
	(void)state;
	check_all_complete(4, 3000, 0);
}

static void test_64_threads_share_a_ring_of_four(void **state)
{
	(void)state;
	check_all_complete(64, 150, 0);
}

static void test_indices_wrap_where_fields_end(void **state)
{
	static const uint64_t ends[] = {1u << 16, 1u << 24, (uint64_t)1 << 32};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		check_all_complete(1, 200, ends[i] - 150);
		check_all_complete(4, 100, ends[i] - 301);
		check_all_complete(64, 10, ends[i] - 402);
	}
}

static void test_posters_that_may_not_wait_post_in_turn(void **state)
{
	(void)state;
	check_complete(1, 2000, 0, 1);
	check_complete(64, 60, 0, 1);
	check_complete(16, 150, (1u << 16) - 100, 2);
	check_complete(64, 30, ((uint64_t)1 << 32) - 70, 8);
}

static void test_a_reservation_that_would_wait_returns_again(void **state)
{
	struct hca a;
	uint64_t base = 7, first = 0;

	(void)state;
	hca_open(&a, 0);
	assert_int_equal(ori_dev_mlx5_try_reserve(&a.queue, 0, &base), ORIEL_ERR_RANGE);
	assert_int_equal(ori_dev_mlx5_try_reserve(&a.queue, DEPTH / 2 + 1, &base), ORIEL_ERR_RANGE);
	/* Another thread is in the middle of a post. */
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 1, &hasty, &first), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_try_reserve(&a.queue, 1, &base), ORIEL_AGAIN);
	assert_true(base == 7 && a.queue.resv == 1);
	assert_int_equal(ori_dev_mlx5_publish(&a.queue, first, 1, &hasty), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_try_reserve(&a.queue, 1, &base), ORIEL_OK);
	assert_true(base == 1 && a.queue.resv == 2);
	assert_int_equal(ori_dev_mlx5_publish(&a.queue, base, 1, &hasty), ORIEL_OK);
	/* Two slots are left. */
	assert_int_equal(ori_dev_mlx5_try_reserve(&a.queue, 2, &base), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_publish(&a.queue, base, 2, &hasty), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_try_reserve(&a.queue, 1, &base), ORIEL_AGAIN);
	assert_true(base == 2 && a.queue.resv == 4 && a.queue.err == 0);
	hca_complete(&a, 0, 0);
	assert_int_equal(ori_dev_mlx5_try_reserve(&a.queue, 2, &base), ORIEL_AGAIN);
	assert_int_equal(ori_dev_mlx5_try_reserve(&a.queue, 1, &base), ORIEL_OK);
	assert_true(base == 4);
	ori_dev_mlx5_condemn(&a.queue, ori_dev_queue_err(ORIEL_QUEUE_ERROR_CQE, 0x15, 0, 1));
	assert_int_equal(ori_dev_mlx5_try_reserve(&a.queue, 1, &base), ORIEL_ERR_PEER);
}

/* The status of @p fits its indices if WQE @fail_at failed. */
static void check_poster(const struct poster *p, uint64_t fail_at)
{
	assert_false(p->is_wrong);
	assert_int_equal(p->status, ORIEL_ERR_ACCESS);
	assert_true(p->passed < fail_at);
	assert_true(p->failed == NEVER || p->failed >= fail_at);
}

static void check_error(unsigned threads, uint64_t first)
{
	uint64_t fail_at = first + 3 * threads + 1;
	struct poster posters[THREADS_MAX];
	struct hca a;
	unsigned i;

	hca_open(&a, first);
	a.fail_at = fail_at;
	run_posters(posters, &a, threads, UINT32_MAX, 0);
	for (i = 0; i < threads; i++)
		check_poster(&posters[i], fail_at);
	assert_int_equal(ori_dev_queue_err_state(a.queue.err), ORIEL_QUEUE_ERROR_CQE);
	assert_int_equal(ori_dev_queue_err_syndrome(a.queue.err), ORIEL_SYNDROME_REMOTE_ACCESS);
	assert_int_equal(ori_dev_queue_err_vendor(a.queue.err), 0x53);
	assert_true(ori_dev_queue_err_index(a.queue.err) == fail_at);
	assert_true(a.queue.done == fail_at);
}

static void test_an_error_reaches_every_thread(void **state)
{
	(void)state;
	check_error(1, 0);
	check_error(4, (1u << 16) - 5);
	check_error(64, ((uint64_t)1 << 32) - 70);
}

static void test_a_reservation_fits_half_the_ring(void **state)
{
	struct hca a;
	uint64_t base = 7;

	(void)state;
	hca_open(&a, 0);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 0, &hasty, &base), ORIEL_ERR_RANGE);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, DEPTH / 2 + 1, &hasty, &base),
			 ORIEL_ERR_RANGE);
	assert_true(base == 7);
	assert_true(a.queue.resv == 0);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, DEPTH / 2, &hasty, &base), ORIEL_OK);
	assert_true(base == 0);
}

static void test_a_full_ring_is_waited_for_until_the_deadline(void **state)
{
	struct hca a;
	uint64_t base;

	(void)state;
	hca_open(&a, 0);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 2, &hasty, &base), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 2, &hasty, &base), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 1, &hasty, &base), ORIEL_ERR_TIMEOUT);
	/* No thread ever publishes index 4: no later poster may wait for it. */
	assert_int_equal(ori_dev_queue_err_state(a.queue.err), ORIEL_QUEUE_ABANDONED);
	assert_true(ori_dev_queue_err_index(a.queue.err) == 4);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 1, &patient, &base), ORIEL_ERR_TIMEOUT);
	assert_int_equal(ori_dev_mlx5_wait(&a.queue, 0, &patient), ORIEL_ERR_TIMEOUT);
}

static void test_publication_waits_for_its_turn(void **state)
{
	struct hca a;
	uint64_t first = 0, second = 0;

	(void)state;
	hca_open(&a, 0);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 1, &hasty, &first), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 1, &hasty, &second), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_publish(&a.queue, second, 1, &hasty), ORIEL_ERR_TIMEOUT);
	assert_true(ori_dev_mlx5_ready(&a.queue) == 0);
}

static void test_broken_health_ends_a_wait(void **state)
{
	struct oriel_dev_fault broken = {.state = ORIEL_DEV_FAULT_FULL,
					 .status = ORIEL_ERR_ABORTED};
	const struct oriel_dev_link link = {.health = &broken};
	const struct ori_dev_link_wait_limits limits = {&link, ORIEL_TIMEOUT_INFINITE, 1, 0};
	struct hca a;
	uint64_t base;

	(void)state;
	hca_open(&a, 0);
	assert_int_equal(ori_dev_mlx5_wait(&a.queue, 0, &limits), ORIEL_ERR_ABORTED);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 2, &limits, &base), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 2, &limits, &base), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 2, &limits, &base), ORIEL_ERR_ABORTED);
}

static void test_one_doorbell_posts_all_published_wqes(void **state)
{
	static const unsigned char rung[] = {0, 0, 2, 0, 0, 0x12, 0x34, 0};
	struct hca a;
	uint64_t base;

	(void)state;
	hca_open(&a, 0);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 1, &hasty, &base), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_publish(&a.queue, 0, 1, &hasty), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 1, &hasty, &base), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_publish(&a.queue, 1, 1, &hasty), ORIEL_OK);
	ori_dev_mlx5_ring(&a.queue);
	assert_memory_equal(&a.doorbell, rung, sizeof(rung));
	assert_int_equal(a.record[1], ori_dev_mlx5_record_value(2));
	assert_int_equal(a.record[0], 0);
	assert_true(a.queue.turn == ori_dev_mlx5_turn(2, ORIEL_MLX5_RUNG));

	a.doorbell = 0;
	ori_dev_mlx5_ring(&a.queue);
	assert_true(a.doorbell == 0);
}

/* The test writes CQEs by hand, so that every poll of a slot of an earlier lap happens. */
static void test_the_cqe_of_an_earlier_lap_is_not_taken(void **state)
{
	uint64_t source = 0, target, i, base;
	struct hca a;

	(void)state;
	hca_open(&a, 0);
	for (i = 0; i < 5 * DEPTH; i++) {
		assert_int_equal(post(&a.queue, &source, &target, 1, &base), ORIEL_OK);
		assert_int_equal(ori_dev_mlx5_poll(&a.queue, i), ORIEL_AGAIN);
		hca_complete(&a, i, 0);
		assert_false(ori_dev_mlx5_is_done(&a.queue, i));
		assert_int_equal(ori_dev_mlx5_poll(&a.queue, i), ORIEL_OK);
	}
	assert_true(a.queue.err == 0);
}

static void test_a_cqe_of_another_wqe_is_an_error(void **state)
{
	const struct ori_dev_mlx5_cqe stray = {0, 1, QPN, 8, ORIEL_MLX5_DONE, ORIEL_MLX5_WRITE,
					       0, 0, 0};
	uint64_t source[2] = {0}, target[2], base;
	struct hca a;

	(void)state;
	hca_open(&a, 0);
	assert_int_equal(post(&a.queue, source, target, 2, &base), ORIEL_OK);
	ori_dev_mlx5_cqe_write(a.cq[0], &stray, LOG_DEPTH);
	assert_int_equal(ori_dev_mlx5_wait(&a.queue, 0, &patient), ORIEL_ERR_PROTOCOL);
	assert_int_equal(ori_dev_queue_err_state(a.queue.err), ORIEL_QUEUE_STRAY_CQE);
}

static void test_the_first_cause_stays(void **state)
{
	struct hca a;
	uint64_t base;

	(void)state;
	hca_open(&a, 0);
	ori_dev_mlx5_condemn(&a.queue, ori_dev_queue_err(ORIEL_QUEUE_ERROR_CQE, 0x15, 0x83, 5));
	ori_dev_mlx5_condemn(&a.queue, ori_dev_queue_err(ORIEL_QUEUE_CONDEMNED, 0, 0, 6));
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 1, &patient, &base), ORIEL_ERR_PEER);
	assert_int_equal(ori_dev_queue_err_syndrome(a.queue.err), 0x15);
	assert_true(ori_dev_queue_err_index(a.queue.err) == 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_thread_sees_all_complete),
		cmocka_unit_test(test_four_threads_see_all_complete),
		cmocka_unit_test(test_64_threads_share_a_ring_of_four),
		cmocka_unit_test(test_indices_wrap_where_fields_end),
		cmocka_unit_test(test_posters_that_may_not_wait_post_in_turn),
		cmocka_unit_test(test_a_reservation_that_would_wait_returns_again),
		cmocka_unit_test(test_an_error_reaches_every_thread),
		cmocka_unit_test(test_a_reservation_fits_half_the_ring),
		cmocka_unit_test(test_a_full_ring_is_waited_for_until_the_deadline),
		cmocka_unit_test(test_publication_waits_for_its_turn),
		cmocka_unit_test(test_broken_health_ends_a_wait),
		cmocka_unit_test(test_one_doorbell_posts_all_published_wqes),
		cmocka_unit_test(test_the_cqe_of_an_earlier_lap_is_not_taken),
		cmocka_unit_test(test_a_cqe_of_another_wqe_is_an_error),
		cmocka_unit_test(test_the_first_cause_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
