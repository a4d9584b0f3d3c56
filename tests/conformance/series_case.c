/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers, broadcasts and exchanges of oriel/window.h by threads of the host: results are complete,
 * in order, and no other byte changes. The conformance program runs this suite for every transport.
 */
#include "lengths.h"
#include "series.h"

#define MOST 200001u /* the most bytes of a message: several turns, for each part */
#define ROUNDS 30u

static const size_t sizes[] = {1, 7, 8, 100, 0, 1000, 4096, 4097, 16385, MOST};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

typedef enum oriel_status gather_call(struct oriel_window *window,
				      const struct oriel_dev_gather *gather, uint32_t parts,
				      const void *from, size_t length);

/* Where the messages of a gather lie: all ranks have the same way in each round. */
enum way { APART, IN_PLACE, FOR_EACH, WAYS };

static void gather_once(struct rank *r, struct series *s, gather_call *call, size_t bytes)
{
	enum way way = (enum way)(s->round % WAYS);
	char *send = way == IN_PLACE ? s->result + r->rank * bytes : s->send + s->round % 2;
	unsigned rank;

	s->round++;
	memset(s->result, GUARD, r->size * bytes + BEHIND);
	s->gather.stride = way == FOR_EACH ? bytes : 0;
	for (rank = 0; rank < (way == FOR_EACH ? r->size : 1); rank++)
		fill(send + rank * bytes, bytes, seed_of(s->round, r->rank, rank));
	if (!CHECK_OK(r, call(s->window, &s->gather, s->parts, send, bytes)))
		return;
	/* The caller may reuse the buffer on return. */
	if (way != IN_PLACE)
		memset(send, GUARD, bytes);
	series_linger(r, s);
	for (rank = 0; rank < r->size; rank++)
		if (!CHECK_EQ(r,
			      wrong(s->result + rank * bytes, bytes,
				    seed_of(s->round, rank, way == FOR_EACH ? r->rank : 0)),
			      0))
			return;
	CHECK_EQ(r, not_all(s->result + r->size * bytes, BEHIND, GUARD), 0);
}

static void gather_sizes(struct rank *r, struct series *s, gather_call *call)
{
	size_t i;

	for (i = 0; i < WAYS * SIZES; i++)
		gather_once(r, s, call, sizes[i / WAYS]);
	for (i = 0; i < ROUNDS; i++)
		gather_once(r, s, call, 1 + i * 37 % 900);
}

static void open_lines(struct rank *r, struct series *s, enum oriel_dev_lines lines, uint32_t parts)
{
	uint64_t slot = oriel_dev_gather_slot(lines, MOST, parts);

	series_open(r, s, (size_t)r->size * MOST, parts,
		    oriel_dev_gather_staging(r->size, parts, slot));
	s->gather.lines = lines;
	s->gather.slot = slot;
}

static void lines_gather_every_size(struct rank *r)
{
	struct series s;
	uint32_t parts;

	for (parts = 1; parts <= PARTS_MAX; parts++) {
		open_lines(r, &s, parts == 2 ? ORIEL_DEV_LINES_LL128 : ORIEL_DEV_LINES_LL, parts);
		gather_sizes(r, &s, oriel_window_gather_lines);
		series_close(r, &s);
	}
}

static void puts_gather_every_size(struct rank *r)
{
	struct series s;
	uint32_t parts;

	for (parts = 1; parts <= PARTS_MAX; parts++) {
		series_open(r, &s, (size_t)r->size * MOST, parts, 0);
		gather_sizes(r, &s, oriel_window_gather_puts);
		series_close(r, &s);
	}
}

