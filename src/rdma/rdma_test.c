/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of links between two software HCAs of this process. */
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "rdma/pair_test.h"
#include "rdma/rdma_rail.h"

static void fill(struct side *s, size_t length, unsigned seed)
{
	size_t i;

	for (i = 0; i < length; i++)
		s->memory[DATA + i] = (char)(seed + i * 7);
}

static void test_a_signal_comes_after_its_put(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_group g = oriel_dev_thread();
	size_t sizes[] = {0, 1, 8, 13, 4095, 4097, 3 * 4096 + 1};
	uint64_t looped = 0;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fill(&p->a, sizes[i], (unsigned)i + 1);
		assert_true(ori_dev_link_put_signal(p->a.dev, g, remote(&p->b, DATA),
						    local(&p->a, DATA), sizes[i],
						    remote(&p->b, SIGNAL), 3) >= 0);
		looped += 3;
		assert_int_equal(ori_dev_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), looped,
							  0),
				 ORIEL_OK);
		assert_memory_equal(p->b.memory + DATA, p->a.memory + DATA, sizes[i]);
		assert_int_equal(ori_dev_link_fence(p->a.dev, g, 0), ORIEL_OK);
	}
	assert_int_equal(ori_dev_link_read_signal(word(&p->b, SIGNAL)), looped);
	pair_close(p);
}

static void test_a_get_reads_the_memory_of_the_peer(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_group g = oriel_dev_thread();
	int64_t ticket;

	(void)state;
	fill(&p->b, 20000, 5);
	ticket = ori_dev_link_get(p->a.dev, g, remote(&p->b, DATA), local(&p->a, DATA), 20000);
	assert_int_equal(ori_dev_link_wait_local(p->a.dev, g, ticket, 0), ORIEL_OK);
	assert_memory_equal(p->a.memory + DATA, p->b.memory + DATA, 20000);
	pair_close(p);
}

static void test_a_counter_says_that_the_source_is_free(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_group g = oriel_dev_thread();
	uint64_t i;

	(void)state;
	for (i = 1; i <= 3 * DEPTH; i++) {
		memset(p->a.memory + DATA, (int)i, 5000);
		assert_true(ori_dev_link_put_signal_counter(p->a.dev, g, remote(&p->b, DATA),
							    local(&p->a, DATA), 5000,
							    remote(&p->b, SIGNAL), 1,
							    remote(&p->a, COUNTER), 2) >= 0);
		assert_int_equal(ori_dev_link_wait_signal(p->a.dev, g, word(&p->a, COUNTER), 2 * i,
							  0),
				 ORIEL_OK);
		assert_int_equal(ori_dev_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), i, 0),
				 ORIEL_OK);
		assert_int_equal(p->b.memory[DATA + 4999], (char)i);
	}
	assert_true(ori_dev_link_signal_counter(p->a.dev, g, remote(&p->b, SIGNAL), 1,
						remote(&p->a, COUNTER), 1) >= 0);
	assert_int_equal(ori_dev_link_wait_signal(p->a.dev, g, word(&p->a, COUNTER), 6 * DEPTH + 1,
						  0),
			 ORIEL_OK);
	pair_close(p);
}

static void test_a_reset_comes_after_all_signals(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_group g = oriel_dev_thread();
	unsigned i;

	(void)state;
	for (i = 0; i < 100; i++)
		assert_true(ori_dev_link_signal(p->a.dev, g, remote(&p->b, SIGNAL), 1) >= 0);
	assert_true(ori_dev_link_signal_with_fence(p->a.dev, g, remote(&p->b, SIGNAL), 1) >= 0);
	assert_int_equal(ori_dev_link_reset_signal(p->a.dev, g, remote(&p->b, SIGNAL), 0),
			 ORIEL_OK);
	assert_int_equal(ori_dev_link_read_signal(word(&p->b, SIGNAL)), 0);
	assert_true(ori_dev_link_put_value(p->a.dev, g, remote(&p->b, SIGNAL), 77) >= 0);
	assert_int_equal(ori_dev_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), 77, 0),
			 ORIEL_OK);
	pair_close(p);
}

