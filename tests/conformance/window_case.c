/* SPDX-License-Identifier: Apache-2.0 */
/* Windows as objects: attributes, buffers, agreement, destruction. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Create a window, or report why not and return NULL. */
static struct oriel_window *open_window(struct rank *r, const struct oriel_window_attr *attr,
					struct oriel_dev_window *dev)
{
	struct oriel_window *window = NULL;

	/* Clear the handle of an earlier window: a case continues after a failure. */
	*dev = (struct oriel_dev_window){0};
	if (CHECK_OK(r, oriel_window_create(r->comm, attr, &window)))
		CHECK_OK(r, oriel_window_device(window, dev));
	return window;
}

/* Construction, BasicAccessors. */
static void defaults_match_the_header(struct rank *r)
{
	struct oriel_dev_window w = {0};
	struct oriel_window *window = open_window(r, NULL, &w);
	size_t length = 1;
	void *address;

	CHECK_EQ(r, w.magic, ORIEL_DEV_MAGIC);
	CHECK_EQ(r, w.version, ORIEL_DEV_VERSION);
	CHECK_STATUS(r, oriel_window_device_as(window, ORIEL_DEV_VERSION + 1, sizeof(w), &w),
		     ORIEL_ERR_VERSION);
	CHECK_LAST(r, "compile it again");
	CHECK_STATUS(r, oriel_window_device_as(window, ORIEL_DEV_VERSION, sizeof(w) - 8, &w),
		     ORIEL_ERR_VERSION);
	CHECK_EQ(r, w.size, sizeof(w));
	CHECK_EQ(r, w.rank, r->rank);
	CHECK_EQ(r, w.ranks, r->size);
	CHECK_EQ(r, w.signals, 64);
	CHECK_EQ(r, w.barriers, 16);
	CHECK_EQ(r, w.counters, 16);
	CHECK_EQ(r, w.channels, 0);
	CHECK_EQ(r, w.channel_bytes, 0);
	CHECK_EQ(r, w.buffers, 8);
	CHECK_EQ(r, w.timeout_ns, LONG_NS);
	CHECK_OK(r, oriel_window_buffer(window, 0, &address, &length));
	CHECK_EQ(r, length, 0);
	oriel_window_destroy(window);
}

/* VariousSignalCounts, WithBarriersAndCounters: the last one of each kind works. */
static void counts_match_the_attributes(struct rank *r)
{
	static const uint32_t counts[] = {1, 2, 15, 16, 17, 100, 1000};
	struct oriel_dev_window w = {0};
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct oriel_window_attr attr = {.size = sizeof(attr),
						 .length = 8,
						 .signals = counts[i],
						 .barriers = counts[6 - i],
						 .counters = counts[i],
						 .channels = 1,
						 .channel_bytes = 4096};
		struct oriel_window *window = open_window(r, &attr, &w);

		CHECK_POSTED(r,
			     oriel_dev_put_signal_counter(&w, r->group, rank_next(r), 0, &i, 8,
							  w.signals - 1, 1, w.counters - 1, NULL));
		CHECK_OK(r, oriel_dev_wait_signal_from(&w, r->group, rank_prev(r), w.signals - 1,
						       ORIEL_EQ, 1, LONG_NS));
		CHECK_OK(r, oriel_dev_wait_counter(&w, r->group, rank_next(r), w.counters - 1,
						   ORIEL_EQ, 1, LONG_NS));
		CHECK_OK(r, oriel_dev_barrier(&w, r->group, w.barriers - 1, LONG_NS));
		CHECK_STATUS(r, oriel_dev_barrier(&w, r->group, w.barriers, LONG_NS),
			     ORIEL_ERR_RANGE);
		oriel_window_destroy(window);
	}
}

