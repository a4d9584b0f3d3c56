/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the flat handle (window_device.c): the layout of a control segment, the texts of records
 * and the inline peers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev.h>

#include "window/window.h"

static struct oriel_dev_window make_device(uint32_t ranks, uint32_t count)
{
	struct oriel_dev_window d = {.ranks = ranks,
				     .signals = count,
				     .barriers = count,
				     .counters = count,
				     .channels = count,
				     .channel_bytes = count ? 4096 : 0,
				     .buffers = 1};

	return d;
}

/* Marks [at, at + length) and fails if any of it is marked already. */
static void mark(char *segment, uint64_t total, uint64_t at, uint64_t length)
{
	uint64_t i;

	assert_true(at + length <= total);
	for (i = at; i < at + length; i++) {
		assert_int_equal(segment[i], 0);
		segment[i] = 1;
	}
}

static uint64_t offset_of(const char *segment, const void *word)
{
	return (uint64_t)((const char *)word - segment);
}

static void check_layout(uint32_t ranks, uint32_t count)
{
	struct oriel_dev_window d = make_device(ranks, count);
	uint64_t total = ori_window_layout(&d);
	char *segment = calloc(1, total + 1);
	uint32_t rank, id;

	assert_non_null(segment);
	d.control = segment;
	for (rank = 0; rank < ranks; rank++) {
		for (id = 0; id < count; id++) {
			void *arrival =
				ori_dev_mapped_arrival(&d, segment, d.arrivals_at, rank, id);
			void *pair = ori_dev_mapped_arrival(&d, segment, d.pairs_at, rank, id);

			mark(segment, total, offset_of(segment, ori_dev_mapped_inbox(&d, rank, id)),
			     8);
			mark(segment, total, offset_of(segment, arrival), 8);
			mark(segment, total, offset_of(segment, pair), 8);
			mark(segment, total,
			     offset_of(segment, ori_dev_mapped_channel(&d, segment, rank, id)),
			     sizeof(struct oriel_dev_channel));
			mark(segment, total,
			     offset_of(segment, ori_dev_mapped_staging(&d, segment, rank, id)),
			     4096);
		}
	}
	for (id = 0; id < count; id++)
		mark(segment, total, offset_of(segment, ori_dev_mapped_flat(&d, segment, id)), 128);
	free(segment);
}

static void test_the_parts_of_a_control_segment_do_not_overlap(void **state)
{
	(void)state;
	check_layout(1, 1);
	check_layout(2, 3);
	check_layout(3, 17);
	check_layout(5, 2);
}

static void test_the_rows_of_two_ranks_share_no_line(void **state)
{
	struct oriel_dev_window d = make_device(4, 3);

	(void)state;
	ori_window_layout(&d);
	assert_int_equal(d.signal_stride % ORIEL_DEV_LINE, 0);
	assert_int_equal(d.barrier_stride % ORIEL_DEV_LINE, 0);
	assert_true(d.signal_stride >= ORIEL_DEV_LINE);
}

static void test_a_window_may_have_zero_of_each_object(void **state)
{
	struct oriel_dev_window d = make_device(4, 0);

	(void)state;
	assert_int_equal(ori_window_layout(&d), 4096);
}

static void expect_text(struct oriel_dev_fault fault, const char *expected)
{
	struct oriel_dev_window d = make_device(4, 64);
	char text[192];

	ori_window_fault_text(&d, &fault, text, sizeof(text));
	assert_string_equal(text, expected);
}

static void test_a_text_of_a_query_names_the_number(void **state)
{
	struct oriel_dev_fault fault = {.status = ORIEL_ERR_RANGE,
					.what = ORIEL_DEV_DOMAIN_RANK,
					.peer = ORIEL_DEV_NO_RANK,
					.id = 2,
					.expected = 2,
					.seen = 2};

	(void)state;
	expect_text(fault, "domain_rank: index 2 of 2");
	fault.what = ORIEL_DEV_PEER_RANK;
	expect_text(fault, "peer_rank: index 2 of 2");
	fault.what = ORIEL_DEV_DOMAIN_FIND;
	fault.peer = 4;
	fault.expected = 4;
	fault.seen = 4;
	expect_text(fault, "domain_find: rank 4 of 4");
	fault.what = ORIEL_DEV_PEER_INDEX;
	expect_text(fault, "peer_index: rank 4 of 4");
	fault.status = ORIEL_ERR_INVALID;
	fault.peer = 1;
	expect_text(fault, "peer_index: rank 1 is the rank itself");
}

