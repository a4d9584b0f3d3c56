/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-to-alls and broadcasts of the fake driver's memory over several nodes. CTest runs it as
 * fakecuda/nodes_*_exchange_*; see nodes.h.
 */
#include <stdlib.h>

#include "nodes.h"

#define GUARD 0x5a

static const size_t sizes[] = {1, 8, 1001, CHUNK, CHUNK + 1, 65536, SHARE};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Byte @i of the message from @from to @to; of a broadcast both are its root. */
static char pattern(unsigned round, unsigned from, unsigned to, size_t i)
{
	return (char)(round * 101 + from * 37 + to * 13 + i * 11 + (i >> 8) * 59);
}

static bool is_from(const struct site *s, const char *at, unsigned from, unsigned to, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		if (at[i] != pattern(s->round, from, to, i))
			return false;
	return true;
}

static bool is_guard(const char *at, size_t length)
{
	size_t i;

	for (i = 0; i < length; i++)
		if (at[i] != GUARD)
			return false;
	return true;
}

static void fill(const struct site *s, char *at, unsigned from, unsigned to, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		at[i] = pattern(s->round, from, to, i);
}

static void alltoall_create(struct site *s, struct object *o)
{
	const struct oriel_coll_attr attr = {.size = sizeof(attr), .chunk = CHUNK};
	const struct oriel_view view = nodes_view(s, o);

	if (!CHECK_OK(&s->r, oriel_alltoall_create(s->r.comm, &view, &attr, &o->alltoall)))
		_Exit(1);
}

static void bcast_create(struct site *s, struct object *o, unsigned algorithm)
{
	const struct oriel_coll_attr attr = {.size = sizeof(attr),
					     .algorithm = algorithm,
					     .chunk = CHUNK};
	const struct oriel_view view = nodes_view(s, o);

	if (!CHECK_OK(&s->r, oriel_bcast_create(s->r.comm, &view, &attr, &o->bcast)))
		_Exit(1);
}

static void exchange_fill(const struct site *s, char *send, size_t bytes)
{
	unsigned rank;

	for (rank = 0; rank < s->r.size; rank++)
		fill(s, send + rank * bytes, s->r.rank, rank, bytes);
}

/* The bytes behind the result must not change. */
static bool is_exchanged(const struct site *s, const struct object *o, size_t bytes)
{
	unsigned rank;

	for (rank = 0; rank < s->r.size; rank++)
		if (!is_from(s, o->result + rank * bytes, rank, s->r.rank, bytes))
			return false;
	return is_guard(o->result + s->r.size * bytes, s->r.size * (SHARE - bytes));
}

static void exchange_once(struct site *s, struct object *o, size_t bytes)
{
	char *send = o->send + s->round % 2;

	exchange_fill(s, send, bytes);
	memset(o->result, GUARD, s->r.size * SHARE);
	if (!CHECK_OK(&s->r, oriel_alltoall_run_on_stream(o->alltoall, send, bytes, o->stream)))
		return;
	fakecuda_finish(o->stream);
	CHECK(&s->r, is_exchanged(s, o, bytes));
	s->round++;
}

static void test_sizes(struct site *s)
{
	struct object *o = &s->objects[0];
	struct oriel_coll_info info = {.size = sizeof(info)};
	unsigned i;

	alltoall_create(s, o);
	CHECK_OK(&s->r, oriel_alltoall_query(o->alltoall, 8, &info));
	CHECK(&s->r, info.nodes > 1 && info.bytes_max == SHARE);
	CHECK(&s->r, info.supported == 1u << ORIEL_ALGORITHM_DIRECT);
	for (i = 0; i < 2 * SIZES; i++)
		exchange_once(s, o, sizes[i / 2]);
	CHECK_OK(&s->r, oriel_alltoall_run_on_stream(o->alltoall, NULL, 0, o->stream));
	CHECK_FAILS(&s->r, oriel_alltoall_run(o->alltoall, o->send, 8), ORIEL_ERR_INVALID,
		    "call oriel_alltoall_run_on_stream()");
	CHECK_FAILS(&s->r, oriel_alltoall_run_on_stream(o->alltoall, o->result, 8, o->stream),
		    ORIEL_ERR_INVALID, "overlaps");
	oriel_alltoall_destroy(o->alltoall);
}