/* ZeroCountConfig: an operation on a kind of which there are none is rejected. */
static void a_window_may_have_zero_of_everything(struct rank *r)
{
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .signals = ORIEL_NONE,
					 .barriers = ORIEL_NONE,
					 .counters = ORIEL_NONE};
	struct oriel_dev_window w = {0};
	struct oriel_window *window = open_window(r, &attr, &w);

	if (!window)
		return;
	CHECK_EQ(r, w.signals + w.barriers + w.counters + w.channels, 0);
	CHECK_STATUS(r, oriel_dev_signal(&w, r->group, 0, 0, ORIEL_SIGNAL_ADD, 1, NULL),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_dev_barrier(&w, r->group, 0, LONG_NS), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_dev_put_counter(&w, r->group, 0, 0, NULL, 0, 0, NULL),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_dev_send(&w, r->group, rank_next(r), 0, NULL, 0, LONG_NS),
		     ORIEL_ERR_RANGE);
	if (r->size > 1)
		CHECK_LAST(r, "the window has no channels");
	CHECK_STATUS(r, oriel_dev_put(&w, r->group, 0, 0, "", 1, NULL), ORIEL_ERR_RANGE);
	CHECK_POSTED(r, oriel_dev_put(&w, r->group, 0, 0, NULL, 0, NULL));
	oriel_window_destroy(window);
}

static void invalid_attributes_are_rejected(struct rank *r)
{
	struct {
		struct oriel_window_attr attr;
		uint64_t unknown;
	} later = {{.size = sizeof(later)}, 0};
	const struct oriel_window_attr bad[] = {
		{.size = 4},
		{.size = sizeof(bad[0]), .flags = 1u << 31},
		{.size = sizeof(bad[0]), .channels = 1, .channel_bytes = 5000},
		{.size = sizeof(bad[0]), .channels = 1, .channel_bytes = 2048},
		{.size = sizeof(bad[0]), .buffers = 70000},
		{.size = sizeof(bad[0]), .length = (size_t)1 << 50},
		{.size = sizeof(bad[0]), .signals = 1u << 31},
	};
	struct oriel_window *window = NULL;
	enum oriel_status status;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		status = oriel_window_create(r->comm, &bad[i], &window);
		CHECK(r, status == ORIEL_ERR_INVALID || status == ORIEL_ERR_RANGE);
		CHECK(r, oriel_last_status() == status && oriel_last_error()[0]);
	}
	later.unknown = 1;
	CHECK_STATUS(r, oriel_window_create(r->comm, &later.attr, &window), ORIEL_ERR_INVALID);
	CHECK(r, window == NULL);
	later.unknown = 0;
	CHECK_OK(r, oriel_window_create(r->comm, &later.attr, &window));
	oriel_window_destroy(window);
}

/* W9: a rank with another number of signals was once not noticed. */
static void check_mismatch(struct rank *r, const char *field, size_t offset, uint32_t first,
			   uint32_t second)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = 100 + r->rank};
	unsigned odd = r->size - 1;
	struct oriel_window *window = NULL;
	char text[32];

	memcpy((char *)&attr + offset, r->rank == odd ? &second : &first, sizeof(first));
	CHECK_STATUS(r, oriel_window_create(r->comm, &attr, &window), ORIEL_ERR_MISMATCH);
	CHECK(r, window == NULL);
	CHECK_TEXT(r, oriel_last_error(), field);
	CHECK_TEXT(r, oriel_last_error(), "rank 0");
	snprintf(text, sizeof(text), "rank %u", odd);
	CHECK_TEXT(r, oriel_last_error(), text);
}

static void windows_that_differ_are_rejected_on_all_ranks(struct rank *r)
{
#define DIFFER(field, first, second) \
	check_mismatch(r, #field, offsetof(struct oriel_window_attr, field), first, second)
	DIFFER(signals, 64, 65);
	DIFFER(barriers, 1, 2);
	DIFFER(counters, ORIEL_NONE, 16);
	DIFFER(channels, 3, 4);
	DIFFER(channel_bytes, 4096, 8192);
	DIFFER(buffers, 8, 9);
#undef DIFFER
}

static void one_bad_rank_fails_all(struct rank *r)
{
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .flags = r->rank == 1 ? 1u << 31 : 0};
	struct oriel_window *window = NULL;

	CHECK_STATUS(r, oriel_window_create(r->comm, &attr, &window), ORIEL_ERR_INVALID);
	if (r->rank != 1)
		CHECK_TEXT(r, oriel_last_error(), "rank 1");
}

