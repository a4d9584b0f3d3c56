/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of windows in streams. gpu_window calls its tests. */
#include "window_tests.h"

/* Invalid arguments are rejected before an operation is posted. */
static void test_stream_mistakes(struct rank *r, CUstream s)
{
	struct oriel_window *w = r->window;
	unsigned other = (r->rank + 1) % r->size;
	char pageable[64] = "";

	CHECK_FAILS(r, oriel_window_put_on_stream(w, r->size, 0, pageable, 8, s), ORIEL_ERR_RANGE,
		    "put: rank ");
	CHECK_FAILS(r, oriel_window_put_on_stream(w, 0, LENGTH - 7, pageable, 8, s),
		    ORIEL_ERR_RANGE,
		    "put: the end, byte 65537, is beyond the 65536 bytes of buffer 0 of rank 0");
	CHECK_FAILS(r, oriel_window_get_on_stream(w, 0, LENGTH, pageable, UINT64_MAX, s),
		    ORIEL_ERR_RANGE, "get: the end");
	CHECK_FAILS(r, oriel_window_put_on_stream(w, 0, oriel_at(8, 0), pageable, 8, s),
		    ORIEL_ERR_RANGE,
		    "put: offset 0x8000000000000 of rank 0 is in buffer 8 (oriel_at()), the "
		    "window has 8");
	CHECK_FAILS(r, oriel_window_put_on_stream(w, 0, oriel_at(7, 0), pageable, 0, s),
		    ORIEL_ERR_STATE, "put: buffer 7 of rank 0 is not shared");
	CHECK_FAILS(r, oriel_window_put_value_on_stream(w, 0, 12, 1, s), ORIEL_ERR_INVALID,
		    "put_value: the word at offset 12 of buffer 0 is not aligned");
	CHECK_FAILS(r, oriel_window_put_signal_on_stream(w, 0, 0, pageable, 8, 64, 1, s),
		    ORIEL_ERR_RANGE, "signal: signal 64 of 64");
	CHECK_FAILS(r, oriel_window_signal_on_stream(w, 0, 0, (enum oriel_signal_op)2, 1, s),
		    ORIEL_ERR_INVALID, "no comparison or operation 2");
	CHECK_FAILS(r, oriel_window_wait_signal_on_stream(w, 0, (enum oriel_compare)6, 1, 0, s),
		    ORIEL_ERR_INVALID, "no comparison or operation 6");
	CHECK_FAILS(r, oriel_window_wait_signal_next_on_stream(w, r->size, 0, 1, 0, s),
		    ORIEL_ERR_RANGE, "wait_signal_next: rank ");
	CHECK_FAILS(r, oriel_window_barrier_on_stream(w, 16, 0, s), ORIEL_ERR_RANGE,
		    "barrier: barrier slot 16 of 16");
	CHECK_FAILS(r, oriel_window_barrier_arrive_on_stream(w, 16, s), ORIEL_ERR_RANGE,
		    "barrier: barrier slot 16 of 16");
	CHECK_FAILS(r, oriel_window_barrier_wait_on_stream(w, 16, 0, s), ORIEL_ERR_RANGE,
		    "barrier: barrier slot 16 of 16");
	CHECK_FAILS(r, oriel_window_barrier_peer_on_stream(w, r->rank, 0, 0, s), ORIEL_ERR_INVALID,
		    "is the rank itself");
	CHECK_FAILS(r, oriel_window_barrier_peer_arrive_on_stream(w, r->size, 0, s),
		    ORIEL_ERR_RANGE, "barrier_peer: rank ");
	CHECK_FAILS(r, oriel_window_send_on_stream(w, r->rank, 0, pageable, 8, 0, s),
		    ORIEL_ERR_INVALID, "is the rank itself");
	CHECK_FAILS(r,
		    oriel_window_fetch_add_on_stream(w, 0, 0, 1, (uint64_t *)(void *)pageable, s),
		    ORIEL_ERR_INVALID, "not pinned");
	CHECK_FAILS(r, oriel_window_fetch_add_on_stream(w, 0, LENGTH, 1, NULL, s), ORIEL_ERR_RANGE,
		    "fetch_add: the end");
	CHECK_FAILS(r, oriel_window_read_signal_on_stream(w, 0, NULL, s), ORIEL_ERR_INVALID,
		    "no aligned word");
	CHECK_FAILS(r, oriel_window_read_signal_on_stream(w, 64, NULL, s), ORIEL_ERR_RANGE,
		    "wait_signal: signal 64 of 64");
	CHECK_FAILS(r, oriel_window_read_signal_from_on_stream(w, r->size, 0, NULL, s),
		    ORIEL_ERR_RANGE, "rank ");
	CHECK_FAILS(r, oriel_window_put_counter_on_stream(w, 0, 0, pageable, 8, 16, s),
		    ORIEL_ERR_RANGE, "counter: counter 16 of 16");
	CHECK_FAILS(r, oriel_window_put_counter_on_stream(w, 0, LENGTH, pageable, 8, 0, s),
		    ORIEL_ERR_RANGE, "put: the end");
	CHECK_FAILS(r, oriel_window_put_signal_counter_on_stream(w, 0, 0, pageable, 8, 64, 1, 0, s),
		    ORIEL_ERR_RANGE, "signal: signal 64 of 64");
	CHECK_FAILS(r, oriel_window_signal_counter_on_stream(w, r->size, 0, 1, 0, s),
		    ORIEL_ERR_RANGE, "counter: rank ");
	CHECK_FAILS(r, oriel_window_wait_counter_on_stream(w, 0, 0, (enum oriel_compare)6, 1, 0, s),
		    ORIEL_ERR_INVALID, "no comparison or operation 6");
	CHECK_FAILS(r, oriel_window_read_counter_on_stream(w, 0, 99, NULL, s), ORIEL_ERR_RANGE,
		    "counter: counter 99 of 16");
	CHECK_FAILS(r, oriel_window_reset_counter_on_stream(w, 0, 99, s), ORIEL_ERR_RANGE,
		    "counter: counter 99 of 16");
	CHECK_FAILS(r, oriel_window_drain(w, 0), ORIEL_ERR_INVALID,
		    "oriel_window_drain_on_stream()");
	if (r->size == 1)
		return;
	CHECK_FAILS(r, oriel_window_barrier_peer_wait_on_stream(w, other, 16, 0, s),
		    ORIEL_ERR_RANGE, "barrier_peer: barrier slot 16 of 16");
	CHECK_FAILS(r, oriel_window_send_on_stream(w, other, 16, pageable, 8, 0, s),
		    ORIEL_ERR_RANGE, "send: channel 16 of 16");
	CHECK_FAILS(r, oriel_window_recv_on_stream(w, other, 0, pageable, 8, 0, s),
		    ORIEL_ERR_INVALID, "not pinned");
}