static void test_a_text_names_the_operation_and_the_rank(void **state)
{
	struct oriel_dev_fault fault = {.status = ORIEL_ERR_RANGE, .what = ORIEL_DEV_PUT};

	(void)state;
	fault.peer = 9;
	fault.expected = 4;
	fault.seen = 9;
	expect_text(fault, "put: rank 9 of 4");
	fault.peer = 2;
	fault.expected = 4096;
	fault.seen = 5000;
	expect_text(fault,
		    "put: the end, byte 5000, is beyond the 4096 bytes of buffer 0 of rank 2");
	fault.id = 7;
	fault.expected = 1;
	fault.seen = oriel_at(7, 8);
	expect_text(fault, "put: offset 0x7000000000008 of rank 2 is in buffer 7 (oriel_at()), the "
			   "window has 1");
	fault.seen = (uint64_t)-8;
	expect_text(fault, "put: offset -8 of rank 2 is negative");
	fault.seen = oriel_at(70000, 0);
	expect_text(fault, "put: offset -1 of rank 2 is negative, or oriel_at() got too large a "
			   "number");
	fault.id = 0;
	fault.status = ORIEL_ERR_INVALID;
	fault.what = ORIEL_DEV_COMPARE_SWAP;
	fault.expected = 4;
	fault.seen = 10;
	expect_text(fault,
		    "compare_swap: the word at offset 10 of buffer 0 is not aligned to 4 bytes");
	fault.seen = 12;
	expect_text(fault,
		    "compare_swap: the word at offset 12 of buffer 0 is not aligned: the buffer "
		    "does not begin at a multiple of 8");
	fault.status = ORIEL_ERR_RANGE;
	fault.seen = 7;
	fault.what = ORIEL_DEV_SIGNAL;
	fault.expected = 64;
	fault.seen = 70;
	expect_text(fault, "signal: signal 70 of 64");
	fault.what = ORIEL_DEV_BARRIER;
	fault.peer = ORIEL_DEV_NO_RANK;
	expect_text(fault, "barrier: barrier slot 70 of 64");
	fault.what = ORIEL_DEV_SEND;
	fault.status = ORIEL_ERR_INVALID;
	fault.peer = 1;
	expect_text(fault, "send: rank 1 is the rank itself");
	fault.status = ORIEL_ERR_RANGE;
	fault.id = 64;
	fault.expected = 64;
	fault.seen = 64;
	expect_text(fault, "send: channel 64 of 64");
	fault.id = 7;
	fault.expected = 512;
	fault.seen = 513;
	expect_text(fault, "send: a message of 513 bytes, channel 7 with rank 1 takes 512 at most");
	fault.what = ORIEL_DEV_RECV;
	fault.status = ORIEL_ERR_STATE;
	fault.expected = ORIEL_DEV_FORM_LL128;
	fault.seen = ORIEL_DEV_FORM_STREAM;
	expect_text(fault, "recv: channel 7 with rank 1 carries a stream, not messages of LL128");
	fault.expected = ORIEL_DEV_FORM_STREAM;
	fault.seen = ORIEL_DEV_FORM_LL;
	expect_text(fault, "recv: channel 7 with rank 1 carries messages of LL, not a stream");
	fault.what = ORIEL_DEV_PUT;
	expect_text(fault, "put: buffer 7 of rank 1 is not shared");
}

static void expect_inline(uint32_t ranks, uint32_t first, uint32_t count)
{
	struct oriel_dev_window d = make_device(ranks, 1);
	struct oriel_dev_buffer table[20] = {{0}};
	struct oriel_dev_peer peers[20] = {{0}};
	static uint64_t words[20];
	char memory[20];
	uint32_t i;

	d.rank = first;
	ori_window_layout(&d);
	for (i = 0; i < ranks; i++) {
		peers[i].control = (char *)&words[i];
		peers[i].path = i % 4;
		table[i].base = memory + i;
		table[i].length = 100 + i;
	}
	ori_window_fill_inline(&d, first, peers, table);
	for (i = 0; i < ORIEL_DEV_INLINE_PEERS; i++) {
		const struct oriel_dev_inline_peer *entry =
			&d.inline_peers[(first + i) % ORIEL_DEV_INLINE_PEERS];
		bool is_there = i < count;

		assert_ptr_equal(entry->control, is_there ? &words[first + i] : NULL);
		assert_ptr_equal(entry->signals,
				 is_there ? entry->control + d.rank * d.signal_stride : NULL);
		assert_ptr_equal(entry->base, is_there ? memory + first + i : NULL);
		assert_int_equal(entry->length, is_there ? 100 + first + i : 0);
		assert_int_equal(entry->mark, is_there ? ORIEL_DEV_MARK + (first + i) % 4 : 0);
		assert_int_equal(entry->rank, is_there ? first + i : 0);
	}
}

static void test_inline_peers_are_as_in_the_tables(void **state)
{
	(void)state;
	expect_inline(1, 0, 1);
	expect_inline(4, 2, 2);
	expect_inline(8, 0, 8);
	expect_inline(20, 0, 8);
	expect_inline(20, 8, 8);
	expect_inline(20, 13, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_parts_of_a_control_segment_do_not_overlap),
		cmocka_unit_test(test_the_rows_of_two_ranks_share_no_line),
		cmocka_unit_test(test_a_window_may_have_zero_of_each_object),
		cmocka_unit_test(test_a_text_of_a_query_names_the_number),
		cmocka_unit_test(test_a_text_names_the_operation_and_the_rank),
		cmocka_unit_test(test_inline_peers_are_as_in_the_tables),
	};

	return cmocka_run_group_tests_name("window_device", tests, NULL, NULL);
}