struct posters {
	struct pair *p;
	struct oriel_team team;
	uint32_t next;
	int failures;
};

#define POSTERS 4u
#define ROUNDS 50u

/* Puts of different lengths, empty ones among them, many times round the ring. */
static void *posters_work(void *argument)
{
	struct posters *c = argument;
	struct oriel_dev_group g =
		oriel_dev_team(&c->team, __atomic_fetch_add(&c->next, 1, __ATOMIC_RELAXED));
	uint64_t i;

	for (i = 1; i <= ROUNDS; i++) {
		size_t length = i * 61;
		int64_t ticket;

		if (oriel_dev_is_leader(g))
			fill(&c->p->a, length, (unsigned)i);
		oriel_dev_sync(g);
		ticket = ori_dev_link_put_cooperative(c->p->a.dev, g, remote(&c->p->b, DATA),
						      local(&c->p->a, DATA), length);
		if (ticket < 0 ||
		    ori_dev_link_signal(c->p->a.dev, g, remote(&c->p->b, SIGNAL), 1) < 0 ||
		    ori_dev_link_wait_signal(c->p->b.dev, g, word(&c->p->b, SIGNAL), i, 0) ||
		    ori_dev_link_fence(c->p->a.dev, g, 0))
			__atomic_fetch_add(&c->failures, 1, __ATOMIC_RELAXED);
		if (oriel_dev_is_leader(g) &&
		    memcmp(c->p->a.memory + DATA, c->p->b.memory + DATA, length))
			__atomic_fetch_add(&c->failures, 1, __ATOMIC_RELAXED);
		oriel_dev_sync(g);
	}
	return NULL;
}

static void test_a_team_shares_the_writing_of_wqes(void **state)
{
	struct posters c = {pair_open(NULL), {0}, 0, 0};
	pthread_t threads[POSTERS];
	unsigned i;

	(void)state;
	assert_int_equal(oriel_team_open(&c.team, POSTERS, true), ORIEL_OK);
	for (i = 0; i < POSTERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, posters_work, &c), 0);
	for (i = 0; i < POSTERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(c.failures, 0);
	pair_close(c.p);
}

static void test_more_threads_than_half_the_ring_are_rejected(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_team team = {0};
	struct oriel_dev_group leader;
	struct ori_dev_link_post post;

	(void)state;
	assert_int_equal(oriel_team_open(&team, DEPTH, true), ORIEL_OK);
	leader = oriel_dev_team(&team, 0);
	post = ori_dev_link_begin(p->a.dev, ori_dev_link_main(p->a.dev), ORIEL_DEV_PUT,
				  leader.size);
	assert_int_equal(post.status, ORIEL_ERR_RANGE);
	/* The rejected post breaks nothing. */
	assert_int_equal(p->a.health.state, ORIEL_DEV_FAULT_EMPTY);
	assert_true(ori_dev_link_signal(p->a.dev, oriel_dev_thread(), remote(&p->b, SIGNAL), 1) >=
		    0);
	assert_int_equal(ori_dev_link_fence(p->a.dev, oriel_dev_thread(), 0), ORIEL_OK);
	pair_close(p);
}

static void test_a_bad_key_breaks_the_link_and_is_reported(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_group g = oriel_dev_thread();
	struct ori_dev_rdma_address nowhere = remote(&p->b, LENGTH - 4);
	int64_t ticket;

	(void)state;
	ticket = ori_dev_link_put(p->a.dev, g, nowhere, local(&p->a, DATA), 100);
	assert_true(ticket >= 0);
	assert_true(ori_dev_link_wait_local(p->a.dev, g, ticket, 0) < 0);
	assert_int_equal(p->a.health.state, ORIEL_DEV_FAULT_FULL);
	assert_int_equal(p->a.health.peer, 1);
	assert_int_equal(ori_dev_queue_err_syndrome(p->a.health.seen),
			 ORIEL_SYNDROME_REMOTE_ACCESS);
	/* Every other call ends at once, whatever it waits for. */
	assert_true(ori_dev_link_put(p->a.dev, g, remote(&p->b, DATA), local(&p->a, DATA), 8) < 0);
	assert_true(ori_dev_link_wait_signal(p->a.dev, g, word(&p->a, SIGNAL), 1, 0) < 0);
	pair_close(p);
}