static void stream_round(struct rank *r, CUstream s, uint64_t *memory, unsigned round)
{
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	const uint64_t *mine = oriel_dev_address(&r->dev, r->rank, 0);
	struct oriel_window *w = r->window;

	memory[0] = r->rank * 1000u + round;
	memory[1] = round;
	CHECK_OK(r, oriel_window_put_on_stream(w, next, 1000 * 8, memory, 8, s));
	CHECK_OK(r, oriel_window_put_signal_on_stream(w, next, 1001 * 8, memory + 1, 8, 4, 1, s));
	CHECK_OK(r, oriel_window_wait_signal_next_on_stream(w, before, 4, 1, 0, s));
	CHECK(r, mine[1000] == before * 1000u + round && mine[1001] == round);
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
	CHECK(r, r->dev.slots[3].epoch == 2 * round);
	CHECK_OK(r, oriel_window_get_on_stream(w, next, 1000 * 8, memory + 2, 8, s));
	CHECK(r, memory[2] == memory[0]);
	CHECK_OK(r, oriel_window_put_value_on_stream(w, next, 1002 * 8, round, s));
	CHECK_OK(r, oriel_window_signal_on_stream(w, next, 5, ORIEL_SIGNAL_SET, round, s));
	CHECK_OK(r, oriel_window_wait_signal_from_on_stream(w, before, 5, ORIEL_GE, round, 0, s));
	CHECK(r, mine[1002] == round);
	CHECK_OK(r, oriel_window_signal_all_on_stream(w, 6, ORIEL_SIGNAL_ADD, 1, s));
	CHECK_OK(r, oriel_window_wait_signal_on_stream(w, 6, ORIEL_GE,
						       (uint64_t)round * (r->size - 1), 0, s));
	CHECK_OK(r, oriel_window_barrier_arrive_on_stream(w, 3, s));
	CHECK_OK(r, oriel_window_barrier_wait_on_stream(w, 3, 0, s));
	if (r->size == 1)
		return;
	CHECK_OK(r, oriel_window_send_on_stream(w, next, 2, memory, 8, 0, s));
	CHECK_OK(r, oriel_window_recv_on_stream(w, before, 2, memory + 3, 8, 0, s));
	CHECK(r, memory[3] == before * 1000u + round);
	CHECK_OK(r, oriel_window_put_value_on_stream(w, next, 1003 * 8, round, s));
	CHECK_OK(r, oriel_window_barrier_peer_arrive_on_stream(w, next, 3, s));
	if (before != next)
		CHECK_OK(r, oriel_window_barrier_peer_arrive_on_stream(w, before, 3, s));
	CHECK_OK(r, oriel_window_barrier_peer_wait_on_stream(w, before, 3, 0, s));
	CHECK(r, mine[1003] == round || mine[1003] == round + 1);
	CHECK_OK(r, before != next ? oriel_window_barrier_peer_wait_on_stream(w, next, 3, 0, s)
				   : oriel_window_barrier_peer_on_stream(w, next, 4, 0, s));
}