/* Bytes from @from to @to: none, few, many, and not the same both ways. */
static size_t length_of(unsigned round, unsigned from, unsigned to)
{
	unsigned draw = (round * 7 + from * 13 + to * 5) % 8;

	return draw < 3 ? 0 : draw == 3 ? 1 : (draw * 2477 + round * 3571) % (SHARE / 4);
}

/* The messages lie in the view in another order than in the send buffer, unaligned. */
static void layout_fill(const struct site *s, struct object *o, struct oriel_dev_alltoallv *layout)
{
	size_t send_offset = s->round % 2, recv_offset = s->round % 3;
	unsigned i, rank;

	for (i = 0; i < s->r.size; i++) {
		rank = (s->r.rank * 3 + i) % s->r.size;
		layout[rank].recv_displacement = recv_offset;
		layout[rank].recv_length = length_of(s->round, rank, s->r.rank);
		recv_offset += layout[rank].recv_length;
		layout[i].send_displacement = send_offset;
		layout[i].send_length = length_of(s->round, s->r.rank, i);
		fill(s, o->send + send_offset, s->r.rank, i, layout[i].send_length);
		send_offset += layout[i].send_length;
	}
	memset(o->result, GUARD, s->r.size * SHARE);
}

static bool are_received(const struct site *s, const struct object *o,
			 const struct oriel_dev_alltoallv *layout)
{
	size_t end = s->round % 3;
	unsigned rank;

	for (rank = 0; rank < s->r.size; rank++) {
		if (!is_from(s, o->result + layout[rank].recv_displacement, rank, s->r.rank,
			     layout[rank].recv_length))
			return false;
		end += layout[rank].recv_length;
	}
	return is_guard(o->result, s->round % 3) &&
	       is_guard(o->result + end, s->r.size * SHARE - end);
}

static void alltoallv_once(struct site *s, struct object *o, struct oriel_dev_alltoallv *layout)
{
	layout_fill(s, o, layout);
	if (!CHECK_OK(&s->r,
		      oriel_alltoall_run_v_on_stream(o->alltoall, o->send, layout, o->stream)))
		return;
	fakecuda_finish(o->stream);
	CHECK(&s->r, are_received(s, o, layout));
	s->round++;
}

/* GPU memory for a layout, which a kernel could write. */
static struct oriel_dev_alltoallv *layout_open(struct site *s)
{
	CUdeviceptr at;

	CHECK(&s->r,
	      cuMemAlloc(&at, s->r.size * sizeof(struct oriel_dev_alltoallv)) == CUDA_SUCCESS);
	return (struct oriel_dev_alltoallv *)at;
}

/* Empty messages in between: notifications of two rounds must not mix. */
static void notes_ahead(struct site *s, struct object *o, struct oriel_dev_alltoallv *layout,
			struct oriel_dev_alltoallv *nothing)
{
	unsigned i;

	memset(nothing, 0, s->r.size * sizeof(*nothing));
	layout_fill(s, o, layout);
	for (i = 0; i < 100; i++)
		CHECK_OK(&s->r,
			 oriel_alltoall_run_v_on_stream(o->alltoall, o->send,
							i % 4 == 3 ? layout : nothing, o->stream));
	fakecuda_finish(o->stream);
	CHECK(&s->r, are_received(s, o, layout));
	s->round++;
}

static void test_alltoallv(struct site *s)
{
	struct oriel_dev_alltoallv *layout = layout_open(s), *nothing = layout_open(s);
	struct object *o = &s->objects[0];
	unsigned i;

	alltoall_create(s, o);
	for (i = 0; i < 24; i++) {
		alltoallv_once(s, o, layout);
		if (i % 4 == 3)
			exchange_once(s, o, 1 + i * 71);
		if (i % 6 == 0)
			notes_ahead(s, o, layout, nothing);
	}
	CHECK_FAILS(&s->r, oriel_alltoall_run_v_on_stream(o->alltoall, o->send, NULL, o->stream),
		    ORIEL_ERR_INVALID, "NULL");
	oriel_alltoall_destroy(o->alltoall);
	cuMemFree((CUdeviceptr)nothing);
	cuMemFree((CUdeviceptr)layout);
}