/* No thread knows more than the one that waits. */
static void test_a_failure_of_a_link_that_is_not_watched_is_reported_at_once(void **state)
{
	struct oriel_dev_group g = oriel_dev_thread();
	struct pair *p = pair_open(NULL);
	uint64_t begun = ori_clock_ns();

	(void)state;
	assert_int_equal(ori_dev_link_wait_local(p->a.dev, g,
						 ori_dev_link_put_value(p->a.dev, g,
									remote(&p->b, LENGTH), 1),
						 0),
			 ORIEL_ERR_ACCESS);
	assert_true(ori_clock_ns() - begun < ORIEL_LINK_DOUBT_NS);
	pair_close(p);
}

/* Finds the failure first, and knows after a while that the peer has exited. */
static void *watch_slowly(void *argument)
{
	const struct oriel_dev_fault record = {.status = ORIEL_ERR_PEER,
					       .what = ORIEL_DEV_LOST,
					       .peer = 1};
	struct pair *p = argument;
	struct oriel_dev_fault found;

	while (!ori_rdma_link_poll(p->a.link, &found))
		usleep(1000);
	usleep(2 * ORIEL_LINK_CAUSE_NS / 1000);
	ori_dev_leave(&p->a.health, &record);
	return NULL;
}

static void test_a_thread_waits_for_the_cause_that_the_watcher_finds(void **state)
{
	struct oriel_dev_group g = oriel_dev_thread();
	struct pair *p;
	pthread_t thread;

	(void)state;
	pair_is_watched = true;
	p = pair_open(NULL);
	pair_is_watched = false;
	assert_int_equal(pthread_create(&thread, NULL, watch_slowly, p), 0);
	assert_int_equal(ori_dev_link_wait_local(p->a.dev, g,
						 ori_dev_link_put_value(p->a.dev, g,
									remote(&p->b, LENGTH), 1),
						 0),
			 ORIEL_ERR_PEER);
	pthread_join(thread, NULL);
	assert_int_equal(p->a.health.what, ORIEL_DEV_LOST);
	pair_close(p);
}

static void test_an_own_limit_harms_nothing(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_group g = oriel_dev_thread();

	(void)state;
	assert_int_equal(ori_dev_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), 1, 1000000),
			 ORIEL_ERR_TIMEOUT);
	assert_int_equal(p->b.health.state, ORIEL_DEV_FAULT_EMPTY);
	assert_true(ori_dev_link_signal(p->a.dev, g, remote(&p->b, SIGNAL), 1) >= 0);
	assert_int_equal(ori_dev_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), 1, 0),
			 ORIEL_OK);
	pair_close(p);
}

static void test_loss_changes_nothing(void **state)
{
	struct pair *p = pair_open("seed=7,drop=0.05,ack=2ms");
	struct oriel_dev_group g = oriel_dev_thread();
	uint64_t i;

	(void)state;
	for (i = 1; i <= 200; i++) {
		fill(&p->a, 5000, (unsigned)i);
		assert_true(ori_dev_link_put_signal(p->a.dev, g, remote(&p->b, DATA),
						    local(&p->a, DATA), 5000, remote(&p->b, SIGNAL),
						    1) >= 0);
		assert_int_equal(ori_dev_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), i, 0),
				 ORIEL_OK);
		assert_memory_equal(p->b.memory + DATA, p->a.memory + DATA, 5000);
		assert_int_equal(ori_dev_link_fence(p->a.dev, g, 0), ORIEL_OK);
	}
	assert_int_equal(ori_dev_link_read_signal(word(&p->b, SIGNAL)), 200);
	pair_close(p);
}