static void expect_posted(struct rank *r, unsigned peer, unsigned copies, unsigned kernels)
{
	struct fakecuda_posted posted = fakecuda_posted();

	/* Copy engines do not copy to a peer that is not mapped. */
	if (is_remote(r, peer)) {
		kernels += copies && !kernels ? copies : 0;
		copies = 0;
	}

	CHECK(r, posted.copies == copies && posted.kernels == kernels);
}

/* Every atomic, in both sizes; the words of @next are this rank's alone. */
static void test_stream_atomics(struct rank *r, unsigned next, CUstream s, uint64_t *memory)
{
	uint32_t *half = (uint32_t *)(void *)memory;
	struct oriel_window *w = r->window;
	uint64_t at = 2003 * 8;

	CHECK_OK(r, oriel_window_set_on_stream(w, next, at, UINT64_C(0xf0f0f0f0f0), s));
	CHECK_OK(r,
		 oriel_window_fetch_and_on_stream(w, next, at, UINT64_C(0xff00ffff00), memory, s));
	CHECK(r, memory[0] == UINT64_C(0xf0f0f0f0f0));
	CHECK_OK(r, oriel_window_fetch_or_on_stream(w, next, at, 0xf, memory, s));
	CHECK(r, memory[0] == UINT64_C(0xf000f0f000));
	CHECK_OK(r, oriel_window_fetch_xor_on_stream(w, next, at, 0xff, memory, s));
	CHECK(r, memory[0] == UINT64_C(0xf000f0f00f));
	CHECK_OK(r, oriel_window_swap_on_stream(w, next, at, 5, memory, s));
	CHECK(r, memory[0] == UINT64_C(0xf000f0f0f0));
	CHECK_OK(r, oriel_window_compare_swap_on_stream(w, next, at, 4, 9, memory, s));
	CHECK(r, memory[0] == 5);
	CHECK_OK(r, oriel_window_compare_swap_on_stream(w, next, at, 5, 0, memory, s));
	CHECK_OK(r, oriel_window_fetch_on_stream(w, next, at, memory, s));
	CHECK(r, memory[0] == 0);

	memory[0] = memory[1] = UINT64_MAX;
	CHECK_OK(r, oriel_window_set_32_on_stream(w, next, at + 4, 0xf0f0, s));
	CHECK_OK(r, oriel_window_fetch_add_32_on_stream(w, next, at, UINT32_MAX, half, s));
	CHECK(r, half[0] == 0 && half[1] == UINT32_MAX);
	CHECK_OK(r, oriel_window_fetch_add_32_on_stream(w, next, at, 2, half + 1, s));
	CHECK(r, half[1] == UINT32_MAX && half[2] == UINT32_MAX);
	CHECK_OK(r, oriel_window_fetch_and_32_on_stream(w, next, at + 4, 0xff00, half, s));
	CHECK(r, half[0] == 0xf0f0);
	CHECK_OK(r, oriel_window_fetch_or_32_on_stream(w, next, at + 4, 1, half, s));
	CHECK(r, half[0] == 0xf000);
	CHECK_OK(r, oriel_window_fetch_xor_32_on_stream(w, next, at + 4, 3, half, s));
	CHECK(r, half[0] == 0xf001);
	CHECK_OK(r, oriel_window_swap_32_on_stream(w, next, at + 4, 7, half, s));
	CHECK(r, half[0] == 0xf002);
	CHECK_OK(r, oriel_window_compare_swap_32_on_stream(w, next, at + 4, 7, 8, half, s));
	CHECK(r, half[0] == 7);
	CHECK_OK(r, oriel_window_fetch_32_on_stream(w, next, at + 4, half, s));
	CHECK(r, half[0] == 8);
	CHECK_OK(r, oriel_window_fetch_on_stream(w, next, at, memory, s));
	CHECK(r, memory[0] == ((uint64_t)8 << 32 | 1));
	CHECK_OK(r, oriel_window_set_on_stream(w, next, at, 0, s));
	CHECK_FAILS(r, oriel_window_swap_on_stream(w, next, at + 4, 1, memory, s),
		    ORIEL_ERR_INVALID, "swap: the word at offset");
	CHECK_FAILS(r,
		    oriel_window_swap_32_on_stream(w, next, at, 1,
						   (uint32_t *)(void *)((char *)memory + 2), s),
		    ORIEL_ERR_INVALID, "no aligned word of 4 bytes");
}

