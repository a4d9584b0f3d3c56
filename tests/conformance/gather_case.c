/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The persistent all-gather in host memory: results are complete, in order, and no other byte
 * changes. The conformance program runs this suite for every transport.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE 40000u /* the most bytes of each rank */
#define GUARD 0x5a
#define BEGIN 192u /* offset of the view in its window */

static const size_t sizes[] = {1, 7, 8, 100, 0, 1000, 4096, 4097, 16384, 16385, SHARE};

struct site {
	struct oriel_window *window;
	struct oriel_allgather *gather;
	char *result;
	char *send;
	size_t length;
	uint64_t round;
};

static struct oriel_view view_of(const struct site *s)
{
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_WINDOW,
				  .window = s->window,
				  .at = BEGIN,
				  .length = s->length};

	return view;
}

static bool site_create(struct rank *r, struct site *s, unsigned algorithm, size_t chunk)
{
	struct oriel_coll_attr attr = {.size = sizeof(attr),
				       .algorithm = algorithm,
				       .chunk = chunk};
	struct oriel_view view = view_of(s);

	return CHECK_OK(r, oriel_allgather_create(r->comm, &view, &attr, &s->gather));
}

/* A window with guards on both sides of the view, and a send buffer. */
static void site_open(struct rank *r, struct site *s)
{
	struct oriel_window_attr attr = {.size = sizeof(attr)};
	void *base = NULL;

	memset(s, 0, sizeof(*s));
	s->length = (size_t)r->size * SHARE;
	attr.length = BEGIN + s->length + 64;
	CHECK_OK(r, oriel_window_create(r->comm, &attr, &s->window));
	CHECK_OK(r, oriel_window_buffer(s->window, 0, &base, NULL));
	memset(base, GUARD, attr.length);
	s->result = (char *)base + BEGIN;
	s->send = malloc(SHARE + 1);
	CHECK(r, s->send);
}

static void site_close(struct rank *r, struct site *s)
{
	CHECK_EQ(r, not_all(s->result - BEGIN, BEGIN, GUARD), 0);
	CHECK_EQ(r, not_all(s->result + s->length, 64, GUARD), 0);
	free(s->send);
	oriel_window_destroy(s->window);
}

static uint64_t message_seed(const struct site *s, unsigned rank)
{
	return s->round * 131 + rank * 7 + 1;
}

static void check_result(struct rank *r, const struct site *s, size_t bytes)
{
	unsigned rank;

	for (rank = 0; rank < r->size; rank++)
		if (!CHECK_EQ(r, wrong(s->result + rank * bytes, bytes, message_seed(s, rank)), 0))
			return;
}

static void gather_once(struct rank *r, struct site *s, size_t bytes, bool in_place)
{
	/* Use an odd address where possible, since a source need not be aligned. */
	char *send = in_place ? s->result + r->rank * bytes : s->send + s->round % 2;

	s->round++;
	fill(send, bytes, message_seed(s, r->rank));
	if (!CHECK_OK(r, oriel_allgather_run(s->gather, send, bytes)))
		return;
	check_result(r, s, bytes);
	/* The caller may reuse it on return. */
	if (!in_place)
		memset(send, GUARD, bytes);
}

/* The bytes behind the result must not change. */
static void gather_sizes(struct rank *r, struct site *s)
{
	size_t i, rest;

	for (i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t bytes = sizes[i / 2];

		rest = s->length - r->size * bytes;
		memset(s->result + r->size * bytes, GUARD, rest);
		gather_once(r, s, bytes, i % 2);
		CHECK_EQ(r, not_all(s->result + r->size * bytes, rest, GUARD), 0);
	}
}

static unsigned supported(const struct site *s)
{
	struct oriel_coll_info info = {.size = sizeof(info)};

	oriel_allgather_query(s->gather, 8, &info);
	return info.supported;
}

/* With an object of the default algorithm, and with one of each supported algorithm. */
static void each_algorithm(struct rank *r, void (*run)(struct rank *r, struct site *s))
{
	unsigned algorithm, mask = 1u << ORIEL_ALGORITHM_DEFAULT;
	struct site s;

	site_open(r, &s);
	for (algorithm = 0; has_algorithm(algorithm); algorithm++) {
		if (!(mask >> algorithm & 1) ||
		    !site_create(r, &s, algorithm, algorithm ? 4096 : 0))
			continue;
		mask |= supported(&s);
		run(r, &s);
		oriel_allgather_destroy(s.gather);
	}
	site_close(r, &s);
}