/* Ranks differ in length; an offset is checked against the target's length, not the caller's. */
static void lengths_may_differ(struct rank *r)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = 64 * (r->rank + 1)};
	struct oriel_dev_window w = {0};
	struct oriel_window *window = open_window(r, &attr, &w);
	unsigned peer;
	size_t length;

	for (peer = 0; peer < r->size; peer++) {
		CHECK_OK(r, oriel_window_peer_length(window, peer, 0, &length));
		CHECK_EQ(r, length, 64 * (peer + 1));
		CHECK_POSTED(r,
			     oriel_dev_put(&w, r->group, peer, length - 1 - r->rank, "x", 1, NULL));
		CHECK_STATUS(r, oriel_dev_put(&w, r->group, peer, length, "x", 1, NULL),
			     ORIEL_ERR_RANGE);
	}
	CHECK_STATUS(r, oriel_window_peer_length(window, r->size, 0, &length), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_window_peer_length(window, 0, 1, &length), ORIEL_ERR_RANGE);
	oriel_window_destroy(window);
}

/* W8: a buffer given at creation could not be reached; N1: nor could any part of an allocation. */
static void a_buffer_given_at_creation_is_buffer_0(struct rank *r)
{
	const size_t skew = 4096 + 24 * r->rank + 3;
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = 1000};
	struct oriel_dev_window w = {0};
	struct oriel_window *window;
	char block[1000], *memory = NULL;
	size_t length = 0;
	void *at = NULL;

	CHECK_OK(r, oriel_memory_alloc(16384, 0, (void **)&memory));
	attr.buffer = memory + skew;
	window = open_window(r, &attr, &w);
	CHECK_OK(r, oriel_window_buffer(window, 0, &at, &length));
	CHECK(r, at == memory + skew && length == 1000);
	fill(block, sizeof(block), r->rank);
	CHECK_POSTED(r, oriel_dev_put_signal(&w, r->group, rank_next(r), 0, block, sizeof(block), 0,
					     1, NULL));
	CHECK_OK(r, oriel_dev_wait_signal(&w, r->group, 0, ORIEL_EQ, 1, LONG_NS));
	CHECK_OK(r, oriel_dev_drain(&w, r->group, LONG_NS));
	CHECK_EQ(r, wrong(memory + skew, sizeof(block), rank_prev(r)), 0);
	CHECK_EQ(r, not_all(memory, skew, 0), 0);
	CHECK_EQ(r, not_all(memory + skew + 1000, 16384 - skew - 1000, 0), 0);
	oriel_window_destroy(window);
	oriel_memory_free(memory);
}

static size_t shared_length(unsigned rank, uint32_t buffer)
{
	return (rank + buffer) % 3 ? 500 * (rank + buffer) : 0;
}

/*
 * W8, W10: only one buffer could be used. Here lengths differ, are zero, and are parts of one
 * allocation.
 */
static void several_buffers_are_shared_later(struct rank *r)
{
	char *memory = NULL, block[8000];
	struct oriel_dev_window before = r->dev;
	uint32_t i, number;
	unsigned peer;

	CHECK_OK(r, oriel_memory_alloc(65536, 0, (void **)&memory));
	for (i = 1; i < r->dev.buffers; i++) {
		size_t length = shared_length(r->rank, i);

		CHECK_STATUS(r,
			     oriel_dev_put(&before, r->group, rank_next(r), oriel_at(i, 0), "", 1,
					   NULL),
			     ORIEL_ERR_STATE);
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		number = 0;
		CHECK_OK(r, oriel_window_share(r->window, length ? memory + 8192 * i + 8 : NULL,
					       length, &number));
		CHECK_EQ(r, number, i);
	}
	CHECK_STATUS(r, oriel_window_share(r->window, memory, 8, &number), ORIEL_ERR_RANGE);
	for (peer = 0; peer < r->size; peer++) {
		for (i = 1; i < r->dev.buffers; i++) {
			size_t part = shared_length(peer, i) / r->size, length;

			CHECK_OK(r, oriel_window_peer_length(r->window, peer, i, &length));
			CHECK_EQ(r, length, shared_length(peer, i));
			fill(block, part, 8 * r->rank + i);
			/* Handles made before the call see the new buffer, too. */
			if (part)
				CHECK_POSTED(r, oriel_dev_put(&before, r->group, peer,
							      oriel_at(i, r->rank * part), block,
							      part, NULL));
			CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
		}
	}
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++) {
		for (i = 1; i < r->dev.buffers; i++) {
			size_t part = shared_length(r->rank, i) / r->size;

			CHECK_EQ(r, wrong(memory + 8192 * i + 8 + peer * part, part, 8 * peer + i),
				 0);
		}
	}
	rank_flush_barrier(r);
	oriel_window_destroy(r->window);
	r->window = NULL;
	oriel_memory_free(memory);
}

