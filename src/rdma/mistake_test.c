/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mistakes that other libraries made when they posted to a NIC (docs/mistakes.md), tried
 * on these links.
 */

#include "rdma/pair_test.h"

static void wait_for(const struct side *s, uint64_t at, uint64_t least)
{
	assert_int_equal(ori_dev_link_wait_signal(s->dev, oriel_dev_thread(), word(s, at), least,
						  0),
			 ORIEL_OK);
}

/* Counters wait for the index of a CQE: 16 bits of it are not enough. */
static void test_links_go_on_where_indices_wrap(void **state)
{
	static const char *const configs[] = {
		"first=65528",
		"first=16777208",
		"first=4294967288",
		"first=65528,db_loss=1,db_delay=20us,scrub=1",
		"first=16777208,late_cqe=20us,dup_cqe=0.5",
	};
	struct oriel_dev_group g = oriel_dev_thread();

	(void)state;
	for (unsigned k = 0; k < sizeof(configs) / sizeof(configs[0]); k++) {
		struct pair *p = pair_open(configs[k]);

		for (uint64_t i = 1; i <= 2 * DEPTH; i++) {
			memset(p->a.memory + DATA, (int)i, 100);
			assert_true(
				ori_dev_link_put_signal_counter(p->a.dev, g, remote(&p->b, DATA),
								local(&p->a, DATA), 100,
								remote(&p->b, SIGNAL), 1,
								remote(&p->a, COUNTER), 1) >= 0);
			wait_for(&p->a, COUNTER, i);
			wait_for(&p->b, SIGNAL, i);
			assert_int_equal(p->b.memory[DATA + 99], (char)i);
			assert_int_equal(*word(&p->a, COUNTER), i);
		}
		pair_close(p);
	}
}

/*
 * A put that fails is not counted, a fence does not take it for done, and a wait for its
 * counter ends.
 */
static void test_a_failed_put_is_never_taken_for_done(void **state)
{
	struct oriel_dev_group g = oriel_dev_thread();
	struct ori_dev_rdma_address nowhere;
	struct pair *p;

	(void)state;
	for (unsigned k = 0; k < 2; k++) {
		p = pair_open(k ? "late_cqe=100us" : NULL);
		nowhere = remote(&p->b, LENGTH);
		assert_true(ori_dev_link_put_counter(p->a.dev, g, remote(&p->b, DATA),
						     local(&p->a, DATA), 8, remote(&p->a, COUNTER),
						     1) >= 0);
		wait_for(&p->a, COUNTER, 1);
		(void)ori_dev_link_put_counter(p->a.dev, g, nowhere, local(&p->a, DATA), 8,
					       remote(&p->a, COUNTER), 1);
		assert_true(ori_dev_link_wait_signal(p->a.dev, g, word(&p->a, COUNTER), 2, 0) < 0);
		assert_true(ori_dev_link_fence(p->a.dev, g, 0) < 0);
		assert_true(ori_dev_link_put(p->a.dev, g, remote(&p->b, DATA), local(&p->a, DATA),
					     8) < 0);
		assert_int_equal(*word(&p->a, COUNTER), 1);
		pair_close(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links_go_on_where_indices_wrap),
		cmocka_unit_test(test_a_failed_put_is_never_taken_for_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