/* An operation that returns a number writes it to memory that the host reads. */
static void test_stream_results(struct rank *r, CUstream s, uint64_t *memory)
{
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	struct oriel_window *w = r->window;
	unsigned i;

	CHECK_OK(r, oriel_window_put_value_on_stream(w, r->rank, 2000 * 8, 100, s));
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
	CHECK_OK(r, oriel_window_fetch_add_on_stream(w, next, 2000 * 8, 7, memory, s));
	CHECK(r, memory[0] == 100);
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
	CHECK_OK(r, oriel_window_get_on_stream(w, r->rank, 2000 * 8, memory, 8, s));
	CHECK(r, memory[0] == 107);
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
	test_stream_atomics(r, next, s, memory);
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
	for (i = 0; i < r->size; i++)
		CHECK_OK(r,
			 oriel_window_signal_on_stream(w, i, 7, ORIEL_SIGNAL_ADD, 5 + r->rank, s));
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
	CHECK_OK(r, oriel_window_read_signal_on_stream(w, 7, memory + 1, s));
	CHECK(r, memory[1] == 5 * r->size + r->size * (r->size - 1) / 2);
	CHECK_OK(r, oriel_window_read_signal_from_on_stream(w, before, 7, memory + 2, s));
	CHECK(r, memory[2] == 5 + before);
	CHECK_OK(r, oriel_window_drain_on_stream(w, 0, s));
	CHECK_OK(r, oriel_window_flush_on_stream(w, LONG_NS, s));
}

