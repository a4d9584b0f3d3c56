/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of hang_graph.c: the graph of waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "hang/hang.h"

#define RANKS 4u

struct scene {
	struct ori_hang_comm comm;
	struct ori_hang_rank ranks[RANKS];
	struct ori_hang_wait waits[RANKS];
	unsigned cycle[RANKS + 1];
};

static void scene_open(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->comm.size = RANKS;
	s->comm.ranks = s->ranks;
	s->comm.cycle = s->cycle;
}

static void wait_for(struct scene *s, unsigned rank, uint32_t what, uint32_t peer,
		     uint64_t expected)
{
	s->waits[rank].note = (struct ori_wait_note){
		.rank = rank, .what = what, .peer = peer, .window = 1, .expected = expected};
	s->ranks[rank].waits = &s->waits[rank];
	s->ranks[rank].wait_count = 1;
}

static void test_two_ranks_that_wait_for_each_other_are_a_cycle(void **state)
{
	struct scene s;

	(void)state;
	scene_open(&s);
	wait_for(&s, 0, ORIEL_DEV_WAIT_SIGNAL_FROM, 1, 1);
	wait_for(&s, 1, ORIEL_DEV_WAIT_SIGNAL_FROM, 3, 1);
	wait_for(&s, 3, ORIEL_DEV_WAIT_SIGNAL_FROM, 1, 1);
	assert_int_equal(ori_hang_judge(&s.comm), ORIEL_OK);
	assert_int_equal(s.comm.cycle_length, 2);
	assert_int_equal(s.cycle[0], 1);
	assert_int_equal(s.cycle[1], 3);
	assert_false(ori_hang_is_root(&s.comm, 1));
}

static void test_a_chain_has_a_root_and_no_cycle(void **state)
{
	struct scene s;

	(void)state;
	scene_open(&s);
	wait_for(&s, 0, ORIEL_DEV_RECV, 1, 1);
	wait_for(&s, 1, ORIEL_DEV_RECV, 2, 1);
	assert_int_equal(ori_hang_judge(&s.comm), ORIEL_OK);
	assert_int_equal(s.comm.cycle_length, 0);
	assert_true(ori_hang_is_root(&s.comm, 2));
	assert_false(ori_hang_is_root(&s.comm, 1)); /* it waits itself */
	assert_false(ori_hang_is_root(&s.comm, 3)); /* no rank waits for it */
}

static void test_ranks_of_a_collective_wait_for_those_that_have_not_arrived(void **state)
{
	struct scene s;

	(void)state;
	scene_open(&s);
	wait_for(&s, 0, ORIEL_DEV_BARRIER_FLAT, ORIEL_DEV_NO_RANK, 9);
	wait_for(&s, 1, ORIEL_DEV_BARRIER_FLAT, ORIEL_DEV_NO_RANK, 9);
	wait_for(&s, 2, ORIEL_DEV_BARRIER_FLAT, ORIEL_DEV_NO_RANK, 6); /* the one before */
	assert_int_equal(ori_hang_judge(&s.comm), ORIEL_OK);
	assert_false(ori_hang_awaits(&s.comm, 0, 1, true));
	assert_true(ori_hang_awaits(&s.comm, 0, 2, true));
	assert_true(ori_hang_awaits(&s.comm, 0, 3, true));
	assert_false(ori_hang_awaits(&s.comm, 2, 0, true)); /* rank 0 is beyond it */
	assert_int_equal(s.comm.cycle_length, 0);
	assert_true(ori_hang_is_root(&s.comm, 3));
}

/* Each of them may be released by a rank that waits for nothing. */
static void test_waits_for_any_rank_are_no_cycle(void **state)
{
	struct scene s;

	(void)state;
	scene_open(&s);
	wait_for(&s, 0, ORIEL_DEV_WAIT_SIGNAL, ORIEL_DEV_NO_RANK, 1);
	wait_for(&s, 1, ORIEL_DEV_WAIT_SIGNAL, ORIEL_DEV_NO_RANK, 1);
	assert_int_equal(ori_hang_judge(&s.comm), ORIEL_OK);
	assert_true(ori_hang_awaits(&s.comm, 0, 1, false));
	assert_false(ori_hang_awaits(&s.comm, 0, 1, true));
	assert_int_equal(s.comm.cycle_length, 0);
}

/* The peer need not act for its NIC to do so, and may wait for this rank in turn. */
static void test_a_wait_for_a_nic_is_for_no_rank(void **state)
{
	struct scene s;
	char text[128];

	(void)state;
	scene_open(&s);
	wait_for(&s, 0, ORIEL_DEV_NIC, 1, 0);
	wait_for(&s, 1, ORIEL_DEV_WAIT_SIGNAL_FROM, 0, 1);
	assert_int_equal(ori_hang_judge(&s.comm), ORIEL_OK);
	assert_int_equal(s.comm.cycle_length, 0);
	assert_false(ori_hang_awaits(&s.comm, 0, 1, false));
	assert_true(ori_hang_is_root(&s.comm, 0));
	ori_hang_wait_text(&s.waits[0], text, sizeof(text));
	assert_string_equal(text, "requests for rank 1 are not completed");
}

static void test_a_cycle_of_all_ranks_is_found_in_order(void **state)
{
	struct scene s;
	unsigned i;

	(void)state;
	scene_open(&s);
	for (i = 0; i < RANKS; i++)
		wait_for(&s, i, ORIEL_DEV_RECV, (i + 3) % RANKS, 1);
	assert_int_equal(ori_hang_judge(&s.comm), ORIEL_OK);
	assert_int_equal(s.comm.cycle_length, RANKS);
	for (i = 0; i < RANKS; i++)
		assert_int_equal(s.cycle[(i + 1) % RANKS], (s.cycle[i] + 3) % RANKS);
}

static void test_texts_name_the_operation(void **state)
{
	struct scene s;
	char text[256];

	(void)state;
	scene_open(&s);
	wait_for(&s, 0, ORIEL_DEV_WAIT_SIGNAL_FROM, 1, 5);
	s.waits[0].note.id = 7;
	s.waits[0].note.seen = 4;
	s.waits[0].note.compare = ORIEL_GE;
	ori_hang_wait_text(&s.waits[0], text, sizeof(text));
	assert_string_equal(text, "wait_signal_from: window 1, signal 7: expected >= 5, seen 4");
	s.waits[0].note.what = ORIEL_DEV_EXCHANGE;
	s.waits[0].note.window = 0;
	s.waits[0].note.id = 3;
	ori_hang_wait_text(&s.waits[0], text, sizeof(text));
	assert_string_equal(text, "oriel_comm_barrier");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_ranks_that_wait_for_each_other_are_a_cycle),
		cmocka_unit_test(test_a_chain_has_a_root_and_no_cycle),
		cmocka_unit_test(test_ranks_of_a_collective_wait_for_those_that_have_not_arrived),
		cmocka_unit_test(test_waits_for_any_rank_are_no_cycle),
		cmocka_unit_test(test_a_wait_for_a_nic_is_for_no_rank),
		cmocka_unit_test(test_a_cycle_of_all_ranks_is_found_in_order),
		cmocka_unit_test(test_texts_name_the_operation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