/* In place at the root in each third round; no other rank has a message. */
static void broadcast_once(struct rank *r, struct series *s, unsigned root, size_t bytes)
{
	bool is_in_place = s->round % 3 == 0;
	char *send = is_in_place ? s->result : s->send + s->round % 2;

	s->round++;
	if (r->rank != root)
		send = NULL;
	memset(s->result, GUARD, bytes + BEHIND);
	if (send)
		fill(send, bytes, seed_of(s->round, root, 0));
	if (!CHECK_OK(r,
		      oriel_window_broadcast(s->window, &s->gather, s->parts, root, send, bytes)))
		return;
	if (send && !is_in_place)
		memset(send, GUARD, bytes);
	series_linger(r, s);
	CHECK_EQ(r, wrong(s->result, bytes, seed_of(s->round, root, 0)), 0);
	CHECK_EQ(r, not_all(s->result + bytes, BEHIND, GUARD), 0);
}

static void every_size_is_broadcast(struct rank *r)
{
	struct series s;
	uint32_t parts;
	size_t i;

	for (parts = 1; parts <= PARTS_MAX; parts++) {
		series_open(r, &s, MOST, parts, 0);
		for (i = 0; i < 3 * SIZES; i++)
			broadcast_once(r, &s, (unsigned)(i * 5 + 1) % r->size, sizes[i / 3]);
		/* From one root many times, so that it could run ahead. */
		for (i = 0; i < ROUNDS; i++)
			broadcast_once(r, &s, (unsigned)(i / 10) % r->size, 5000);
		series_close(r, &s);
	}
}

static void check_received(struct rank *r, const struct series *s,
			   const struct oriel_dev_alltoallv *layout, unsigned but)
{
	unsigned rank;

	for (rank = 0; rank < r->size; rank++)
		if (rank != but &&
		    !CHECK_EQ(r,
			      wrong(s->result + layout[rank].recv_displacement,
				    layout[rank].recv_length, seed_of(s->round, rank, r->rank)),
			      0))
			return;
}

static void exchange_once(struct rank *r, struct series *s, struct oriel_dev_alltoallv *layout)
{
	size_t end = 0;
	unsigned rank;

	s->round++;
	memset(s->result, GUARD, s->length);
	layout_fill(r, s->round, layout, s->send);
	for (rank = 0; rank < r->size; rank++)
		if (layout[rank].recv_displacement + layout[rank].recv_length > end)
			end = layout[rank].recv_displacement + layout[rank].recv_length;
	if (!CHECK_OK(r, oriel_window_exchange(s->window, &s->gather, s->parts, s->send, layout)))
		return;
	memset(s->send, GUARD, s->length);
	series_linger(r, s);
	check_received(r, s, layout, r->size);
	CHECK_EQ(r, not_all(s->result + end, s->length + BEHIND - end, GUARD), 0);
}

static void open_exchange(struct rank *r, struct series *s, uint32_t parts)
{
	series_open(r, s, (size_t)r->size * SHARE + 2, parts,
		    oriel_dev_exchange_staging(r->size, parts));
}

static void messages_of_any_length_are_exchanged(struct rank *r)
{
	struct oriel_dev_alltoallv *layout = calloc(r->size, sizeof(*layout));
	struct series s;
	uint32_t parts;
	unsigned i;

	CHECK(r, layout);
	for (parts = 1; parts <= PARTS_MAX; parts++) {
		open_exchange(r, &s, parts);
		for (i = 0; i < ROUNDS; i++)
			exchange_once(r, &s, layout);
		/* Empty messages between all ranks: the notes of two executions must not mix. */
		memset(layout, 0, r->size * sizeof(*layout));
		for (i = 0; i < ROUNDS; i++)
			CHECK_OK(r,
				 oriel_window_exchange(s.window, &s.gather, parts, NULL, layout));
		exchange_once(r, &s, layout);
		series_close(r, &s);
	}
	free(layout);
}

