/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers and scatters of the fake driver's memory, over several nodes and in one. CTest:
 * fakecuda/nodes_*_root_*, see nodes.h.
 */
#include <stdlib.h>

#include "nodes.h"

#define GUARD 0x5a
#define STEPS 8u /* executions in flight */

static const size_t sizes[] = {1, 8, 1001, CHUNK, CHUNK + 1, 65536, SHARE};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Returns byte @i of the message from or for @rank, of execution @round. */
static char pattern(unsigned round, unsigned rank, size_t i)
{
	return (char)(round * 101 + rank * 37 + i * 11 + (i >> 8) * 59);
}

static void fill(char *at, unsigned round, unsigned rank, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		at[i] = pattern(round, rank, i);
}

static bool is_message(const char *at, unsigned round, unsigned rank, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		if (at[i] != pattern(round, rank, i))
			return false;
	return true;
}

/* The messages of all ranks, or for all ranks. */
static bool are_messages(const struct site *s, const char *at, unsigned round, size_t bytes)
{
	unsigned rank;

	for (rank = 0; rank < s->r.size; rank++)
		if (!is_message(at + rank * bytes, round, rank, bytes))
			return false;
	return true;
}

static void fill_all(const struct site *s, char *at, unsigned round, size_t bytes)
{
	unsigned rank;

	for (rank = 0; rank < s->r.size; rank++)
		fill(at + rank * bytes, round, rank, bytes);
}

static bool is_guard(const char *at, const char *end)
{
	for (; at < end; at++)
		if (*at != GUARD)
			return false;
	return true;
}

/* The view of a scatter, whose root has messages ahead of it if it sends in place. */
static char *part_of(const struct site *s, const struct object *o)
{
	return o->result + (s->r.size - 1) * SHARE;
}

static void create(struct site *s, struct object *o)
{
	const struct oriel_coll_attr attr = {.size = sizeof(attr), .chunk = CHUNK};
	const struct oriel_view all = {.size = sizeof(all),
				       .kind = ORIEL_VIEW_BUFFER,
				       .flags = ORIEL_VIEW_GPU,
				       .length = (size_t)s->r.size * SHARE,
				       .buffer = o->result};
	const struct oriel_view part = {.size = sizeof(part),
					.kind = ORIEL_VIEW_BUFFER,
					.flags = ORIEL_VIEW_GPU,
					.length = SHARE,
					.buffer = part_of(s, o)};

	if (!CHECK_OK(&s->r, oriel_gather_create(s->r.comm, &all, &attr, &o->gather_root)) ||
	    !CHECK_OK(&s->r, oriel_scatter_create(s->r.comm, &part, &attr, &o->scatter_root)))
		_Exit(1);
}

static void destroy(struct object *o)
{
	oriel_gather_destroy(o->gather_root);
	oriel_scatter_destroy(o->scatter_root);
}

static char *end_of(const struct site *s, const struct object *o)
{
	return o->result + s->r.size * SHARE;
}

/* In place, or from an odd address. No view of another rank changes. */
static void gather_once(struct site *s, struct object *o, unsigned root, size_t bytes)
{
	bool is_root = root == s->r.rank, is_in_place = is_root && s->round % 4 < 2;
	char *send = is_in_place ? o->result + root * bytes : o->send + 1 + s->round % 3;

	memset(o->result, GUARD, s->r.size * SHARE);
	fill(send, s->round, s->r.rank, bytes);
	if (!CHECK_OK(&s->r,
		      oriel_gather_run_on_stream(o->gather_root, root, send, bytes, o->stream)))
		return;
	fakecuda_finish(o->stream);
	if (is_root)
		CHECK(&s->r, are_messages(s, o->result, s->round, bytes));
	CHECK(&s->r, is_guard(o->result + (is_root ? s->r.size * bytes : 0), end_of(s, o)));
	s->round++;
}

