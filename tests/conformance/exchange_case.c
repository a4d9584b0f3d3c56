/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent all-to-all, broadcast and barrier in host memory: results are complete, in order, and
 * no other byte changes. The conformance program runs this suite for every transport.
 */
#include "lengths.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 0x5a
#define ROUNDS 24u

static const size_t sizes[] = {1, 7, 8, 100, 0, 1000, 4096, 4097, 16385, SHARE};

struct site {
	struct oriel_coll_attr attr;
	struct oriel_view view;
	struct oriel_alltoall *alltoall;
	struct oriel_bcast *bcast;
	char *memory; /* with guards on both sides of the view */
	char *result;
	char *send;
	struct oriel_dev_alltoallv *layout;
	size_t length;
	uint64_t round;
};

static void site_open(struct rank *r, struct site *s)
{
	void *memory = NULL;

	memset(s, 0, sizeof(*s));
	s->length = (size_t)r->size * SHARE;
	CHECK_OK(r, oriel_memory_alloc(s->length + 256, 0, &memory));
	s->memory = memory;
	s->result = s->memory + 64;
	memset(s->memory, GUARD, s->length + 256);
	s->send = malloc(s->length + 1);
	s->layout = calloc(r->size, sizeof(*s->layout));
	CHECK(r, s->send && s->layout);
	s->attr = (struct oriel_coll_attr){.size = sizeof(s->attr), .chunk = 4096};
	s->view = (struct oriel_view){.size = sizeof(s->view),
				      .kind = ORIEL_VIEW_BUFFER,
				      .length = s->length,
				      .buffer = s->result};
}

static void site_close(struct rank *r, struct site *s)
{
	CHECK_EQ(r, not_all(s->memory, 64, GUARD), 0);
	CHECK_EQ(r, not_all(s->result + s->length, 192, GUARD), 0);
	free(s->layout);
	free(s->send);
	oriel_memory_free(s->memory);
}

static bool alltoall_create(struct rank *r, struct site *s, unsigned algorithm)
{
	s->attr.algorithm = algorithm;
	return CHECK_OK(r, oriel_alltoall_create(r->comm, &s->view, &s->attr, &s->alltoall));
}

static bool bcast_create(struct rank *r, struct site *s, unsigned algorithm)
{
	s->attr.algorithm = algorithm;
	return CHECK_OK(r, oriel_bcast_create(r->comm, &s->view, &s->attr, &s->bcast));
}

static void alltoall_once(struct rank *r, struct site *s, size_t bytes)
{
	char *send = s->send + s->round % 2;
	unsigned rank;

	s->round++;
	for (rank = 0; rank < r->size; rank++)
		fill(send + rank * bytes, bytes, seed_of(s->round, r->rank, rank));
	memset(s->result + r->size * bytes, GUARD, s->length - r->size * bytes);
	if (!CHECK_OK(r, oriel_alltoall_run(s->alltoall, send, bytes)))
		return;
	/* The caller may reuse the buffer on return. */
	memset(send, GUARD, r->size * bytes);
	for (rank = 0; rank < r->size; rank++)
		if (!CHECK_EQ(r,
			      wrong(s->result + rank * bytes, bytes,
				    seed_of(s->round, rank, r->rank)),
			      0))
			return;
	CHECK_EQ(r, not_all(s->result + r->size * bytes, s->length - r->size * bytes, GUARD), 0);
}

static void every_algorithm_exchanges_every_size(struct rank *r)
{
	struct oriel_coll_info info = {.size = sizeof(info)};
	unsigned algorithm, mask = ~0u;
	struct site s;
	size_t i;

	site_open(r, &s);
	for (algorithm = 0; has_algorithm(algorithm); algorithm++) {
		if (!(mask >> algorithm & 1) || !alltoall_create(r, &s, algorithm))
			continue;
		CHECK_OK(r, oriel_alltoall_query(s.alltoall, 8, &info));
		CHECK_EQ(r, info.bytes_max, SHARE);
		mask = info.supported;
		for (i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++)
			alltoall_once(r, &s, sizes[i / 2]);
		oriel_alltoall_destroy(s.alltoall);
	}
	site_close(r, &s);
}

static void check_received(struct rank *r, const struct site *s, unsigned but)
{
	unsigned rank;

	for (rank = 0; rank < r->size; rank++)
		if (rank != but &&
		    !CHECK_EQ(r,
			      wrong(s->result + s->layout[rank].recv_displacement,
				    s->layout[rank].recv_length, seed_of(s->round, rank, r->rank)),
			      0))
			return;
}