/* Both ranks of the pair get the error, all other messages arrive, and the next ones succeed. */
static void lengths_of_a_pair_that_differ_are_reported(struct rank *r)
{
	struct oriel_dev_alltoallv *layout = calloc(r->size, sizeof(*layout));
	unsigned last = r->size - 1;
	enum oriel_status status;
	struct series s;
	uint32_t parts;

	CHECK(r, layout);
	for (parts = 1; parts <= PARTS_MAX; parts++) {
		open_exchange(r, &s, parts);
		exchange_once(r, &s, layout);
		s.round = 50;
		layout_fill(r, s.round, layout, s.send);
		if (r->rank == 0)
			layout[last].send_length = length_of(s.round, 0, last) + 3;
		status = oriel_window_exchange(s.window, &s.gather, parts, s.send, layout);
		if (r->rank == 0 || r->rank == last) {
			CHECK_STATUS(r, status, ORIEL_ERR_MISMATCH);
			CHECK_LAST(r, r->rank ? "rank 0 sends" : "bytes sent to rank");
			check_received(r, &s, layout, r->rank ? 0 : last);
		} else if (CHECK_OK(r, status)) {
			check_received(r, &s, layout, r->size);
		}
		exchange_once(r, &s, layout);
		exchange_once(r, &s, layout);
		rank_check_healthy(r);
		series_close(r, &s);
	}
	free(layout);
}

/* All ranks make each of these calls, and no rank begins an execution. */
static void invalid_executions_are_rejected(struct rank *r)
{
	struct oriel_dev_alltoallv *layout = calloc(r->size, sizeof(*layout));
	struct series s;

	CHECK(r, layout);
	open_exchange(r, &s, 2);
	CHECK_STATUS(r, oriel_window_gather_puts(s.window, &s.gather, 0, s.send, 8),
		     ORIEL_ERR_RANGE);
	CHECK_LAST(r, "in 0 parts");
	CHECK_STATUS(r, oriel_window_gather_puts(s.window, &s.gather, FIRST_ID + 5, s.send, 8),
		     ORIEL_ERR_RANGE);
	CHECK_LAST(r, "in 8 parts");
	s.gather.id = FIRST_ID + 3;
	CHECK_STATUS(r, oriel_window_gather_puts(s.window, &s.gather, 1, s.send, 8),
		     ORIEL_ERR_RANGE);
	CHECK_LAST(r, "signal 7 of 7");
	s.gather.id = FIRST_ID;
	CHECK_STATUS(r, oriel_window_broadcast(s.window, &s.gather, 2, r->size, s.send, 8),
		     ORIEL_ERR_RANGE);
	CHECK_LAST(r, "signal: rank ");
	/* No slot is too short for a message of no bytes. */
	CHECK_STATUS(r, oriel_window_gather_lines(s.window, &s.gather, 2, s.send, 8),
		     ORIEL_ERR_RANGE);
	CHECK_LAST(r, "oriel_window_gather_lines: window ");
	CHECK_OK(r, oriel_window_gather_lines(s.window, &s.gather, 2, s.send, 0));
	layout[r->rank].send_length = 1;
	CHECK_STATUS(r, oriel_window_exchange(s.window, &s.gather, 2, s.send, layout),
		     ORIEL_ERR_MISMATCH);
	layout[r->rank].send_length = layout[r->rank].recv_length = 1;
	layout[r->rank].recv_displacement = (size_t)1 << 30;
	CHECK_STATUS(r, oriel_window_exchange(s.window, &s.gather, 2, s.send, layout),
		     ORIEL_ERR_RANGE);
	CHECK_LAST(r, "beyond the");
	CHECK_STATUS(r, oriel_window_exchange(s.window, &s.gather, 2, s.send, NULL),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "oriel_window_exchange: layout is NULL");
	CHECK_STATUS(r, oriel_window_gather_puts(s.window, &s.gather, 2, NULL, 8),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "the caller's memory is NULL");
	/* The failed calls changed nothing. */
	exchange_once(r, &s, layout);
	series_close(r, &s);
	free(layout);
}