static void scatter_once(struct site *s, struct object *o, unsigned root, size_t bytes)
{
	char *view = part_of(s, o), *send = o->send + 1 + s->round % 3;
	bool is_root = root == s->r.rank, is_in_place;

	is_in_place = is_root && s->round % 4 < 2 && bytes <= SHARE / s->r.size;
	send = is_in_place ? view - root * bytes : send;
	memset(o->result, GUARD, s->r.size * SHARE);
	if (is_root)
		fill_all(s, send, s->round, bytes);
	if (!CHECK_OK(&s->r, oriel_scatter_run_on_stream(o->scatter_root, root,
							 is_root ? send : NULL, bytes, o->stream)))
		return;
	fakecuda_finish(o->stream);
	CHECK(&s->r, is_message(view, s->round, s->r.rank, bytes));
	if (is_in_place)
		CHECK(&s->r, are_messages(s, send, s->round, bytes));
	else
		CHECK(&s->r, is_guard(o->result, view) && is_guard(view + bytes, end_of(s, o)));
	s->round++;
}

static void check_refused(struct site *s, struct object *o)
{
	unsigned own = s->r.rank;

	CHECK_FAILS(&s->r, oriel_gather_run(o->gather_root, 0, o->send, 8), ORIEL_ERR_INVALID,
		    "call oriel_gather_run_on_stream()");
	CHECK_FAILS(&s->r, oriel_scatter_start(o->scatter_root, 0, o->send, 8), ORIEL_ERR_INVALID,
		    "call oriel_scatter_run_on_stream()");
	CHECK_FAILS(&s->r,
		    oriel_gather_run_on_stream(o->gather_root, s->r.size, o->send, 8, o->stream),
		    ORIEL_ERR_RANGE, "gather: root");
	CHECK_FAILS(&s->r,
		    oriel_scatter_run_on_stream(o->scatter_root, own, o->send, SHARE + 1,
						o->stream),
		    ORIEL_ERR_RANGE, "at most");
	CHECK_FAILS(&s->r, oriel_gather_run_on_stream(o->gather_root, 0, NULL, 8, o->stream),
		    ORIEL_ERR_INVALID, "send is NULL");
	CHECK_FAILS(&s->r, oriel_scatter_run_on_stream(o->scatter_root, own, NULL, 8, o->stream),
		    ORIEL_ERR_INVALID, "send is NULL");
	CHECK_FAILS(&s->r,
		    oriel_gather_run_on_stream(o->gather_root, own, o->result + own * 8 + 1, 8,
					       o->stream),
		    ORIEL_ERR_INVALID, "overlaps");
	CHECK_FAILS(&s->r,
		    oriel_scatter_run_on_stream(o->scatter_root, own, part_of(s, o) - own * 8 + 1,
						8, o->stream),
		    ORIEL_ERR_INVALID, "overlaps");
}

static void test_sizes(struct site *s)
{
	struct oriel_coll_info info = {.size = sizeof(info)};
	struct object *o = &s->objects[0];
	unsigned i, root;

	create(s, o);
	CHECK_OK(&s->r, oriel_gather_query(o->gather_root, 8, &info));
	CHECK(&s->r, info.bytes_max == SHARE);
	CHECK(&s->r, info.supported == 1u << ORIEL_ALGORITHM_DIRECT);
	CHECK(&s->r, info.algorithm == ORIEL_ALGORITHM_DIRECT);
	CHECK_OK(&s->r, oriel_scatter_query(o->scatter_root, 8, &info));
	CHECK(&s->r, info.bytes_max == SHARE);
	for (i = 0; i < SIZES; i++)
		for (root = 0; root < s->r.size; root++) {
			gather_once(s, o, root, sizes[i]);
			scatter_once(s, o, root, sizes[i]);
		}
	CHECK_OK(&s->r, oriel_gather_run_on_stream(o->gather_root, 0, NULL, 0, o->stream));
	CHECK_OK(&s->r, oriel_scatter_run_on_stream(o->scatter_root, 0, NULL, 0, o->stream));
	check_refused(s, o);
	/* The refusals have changed nothing. */
	gather_once(s, o, 0, 1000);
	destroy(o);
}

/* The driver refuses copies while another thread of the process captures, unless it is told so. */
static void copy_on_stream(struct site *s, struct object *o, char *to, const char *from,
			   size_t bytes)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	CHECK(&s->r, cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
	CHECK(&s->r,
	      cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, o->stream) == CUDA_SUCCESS);
	CHECK(&s->r, cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
}

/*
 * A stream copies each result away before its rank starts the next execution, and no host waits: a
 * peer that is ahead may not write to the view before that.
 */