static void test_stream_counters(struct rank *r, CUstream s, uint64_t *memory)
{
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	const uint64_t *mine = oriel_dev_address(&r->dev, r->rank, 0);
	struct oriel_window *w = r->window;
	unsigned i;

	memory[0] = r->rank + 50;
	CHECK_OK(r, oriel_window_put_counter_on_stream(w, next, 2001 * 8, memory, 8, 5, s));
	CHECK_OK(r, oriel_window_wait_counter_on_stream(w, next, 5, ORIEL_EQ, 1, 0, s));
	CHECK_OK(r, oriel_window_put_signal_counter_on_stream(w, next, 2002 * 8, memory, 8, 8, 3, 5,
							      s));
	CHECK_OK(r, oriel_window_signal_counter_on_stream(w, next, 8, 4, 5, s));
	CHECK_OK(r, oriel_window_wait_counter_on_stream(w, next, 5, ORIEL_GE, 3, 0, s));
	CHECK_OK(r, oriel_window_wait_signal_from_on_stream(w, before, 8, ORIEL_EQ, 7, 0, s));
	CHECK(r, mine[2001] == before + 50 && mine[2002] == before + 50);
	CHECK_OK(r, oriel_window_read_counter_on_stream(w, next, 5, memory + 1, s));
	CHECK(r, memory[1] == 3);
	CHECK_OK(r, oriel_window_reset_counter_on_stream(w, next, 5, s));
	CHECK_OK(r, oriel_window_read_counter_on_stream(w, next, 5, memory + 1, s));
	CHECK(r, memory[1] == 0);
	for (i = 0; i < 8; i++) {
		CHECK_OK(r, oriel_window_put_counter_on_stream(w, next, 2003 * 8, memory, 8, 5, s));
		CHECK_OK(r, oriel_window_signal_counter_on_stream(w, next, 40, 1, 5, s));
		CHECK_OK(r, i % 2 ? oriel_window_drain_on_stream(w, 0, s)
				  : oriel_window_flush_on_stream(w, 0, s));
		CHECK_OK(r, oriel_window_read_counter_on_stream(w, next, 5, memory + 1, s));
		CHECK(r, memory[1] == 2);
		CHECK_OK(r, oriel_window_reset_counter_on_stream(w, next, 5, s));
	}
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
}

/* Some operations are one kernel, others a copy by an engine and a kernel behind it. */
static void test_stream_choice(struct rank *r, CUstream s, char *memory)
{
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	const char *mine = oriel_dev_address(&r->dev, r->rank, 20000);
	struct oriel_window *w = r->window;
	static const uint32_t lengths[] = {1, 4096, 40000};
	char pageable[64];
	size_t i;

	memset(pageable, (int)r->rank + 1, sizeof(pageable));
	/* A NIC registers this memory at its first use. */
	CHECK_OK(r, oriel_window_put_on_stream(w, next, 20000, memory, 64, s));
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memset(memory, (int)(r->rank + 10 + i), lengths[i]);
		fakecuda_posted();
		CHECK_OK(r, oriel_window_put_signal_on_stream(w, next, 20000, memory, lengths[i], 9,
							      1, s));
		expect_posted(r, next, 0, 1);
		CHECK_OK(r, oriel_window_wait_signal_next_on_stream(w, before, 9, 1, 0, s));
		CHECK(r, mine[0] == (char)(before + 10 + i) &&
				 mine[lengths[i] - 1] == (char)(before + 10 + i));
		CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
	}
	fakecuda_posted();
	CHECK_OK(r, oriel_window_put_signal_on_stream(w, next, 20000, pageable, 64, 9, 1, s));
	expect_posted(r, next, 1, 1);
	CHECK_OK(r, oriel_window_wait_signal_next_on_stream(w, before, 9, 1, 0, s));
	CHECK(r, mine[63] == (char)(before + 1));
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
	fakecuda_posted();
	CHECK_OK(r, oriel_window_put_signal_on_stream(w, next, LENGTH, NULL, 0, 9, 1, s));
	expect_posted(r, next, 0, 1);
	CHECK_OK(r, oriel_window_put_counter_on_stream(w, next, 20000, pageable, 64, 6, s));
	expect_posted(r, next, 1, 1);
	CHECK_OK(r, oriel_window_wait_counter_on_stream(w, next, 6, ORIEL_EQ, 1, 0, s));
	CHECK_OK(r, oriel_window_wait_signal_next_on_stream(w, before, 9, 1, 0, s));
	CHECK_OK(r, oriel_window_reset_counter_on_stream(w, next, 6, s));
	fakecuda_posted();
	CHECK_OK(r, oriel_window_put_on_stream(w, next, 20000, memory, 64, s));
	CHECK_OK(r, oriel_window_get_on_stream(w, next, 20000, memory, 64, s));
	CHECK_OK(r, oriel_window_get_on_stream(w, next, 20000, memory, 0, s));
	expect_posted(r, next, 2, 0);
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
}