static void test_a_ticket_that_was_not_issued_is_rejected(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_group g = oriel_dev_thread();
	int64_t ticket = ori_dev_link_put_value(p->a.dev, g, remote(&p->b, DATA), 1);

	(void)state;
	assert_true(ticket >= 0);
	assert_int_equal(ori_dev_link_wait_local(p->a.dev, g, ticket + 1, 0), ORIEL_ERR_INVALID);
	assert_int_equal(ori_dev_link_wait_local(p->a.dev, g, INT64_MAX, 0), ORIEL_ERR_INVALID);
	assert_int_equal(p->a.health.state, ORIEL_DEV_FAULT_EMPTY);
	assert_int_equal(ori_dev_link_wait_local(p->a.dev, g, ticket, 0), ORIEL_OK);
	pair_close(p);
}

static void test_a_link_that_is_not_connected_rejects_posts(void **state)
{
	struct pair *p = pair_create(NULL);
	const struct oriel_dev_link *l = p->a.dev;
	struct oriel_dev_group g = oriel_dev_thread();
	struct ori_dev_rdma_address to = remote(&p->b, DATA), from = local(&p->a, DATA);
	struct ori_dev_rdma_address signal = remote(&p->b, SIGNAL),
				    counter = remote(&p->a, COUNTER);

	(void)state;
	assert_false(ori_rdma_link_is_ready(p->a.link));
	assert_int_equal(ori_dev_link_put(l, g, to, from, 8), ORIEL_ERR_NO_PATH);
	assert_int_equal(ori_dev_link_put(l, g, to, from, 0), ORIEL_ERR_NO_PATH);
	assert_int_equal(ori_dev_link_put_cooperative(l, g, to, from, 8), ORIEL_ERR_NO_PATH);
	assert_int_equal(ori_dev_link_put_value(l, g, to, 1), ORIEL_ERR_NO_PATH);
	assert_int_equal(ori_dev_link_get(l, g, to, from, 8), ORIEL_ERR_NO_PATH);
	assert_int_equal(ori_dev_link_signal(l, g, signal, 1), ORIEL_ERR_NO_PATH);
	assert_int_equal(ori_dev_link_put_signal(l, g, to, from, 8, signal, 1), ORIEL_ERR_NO_PATH);
	assert_int_equal(ori_dev_link_put_counter(l, g, to, from, 8, counter, 1),
			 ORIEL_ERR_NO_PATH);
	assert_int_equal(ori_dev_link_signal_counter(l, g, signal, 1, counter, 1),
			 ORIEL_ERR_NO_PATH);
	assert_int_equal(ori_dev_link_reset_signal(l, g, signal, 0), ORIEL_ERR_NO_PATH);
	assert_int_equal(ori_dev_link_wait_local(l, g, 0, 0), ORIEL_ERR_NO_PATH);
	assert_int_equal(ori_dev_link_wait_signal(l, g, word(&p->a, SIGNAL), 1, 0),
			 ORIEL_ERR_NO_PATH);
	assert_int_equal(ori_dev_link_fence(l, g, 0), ORIEL_OK);
	assert_int_equal(p->a.health.state, ORIEL_DEV_FAULT_EMPTY);

	/* It is the same link afterwards. */
	pair_connect(p);
	assert_ptr_equal(ori_rdma_link_device(p->a.link), l);
	assert_true(ori_dev_link_signal(l, g, signal, 1) >= 0);
	assert_int_equal(ori_dev_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), 1, 0),
			 ORIEL_OK);
	pair_close(p);
}

#define EAGER_PUTS 100u

struct eager {
	struct pair *p;
	int status;
};

/*
 * Puts as soon as the link takes posts, through a queue that this thread may see for the
 * first time.
 */
static void *eager_work(void *argument)
{
	struct eager *e = argument;
	struct oriel_dev_group g = oriel_dev_thread();
	int64_t ticket = ORIEL_ERR_NO_PATH;
	uint64_t i;

	while (ticket == ORIEL_ERR_NO_PATH)
		ticket = ori_dev_link_put_counter(e->p->a.dev, g, remote(&e->p->b, DATA),
						  local(&e->p->a, DATA), 8,
						  remote(&e->p->a, COUNTER), 1);
	for (i = 1; i < EAGER_PUTS && ticket >= 0; i++)
		ticket = ori_dev_link_put_value(e->p->a.dev, g, remote(&e->p->b, SIGNAL), i);
	e->status = ori_dev_link_wait_local(e->p->a.dev, g, ticket, 0);
	return NULL;
}