static void every_algorithm_gathers_every_size(struct rank *r)
{
	each_algorithm(r, gather_sizes);
}

/* Some ranks check a result late, while their peers have started the next execution. */
static void gather_and_check(struct rank *r, struct site *s)
{
	unsigned i;

	for (i = 0; i < 12; i++) {
		gather_once(r, s, 9000, i % 3 == 0);
		if ((i + r->rank) % r->size)
			continue;
		oriel_cpu_back_off(2000000);
		check_result(r, s, 9000);
	}
}

static void a_result_stays_until_the_next_start(struct rank *r)
{
	each_algorithm(r, gather_and_check);
}

/* Lines that one execution left in the staging are not those of the next one. */
static void many_small_messages_do_not_mix(struct rank *r)
{
	struct site s;
	unsigned i;

	site_open(r, &s);
	if (!site_create(r, &s, ORIEL_ALGORITHM_DEFAULT, 0))
		return;
	for (i = 0; i < 300; i++)
		gather_once(r, &s, 1 + i * 37 % 900, i % 5 == 0);
	oriel_allgather_destroy(s.gather);
	site_close(r, &s);
}

static void a_buffer_of_the_caller_is_shared(struct rank *r)
{
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_BUFFER,
				  .length = (size_t)r->size * SHARE};
	struct site s = {.length = view.length, .send = malloc(SHARE + 1)};
	void *memory = NULL;

	CHECK(r, s.send);
	CHECK_OK(r, oriel_memory_alloc(view.length + 64, 0, &memory));
	view.buffer = s.result = (char *)memory + 64;
	if (!CHECK_OK(r, oriel_allgather_create(r->comm, &view, NULL, &s.gather)))
		return;
	gather_sizes(r, &s);
	oriel_allgather_destroy(s.gather);
	CHECK_EQ(r, not_all(memory, 64, 0), 0);
	oriel_memory_free(memory);
	free(s.send);
}

/* The caller that shared the memory has the table of its addresses. */
static void a_table_of_the_caller_is_used(struct rank *r)
{
	struct oriel_dev_buffer *table = calloc(r->size, sizeof(*table));
	struct oriel_dev_window device;
	struct oriel_view view;
	struct site s;
	unsigned rank;

	site_open(r, &s);
	CHECK(r, table);
	CHECK_OK(r, oriel_window_device(s.window, &device));
	for (rank = 0; rank < r->size; rank++) {
		table[rank] = device.table[rank];
		table[rank].base += BEGIN;
		table[rank].address += BEGIN;
		table[rank].length -= BEGIN;
	}
	view = (struct oriel_view){.size = sizeof(view),
				   .kind = ORIEL_VIEW_TABLE,
				   .buffer = s.result,
				   .length = s.length,
				   .peers = table};
	if (!CHECK_OK(r, oriel_allgather_create(r->comm, &view, NULL, &s.gather)))
		return;
	/* The object has copied the table. */
	memset(table, 0, r->size * sizeof(*table));
	free(table);
	gather_sizes(r, &s);
	oriel_allgather_destroy(s.gather);
	site_close(r, &s);
}

/* One region backs any number of views. */
static void a_region_backs_views(struct rank *r)
{
	struct oriel_dev_buffer *table = calloc(r->size, sizeof(*table));
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_TABLE,
				  .length = (size_t)r->size * SHARE};
	struct site s = {.length = view.length, .send = malloc(SHARE + 1)};
	struct oriel_region *region = NULL;
	void *memory = NULL;
	unsigned i;

	CHECK(r, s.send && table);
	CHECK_OK(r, oriel_memory_alloc(view.length + 64, 0, &memory));
	view.buffer = s.result = (char *)memory + 64;
	view.peers = table;
	CHECK_OK(r, oriel_region_register(r->comm, view.buffer, view.length, &region));
	CHECK_STATUS(r, oriel_region_table(region, table), ORIEL_ERR_STATE);
	CHECK_OK(r, oriel_region_share(region));
	CHECK_OK(r, oriel_region_table(region, table));
	for (i = 0; i < 2; i++) {
		if (!CHECK_OK(r, oriel_allgather_create(r->comm, &view, NULL, &s.gather)))
			return;
		gather_sizes(r, &s);
		oriel_allgather_destroy(s.gather);
	}
	oriel_region_unregister(region);
	oriel_memory_free(memory);
	free(s.send);
	free(table);
}

