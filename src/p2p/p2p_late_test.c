/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Once a receive is cancelled, or its endpoint destroyed, no byte of the transfer lands in its
 * buffer. The software HCA delays packets and holds back what it has acknowledged, by a seed.
 */
#include "p2p/pair_of_endpoints_test.h"

#define SOME 6u
#define SEEDS 12u
#define MARK 0x5a
#define LATE_NS UINT64_C(12000000) /* the HCA holds nothing back for so long */

static char from[SOME][LONG], to[SOME][LONG];
static struct oriel_p2p_request out[SOME], in[SOME];
static struct oriel_p2p_memory *memory;

static void begin(struct endpoints *e, enum endpoints_route route, enum oriel_p2p_mode mode,
		  unsigned seed)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .depth = 2};
	char text[128];

	snprintf(text, sizeof(text), "seed=%u,delay=100us,%s=4ms", seed,
		 seed & 1 ? "invisible" : "below_owner");
	setenv("ORIEL_SOFT_HCA", text, 1);
	endpoints_open(e, route, &small, &attr);
	memset(to, 0, sizeof(to));
	assert_int_equal(oriel_p2p_register(e->contexts[1], to, sizeof(to), 0, &memory), ORIEL_OK);
	for (unsigned i = 0; i < SOME; i++) {
		struct oriel_p2p_buffer source = buffer(from[i], LONG, NULL);
		struct oriel_p2p_buffer target = buffer(to[i], LONG, memory);

		endpoints_fill(from[i], LONG, i + 1);
		assert_int_equal(oriel_p2p_recv(e->b, 0, &target, &in[i]), ORIEL_OK);
		assert_int_equal(oriel_p2p_send(e->a, 0, &source, &out[i]), ORIEL_OK);
	}
	for (unsigned turns = seed * 7919 % 97; turns; turns--)
		endpoints_turn(e);
}

static bool is_marked(unsigned i)
{
	for (unsigned k = 0; k < LONG; k++)
		if (to[i][k] != MARK)
			return false;
	return true;
}

/* Ends all of it; an endpoint that was destroyed is NULL. */
static void end(struct endpoints *e)
{
	if (e->a)
		oriel_p2p_destroy(e->a);
	if (e->b)
		oriel_p2p_destroy(e->b);
	assert_int_equal(oriel_p2p_unregister(memory), ORIEL_OK);
	endpoints_close_contexts(e);
}

static unsigned cancelled;

static void cancel(enum endpoints_route route, enum oriel_p2p_mode mode, unsigned seed)
{
	uint64_t until = ori_deadline(LATE_NS);
	bool is_cancelled[SOME];
	struct endpoints e;

	begin(&e, route, mode, seed);
	for (unsigned i = SOME; i-- > 0;) {
		is_cancelled[i] = oriel_p2p_cancel(e.b, &in[i]) == ORIEL_OK;
		cancelled += is_cancelled[i];
		if (is_cancelled[i])
			memset(to[i], MARK, LONG);
	}
	while (!ori_deadline_passed(until))
		endpoints_turn(&e);
	for (unsigned i = 0; i < SOME; i++)
		if (is_cancelled[i])
			assert_true(is_marked(i));
	end(&e);
}

/* @is_fenced: the endpoint is destroyed before its buffers are used again. Were they left alone? */
static bool leave(enum endpoints_route route, enum oriel_p2p_mode mode, unsigned seed,
		  bool is_fenced)
{
	struct endpoints e;
	uint64_t until;
	bool is_alone = true;

	begin(&e, route, mode, seed);
	if (is_fenced) {
		assert_int_equal(oriel_p2p_destroy(e.b), ORIEL_OK);
		e.b = NULL;
	}
	for (unsigned i = 0; i < SOME; i++)
		memset(to[i], MARK, LONG);
	until = ori_deadline(LATE_NS);
	/* The sender goes on as long as it can. */
	while (!ori_deadline_passed(until)) {
		(void)oriel_p2p_progress(e.a);
		sched_yield();
	}
	for (unsigned i = 0; i < SOME; i++)
		is_alone &= is_marked(i);
	end(&e);
	return is_alone;
}

static void test_no_byte_lands_after_a_cancel(void **state)
{
	(void)state;
	for (unsigned i = ENDPOINTS_RDMA; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			for (unsigned seed = 1; seed <= SEEDS; seed++)
				cancel(routes[i], modes[k], seed);
	/* Half of the receives are behind the depth. */
	assert_true(cancelled >= SEEDS);
}

static void test_no_byte_lands_after_a_destroy(void **state)
{
	(void)state;
	for (unsigned i = ENDPOINTS_RDMA; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			for (unsigned seed = 1; seed <= SEEDS; seed++)
				assert_true(leave(routes[i], modes[k], seed, true));
}

/* The twin: the HCA does hold bytes back that land in a buffer whose endpoint lives. */
static void test_bytes_land_late_without_it(void **state)
{
	unsigned late = 0;

	(void)state;
	for (unsigned seed = 1; seed <= SEEDS; seed++)
		late += !leave(ENDPOINTS_RDMA, ORIEL_P2P_ZERO_COPY, seed, false);
	assert_true(late > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_byte_lands_after_a_cancel),
		cmocka_unit_test(test_no_byte_lands_after_a_destroy),
		cmocka_unit_test(test_bytes_land_late_without_it),
	};

	/* Its liberties are what the test is about. */
	setenv("ORIEL_HCA", "soft", 1);
	endpoints_choose(0, NULL);
	return cmocka_run_group_tests_name("p2p_late", tests, NULL, NULL);
}