/* The record of device functions is not taken by executions of the host, nor filled by them. */
static void failures_leave_device_records_alone(struct rank *r)
{
	struct oriel_dev_fault fault;
	struct oriel_dev_window dev;
	struct series s;
	unsigned i;

	series_open(r, &s, r->size, 1, 0);
	CHECK_OK(r, oriel_window_device(s.window, &dev));
	CHECK_STATUS(r, oriel_dev_put(&dev, r->group, r->size, 0, "", 1, NULL), ORIEL_ERR_RANGE);
	for (i = 0; i < 2; i++) {
		CHECK_STATUS(r, oriel_window_gather_lines(s.window, &s.gather, 1, s.send, 1),
			     ORIEL_ERR_RANGE);
		CHECK_LAST(r, "oriel_window_gather_lines: window ");
		s.gather.id = 99;
		CHECK_STATUS(r, oriel_window_gather_puts(s.window, &s.gather, 1, s.send, 1),
			     ORIEL_ERR_RANGE);
		CHECK_LAST(r, "signal 100 of 5");
		s.gather.id = FIRST_ID;
		if (i)
			continue;
		CHECK(r, oriel_window_fault(s.window, &fault) == ORIEL_OK);
		CHECK_EQ(r, fault.peer, r->size);
		CHECK_STATUS(r, oriel_window_fault(s.window, &fault), ORIEL_AGAIN);
	}
	CHECK_STATUS(r, oriel_window_fault(s.window, &fault), ORIEL_AGAIN);
	series_close(r, &s);
}

/* The last rank is on another node than the first one: each rank has a peer that is not mapped. */
static void lines_need_mapped_ranks(struct rank *r)
{
	bool is_whole = oriel_comm_domain_size(r->comm) == r->size;
	struct series s;

	open_lines(r, &s, ORIEL_DEV_LINES_LL, 1);
	if (!is_whole) {
		CHECK_STATUS(r, oriel_window_gather_lines(s.window, &s.gather, 1, s.send, 8),
			     ORIEL_ERR_NO_PATH);
		CHECK_LAST(r, "oriel_window_gather_lines: window ");
	}
	gather_once(r, &s, oriel_window_gather_puts, 5000);
	rank_check_healthy(r);
	series_close(r, &s);
}

/* A rank that waits for a peer that never starts gets the status of that peer's abort. */
static void an_abort_ends_an_execution(struct rank *r)
{
	struct series s;

	series_open(r, &s, (size_t)r->size * 5000, 2, 0);
	gather_once(r, &s, oriel_window_gather_puts, 5000);
	/* All ranks have ended the execution; this meeting does not use the communicator. */
	host_meet(r);
	if (r->rank == 0)
		oriel_comm_abort(r->comm, "no more gathering");
	else
		CHECK_STATUS(r, oriel_window_gather_puts(s.window, &s.gather, 2, s.send, 5000),
			     ORIEL_ERR_ABORTED);
	CHECK_STATUS(r, oriel_window_broadcast(s.window, &s.gather, 2, 0, s.send, 8),
		     ORIEL_ERR_ABORTED);
	CHECK_LAST(r, "aborted by rank 0");
	free(s.send);
	oriel_window_destroy(s.window);
}

static const struct test_case series_cases[] = {
	{"lines_gather_every_size", lines_gather_every_size, NULL, 1, NO_WINDOW | NEEDS_MAPPED},
	{"puts_gather_every_size", puts_gather_every_size, NULL, 1, NO_WINDOW},
	{"every_size_is_broadcast", every_size_is_broadcast, NULL, 1, NO_WINDOW},
	{"messages_of_any_length_are_exchanged", messages_of_any_length_are_exchanged, NULL, 1,
	 NO_WINDOW},
	{"lengths_of_a_pair_that_differ_are_reported", lengths_of_a_pair_that_differ_are_reported,
	 NULL, 2, NO_WINDOW},
	{"invalid_executions_are_rejected", invalid_executions_are_rejected, NULL, 1, NO_WINDOW},
	{"failures_leave_device_records_alone", failures_leave_device_records_alone, NULL, 2,
	 NO_WINDOW},
	{"lines_need_mapped_ranks", lines_need_mapped_ranks, NULL, 2, NO_WINDOW},
	{"an_abort_ends_an_execution", an_abort_ends_an_execution, NULL, 2,
	 NO_WINDOW | BREAKS_COMM},
};

const struct suite series_suite = SUITE(series);