/* A copy too large for a kernel; a window of its own has room for it. */
static void test_stream_large(struct rank *r, CUstream s)
{
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .length = 600000,
					       .flags = ORIEL_WINDOW_DEVICE,
					       .channels = 16};
	struct oriel_region *region = NULL;
	struct oriel_window *w = NULL;
	struct oriel_dev_window dev;
	CUdeviceptr memory = 0;
	const char *mine;

	CHECK_OK(r, oriel_window_create(r->comm, &attr, &w));
	CHECK_OK(r, oriel_window_device(w, &dev));
	CHECK(r, cuMemAlloc(&memory, 600000) == CUDA_SUCCESS);
	memset((void *)memory, (int)r->rank + 1, 600000);
	/* From here on NICs have it registered, too. */
	CHECK_OK(r, oriel_region_register(r->comm, (void *)memory, 600000, &region));
	mine = oriel_dev_address(&dev, r->rank, 0);
	fakecuda_posted();
	CHECK_OK(r, oriel_window_put_signal_counter_on_stream(w, (r->rank + 1) % r->size, 0,
							      (void *)memory, 600000, 0, 1, 0, s));
	expect_posted(r, (r->rank + 1) % r->size, 1, 1);
	CHECK_OK(r, oriel_window_wait_signal_on_stream(w, 0, ORIEL_EQ, 1, 0, s));
	CHECK(r,
	      mine[0] == (char)((r->rank + r->size - 1) % r->size + 1) && mine[599999] == mine[0]);
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 0, 0, s));
	oriel_region_unregister(region);
	CHECK(r, cuMemFree(memory) == CUDA_SUCCESS);
	oriel_window_destroy(w);
}