/* Peers reach the buffer, by any path, until the window is destroyed. */
static void a_shared_buffer_may_be_freed(struct rank *r)
{
	char *memory = NULL, block[1000], got[1000] = {0};
	uint32_t number = 0;

	CHECK_OK(r, oriel_memory_alloc(65536, 0, (void **)&memory));
	CHECK_OK(r, oriel_window_share(r->window, memory + 5000, sizeof(block), &number));
	oriel_memory_free(memory);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	fill(block, sizeof(block), r->rank);
	CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, rank_next(r), oriel_at(number, 0), block,
				      sizeof(block), NULL));
	rank_flush_barrier(r);
	CHECK_EQ(r, wrong(memory + 5000, sizeof(block), rank_prev(r)), 0);
	CHECK_POSTED(r, oriel_dev_get(&r->dev, r->group, rank_next(r), oriel_at(number, 0), got,
				      sizeof(got), NULL));
	CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
	CHECK_EQ(r, wrong(got, sizeof(got), r->rank), 0);
}

/*
 * The table of a region makes it a buffer, by any path; if one rank's table has nothing of that
 * rank, all ranks reject it.
 */
static void a_region_is_a_buffer_by_its_table(struct rank *r)
{
	struct oriel_dev_buffer *table = calloc(r->size, sizeof(*table));
	struct oriel_region *region = NULL;
	char *memory = NULL, block[1000], got[1000] = {0};
	uint32_t number = 0;
	char *own;

	CHECK(r, table);
	CHECK_OK(r, oriel_memory_alloc(65536, 0, (void **)&memory));
	CHECK_OK(r, oriel_region_register(r->comm, memory + 5000, sizeof(block), &region));
	CHECK_OK(r, oriel_region_share(region));
	CHECK_OK(r, oriel_region_table(region, table));
	own = table[r->rank].base;
	if (r->rank == 0)
		table[0].base = NULL;
	CHECK_STATUS(r, oriel_window_share_table(r->window, table, &number), ORIEL_ERR_INVALID);
	CHECK_LAST(r, "nothing of rank 0");
	table[r->rank].base = own;
	CHECK_OK(r, oriel_window_share_table(r->window, table, &number));
	CHECK_EQ(r, number, 1);
	memset(table, 0, r->size * sizeof(*table));
	fill(block, sizeof(block), r->rank);
	CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, rank_next(r), oriel_at(number, 0), block,
				      sizeof(block), NULL));
	rank_flush_barrier(r);
	CHECK_EQ(r, wrong(memory + 5000, sizeof(block), rank_prev(r)), 0);
	CHECK_POSTED(r, oriel_dev_get(&r->dev, r->group, rank_next(r), oriel_at(number, 0), got,
				      sizeof(got), NULL));
	CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
	CHECK_EQ(r, wrong(got, sizeof(got), r->rank), 0);
	/* Put from the region, which the HCA must know as this rank's own memory. */
	CHECK_POSTED(r,
		     oriel_dev_put(&r->dev, r->group, rank_prev(r), 0, memory + 5000, 500, NULL));
	rank_flush_barrier(r);
	oriel_window_destroy(r->window);
	r->window = NULL;
	oriel_region_unregister(region);
	oriel_memory_free(memory);
	free(table);
}

/* No file is needed between ranks of one process, nor between nodes: any memory will do. */
static void private_memory_is_shared_where_no_rank_maps_it(struct rank *r)
{
	char *private = calloc(1, 3000), block[999];
	enum oriel_status expected = ORIEL_OK;
	uint32_t number = 0;
	unsigned i, k;

	for (i = 0; i < r->size; i++)
		for (k = 0; k < r->size; k++)
			if (rank_is_foreign(r, i, k) && !r->is_by_rdma)
				expected = ORIEL_ERR_UNSUPPORTED;
	fill(block, sizeof(block), r->rank);
	CHECK_STATUS(r, oriel_window_share(r->window, private + 7, 2000, &number), expected);
	if (expected == ORIEL_OK) {
		CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, rank_next(r),
					      oriel_at(number, 1001), block, sizeof(block), NULL));
		rank_flush_barrier(r);
		CHECK_EQ(r, wrong(private + 7 + 1001, sizeof(block), rank_prev(r)), 0);
		CHECK_EQ(r, not_all(private, 7 + 1001, 0), 0);
		CHECK_EQ(r, not_all(private + 7 + 2000, 1000 - 7, 0), 0);
	}
	oriel_window_destroy(r->window);
	r->window = NULL;
	free(private);
}

