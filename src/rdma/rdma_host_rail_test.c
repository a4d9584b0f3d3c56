/* SPDX-License-Identifier: Apache-2.0 */
/* Links that the host drives over several rails, each a software HCA. */
#include <oriel/dev/detail/queue.h>

#include "rdma/host_test.h"

#define STRIPE 1000u /* bytes that are spread over rails */

/* Links over several rails, each with a first rail and a number of queues of its own. */
static const struct ori_host_attr railed[] = {
	{.rails = 2, .stripe = STRIPE, .depth = 4, .immediates = 4},
	{.rails = 2, .first_rail = 1, .queues = 3, .stripe = STRIPE, .immediates = 4},
	{.rails = 4, .first_rail = 2, .stripe = STRIPE, .depth = 2, .immediates = 4},
	{.rails = 4, .queues = 8, .stripe = STRIPE, .immediates = 4},
};

#define RAILED (sizeof(railed) / sizeof(railed[0]))

static void test_puts_and_gets_of_any_size_over_rails(void **state)
{
	(void)state;
	for (unsigned i = 0; i < RAILED; i++)
		puts_and_gets_of_any_size(&(struct pair_attr){.host = railed[i]});
}

static void test_a_signal_covers_all_before_it_on_any_rail(void **state)
{
	struct pair_attr attr = {.config = "delay=20us", .last = "delay=200us"};

	(void)state;
	for (attr.seed = 1; attr.seed <= SEEDS; attr.seed++) {
		attr.host = railed[attr.seed % RAILED];
		signal_covers_all(&attr, attr.seed % 3 ? 200 : 3 * PIECE);
	}
}

/* The last rail of each side is slow, or the others are. */
static void test_an_immediate_does_not_pass_a_piece_on_another_rail(void **state)
{
	static const char *const configs[][2] = {
		{"", "delay=300us"},
		{"delay=300us", ""},
		{"delay=20us", "delay=20us,drop=0.05,dup=0.05,ack=1ms,retry=100"},
	};
	struct pair_attr attr = {0};

	(void)state;
	for (unsigned i = 0; i < RAILED; i++) {
		attr.host = railed[i];
		immediates_come_in_order(&attr);
	}
	for (attr.seed = 1; attr.seed <= SEEDS; attr.seed++) {
		attr.host = railed[attr.seed % RAILED];
		attr.config = configs[attr.seed % 3][0];
		attr.last = configs[attr.seed % 3][1];
		immediates_come_in_order(&attr);
	}
}

static void test_a_rail_that_dies_fails_the_link(void **state)
{
	struct pair_attr attr = {.last = "black_hole=40,ack=1ms,retry=2",
				 .host = {.rails = 2, .stripe = STRIPE}};
	uint64_t until = ori_clock_ns() + PATIENCE_NS, op = 0;
	const struct ori_host_failure *failure;
	enum oriel_status status = ORIEL_OK;
	struct ori_host_move move;
	struct pair p;

	(void)state;
	pair_open(&p, &attr);
	move = move_of(&p, 0, 0, 3 * PIECE);
	failure = ori_host_failure(p.a.link);
	assert_int_equal(failure->status, ORIEL_OK);
	while (status >= 0) {
		status = ori_host_put_immediate(p.a.link, &move, 1, &op);
		if (status >= 0)
			status = ori_host_progress(p.a.link);
		pair_turn(&p, until);
	}
	assert_int_equal(status, ORIEL_ERR_PEER);
	assert_non_null(strstr(oriel_last_error(), "(rail 1)"));
	assert_true(op > 0);
	assert_int_equal(failure->status, ORIEL_ERR_PEER);
	assert_int_equal(failure->rail, 1);
	assert_int_equal(failure->qpn, p.a.end.of[1].qpn);
	assert_int_equal(ori_dev_queue_err_syndrome(failure->err), ORIEL_SYNDROME_RETRY_EXCEEDED);
	assert_in_range(ori_dev_queue_err_index(failure->err), 1, op);
	assert_int_equal(ori_host_put(p.a.link, &move, &op), ORIEL_ERR_PEER);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_puts_and_gets_of_any_size_over_rails),
		cmocka_unit_test(test_a_signal_covers_all_before_it_on_any_rail),
		cmocka_unit_test(test_an_immediate_does_not_pass_a_piece_on_another_rail),
		cmocka_unit_test(test_a_rail_that_dies_fails_the_link),
	};

	return cmocka_run_group_tests_name("rdma_host_rail", tests, NULL, NULL);
}