/* Each rank writes to its own part of every rank of its domain, of short and of long messages. */
static void test_stream_domain(struct rank *r, CUstream s, char *memory)
{
	static const size_t lengths[] = {64, 9000};
	const char *mine = oriel_dev_address(&r->dev, r->rank, 0);
	struct oriel_window *w = r->window;
	void *table[4] = {NULL};
	unsigned form, peer, others = 0;
	size_t length;

	for (peer = 0; peer < r->size; peer++)
		others += is_remote(r, peer);
	for (form = 0; form < 6; form++) {
		length = lengths[form / 3];
		memset(oriel_dev_address(&r->dev, r->rank, 0), 0, r->size * length);
		CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
		for (peer = 0; peer < r->size; peer++) {
			memset(memory + peer * length, (int)(1 + 10 * form + r->rank + peer),
			       length);
			if (!is_remote(r, peer))
				CHECK_OK(r, oriel_window_peer_address(w, peer, r->rank * length,
								      &table[peer]));
		}
		if (form % 3 == 0)
			CHECK_OK(r, oriel_window_put_all_domain_on_stream(w, r->rank * length,
									  memory, length, s));
		else if (form % 3 == 1)
			CHECK_OK(r,
				 oriel_window_put_each_domain_on_stream(w, r->rank * length, memory,
									length, length, s));
		else
			CHECK_OK(r, oriel_window_put_table_on_stream(w, table, memory, length,
								     length, s));
		CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
		for (peer = 0; peer < r->size; peer++) {
			unsigned expected = 1 + 10 * form + peer + (form % 3 ? r->rank : 0);

			if (is_remote(r, peer))
				expected = 0;
			CHECK(r, mine[peer * length] == (char)expected &&
					 mine[(peer + 1) * length - 1] == (char)expected);
		}
		CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, s));
	}
	if (others)
		CHECK_FAILS(r, oriel_window_put_all_on_stream(w, 0, memory, 64, s),
			    ORIEL_ERR_UNSUPPORTED, "the forms for the domain leave it out");
	CHECK_FAILS(r, oriel_window_put_all_domain_on_stream(w, LENGTH, memory, 64, s),
		    ORIEL_ERR_RANGE, "put: the end");
}

/* NULL is the default stream, in which no kernel is launched early and no batch is copied. */
static void test_stream_default(struct rank *r, char *memory)
{
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size, peer;
	const uint64_t *mine = oriel_dev_address(&r->dev, r->rank, 0);
	struct oriel_window *w = r->window;
	struct fakecuda_posted posted;

	memset(memory, (int)r->rank + 1, 64);
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, NULL));
	fakecuda_posted();
	CHECK_OK(r, oriel_window_put_value_on_stream(w, next, 3000 * 8, 7 + r->rank, NULL));
	CHECK_OK(r, oriel_window_put_all_domain_on_stream(w, r->rank * 64, memory, 64, NULL));
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, NULL));
	posted = fakecuda_posted();
	CHECK(r, posted.kernels == 2 && posted.early == 0 && posted.batches == 0);
	CHECK(r, posted.copies > 0 && mine[3000] == 7 + before);
	for (peer = 0; peer < r->size; peer++)
		CHECK(r,
		      is_remote(r, peer) || *((const char *)mine + peer * 64) == (char)(peer + 1));
	CHECK_OK(r, oriel_window_barrier_on_stream(w, 3, 0, NULL));
}