static void run_object(struct rank *r, unsigned index, void *context)
{
	struct site *sites = context;
	unsigned i;

	for (i = 0; i < 40; i++)
		gather_once(r, &sites[index], 1 + (i * 811 + index) % 9000, (i + index) % 2);
}

static void two_objects_work_at_once(struct rank *r)
{
	struct site sites[2];
	unsigned i;

	for (i = 0; i < 2; i++) {
		site_open(r, &sites[i]);
		sites[i].round = i * 1000;
		if (!site_create(r, &sites[i], ORIEL_ALGORITHM_DEFAULT, 4096))
			return;
	}
	rank_fork(r, 2, run_object, sites);
	/* Objects in the order of their creation, windows in the reverse order. */
	for (i = 0; i < 2; i++)
		oriel_allgather_destroy(sites[i].gather);
	site_close(r, &sites[1]);
	site_close(r, &sites[0]);
}

static void invalid_arguments_are_rejected(struct rank *r)
{
	struct oriel_coll_info info = {.size = sizeof(info)};
	struct site s;

	site_open(r, &s);
	if (!site_create(r, &s, ORIEL_ALGORITHM_DEFAULT, 0))
		return;
	CHECK_OK(r, oriel_allgather_query(s.gather, 8, &info));
	CHECK_EQ(r, info.bytes_max, SHARE);
	CHECK_STATUS(r, oriel_allgather_run(s.gather, s.send, SHARE + 1), ORIEL_ERR_RANGE);
	CHECK_LAST(r, "40001 bytes of each rank, at most 40000");
	CHECK_STATUS(r, oriel_allgather_run_on_stream(s.gather, s.send, 8, (void *)&s),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "of host memory: call oriel_allgather_run()");
	CHECK_STATUS(r, oriel_allgather_run(s.gather, s.result + r->rank * 8 + 1, 8),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "overlaps the result");
	CHECK_STATUS(r, oriel_allgather_run(s.gather, NULL, 8), ORIEL_ERR_INVALID);
	CHECK_LAST(r, "all-gather: send is NULL");
	/* The failed calls changed nothing. */
	gather_once(r, &s, 8, false);
	CHECK_OK(r, oriel_allgather_run(s.gather, NULL, 0));
	oriel_allgather_destroy(s.gather);
	oriel_allgather_destroy(s.gather);
	CHECK_LAST(r, "all-gather");
	oriel_allgather_destroy(NULL);
	site_close(r, &s);
}

/* Asynchronous executions, with blocking ones between them. */
static void a_started_execution_ends(struct rank *r)
{
	enum oriel_status status;
	struct site s;
	char *send;
	size_t i;

	site_open(r, &s);
	if (!site_create(r, &s, ORIEL_ALGORITHM_DEFAULT, 4096))
		return;
	CHECK_OK(r, oriel_allgather_wait(s.gather, 0));
	for (i = 0; i < 3 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t bytes = sizes[i / 3];

		if (i % 3 == 2) {
			gather_once(r, &s, bytes, true);
			continue;
		}
		s.round++;
		send = i % 3 ? s.result + r->rank * bytes : s.send;
		fill(send, bytes, message_seed(&s, r->rank));
		CHECK_OK(r, oriel_allgather_start(s.gather, send, bytes));
		if (i % 2)
			while ((status = oriel_allgather_test(s.gather)) == ORIEL_AGAIN)
				oriel_cpu_back_off(1000);
		else
			status = oriel_allgather_wait(s.gather, 0);
		CHECK_OK(r, status);
		check_result(r, &s, bytes);
	}
	oriel_allgather_destroy(s.gather);
	site_close(r, &s);
}

