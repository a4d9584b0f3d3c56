/* SPDX-License-Identifier: Apache-2.0 */
/* The HCA waits for slow peers; it sends lost packets again. */
#include "hca/soft/soft_arena_test.h"

static struct soft_counters counters_of(const struct arena *r, unsigned which)
{
	struct soft_counters c;

	ori_soft_counters(r->hca[which], &c);
	return c;
}

/* Requests sent before the peer has connected are sent again afterwards. */
static void test_a_peer_that_connects_late_is_waited_for(void **state)
{
	struct side early, late;
	struct arena r;
	uint64_t index;

	(void)state;
	arena_open(&r, 1, "ack=1ms,retry=1");
	arena_side(&r, &early, 0, 1, 0);
	arena_side(&r, &late, 1, 1, 0);
	assert_int_equal(HCA.connect_qp(early.qp, &late.address), ORIEL_OK);
	index = side_signal(&early, &late, 0);
	for (unsigned i = 0; i < 200; i++)
		ori_soft_cluster_step(r.cluster);
	assert_true(counters_of(&r, 0).timeouts > 3 && counters_of(&r, 0).lost == 0);
	assert_int_equal(HCA.connect_qp(late.qp, &early.address), ORIEL_OK);
	assert_int_equal(side_wait(&early, index), ORIEL_OK);
	assert_int_equal(counters_of(&r, 0).lost, 1);
	assert_int_equal(*side_word(&late, 0), 1);
	side_close(&early);
	side_close(&late);
	arena_close(&r);
}

/* Requests not sent yet are not late. */
static void test_a_slow_source_is_no_loss(void **state)
{
	struct arena r;
	uint64_t last = 0;

	(void)state;
	arena_open(&r, 1, "ack=1us,retry=0,gather=1ms");
	for (unsigned i = 0; i < 10; i++)
		last = side_signal(&r.a, &r.b, 0);
	assert_int_equal(side_wait(&r.a, last), ORIEL_OK);
	assert_int_equal(counters_of(&r, 0).lost, 0);
	arena_close(&r);
}

/* Nor is an answer late that travels for longer than all tries together. */
static void test_slow_packets_are_no_loss(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct arena r;
		uint64_t last = 0;

		arena_open(&r, seed, "ack=2us,retry=0,delay=100us,reads=2");
		for (unsigned i = 0; i < 5; i++) {
			side_write(&r.a, &r.b, DATA, 0, 9000, 0);
			side_read(&r.a, &r.b, DATA, 20000, 9000, 0);
			last = side_signal(&r.a, &r.b, 0);
		}
		assert_int_equal(side_wait(&r.a, last), ORIEL_OK);
		assert_int_equal(counters_of(&r, 0).lost, 0);
		arena_close(&r);
	}
}

/* A halted HCA continues where it stopped; its peer waits. */
static void test_a_peer_waits_for_a_halted_hca(void **state)
{
	static const char *const configs[2] = {"ack=20us,retry=0", "halt=10ms,halt_at=3"};
	struct arena r;
	uint64_t last = 0;

	(void)state;
	arena_open_both(&r, 1, configs);
	for (unsigned i = 0; i < 20; i++) {
		side_signal(&r.a, &r.b, 0);
		last = side_read(&r.a, &r.b, 0, DATA, 5000, 0);
	}
	assert_int_equal(side_wait(&r.a, last), ORIEL_OK);
	assert_int_equal(counters_of(&r, 1).halted, 1);
	assert_true(counters_of(&r, 0).timeouts > 100);
	assert_int_equal(counters_of(&r, 0).lost, 0);
	arena_close(&r);
}

/* Every loss is detected, and only losses cost tries. */
static void test_a_loss_is_sent_again(void **state)
{
	struct soft_counters sum = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct arena r;

		arena_open(&r, seed, "drop=0.3,ack=100us,retry=60");
		for (uint64_t i = 1; i <= 20; i++) {
			assert_int_equal(side_wait(&r.a, side_signal(&r.a, &r.b, 0)), ORIEL_OK);
			assert_int_equal(*side_word(&r.b, 0), i);
		}
		sum.lost += counters_of(&r, 0).lost;
		sum.dropped += counters_of(&r, 0).dropped + counters_of(&r, 1).dropped;
		arena_close(&r);
	}
	assert_true(sum.lost > 0 && sum.lost <= sum.dropped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_peer_that_connects_late_is_waited_for),
		cmocka_unit_test(test_a_slow_source_is_no_loss),
		cmocka_unit_test(test_slow_packets_are_no_loss),
		cmocka_unit_test(test_a_peer_waits_for_a_halted_hca),
		cmocka_unit_test(test_a_loss_is_sent_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