static void bcast_once(struct site *s, struct object *o, unsigned root, size_t bytes)
{
	bool is_in_place = s->round % 2;
	char *send = is_in_place ? o->result : o->send + 1;

	memset(o->result, GUARD, s->r.size * SHARE);
	if (s->r.rank == root)
		fill(s, send, root, root, bytes);
	if (!CHECK_OK(&s->r,
		      oriel_bcast_run_on_stream(o->bcast, root, s->r.rank == root ? send : NULL,
						bytes, o->stream)))
		return;
	fakecuda_finish(o->stream);
	CHECK(&s->r, is_from(s, o->result, root, root, bytes));
	CHECK(&s->r, is_guard(o->result + bytes, s->r.size * SHARE - bytes));
	s->round++;
}

static void test_bcast(struct site *s)
{
	struct object *o = &s->objects[0];
	struct oriel_coll_info info = {.size = sizeof(info)};
	unsigned algorithm, i;

	for (algorithm = 0; algorithm <= ORIEL_ALGORITHM_BRUCK; algorithm++) {
		if (algorithm && algorithm < ORIEL_ALGORITHM_DIRECT)
			continue;
		bcast_create(s, o, algorithm);
		CHECK_OK(&s->r, oriel_bcast_query(o->bcast, 8, &info));
		CHECK(&s->r, info.bytes_max == s->r.size * SHARE);
		CHECK(&s->r,
		      info.supported == (1u << ORIEL_ALGORITHM_DIRECT | 1u << ORIEL_ALGORITHM_RING |
					 1u << ORIEL_ALGORITHM_BRUCK));
		for (i = 0; i < 2 * SIZES; i++)
			bcast_once(s, o, i * 5 % s->r.size, sizes[i / 2]);
		for (i = 0; i < s->r.size; i++)
			bcast_once(s, o, i, 3 * CHUNK + 7);
		bcast_once(s, o, 0, s->r.size * SHARE);
		oriel_bcast_destroy(o->bcast);
	}
}

/* Several executions in flight in a stream; each rank checks only the last one, later. */
static void test_ahead(struct site *s)
{
	struct object *exchange = &s->objects[0], *bcast = &s->objects[1];
	unsigned i, k;

	alltoall_create(s, exchange);
	bcast_create(s, bcast, ORIEL_ALGORITHM_RING);
	for (k = 0; k < 5; k++) {
		exchange_fill(s, exchange->send, 50000);
		fill(s, bcast->send, k % s->r.size, k % s->r.size, SHARE);
		memset(exchange->result, GUARD, s->r.size * SHARE);
		for (i = 0; i < 8; i++) {
			CHECK_OK(&s->r,
				 oriel_alltoall_run_on_stream(exchange->alltoall, exchange->send,
							      50000, exchange->stream));
			CHECK_OK(&s->r,
				 oriel_bcast_run_on_stream(bcast->bcast, k % s->r.size, bcast->send,
							   SHARE, exchange->stream));
		}
		fakecuda_finish(exchange->stream);
		CHECK(&s->r, is_exchanged(s, exchange, 50000));
		CHECK(&s->r, is_from(s, bcast->result, k % s->r.size, k % s->r.size, SHARE));
		s->round++;
	}
	oriel_bcast_destroy(bcast->bcast);
	oriel_alltoall_destroy(exchange->alltoall);
}

enum captured { EQUAL, ALLTOALLV, BCAST, CAPTURED };

static void replay(struct site *s, CUgraphExec exec, enum captured which,
		   struct oriel_dev_alltoallv *layout)
{
	struct object *o = &s->objects[which == BCAST];
	unsigned root = s->r.size - 1;

	memset(o->result, GUARD, s->r.size * SHARE);
	if (which == EQUAL)
		exchange_fill(s, o->send, 1000);
	else if (which == ALLTOALLV)
		layout_fill(s, o, layout);
	else if (s->r.rank == root)
		fill(s, o->send, root, root, 3 * CHUNK + 5);
	CHECK(&s->r, cuGraphLaunch(exec, o->stream) == CUDA_SUCCESS);
	fakecuda_finish(o->stream);
	if (which == EQUAL)
		CHECK(&s->r, is_exchanged(s, o, 1000));
	else if (which == ALLTOALLV)
		CHECK(&s->r, are_received(s, o, layout));
	else
		CHECK(&s->r, is_from(s, o->result, root, root, 3 * CHUNK + 5));
	s->round++;
}