static void test_a_link_is_connected_while_threads_try_to_post(void **state)
{
	struct eager posters[POSTERS];
	pthread_t threads[POSTERS];
	struct pair *p = pair_create(NULL);
	unsigned i;

	(void)state;
	for (i = 0; i < POSTERS; i++) {
		posters[i] = (struct eager){p, ORIEL_AGAIN};
		assert_int_equal(pthread_create(&threads[i], NULL, eager_work, &posters[i]), 0);
	}
	pair_connect(p);
	for (i = 0; i < POSTERS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < POSTERS; i++)
		assert_int_equal(posters[i].status, ORIEL_OK);
	assert_int_equal(ori_dev_link_wait_signal(p->a.dev, oriel_dev_thread(),
						  word(&p->a, COUNTER), POSTERS, 0),
			 ORIEL_OK);
	pair_close(p);
}

#define LINKS_MANY 100u /* more queues than one page has doorbells */

static void test_many_links_do_not_disturb_each_other(void **state)
{
	struct ori_rdma_link *from[LINKS_MANY], *to[LINKS_MANY];
	struct pair *p = pair_create(NULL);
	struct oriel_dev_group g = oriel_dev_thread();
	struct ori_rdma_qps a, b;
	unsigned i, round;

	(void)state;
	for (i = 0; i < LINKS_MANY; i++) {
		assert_int_equal(ori_rdma_link_create(p->a.rdma, 1, 0, &from[i]), ORIEL_OK);
		assert_int_equal(ori_rdma_link_create(p->b.rdma, 0, 0, &to[i]), ORIEL_OK);
		assert_int_equal(ori_rdma_link_open(from[i], &a), ORIEL_OK);
		assert_int_equal(ori_rdma_link_open(to[i], &b), ORIEL_OK);
		assert_int_equal(ori_rdma_link_connect(from[i], &p->b.hca_address, &b), ORIEL_OK);
		assert_int_equal(ori_rdma_link_connect(to[i], &p->a.hca_address, &a), ORIEL_OK);
		ori_rdma_link_begin(from[i]);
		ori_rdma_link_begin(to[i]);
	}
	for (round = 1; round <= 3; round++) {
		for (i = 0; i < LINKS_MANY; i++)
			assert_true(ori_dev_link_signal(ori_rdma_link_device(from[i]), g,
							remote(&p->b, SIGNAL), 1) >= 0);
		for (i = 0; i < LINKS_MANY; i++)
			assert_int_equal(ori_dev_link_fence(ori_rdma_link_device(from[i]), g, 0),
					 ORIEL_OK);
		assert_int_equal(ori_dev_link_read_signal(word(&p->b, SIGNAL)), round * LINKS_MANY);
	}
	for (i = 0; i < LINKS_MANY; i++) {
		ori_rdma_link_destroy(from[i]);
		ori_rdma_link_destroy(to[i]);
	}
	pair_close(p);
}

static void test_every_rail_has_links(void **state)
{
	struct oriel_dev_group g = oriel_dev_thread();
	unsigned rails;

	(void)state;
	for (rails = 1; rails <= ORIEL_DEV_RAILS; rails++) {
		struct pair *p = pair_create_on(NULL, rails);

		pair_connect(p);
		assert_int_equal(ori_rdma_rails(p->a.rdma), rails);
		assert_int_equal(p->a.dev->rail, rails - 1);
		fill(&p->a, 5000, rails);
		assert_true(ori_dev_link_put_signal_counter(p->a.dev, g, remote(&p->b, DATA),
							    local(&p->a, DATA), 5000,
							    remote(&p->b, SIGNAL), 1,
							    remote(&p->a, COUNTER), 1) >= 0);
		assert_int_equal(ori_dev_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), 1, 0),
				 ORIEL_OK);
		assert_int_equal(ori_dev_link_wait_signal(p->a.dev, g, word(&p->a, COUNTER), 1, 0),
				 ORIEL_OK);
		assert_memory_equal(p->b.memory + DATA, p->a.memory + DATA, 5000);
		pair_close(p);
	}
}