/* Ranks start the two in different orders. */
static void two_executions_may_be_started_at_once(struct rank *r)
{
	struct site sites[2];
	unsigned i, k;

	for (i = 0; i < 2; i++) {
		site_open(r, &sites[i]);
		sites[i].round = i * 1000;
		if (!site_create(r, &sites[i], i ? ORIEL_ALGORITHM_RING : ORIEL_ALGORITHM_DIRECT,
				 4096))
			return;
	}
	for (k = 0; k < 30; k++) {
		for (i = 0; i < 2; i++) {
			struct site *s = &sites[(i + r->rank) % 2];

			s->round++;
			fill(s->send, SHARE, message_seed(s, r->rank));
			CHECK_OK(r, oriel_allgather_start(s->gather, s->send, SHARE));
		}
		for (i = 0; i < 2; i++) {
			CHECK_OK(r, oriel_allgather_wait(sites[i].gather, 0));
			check_result(r, &sites[i], SHARE);
		}
	}
	for (i = 0; i < 2; i++)
		oriel_allgather_destroy(sites[i].gather);
	for (i = 0; i < 2; i++)
		site_close(r, &sites[i]);
}

static void create_fails(struct rank *r, const struct oriel_view *view, unsigned algorithm,
			 enum oriel_status status, const char *text)
{
	struct oriel_coll_attr attr = {.size = sizeof(attr), .algorithm = algorithm};
	struct oriel_allgather *gather = NULL;

	CHECK_STATUS(r, oriel_allgather_create(r->comm, view, &attr, &gather), status);
	CHECK_LAST(r, text);
	CHECK(r, !gather);
}

static void all_ranks_reject_what_one_rejects(struct rank *r)
{
	struct oriel_view view;
	struct site s;

	site_open(r, &s);
	view = view_of(&s);
	create_fails(r, &view, ORIEL_ALGORITHM_CE, ORIEL_ERR_UNSUPPORTED,
		     "algorithm ce does not support host");
	create_fails(r, r->rank == r->size - 1 ? NULL : &view, 0, ORIEL_ERR_INVALID,
		     "view is NULL");
	if (r->rank == 0)
		view.length += 65;
	create_fails(r, &view, 0, ORIEL_ERR_RANGE, "view of");
	view = view_of(&s);
	if (r->rank == 0)
		view.flags = ORIEL_VIEW_GPU;
	create_fails(r, &view, 0, ORIEL_ERR_INVALID, "lies in host memory");
	view = view_of(&s);
	if (r->size > 1) {
		view.at += r->rank == 1 ? 8 : 0;
		view.length -= 8;
		create_fails(r, &view, 0, ORIEL_ERR_MISMATCH,
			     "the offset of the view: 192 on rank 0, 200 on rank 1");
		view = view_of(&s);
		create_fails(r, &view, r->rank == 1 ? ORIEL_ALGORITHM_RING : ORIEL_ALGORITHM_DIRECT,
			     ORIEL_ERR_MISMATCH, "algorithm");
	}
	/* A valid creation still succeeds after these. */
	if (site_create(r, &s, ORIEL_ALGORITHM_DIRECT, 0)) {
		gather_sizes(r, &s);
		oriel_allgather_destroy(s.gather);
	}
	site_close(r, &s);
}

/* The shortest view limits the bytes. */
static void views_may_differ_in_length(struct rank *r)
{
	struct oriel_coll_info info = {.size = sizeof(info)};
	struct site s;
	size_t length;

	site_open(r, &s);
	length = s.length;
	s.length = r->rank == r->size / 2 ? (size_t)r->size * 1000 + 1 : length;
	if (!site_create(r, &s, ORIEL_ALGORITHM_DEFAULT, 0))
		return;
	CHECK_OK(r, oriel_allgather_query(s.gather, 8, &info));
	CHECK_EQ(r, info.bytes_max, 1000);
	CHECK_STATUS(r, oriel_allgather_run(s.gather, s.send, 1001), ORIEL_ERR_RANGE);
	gather_once(r, &s, 1000, false);
	oriel_allgather_destroy(s.gather);
	s.length = length;
	site_close(r, &s);
}