static void alltoallv_once(struct rank *r, struct site *s)
{
	s->round++;
	layout_fill(r, s->round, s->layout, s->send);
	if (CHECK_OK(r, oriel_alltoall_run_v(s->alltoall, s->send, s->layout)))
		check_received(r, s, r->size);
}

static void messages_of_any_length_are_exchanged(struct rank *r)
{
	struct site s;
	unsigned i;

	site_open(r, &s);
	if (!alltoall_create(r, &s, 0))
		return;
	for (i = 0; i < ROUNDS; i++) {
		alltoallv_once(r, &s);
		if ((i + r->rank) % r->size == 0) {
			/* The peers have begun the next execution. */
			oriel_cpu_back_off(1000000);
			check_received(r, &s, r->size);
		}
		if (i % 4 == 3)
			alltoall_once(r, &s, 1 + i * 71);
	}
	oriel_alltoall_destroy(s.alltoall);
	site_close(r, &s);
}

/* Empty messages between all ranks, many times: notifications of two rounds must not mix. */
static void empty_messages_do_not_mix(struct rank *r)
{
	struct site s;
	unsigned i;

	site_open(r, &s);
	if (!alltoall_create(r, &s, 0))
		return;
	for (i = 0; i < 200; i++) {
		if (i % 20 == 19) {
			alltoallv_once(r, &s);
			continue;
		}
		memset(s.layout, 0, r->size * sizeof(*s.layout));
		CHECK_OK(r, oriel_alltoall_run_v(s.alltoall, NULL, s.layout));
	}
	oriel_alltoall_destroy(s.alltoall);
	site_close(r, &s);
}

/* Both ranks of the pair get the error, all other messages arrive, and the next one succeeds. */
static void lengths_of_a_pair_that_differ_are_reported(struct rank *r)
{
	unsigned last = r->size - 1;
	struct site s;

	site_open(r, &s);
	if (!alltoall_create(r, &s, 0))
		return;
	alltoallv_once(r, &s);
	s.round = 50;
	layout_fill(r, s.round, s.layout, s.send);
	if (r->rank == 0)
		s.layout[last].send_length = length_of(50, 0, last) + 3;
	if (r->rank == 0 || r->rank == last) {
		CHECK_STATUS(r, oriel_alltoall_run_v(s.alltoall, s.send, s.layout),
			     ORIEL_ERR_MISMATCH);
		CHECK_LAST(r, r->rank ? "rank 0 sends" : "bytes sent to rank");
		check_received(r, &s, r->rank ? 0 : last);
	} else if (CHECK_OK(r, oriel_alltoall_run_v(s.alltoall, s.send, s.layout))) {
		check_received(r, &s, r->size);
	}
	alltoallv_once(r, &s);
	oriel_alltoall_destroy(s.alltoall);
	site_close(r, &s);
}

static void bcast_once(struct rank *r, struct site *s, size_t bytes)
{
	unsigned root = (unsigned)(s->round * 5 + 1) % r->size;
	bool is_in_place = s->round % 3 == 0;
	char *send = is_in_place ? s->result : s->send + s->round % 2;

	s->round++;
	if (r->rank != root)
		send = NULL;
	memset(s->result, GUARD, s->length);
	if (send)
		fill(send, bytes, seed_of(s->round, root, 0));
	if (!CHECK_OK(r, oriel_bcast_run(s->bcast, root, send, bytes)))
		return;
	if (send && !is_in_place)
		memset(send, GUARD, bytes);
	CHECK_EQ(r, wrong(s->result, bytes, seed_of(s->round, root, 0)), 0);
	CHECK_EQ(r, not_all(s->result + bytes, s->length - bytes, GUARD), 0);
}

/* With an object of the default algorithm, and with one of each supported algorithm. */
static void each_bcast(struct rank *r, void (*run)(struct rank *r, struct site *s))
{
	unsigned algorithm, mask = 1u << ORIEL_ALGORITHM_DEFAULT;
	struct oriel_coll_info info = {.size = sizeof(info)};
	struct site s;

	site_open(r, &s);
	for (algorithm = 0; has_algorithm(algorithm); algorithm++) {
		if (!(mask >> algorithm & 1) || !bcast_create(r, &s, algorithm))
			continue;
		CHECK_OK(r, oriel_bcast_query(s.bcast, 8, &info));
		CHECK_EQ(r, info.bytes_max, s.length);
		mask |= info.supported;
		run(r, &s);
		oriel_bcast_destroy(s.bcast);
	}
	site_close(r, &s);
}