/* Captures of two objects, launched in turn, with other lengths each time, and some starts. */
static void test_graphs(struct site *s)
{
	struct oriel_dev_alltoallv *layout = layout_open(s);
	struct object *exchange = &s->objects[0], *bcast = &s->objects[1];
	CUgraphExec execs[CAPTURED];
	CUgraph graphs[CAPTURED];
	unsigned i;

	alltoall_create(s, exchange);
	bcast_create(s, bcast, ORIEL_ALGORITHM_DEFAULT);
	nodes_capture_begin(s, exchange);
	CHECK_OK(&s->r, oriel_alltoall_run_on_stream(exchange->alltoall, exchange->send, 1000,
						     exchange->stream));
	execs[EQUAL] = nodes_capture_end(s, exchange, &graphs[EQUAL]);
	nodes_capture_begin(s, exchange);
	CHECK_OK(&s->r, oriel_alltoall_run_v_on_stream(exchange->alltoall, exchange->send, layout,
						       exchange->stream));
	execs[ALLTOALLV] = nodes_capture_end(s, exchange, &graphs[ALLTOALLV]);
	nodes_capture_begin(s, bcast);
	CHECK_OK(&s->r, oriel_bcast_run_on_stream(bcast->bcast, s->r.size - 1, bcast->send,
						  3 * CHUNK + 5, bcast->stream));
	execs[BCAST] = nodes_capture_end(s, bcast, &graphs[BCAST]);
	for (i = 0; i < REPLAYS / 5; i++) {
		/* The order does not repeat with their number. */
		replay(s, execs[i * i / 3 % CAPTURED], (enum captured)(i * i / 3 % CAPTURED),
		       layout);
		if (i % 50 == 0) {
			exchange_once(s, exchange, 3 * CHUNK + 5);
			bcast_once(s, bcast, i % s->r.size, 1000);
		}
	}
	/* One capture is destroyed before the objects; of another only the graph is. */
	cuGraphDestroy(graphs[EQUAL]);
	cuGraphExecDestroy(execs[EQUAL]);
	cuGraphDestroy(graphs[BCAST]);
	nodes_meet(s);
	exchange_once(s, exchange, 1000);
	oriel_bcast_destroy(bcast->bcast);
	oriel_alltoall_destroy(exchange->alltoall);
	cuGraphExecDestroy(execs[BCAST]);
	cuGraphExecDestroy(execs[ALLTOALLV]);
	cuGraphDestroy(graphs[ALLTOALLV]);
	cuMemFree((CUdeviceptr)layout);
}

/* Executions in two streams, which ranks post in different orders. */
static void test_two(struct site *s)
{
	struct object *exchange = &s->objects[0], *bcast = &s->objects[1];
	unsigned i, k;

	alltoall_create(s, exchange);
	bcast_create(s, bcast, ORIEL_ALGORITHM_BRUCK);
	for (k = 0; k < 10; k++) {
		exchange_fill(s, exchange->send, 40000);
		memset(exchange->result, GUARD, s->r.size * SHARE);
		fill(s, bcast->send, k % s->r.size, k % s->r.size, SHARE);
		for (i = 0; i < 2; i++) {
			if ((s->r.rank + i) % 2)
				CHECK_OK(&s->r, oriel_alltoall_run_on_stream(exchange->alltoall,
									     exchange->send, 40000,
									     exchange->stream));
			else
				CHECK_OK(&s->r,
					 oriel_bcast_run_on_stream(bcast->bcast, k % s->r.size,
								   bcast->send, SHARE,
								   bcast->stream));
		}
		fakecuda_finish(exchange->stream);
		fakecuda_finish(bcast->stream);
		CHECK(&s->r, is_exchanged(s, exchange, 40000));
		CHECK(&s->r, is_from(s, bcast->result, k % s->r.size, k % s->r.size, SHARE));
		s->round++;
	}
	oriel_bcast_destroy(bcast->bcast);
	oriel_alltoall_destroy(exchange->alltoall);
}