static void test_ahead(struct site *s)
{
	const size_t bytes = SHARE / STEPS, all = s->r.size * bytes;
	struct object *o = &s->objects[0], *saved = &s->objects[1];
	unsigned i, k, root;

	create(s, o);
	for (k = 0; k < AHEAD; k++) {
		root = k % s->r.size;
		for (i = 0; i < STEPS; i++)
			fill(o->send + i * bytes, s->round + i, s->r.rank, bytes);
		for (i = 0; i < STEPS; i++) {
			CHECK_OK(&s->r,
				 oriel_gather_run_on_stream(o->gather_root, root,
							    o->send + i * bytes, bytes, o->stream));
			copy_on_stream(s, o, saved->result + i * all, o->result, all);
		}
		fakecuda_finish(o->stream);
		for (i = 0; i < STEPS && root == s->r.rank; i++)
			CHECK(&s->r, are_messages(s, saved->result + i * all, s->round + i, bytes));
		if (root == s->r.rank)
			for (i = 0; i < STEPS; i++)
				fill_all(s, o->send + i * all, s->round + i, bytes);
		for (i = 0; i < STEPS; i++) {
			CHECK_OK(&s->r,
				 oriel_scatter_run_on_stream(o->scatter_root, root,
							     o->send + i * all, bytes, o->stream));
			copy_on_stream(s, o, saved->result + i * bytes, part_of(s, o), bytes);
		}
		fakecuda_finish(o->stream);
		for (i = 0; i < STEPS; i++)
			CHECK(&s->r, is_message(saved->result + i * bytes, s->round + i, s->r.rank,
						bytes));
		s->round += STEPS;
	}
	destroy(o);
}

/* One capture has a gather to one root and a scatter from another. */
static CUgraphExec capture(struct site *s, struct object *o, size_t bytes, CUgraph *graph)
{
	nodes_capture_begin(s, o);
	CHECK_OK(&s->r, oriel_gather_run_on_stream(o->gather_root, 0, o->send, bytes, o->stream));
	CHECK_OK(&s->r, oriel_scatter_run_on_stream(o->scatter_root, s->r.size - 1, o->send, bytes,
						    o->stream));
	return nodes_capture_end(s, o, graph);
}

/* The own message of the gather is the first one of the scatter. */
static void replay(struct site *s, struct object *o, CUgraphExec exec, size_t bytes)
{
	unsigned rank;

	fill(o->send, s->round, s->r.rank, bytes);
	for (rank = 1; rank < s->r.size; rank++)
		fill(o->send + rank * bytes, s->round, s->r.rank + rank, bytes);
	CHECK(&s->r, cuGraphLaunch(exec, o->stream) == CUDA_SUCCESS);
	fakecuda_finish(o->stream);
	if (s->r.rank == 0)
		CHECK(&s->r, are_messages(s, o->result, s->round, bytes));
	CHECK(&s->r, is_message(part_of(s, o), s->round, s->r.size - 1 + s->r.rank, bytes));
	s->round++;
}

static void test_graphs(struct site *s)
{
	/* Several ranks: the result of the gather ends before the view of the scatter begins. */
	const size_t few = 1000, many = 3 * CHUNK + 5;
	struct object *o = &s->objects[0];
	CUgraphExec execs[2];
	CUgraph graphs[2];
	unsigned i;

	create(s, o);
	execs[0] = capture(s, o, few, &graphs[0]);
	execs[1] = capture(s, o, many, &graphs[1]);
	for (i = 0; i < REPLAYS / 4; i++) {
		replay(s, o, execs[0], few);
		if (i % 50 == 0) {
			gather_once(s, o, i % s->r.size, few);
			scatter_once(s, o, i % s->r.size, many);
		}
		replay(s, o, execs[1], many);
	}
	nodes_meet(s);
	for (i = 0; i < 2; i++) {
		cuGraphDestroy(graphs[i]);
		cuGraphExecDestroy(execs[i]);
	}
	nodes_meet(s);
	destroy(o);
}