/* A rank that waits for a peer that never starts gets the status of that peer's abort. */
static void an_abort_ends_an_execution(struct rank *r)
{
	struct site s;

	site_open(r, &s);
	if (!site_create(r, &s, ORIEL_ALGORITHM_DEFAULT, 0))
		return;
	gather_once(r, &s, 5000, false);
	/* All ranks have ended the execution; this meeting does not use the communicator. */
	host_meet(r);
	if (r->rank == 0)
		oriel_comm_abort(r->comm, "no more gathering");
	CHECK_STATUS(r, oriel_allgather_run(s.gather, s.send, 5000), ORIEL_ERR_ABORTED);
	CHECK_LAST(r, "all-gather: ");
	CHECK_STATUS(r, oriel_allgather_run(s.gather, s.send, 8), ORIEL_ERR_ABORTED);
	oriel_allgather_destroy(s.gather);
	free(s.send);
	oriel_window_destroy(s.window);
}

/* Objects over one view are destroyed in any order, and the others still work. */
static void objects_are_destroyed_in_any_order(struct rank *r)
{
	static const unsigned orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
	struct site s;
	struct oriel_allgather *gathers[3];
	unsigned i, k;

	site_open(r, &s);
	for (i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		for (k = 0; k < 3; k++) {
			if (!site_create(r, &s, k == 2 ? ORIEL_ALGORITHM_RING : 0, 4096))
				return;
			gathers[k] = s.gather;
			gather_once(r, &s, 500 + k, false);
		}
		for (k = 0; k < 3; k++) {
			/* All three have the same view, and the last one is still used. */
			s.gather = gathers[orders[i][2]];
			gather_once(r, &s, 1000, k % 2);
			oriel_allgather_destroy(gathers[orders[i][k]]);
		}
	}
	site_close(r, &s);
}

/* Any number of failed creations. */
static void a_failed_creation_changes_nothing(struct rank *r)
{
	struct oriel_view view;
	struct site s;
	unsigned i;

	site_open(r, &s);
	view = view_of(&s);
	for (i = 0; i < 20; i++)
		create_fails(r, &view, ORIEL_ALGORITHM_CE, ORIEL_ERR_UNSUPPORTED,
			     "algorithm ce does not support");
	if (site_create(r, &s, 0, 0)) {
		gather_once(r, &s, 5000, true);
		oriel_allgather_destroy(s.gather);
	}
	site_close(r, &s);
}

/*
 * A rank forwards blocks of others where it has them: of another length, beside their writers.
 * The program is wrong, which is what the case is about; ThreadSanitizer is right to say so.
 */
static bool different_lengths_race(const struct rank *r, enum oriel_algorithm algorithm)
{
#ifdef __SANITIZE_THREAD__
	return r->size > 2 && algorithm != ORIEL_ALGORITHM_DIRECT &&
	       algorithm != ORIEL_ALGORITHM_LL && algorithm != ORIEL_ALGORITHM_STORE;
#else
	(void)r;
	(void)algorithm;
	return false;
#endif
}

/*
 * By every algorithm, after executions of equal lengths that change. The last rank has more, so
 * that the blocks that ranks send as their own do not overlap.
 */
static void different_lengths_are_reported(struct rank *r, enum oriel_algorithm algorithm,
					   bool is_started)
{
	unsigned is_last = r->rank == r->size - 1;
	enum oriel_status status = ORIEL_ERR_UNSUPPORTED;
	char text[120];
	struct site s;
	unsigned i;

	if (different_lengths_race(r, algorithm))
		return;
	site_open(r, &s);
	if (!site_create(r, &s, algorithm, 0))
		return;
	for (i = 0; i < 5; i++)
		gather_once(r, &s, 100 + i / 2, false);
	if (!is_started)
		status = oriel_allgather_run(s.gather, s.send, 200 + is_last);
	else if (CHECK_OK(r, oriel_allgather_start(s.gather, s.send, 200 + is_last)))
		status = oriel_allgather_wait(s.gather, 0);
	/* The first rank that sees it ends the execution of those that still wait. */
	CHECK(r, status == ORIEL_ERR_MISMATCH || status == ORIEL_ERR_ABORTED ||
			 (status == ORIEL_OK && r->size > 2));
	snprintf(text, sizeof(text),
		 "all-gather: ranks differ in bytes: %u on rank %u, %u on rank ", 200 + is_last,
		 r->rank, 200 + !is_last);
	if (status == ORIEL_ERR_MISMATCH)
		CHECK_LAST(r, text);
	host_meet(r);
	CHECK_STATUS(r, oriel_comm_barrier(r->comm), ORIEL_ERR_ABORTED);
	oriel_allgather_destroy(s.gather);
	site_close(r, &s);
}