static void bcast_sizes(struct rank *r, struct site *s)
{
	size_t i;

	for (i = 0; i < 3 * sizeof(sizes) / sizeof(sizes[0]); i++)
		bcast_once(r, s, sizes[i / 3]);
	bcast_once(r, s, s->length);
}

static void every_algorithm_broadcasts_every_size(struct rank *r)
{
	each_bcast(r, bcast_sizes);
}

/* Some ranks check a result late, while their peers have started the next execution. */
static void bcast_and_check(struct rank *r, struct site *s)
{
	unsigned i, root;

	for (i = 0; i < ROUNDS; i++) {
		/* From one root many times, so that it could run ahead. */
		root = i / 8 % r->size;
		s->round++;
		if (r->rank == root)
			fill(s->send, 9000, seed_of(s->round, 0, 0));
		CHECK_OK(r, oriel_bcast_run(s->bcast, root, s->send, 9000));
		if ((i + r->rank) % 3 == 0)
			oriel_cpu_back_off(1000000);
		CHECK_EQ(r, wrong(s->result, 9000, seed_of(s->round, 0, 0)), 0);
	}
}

static void a_broadcast_result_stays_until_the_next_start(struct rank *r)
{
	each_bcast(r, bcast_and_check);
}

static void invalid_exchanges_are_rejected(struct rank *r)
{
	struct oriel_alltoall *none = NULL;
	struct site s;

	site_open(r, &s);
	s.attr.algorithm = ORIEL_ALGORITHM_RING;
	CHECK_STATUS(r, oriel_alltoall_create(r->comm, &s.view, &s.attr, &none),
		     ORIEL_ERR_UNSUPPORTED);
	CHECK_LAST(r, "all-to-all: algorithm ring does not support host memory");
	if (!alltoall_create(r, &s, 0) || !bcast_create(r, &s, 0))
		return;
	CHECK_STATUS(r, oriel_alltoall_run(s.alltoall, s.send, SHARE + 1), ORIEL_ERR_RANGE);
	CHECK_LAST(r, "at most 20000");
	CHECK_STATUS(r, oriel_alltoall_run(s.alltoall, s.result, 8), ORIEL_ERR_INVALID);
	CHECK_LAST(r, "overlaps the result");
	CHECK_STATUS(r, oriel_alltoall_run_on_stream(s.alltoall, s.send, 8, (void *)&s),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "of host memory: call oriel_alltoall_run()");
	CHECK_STATUS(r, oriel_alltoall_run_v(s.alltoall, s.send, NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_alltoall_run(s.alltoall, NULL, 8), ORIEL_ERR_INVALID);
	CHECK_LAST(r, "all-to-all: send is NULL");
	CHECK_STATUS(r, oriel_bcast_run(s.bcast, r->rank, NULL, 8), ORIEL_ERR_INVALID);
	CHECK_LAST(r, "broadcast: send is NULL");
	CHECK_STATUS(r, oriel_bcast_run(s.bcast, r->size, s.send, 8), ORIEL_ERR_RANGE);
	CHECK_LAST(r, "broadcast: root");
	CHECK_STATUS(r, oriel_bcast_run(s.bcast, r->rank, s.result + 1, 8), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_bcast_run(s.bcast, 0, s.send, s.length + 1), ORIEL_ERR_RANGE);
	/* The failed calls changed nothing. */
	alltoall_once(r, &s, 8);
	bcast_once(r, &s, 8);
	oriel_bcast_destroy(s.bcast);
	oriel_bcast_destroy((struct oriel_bcast *)s.alltoall);
	CHECK_LAST(r, "is not a live broadcast");
	oriel_alltoall_destroy(s.alltoall);
	oriel_alltoall_destroy(NULL);
	site_close(r, &s);
}

/* If one rank creates another kind of collective, all ranks get the error. */
static void different_collectives_do_not_match(struct rank *r)
{
	struct oriel_allgather *gather = NULL;
	struct oriel_bcast *bcast = NULL;
	struct site s;

	site_open(r, &s);
	if (r->rank == 0)
		CHECK_STATUS(r, oriel_allgather_create(r->comm, &s.view, NULL, &gather),
			     ORIEL_ERR_MISMATCH);
	else
		CHECK_STATUS(r, oriel_bcast_create(r->comm, &s.view, NULL, &bcast),
			     ORIEL_ERR_MISMATCH);
	CHECK_LAST(r, "different collectives: all-gather on rank 0, broadcast on rank 1");
	site_close(r, &s);
}

/* A rank behind the barrier sees all puts from before it. */
static void no_rank_passes_a_barrier_early(struct rank *r)
{
	struct oriel_stream_barrier *barrier = NULL;
	struct oriel_window *window = NULL;
	uint64_t i, value = 0;
	unsigned rank;
	void *base;

	CHECK_STATUS(r, oriel_stream_barrier_create(r->comm, 8, &barrier), ORIEL_ERR_INVALID);
	CHECK_OK(r, oriel_window_create(r->comm, &small_window, &window));
	CHECK_OK(r, oriel_window_buffer(window, 0, &base, NULL));
	if (!CHECK_OK(r, oriel_stream_barrier_create(r->comm, 0, &barrier)))
		return;
	CHECK_STATUS(r, oriel_stream_barrier_run_on_stream(barrier, NULL), ORIEL_ERR_INVALID);
	for (i = 1; i <= 100; i++) {
		for (rank = 0; rank < r->size; rank++)
			CHECK_OK(r, oriel_window_put_value(window, rank, r->rank * 8, i));
		CHECK_OK(r, oriel_window_flush(window, 0));
		CHECK_OK(r, oriel_stream_barrier_run(barrier));
		for (rank = 0; rank < r->size; rank++) {
			memcpy(&value, (char *)base + rank * 8, 8);
			CHECK_EQ(r, value, i);
		}
		CHECK_OK(r, oriel_stream_barrier_run(barrier));
	}
	oriel_stream_barrier_destroy(barrier);
	oriel_stream_barrier_destroy(NULL);
	oriel_window_destroy(window);
}

/* A rank that waits for a peer that never starts gets the status of that peer's abort. */
static void an_abort_ends_every_collective(struct rank *r)
{
	struct site s;

	site_open(r, &s);
	if (!alltoall_create(r, &s, 0) || !bcast_create(r, &s, 0))
		return;
	alltoallv_once(r, &s);
	bcast_once(r, &s, 5000);
	/* All ranks have ended the execution; this meeting does not use the communicator. */
	host_meet(r);
	if (r->rank == 0)
		oriel_comm_abort(r->comm, "no more exchanging");
	CHECK_STATUS(r, oriel_alltoall_run(s.alltoall, s.send, 5000), ORIEL_ERR_ABORTED);
	CHECK_STATUS(r, oriel_alltoall_run_v(s.alltoall, s.send, s.layout), ORIEL_ERR_ABORTED);
	CHECK_LAST(r, "all-to-all: ");
	CHECK_STATUS(r, oriel_bcast_run(s.bcast, 0, s.send, 5000), ORIEL_ERR_ABORTED);
	CHECK_LAST(r, "broadcast: ");
	oriel_bcast_destroy(s.bcast);
	oriel_alltoall_destroy(s.alltoall);
	free(s.send);
	free(s.layout);
	oriel_memory_free(s.memory);
}

static const struct test_case exchange_cases[] = {
	{"every_algorithm_exchanges_every_size", every_algorithm_exchanges_every_size, NULL, 1,
	 NO_WINDOW},
	{"messages_of_any_length_are_exchanged", messages_of_any_length_are_exchanged, NULL, 1,
	 NO_WINDOW},
	{"empty_messages_do_not_mix", empty_messages_do_not_mix, NULL, 1, NO_WINDOW},
	{"lengths_of_a_pair_that_differ_are_reported", lengths_of_a_pair_that_differ_are_reported,
	 NULL, 2, NO_WINDOW},
	{"every_algorithm_broadcasts_every_size", every_algorithm_broadcasts_every_size, NULL, 1,
	 NO_WINDOW},
	{"a_broadcast_result_stays_until_the_next_start",
	 a_broadcast_result_stays_until_the_next_start, NULL, 2, NO_WINDOW},
	{"invalid_exchanges_are_rejected", invalid_exchanges_are_rejected, NULL, 1, NO_WINDOW},
	{"different_collectives_do_not_match", different_collectives_do_not_match, NULL, 2,
	 NO_WINDOW},
	{"no_rank_passes_a_barrier_early", no_rank_passes_a_barrier_early, NULL, 1, NO_WINDOW},
	{"an_abort_ends_every_collective", an_abort_ends_every_collective, NULL, 2,
	 NO_WINDOW | BREAKS_COMM},
};

const struct suite exchange_suite = SUITE(exchange);