/* Calls without an object, and the launches of one that was captured. */
static void test_cached(struct site *s)
{
	struct object *o = &s->objects[0];
	unsigned i, root, own = s->r.rank;
	CUgraphExec exec;
	CUgraph graph;

	for (i = 0; i < 2 * s->r.size; i++) {
		root = i % s->r.size;
		fill(o->send, i, own, 1000);
		CHECK_OK(&s->r, oriel_gather_once_on_stream(s->r.comm, root, o->send, o->result,
							    1000, o->stream));
		fakecuda_finish(o->stream);
		if (root == own)
			CHECK(&s->r, are_messages(s, o->result, i, 1000));
		if (root == own)
			fill_all(s, o->send, i, 700);
		CHECK_OK(&s->r,
			 oriel_scatter_once_on_stream(s->r.comm, root, root == own ? o->send : NULL,
						      o->result, 700, o->stream));
		fakecuda_finish(o->stream);
		CHECK(&s->r, is_message(o->result, i, own, 700));
	}
	CHECK_FAILS(&s->r,
		    oriel_gather_once_on_stream(s->r.comm, 0, o->send, own ? NULL : o->result, 8,
						o->stream),
		    s->r.size > 1 ? ORIEL_ERR_INVALID : ORIEL_OK, s->r.size > 1 ? "gather" : "");
	nodes_capture_begin(s, o);
	CHECK_OK(&s->r,
		 oriel_gather_once_on_stream(s->r.comm, 0, o->send, o->result, 500, o->stream));
	exec = nodes_capture_end(s, o, &graph);
	for (i = 0; i < 10; i++) {
		fill(o->send, i, own, 500);
		CHECK(&s->r, cuGraphLaunch(exec, o->stream) == CUDA_SUCCESS);
		fakecuda_finish(o->stream);
		if (own == 0)
			CHECK(&s->r, are_messages(s, o->result, i, 500));
	}
	nodes_meet(s);
	cuGraphDestroy(graph);
	cuGraphExecDestroy(exec);
	nodes_meet(s);
	CHECK_OK(&s->r, oriel_object_cache_release(s->r.comm, NULL, 0));
}

/* Rank 0 copies to the root, and to its peers. */
static enum oriel_status start_long(struct site *s, struct object *o)
{
	enum oriel_status status = oriel_gather_run_on_stream(o->gather_root, s->r.size - 1,
							      o->send, SHARE, o->stream);

	return status == ORIEL_OK
		       ? oriel_scatter_run_on_stream(o->scatter_root, 0, o->send, SHARE, o->stream)
		       : status;
}

/* The last rank, a root and then the source of one message, never starts. */
static void test_absent(struct site *s)
{
	struct object *o = &s->objects[0];

	create(s, o);
	gather_once(s, o, 0, SHARE);
	scatter_once(s, o, 0, SHARE);
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	if (s->r.rank + 1 < s->r.size)
		CHECK_OK(&s->r, start_long(s, o));
	nodes_expect_rejected(s, o, start_long);
	CHECK(&s->r, ori_dev_health(&s->r.dev) == ORIEL_ERR_TIMEOUT);
	CHECK(&s->r, strstr(oriel_last_error(), "gather") != NULL);
	destroy(o);
}

static void test_missing(struct site *s)
{
	struct object *o = &s->objects[0];

	create(s, o);
	gather_once(s, o, 0, 1000);
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	if (s->r.rank + 1 < s->r.size)
		CHECK_OK(&s->r,
			 oriel_gather_run_on_stream(o->gather_root, 0, o->send, SHARE, o->stream));
	nodes_expect_rejected(s, o, start_long);
	CHECK(&s->r, ori_dev_health(&s->r.dev) == ORIEL_ERR_TIMEOUT);
	destroy(o);
}

static void test_aborted(struct site *s)
{
	struct object *o = &s->objects[0];
	CUgraph graph;

	create(s, o);
	gather_once(s, o, 0, SHARE);
	graph = nodes_abort_replays(s, o, start_long, 100);
	destroy(o);
	cuGraphDestroy(graph);
}

static void test_driver(struct site *s)
{
	struct object *o = &s->objects[0];

	create(s, o);
	gather_once(s, o, 0, SHARE);
	nodes_fail_copies(s, o, start_long, 100);
	destroy(o);
}

const struct nodes_test nodes_tests[] = {
	{"sizes", test_sizes, LONG_NS},
	{"ahead", test_ahead, LONG_NS},
	{"graphs", test_graphs, LONG_NS},
	{"cached", test_cached, LONG_NS},
	{"absent", test_absent, LONG_NS / 10},
	{"missing", test_missing, LONG_NS / 10},
	{"aborted", test_aborted, LONG_NS},
	{"driver", test_driver, LONG_NS},
	{NULL, NULL, 0},
};