/* An invalid layout breaks the communicator, since no call can return the error. */
static void wrong_layout(struct site *s, enum oriel_status status,
			 void (*spoil)(const struct site *s, struct oriel_dev_alltoallv *layout))
{
	struct oriel_dev_alltoallv *layout = layout_open(s);
	struct object *o = &s->objects[0];
	enum oriel_status started;

	alltoall_create(s, o);
	alltoallv_once(s, o, layout);
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	layout_fill(s, o, layout);
	if (s->r.rank == 0)
		spoil(s, layout);
	started = oriel_alltoall_run_v_on_stream(o->alltoall, o->send, layout, o->stream);
	/* The failure of a peer may be known already. */
	CHECK(&s->r, started == ORIEL_OK || (s->r.rank && started == status));
	nodes_expect_broken(s, o);
	CHECK(&s->r, ori_dev_health(&s->r.dev) == status);
	CHECK_FAILS(&s->r, oriel_alltoall_run_on_stream(o->alltoall, o->send, 8, o->stream), status,
		    "all-to-all: ");
	oriel_alltoall_destroy(o->alltoall);
	cuMemFree((CUdeviceptr)layout);
}

static void send_more(const struct site *s, struct oriel_dev_alltoallv *layout)
{
	layout[s->r.size - 1].send_length += 3;
}

static void exceed_view(const struct site *s, struct oriel_dev_alltoallv *layout)
{
	layout[1].recv_displacement = s->r.size * SHARE - layout[1].recv_length + 1;
}

static void expect_more(const struct site *s, struct oriel_dev_alltoallv *layout)
{
	layout[1].recv_displacement = 0;
	layout[1].recv_length = s->r.size * SHARE + 1;
}

static void test_mismatch(struct site *s)
{
	wrong_layout(s, ORIEL_ERR_MISMATCH, send_more);
}

static void test_range(struct site *s)
{
	wrong_layout(s, ORIEL_ERR_RANGE, exceed_view);
}

static void test_long(struct site *s)
{
	wrong_layout(s, ORIEL_ERR_RANGE, expect_more);
}

/* The last rank never starts; the streams of its peers go on within the timeout. */
static void test_absent(struct site *s)
{
	struct object *exchange = &s->objects[0], *bcast = &s->objects[1];

	alltoall_create(s, exchange);
	bcast_create(s, bcast, ORIEL_ALGORITHM_DEFAULT);
	exchange_once(s, exchange, 50000);
	bcast_once(s, bcast, 0, SHARE);
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	if (s->r.rank + 1 < s->r.size) {
		CHECK_OK(&s->r, oriel_alltoall_run_on_stream(exchange->alltoall, exchange->send,
							     50000, exchange->stream));
		CHECK_OK(&s->r, oriel_bcast_run_on_stream(bcast->bcast, s->r.size - 1, bcast->send,
							  SHARE, bcast->stream));
	}
	nodes_expect_broken(s, exchange);
	nodes_expect_broken(s, bcast);
	CHECK(&s->r, ori_dev_health(&s->r.dev) == ORIEL_ERR_TIMEOUT);
	oriel_bcast_destroy(bcast->bcast);
	oriel_alltoall_destroy(exchange->alltoall);
}

static enum oriel_status start_share(struct site *s, struct object *o)
{
	(void)s;
	return oriel_alltoall_run_on_stream(o->alltoall, o->send, SHARE, o->stream);
}

/* The abort comes while slots and puts are in flight. */
static void test_aborted(struct site *s)
{
	struct object *o = &s->objects[0];
	CUgraph graph;

	alltoall_create(s, o);
	exchange_once(s, o, SHARE);
	graph = nodes_abort_replays(s, o, start_share, 100);
	oriel_alltoall_destroy(o->alltoall);
	cuGraphDestroy(graph);
}

static void test_driver(struct site *s)
{
	struct object *o = &s->objects[0];

	alltoall_create(s, o);
	exchange_once(s, o, SHARE);
	nodes_fail_copies(s, o, start_share, 100);
	oriel_alltoall_destroy(o->alltoall);
}

const struct nodes_test nodes_tests[] = {
	{"sizes", test_sizes, LONG_NS},
	{"alltoallv", test_alltoallv, LONG_NS},
	{"bcast", test_bcast, LONG_NS},
	{"ahead", test_ahead, LONG_NS},
	{"graphs", test_graphs, LONG_NS},
	{"two", test_two, LONG_NS},
	{"mismatch", test_mismatch, LONG_NS},
	{"range", test_range, LONG_NS},
	{"long", test_long, LONG_NS},
	{"absent", test_absent, LONG_NS / 10},
	{"aborted", test_aborted, LONG_NS},
	{"driver", test_driver, LONG_NS},
	{NULL, NULL, 0},
};