void test_streams(struct rank *r)
{
	CUdeviceptr memory = 0;
	uint64_t value = 1;
	CUstream stream;
	unsigned round;

	CHECK(r, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	CHECK(r, cuMemAlloc(&memory, 65536) == CUDA_SUCCESS);
	if (oriel_window_barrier_on_stream(r->window, 3, 0, stream) != ORIEL_ERR_UNSUPPORTED) {
		test_stream_mistakes(r, stream);
		for (round = 1; round <= 20; round++)
			stream_round(r, stream, (uint64_t *)memory, round);
		test_stream_results(r, stream, (uint64_t *)memory);
		test_stream_counters(r, stream, (uint64_t *)memory);
		test_stream_choice(r, stream, (char *)memory);
		test_stream_large(r, stream);
		test_stream_domain(r, stream, (char *)memory);
		test_stream_default(r, (char *)memory);
		CHECK_OK(r, oriel_window_reset_signals_on_stream(r->window, stream));
		CHECK_OK(r, oriel_dev_read_signal(&r->dev, 4, &value));
		CHECK(r, value == 0 && r->dev.signal_bases[4] == 0);
		CHECK_OK(r, oriel_window_barrier_on_stream(r->window, 3, 0, stream));
	}
	CHECK(r, cuMemFree(memory) == CUDA_SUCCESS && cuStreamDestroy(stream) == CUDA_SUCCESS);
}

/* The caller's own timeout passes in a stream: only the next call can report it. */
void test_stream_timeout(struct rank *r)
{
	CUstream stream;

	rank_open(r, LONG_NS);
	CHECK(r, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	if (oriel_window_barrier_on_stream(r->window, 3, 0, stream) != ORIEL_ERR_UNSUPPORTED) {
		CHECK_OK(r, oriel_window_wait_signal_from_on_stream(r->window, r->rank, 9, ORIEL_GE,
								    1, 50000000, stream));
		CHECK_FAILS(r,
			    oriel_window_signal_on_stream(r->window, 0, 0, ORIEL_SIGNAL_ADD, 1,
							  stream),
			    ORIEL_ERR_TIMEOUT, "wait_signal_from");
	}
	CHECK(r, cuStreamDestroy(stream) == CUDA_SUCCESS);
	rank_close(r);
}

/*
 * Rank 0 enters after the others have signalled, which they do while their arrival is in flight,
 * so that no rank needs the timeout that breaks the communicator. Then each rank times out at a
 * slot of its own.
 */
void test_stream_barrier_limit(struct rank *r)
{
	CUstream stream;

	rank_open(r, LONG_NS);
	CHECK(r, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	if (oriel_window_barrier_on_stream(r->window, 3, 0, stream) != ORIEL_ERR_UNSUPPORTED) {
		if (r->rank == 0) {
			CHECK_OK(r, oriel_window_wait_signal_on_stream(r->window, 9, ORIEL_GE,
								       r->size - 1, 0, stream));
			CHECK_OK(r, oriel_window_barrier_on_stream(r->window, 4, 0, stream));
		} else {
			CHECK_OK(r, oriel_window_barrier_arrive_on_stream(r->window, 4, stream));
			CHECK_OK(r, oriel_window_signal_on_stream(r->window, 0, 9, ORIEL_SIGNAL_ADD,
								  1, stream));
			CHECK_OK(r, oriel_window_barrier_wait_on_stream(r->window, 4, 0, stream));
		}
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		if (r->size > 1) {
			CHECK_OK(r, oriel_window_barrier_on_stream(r->window, 5 + r->rank, 50000000,
								   stream));
			CHECK_FAILS(r,
				    oriel_window_barrier_on_stream(r->window, 5 + r->rank, 50000000,
								   stream),
				    ORIEL_ERR_TIMEOUT, "barrier timed out");
			CHECK_FAILS(r,
				    oriel_window_barrier_wait_on_stream(r->window, 5 + r->rank, 0,
									stream),
				    ORIEL_ERR_TIMEOUT, "barrier timed out");
		}
	}
	CHECK(r, cuStreamDestroy(stream) == CUDA_SUCCESS);
	rank_close(r);
}

/* Each rank waits for its successor at a slot of its own, where that never arrives. */
void test_stream_peer_limit(struct rank *r)
{
	unsigned next = (r->rank + 1) % r->size, slot = 5 + r->rank;
	CUstream stream;

	rank_open(r, LONG_NS);
	CHECK(r, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	if (oriel_window_barrier_on_stream(r->window, 3, 0, stream) != ORIEL_ERR_UNSUPPORTED &&
	    r->size > 1) {
		CHECK_OK(r,
			 oriel_window_barrier_peer_arrive_on_stream(r->window, next, slot, stream));
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		/* The limit of another rank may have passed before. */
		(void)oriel_window_barrier_peer_wait_on_stream(r->window, next, slot, 50000000,
							       stream);
		CHECK_FAILS(r,
			    oriel_window_barrier_peer_wait_on_stream(r->window, next, slot, 0,
								     stream),
			    ORIEL_ERR_TIMEOUT, "barrier_peer timed out");
		/* The rank that the first of them waited for. */
		CHECK_FAILS(r, oriel_window_barrier_peer_on_stream(r->window, next, 4, 0, stream),
			    ORIEL_ERR_TIMEOUT, "waiting for rank ");
	}
	CHECK(r, cuStreamDestroy(stream) == CUDA_SUCCESS);
	rank_close(r);
}