static void different_lengths_are_reported_by_direct(struct rank *r)
{
	different_lengths_are_reported(r, ORIEL_ALGORITHM_DIRECT, false);
}

static void different_lengths_are_reported_by_ring(struct rank *r)
{
	different_lengths_are_reported(r, ORIEL_ALGORITHM_RING, false);
}

static void different_lengths_are_reported_by_bruck(struct rank *r)
{
	different_lengths_are_reported(r, ORIEL_ALGORITHM_BRUCK, false);
}

static void different_lengths_are_reported_by_ll(struct rank *r)
{
	different_lengths_are_reported(r, ORIEL_ALGORITHM_LL, false);
}

static void different_lengths_are_reported_by_store(struct rank *r)
{
	different_lengths_are_reported(r, ORIEL_ALGORITHM_STORE, false);
}

static void different_lengths_are_reported_in_the_background(struct rank *r)
{
	different_lengths_are_reported(r, 0, true);
}

static const struct test_case gather_cases[] = {
	{"every_algorithm_gathers_every_size", every_algorithm_gathers_every_size, NULL, 1,
	 NO_WINDOW},
	{"a_result_stays_until_the_next_start", a_result_stays_until_the_next_start, NULL, 2,
	 NO_WINDOW},
	{"many_small_messages_do_not_mix", many_small_messages_do_not_mix, NULL, 1, NO_WINDOW},
	{"a_buffer_of_the_caller_is_shared", a_buffer_of_the_caller_is_shared, NULL, 1, NO_WINDOW},
	{"a_table_of_the_caller_is_used", a_table_of_the_caller_is_used, NULL, 1, NO_WINDOW},
	{"a_region_backs_views", a_region_backs_views, NULL, 1, NO_WINDOW},
	{"two_objects_work_at_once", two_objects_work_at_once, NULL, 1, NO_WINDOW},
	{"invalid_arguments_are_rejected", invalid_arguments_are_rejected, NULL, 1, NO_WINDOW},
	{"all_ranks_reject_what_one_rejects", all_ranks_reject_what_one_rejects, NULL, 1,
	 NO_WINDOW},
	{"views_may_differ_in_length", views_may_differ_in_length, NULL, 2, NO_WINDOW},
	{"a_started_execution_ends", a_started_execution_ends, NULL, 1, NO_WINDOW},
	{"two_executions_may_be_started_at_once", two_executions_may_be_started_at_once, NULL, 1,
	 NO_WINDOW},
	{"objects_are_destroyed_in_any_order", objects_are_destroyed_in_any_order, NULL, 1,
	 NO_WINDOW},
	{"a_failed_creation_changes_nothing", a_failed_creation_changes_nothing, NULL, 1,
	 NO_WINDOW},
	{"different_lengths_are_reported_by_direct", different_lengths_are_reported_by_direct, NULL,
	 2, NO_WINDOW | BREAKS_COMM},
	{"different_lengths_are_reported_by_ring", different_lengths_are_reported_by_ring, NULL, 2,
	 NO_WINDOW | BREAKS_COMM},
	{"different_lengths_are_reported_by_bruck", different_lengths_are_reported_by_bruck, NULL,
	 2, NO_WINDOW | BREAKS_COMM},
	{"different_lengths_are_reported_by_ll", different_lengths_are_reported_by_ll, NULL, 2,
	 NO_WINDOW | BREAKS_COMM | NEEDS_MAPPED},
	{"different_lengths_are_reported_by_store", different_lengths_are_reported_by_store, NULL,
	 2, NO_WINDOW | BREAKS_COMM | NEEDS_MAPPED},
	{"different_lengths_are_reported_in_the_background",
	 different_lengths_are_reported_in_the_background, NULL, 2, NO_WINDOW | BREAKS_COMM},
	{"an_abort_ends_an_execution", an_abort_ends_an_execution, NULL, 2,
	 NO_WINDOW | BREAKS_COMM},
};

const struct suite gather_suite = SUITE(gather);