/* The status of a put where a key of rail 0 is used on a link of rail 1. */
static enum oriel_status put_by_rail_1(struct oriel_dev_keys *used, struct pair *p)
{
	struct oriel_dev_group g = oriel_dev_thread();
	enum oriel_status status;
	int64_t ticket;

	pair_connect(p);
	ticket = ori_dev_link_put(p->a.dev, g, (struct ori_dev_rdma_address){DATA, used[0].rail[1]},
				  (struct ori_dev_rdma_address){(uint64_t)(uintptr_t)p->a.memory,
								used[1].rail[1]},
				  8);
	status = ori_dev_link_wait_local(p->a.dev, g, ticket, 0);
	assert_int_equal(p->a.health.state, status ? ORIEL_DEV_FAULT_FULL : ORIEL_DEV_FAULT_EMPTY);
	pair_close(p);
	return status;
}

/* A proxy looks up local keys itself. */
static void test_a_key_of_another_rail_is_rejected(void **state)
{
	bool is_proxied = pair_post == ORI_RDMA_POST_PROXY;
	unsigned i, k;

	(void)state;
	for (i = 0; i < 2; i++) {
		for (k = 0; k < 2; k++) {
			struct pair *p = pair_create_on(NULL, 2);
			struct oriel_dev_keys used[2] = {p->b.rkeys,
							 *ori_rdma_whole_lkeys(p->a.rdma)};

			if (!i)
				used[0].rail[1] = used[0].rail[0];
			if (!k)
				used[1].rail[1] = used[1].rail[0];
			assert_int_equal(put_by_rail_1(used, p),
					 i && (k || is_proxied) ? ORIEL_OK : ORIEL_ERR_ACCESS);
		}
	}
}

static uint32_t number_of(const struct oriel_dev_link *l)
{
	struct ori_dev_link_queue q = ori_dev_link_main(l);

	return q.proxy ? q.proxy->number : q.ring->qpn;
}

/* A link of rail 0 beside that of rail 1; the first queues of two HCAs have one number. */
static void test_an_event_is_of_a_link_of_its_rail(void **state)
{
	struct pair *p = pair_create_on(NULL, 2);
	struct oriel_dev_group g = oriel_dev_thread();
	struct ori_hca_qp_address hcas[2];
	struct ori_rdma_link *beside[2];
	struct oriel_dev_fault record;
	struct ori_rdma_event event;
	struct ori_rdma_qps ends[2];
	enum oriel_status status;
	uint64_t deadline;

	(void)state;
	ori_rdma_describe(p->a.rdma, 0, &hcas[0]);
	ori_rdma_describe(p->b.rdma, 0, &hcas[1]);
	assert_int_equal(ori_rdma_link_create(p->a.rdma, 1, 0, &beside[0]), ORIEL_OK);
	assert_int_equal(ori_rdma_link_create(p->b.rdma, 0, 0, &beside[1]), ORIEL_OK);
	assert_int_equal(ori_rdma_link_open(beside[0], &ends[0]), ORIEL_OK);
	assert_int_equal(ori_rdma_link_open(beside[1], &ends[1]), ORIEL_OK);
	assert_int_equal(ori_rdma_link_connect(beside[0], &hcas[1], &ends[1]), ORIEL_OK);
	assert_int_equal(ori_rdma_link_connect(beside[1], &hcas[0], &ends[0]), ORIEL_OK);
	ori_rdma_link_begin(beside[0]);
	ori_rdma_link_begin(beside[1]);
	pair_connect(p);
	assert_int_equal(number_of(ori_rdma_link_device(beside[0])), number_of(p->a.dev));

	assert_true(ori_dev_link_put_value(p->a.dev, g, remote(&p->b, LENGTH), 1) >= 0);
	deadline = ori_deadline(LONG_NS);
	do
		status = ori_rdma_poll_event(p->a.rdma, &event);
	while (status == ORIEL_AGAIN && !ori_deadline_passed(deadline));
	assert_int_equal(status, ORIEL_OK);
	assert_int_equal(event.rail, 1);
	assert_int_equal(event.of.qpn, number_of(p->a.dev));
	assert_false(ori_rdma_link_explain(beside[0], &event, &record));
	assert_true(ori_rdma_link_explain(p->a.link, &event, &record));
	assert_int_equal(record.status, ORIEL_ERR_ACCESS);
	ori_rdma_link_destroy(beside[0]);
	ori_rdma_link_destroy(beside[1]);
	pair_close(p);
}