static void windows_are_independent(struct rank *r)
{
	struct oriel_window *windows[5];
	struct oriel_dev_window w[5] = {0};
	uint64_t i, k, value = 0, *word = NULL;
	size_t length;

	for (i = 0; i < 5; i++) {
		windows[i] = open_window(r, &small_window, &w[i]);
		for (k = 0; k < i; k++)
			CHECK(r, w[i].number != w[k].number);
	}
	for (i = 0; i < 5; i++) {
		CHECK_POSTED(r, oriel_dev_put_signal(&w[i], r->group, rank_next(r), 0, &i, 8, 0,
						     i + 1, NULL));
		CHECK_OK(r, oriel_dev_barrier(&w[i], r->group, 0, LONG_NS));
		CHECK_OK(r, oriel_dev_drain(&w[i], r->group, LONG_NS));
	}
	for (i = 0; i < 5; i++) {
		CHECK_OK(r, oriel_dev_read_signal(&w[i], 0, &value));
		CHECK_EQ(r, value, i + 1);
		CHECK_OK(r, oriel_window_buffer(windows[i], 0, (void **)&word, &length));
		CHECK_EQ(r, *word, i);
	}
	for (i = 0; i < 5; i++)
		oriel_window_destroy(windows[(i * 2) % 5]);
}

static int64_t count_once(struct rank *r, struct oriel_window *window,
			  const struct oriel_dev_window *w, int round)
{
	static const int source = 7; /* no thread waits for the puts, so it outlives them */
	unsigned peer = rank_next(r);

	switch (round % 4) {
	case 0:
		return oriel_dev_put_counter(w, r->group, peer, 0, &source, sizeof(source), 3,
					     NULL);
	case 1:
		return oriel_dev_signal_counter(w, r->group, peer, 0, 1, 3, NULL);
	case 2:
		return oriel_dev_put_signal_counter(w, r->group, peer, 0, &source, sizeof(source),
						    0, 1, 3, NULL);
	}
	return oriel_window_signal_counter(window, peer, 0, 1, 3);
}

/* Their memory is freed with the window: after a drain and a flush, and after neither. */
static void counters_in_flight_end_with_their_window(struct rank *r)
{
	struct oriel_dev_window w = {0};
	struct oriel_window *window;
	int i, k;

	for (i = 0; i < 24; i++) {
		window = open_window(r, &small_window, &w);
		for (k = 0; k < 8; k++)
			CHECK_POSTED(r, count_once(r, window, &w, i));
		if (i % 3 == 0) {
			CHECK_OK(r, oriel_dev_drain(&w, r->group, LONG_NS));
			CHECK_OK(r, oriel_dev_flush(&w, r->group, LONG_NS));
		}
		if (i % 3 != 1)
			CHECK_OK(r, oriel_dev_barrier(&w, r->group, 0, LONG_NS));
		oriel_window_destroy(window);
	}
	rank_check_healthy(r);
}

static void windows_come_and_go(struct rank *r)
{
	struct oriel_dev_window w = {0};
	struct oriel_window *window;
	int i;

	for (i = 0; i < 25; i++) {
		window = open_window(r, &small_window, &w);
		CHECK_POSTED(r, oriel_dev_put(&w, r->group, rank_next(r), 0, &i, sizeof(i), NULL));
		CHECK_OK(r, oriel_dev_barrier(&w, r->group, 0, LONG_NS));
		CHECK_OK(r, oriel_dev_drain(&w, r->group, LONG_NS));
		oriel_window_destroy(window);
	}
}

static void put_often(struct rank *r, const struct oriel_dev_window *w)
{
	unsigned peer, i;

	for (i = 0; i < 500; i++)
		for (peer = 0; peer < r->size; peer++)
			CHECK_POSTED(r, oriel_dev_put(w, r->group, peer, 64 * i, w, 64, NULL));
}

/*
 * G1: rank 0 still puts while the others have begun to destroy. None of them may return before
 * rank 0 has called destroy, too, which it announces through the other window. The puts after
 * that are in flight when rank 0 calls destroy itself.
 */