#define LINKS_MOST 4096u

/* More links than the HCA has queues: the last one leaves none of its queues behind. */
static void test_a_link_without_all_its_queues_has_none(void **state)
{
	const struct ori_rdma_attr attr = {.hca = &ori_hca_soft_ops};
	const struct ori_rdma_links_attr shared = {.depth = DEPTH,
						   .timeout_ns = LONG_NS,
						   .spin = 100,
						   .post = pair_post};
	struct ori_rdma_link **links = calloc(LINKS_MOST, sizeof(struct ori_rdma_link *));
	enum oriel_status status = ORIEL_OK;
	struct ori_rdma_qps qps;
	struct ori_rdma *rdma;
	unsigned count, i;

	(void)state;
	assert_non_null(links);
	assert_int_equal(ori_rdma_open(&attr, &rdma), ORIEL_OK);
	assert_int_equal(ori_rdma_open_links(rdma, &shared), ORIEL_OK);
	for (count = 0; count < LINKS_MOST && status == ORIEL_OK; count++) {
		assert_int_equal(ori_rdma_link_create(rdma, count, 0, &links[count]), ORIEL_OK);
		status = ori_rdma_link_open(links[count], &qps);
	}
	assert_int_equal(status, ORIEL_ERR_NOMEM);
	assert_true(count > 1000);
	assert_false(ori_rdma_link_is_ready(links[count - 1]));
	for (i = 0; i < 100; i++) {
		ori_rdma_link_close(links[i % 2]);
		assert_int_equal(ori_rdma_link_open(links[count - 1], &qps), ORIEL_OK);
		assert_int_equal(ori_rdma_link_open(links[i % 2], &qps), ORIEL_ERR_NOMEM);
		ori_rdma_link_close(links[count - 1]);
		assert_int_equal(ori_rdma_link_open(links[i % 2], &qps), ORIEL_OK);
	}
	for (i = 0; i < count; i++)
		ori_rdma_link_destroy(links[i]);
	ori_rdma_close(rdma);
	free(links);
}

static unsigned made;    /* queue pairs of counting_ops */
static uint32_t deepest; /* requests that one of them holds */

static enum oriel_status count_qp(struct ori_hca *hca, const struct ori_hca_qp_attr *attr,
				  struct ori_hca_qp **qp, struct ori_hca_qp_address *address)
{
	made++;
	deepest = attr->depth > deepest ? attr->depth : deepest;
	return ori_hca_soft_ops.create_qp(hca, attr, qp, address);
}

/*
 * The main queue, its companion and the heartbeat; a proxy has no companion. A shallow link has as
 * many, which hold less.
 */
static void test_a_peer_takes_three_queue_pairs(void **state)
{
	struct ori_hca_ops counting_ops = ori_hca_soft_ops;
	const struct ori_rdma_attr attr = {.hca = &counting_ops};
	const struct ori_rdma_links_attr of_links = {.timeout_ns = LONG_NS, .post = pair_post};
	struct ori_rdma_link *links[2];
	struct ori_rdma_qps qps;
	struct ori_rdma *rdma;
	uint32_t depth[2];

	(void)state;
	counting_ops.create_qp = count_qp;
	assert_int_equal(ori_rdma_open(&attr, &rdma), ORIEL_OK);
	assert_int_equal(ori_rdma_open_links(rdma, &of_links), ORIEL_OK);
	made = 0; /* a proxy has one for all peers */
	deepest = 0;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ori_rdma_link_create(rdma, i, 0, &links[i]), ORIEL_OK);
		if (i == 0)
			ori_rdma_link_set_shallow(links[i]);
		assert_int_equal(ori_rdma_link_open(links[i], &qps), ORIEL_OK);
		depth[i] = deepest;
		deepest = 0;
	}
	assert_int_equal(16 * depth[0], depth[1]); /* 64 and the default */
	assert_int_equal(made, 2 * (pair_post == ORI_RDMA_POST_PROXY ? 2 : 3));
	for (unsigned i = 0; i < 2; i++)
		ori_rdma_link_destroy(links[i]);
	ori_rdma_close(rdma);
}

/* Without links there is no thread and no key of all memory; the last reference closes it. */
static void test_a_context_lives_with_its_references(void **state)
{
	const struct ori_rdma_attr attr = {.rails = 2, .hca = &ori_hca_soft_ops};
	static char memory[4096] __attribute__((aligned(4096)));
	struct oriel_dev_keys keys;
	struct ori_rdma_mr *mr;
	struct ori_rdma *rdma;

	(void)state;
	assert_int_equal(ori_rdma_open(&attr, &rdma), ORIEL_OK);
	assert_ptr_equal(ori_rdma_ref(rdma), rdma);
	ori_rdma_close(rdma);
	assert_int_equal(ori_rdma_kind(rdma), ORI_HCA_KIND_SOFT);
	assert_int_equal(ori_rdma_rails(rdma), 2);
	assert_null(rdma->proxy);
	assert_null(rdma->rails[1].whole_mr);
	assert_int_equal(ori_rdma_register(rdma, memory, sizeof(memory), ORI_RDMA_SHARED, &mr,
					   &keys),
			 ORIEL_OK);
	assert_true(keys.rail[0] && keys.rail[1] && !keys.rail[2]);
	ori_rdma_unregister(rdma, mr);
	ori_rdma_close(rdma);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_signal_comes_after_its_put),
		cmocka_unit_test(test_a_get_reads_the_memory_of_the_peer),
		cmocka_unit_test(test_a_counter_says_that_the_source_is_free),
		cmocka_unit_test(test_a_reset_comes_after_all_signals),
		cmocka_unit_test(test_a_team_shares_the_writing_of_wqes),
		cmocka_unit_test(test_more_threads_than_half_the_ring_are_rejected),
		cmocka_unit_test(test_a_bad_key_breaks_the_link_and_is_reported),
		cmocka_unit_test(test_a_failure_of_a_link_that_is_not_watched_is_reported_at_once),
		cmocka_unit_test(test_a_thread_waits_for_the_cause_that_the_watcher_finds),
		cmocka_unit_test(test_an_own_limit_harms_nothing),
		cmocka_unit_test(test_loss_changes_nothing),
		cmocka_unit_test(test_a_ticket_that_was_not_issued_is_rejected),
		cmocka_unit_test(test_a_link_that_is_not_connected_rejects_posts),
		cmocka_unit_test(test_a_link_is_connected_while_threads_try_to_post),
		cmocka_unit_test(test_many_links_do_not_disturb_each_other),
		cmocka_unit_test(test_every_rail_has_links),
		cmocka_unit_test(test_a_key_of_another_rail_is_rejected),
		cmocka_unit_test(test_an_event_is_of_a_link_of_its_rail),
		cmocka_unit_test(test_a_link_without_all_its_queues_has_none),
		cmocka_unit_test(test_a_peer_takes_three_queue_pairs),
		cmocka_unit_test(test_a_context_lives_with_its_references),
	};

	int failed = cmocka_run_group_tests_name("rdma by rings", tests, NULL, NULL);

	pair_post = ORI_RDMA_POST_PROXY;
	return failed + cmocka_run_group_tests_name("rdma by a proxy", tests, NULL, NULL);
}