static void destroy_waits_for_the_last_put(struct rank *r)
{
	struct oriel_dev_window w = {0};
	struct oriel_window *window = open_window(r, &small_window, &w);
	unsigned peer;

	if (r->rank == 0) {
		CHECK_OK(r, oriel_dev_wait_signal(&r->dev, r->group, 0, ORIEL_EQ, r->size - 1,
						  LONG_NS));
		put_often(r, &w);
		for (peer = 0; peer < r->size; peer++)
			CHECK_POSTED(r, oriel_dev_put_value(&r->dev, peer, 0, 1, NULL));
		CHECK_OK(r, oriel_dev_flush(&r->dev, r->group, LONG_NS));
		put_often(r, &w);
	} else {
		CHECK_POSTED(r,
			     oriel_dev_signal(&r->dev, r->group, 0, 0, ORIEL_SIGNAL_ADD, 1, NULL));
	}
	oriel_window_destroy(window);
	CHECK_EQ(r, oriel_dev_load_acquire((void *)r->base), 1);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
}

/* Ranks that share a process must not create an object between the two calls. */
static void windows_are_destroyed_once(struct rank *r)
{
	struct oriel_window *window = r->window;
	struct oriel_dev_window device;

	CHECK_OK(r, oriel_comm_barrier(r->comm));
	oriel_window_destroy(window);
	r->window = NULL;
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_STATUS(r, oriel_window_device(window, &device), ORIEL_ERR_STATE);
	CHECK_LAST(r, "oriel_window_device_as: ");
	CHECK_LAST(r, "is not a live window");
	CHECK_STATUS(r, oriel_window_destroy(window), ORIEL_ERR_STATE);
	CHECK_TEXT(r, oriel_last_error(), "window");
	CHECK_OK(r, oriel_window_destroy(NULL));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
}

#define ORDER_TEXT "ORIEL_ERR_STATE: oriel_window_destroy: rank "

/* The number of warnings that the ranks of this process have logged. */
static unsigned order_warnings;

static void note_order(void *context, enum oriel_log_level level, const char *message)
{
	(void)context;
	if (level == ORIEL_LOG_WARN && strncmp(message, ORDER_TEXT, strlen(ORDER_TEXT)) == 0)
		__atomic_fetch_add(&order_warnings, 1, __ATOMIC_RELAXED);
}

/*
 * Rank 0 destroys the windows in another order than the others: each rank logs a warning for each
 * of the two.
 */
static void windows_are_destroyed_in_one_order(struct rank *r)
{
	bool has_log = !getenv("ORIEL_LOG");
	struct oriel_window *windows[2];
	struct oriel_dev_window w[2];
	char text[200];
	unsigned i;

	for (i = 0; i < 2; i++)
		windows[i] = open_window(r, &small_window, &w[i]);
	__atomic_store_n(&order_warnings, 0, __ATOMIC_RELAXED);
	if (has_log)
		oriel_log_set_sink(note_order, NULL);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	for (i = 0; i < 2; i++) {
		CHECK(r, oriel_window_destroy(windows[r->rank ? 1 - i : i]) == ORIEL_OK);
		CHECK_EQ(r, oriel_last_status(), ORIEL_ERR_STATE);
		snprintf(text, sizeof(text),
			 "oriel_window_destroy: rank %u destroys window %u, rank %u destroys "
			 "window %u: all ranks destroy their windows in one order",
			 r->rank, w[r->rank ? 1 - i : i].number, r->rank ? 0 : 1,
			 w[r->rank ? i : 1 - i].number);
		CHECK_TEXT(r, oriel_last_error(), text);
		CHECK_OK(r, oriel_comm_barrier(r->comm));
	}
	if (has_log) {
		CHECK_EQ(r, __atomic_load_n(&order_warnings, __ATOMIC_RELAXED),
			 r->is_thread ? 2 * r->size : 2);
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		harness_drop_log();
	}
	/* The communicator still works. */
	CHECK_OK(r, oriel_window_barrier(r->window, 0, 0));
}

/* A window, a region and an object over a window of its own: each would use freed memory. */
static void communicators_are_destroyed_last(struct rank *r)
{
	struct oriel_stream_barrier *barrier = NULL;
	struct oriel_region *region = NULL;
	char memory[64];

	CHECK_STATUS(r, oriel_comm_destroy(r->comm), ORIEL_ERR_STATE);
	CHECK_LAST(r, "still has its window");
	CHECK_OK(r, oriel_region_register(r->comm, memory, sizeof(memory), &region));
	CHECK_STATUS(r, oriel_comm_destroy(r->comm), ORIEL_ERR_STATE);
	CHECK_LAST(r, "still has its region");
	CHECK_OK(r, oriel_stream_barrier_create(r->comm, 0, &barrier));
	CHECK_STATUS(r, oriel_comm_destroy(r->comm), ORIEL_ERR_STATE);
	CHECK_LAST(r, "still has its stream barrier");
	oriel_stream_barrier_destroy(barrier);
	oriel_region_unregister(region);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_OK(r, oriel_window_barrier(r->window, 0, 0));
}

static void communicators_are_destroyed_once(struct rank *r)
{
	struct oriel_region *region;
	struct oriel_window *window;
	struct oriel_comm *comm;
	char memory[64];

	if (!CHECK_OK(r, rank_join(r, NULL)))
		return;
	comm = r->comm;
	r->comm = NULL;
	CHECK_OK(r, oriel_comm_destroy(comm));
	CHECK_STATUS(r, oriel_comm_destroy(comm), ORIEL_ERR_STATE);
	CHECK_TEXT(r, oriel_last_error(), "communicator");
	CHECK_STATUS(r, oriel_window_create(comm, NULL, &window), ORIEL_ERR_STATE);
	CHECK_LAST(r, "oriel_window_create: ");
	CHECK_STATUS(r, oriel_region_register(comm, memory, sizeof(memory), &region),
		     ORIEL_ERR_STATE);
	CHECK_LAST(r, "oriel_region_register: ");
	oriel_comm_destroy(NULL);
}

static const struct oriel_window_attr long_window = {.size = sizeof(long_window), .length = 65536};

static const struct test_case window_cases[] = {
	{"defaults_match_the_header", defaults_match_the_header, NULL, 1, NO_WINDOW},
	{"counts_match_the_attributes", counts_match_the_attributes, NULL, 1, NO_WINDOW},
	{"a_window_may_have_zero_of_everything", a_window_may_have_zero_of_everything, NULL, 1,
	 NO_WINDOW},
	{"invalid_attributes_are_rejected", invalid_attributes_are_rejected, NULL, 1, NO_WINDOW},
	{"windows_that_differ_are_rejected_on_all_ranks",
	 windows_that_differ_are_rejected_on_all_ranks, NULL, 2, NO_WINDOW},
	{"one_bad_rank_fails_all", one_bad_rank_fails_all, NULL, 2, NO_WINDOW},
	{"lengths_may_differ", lengths_may_differ, NULL, 1, NO_WINDOW},
	{"a_buffer_given_at_creation_is_buffer_0", a_buffer_given_at_creation_is_buffer_0, NULL, 1,
	 NO_WINDOW},
	{"several_buffers_are_shared_later", several_buffers_are_shared_later, &long_window, 1, 0},
	{"a_shared_buffer_may_be_freed", a_shared_buffer_may_be_freed, &long_window, 1, 0},
	{"a_region_is_a_buffer_by_its_table", a_region_is_a_buffer_by_its_table, &long_window, 1,
	 0},
	{"private_memory_is_shared_where_no_rank_maps_it",
	 private_memory_is_shared_where_no_rank_maps_it, &long_window, 1, 0},
	{"windows_are_independent", windows_are_independent, NULL, 1, NO_WINDOW},
	{"windows_come_and_go", windows_come_and_go, NULL, 1, NO_WINDOW},
	{"counters_in_flight_end_with_their_window", counters_in_flight_end_with_their_window, NULL,
	 1, NO_WINDOW},
	{"destroy_waits_for_the_last_put", destroy_waits_for_the_last_put, &long_window, 1, 0},
	{"windows_are_destroyed_once", windows_are_destroyed_once, NULL, 1, 0},
	{"windows_are_destroyed_in_one_order", windows_are_destroyed_in_one_order, NULL, 2, 0},
	{"communicators_are_destroyed_last", communicators_are_destroyed_last, NULL, 1, 0},
	{"communicators_are_destroyed_once", communicators_are_destroyed_once, NULL, 1, OWN_COMM},
};

const struct suite window_suite = SUITE(window);
