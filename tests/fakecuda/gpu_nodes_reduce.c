/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of the fake driver's memory over several nodes have the bits of the scalar fold below.
 * CTest: fakecuda/nodes_*_reduce_*, see nodes.h. tests/device/gpu_reduce.cu has all types. With
 * ORIEL_ALLREDUCE=hierarchical the other reductions request that, too.
 */
#include <stdlib.h>

#include "nodes.h"

#define GUARD 0x5a

/* The elements of an all-reduce; the views have room for more than the rows of one round. */
#define LONG (SHARE / sizeof(float))
/* Those of each part of a reduce-scatter. */
#define PART (LONG / 2)

static const size_t counts[] = {1, 3, 16, 17, 100, 1025, CHUNK / 2 + 1, PART - 1};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

/*
 * The types of the two objects: one whose sums show the order, with a factor for each rank, and one
 * of odd lengths. Plain sums have the tests of tests/device/gpu_reduce.cu.
 */
static const enum oriel_type types[OBJECTS] = {ORIEL_TYPE_FP32, ORIEL_TYPE_UINT8};

static bool is_by_nodes(void)
{
	return getenv("ORIEL_ALLREDUCE") != NULL;
}

static unsigned number(const struct site *s, const struct object *o)
{
	return (unsigned)(o - s->objects);
}

static size_t size_of(const struct site *s, const struct object *o)
{
	return oriel_type_size(types[number(s, o)]);
}

/* Sums of such numbers have other bits in another order. */
static float element(unsigned round, unsigned rank, size_t i)
{
	uint32_t x = (uint32_t)i * 2654435761u + rank * 0x9e3779b9u + round * 0x85ebca6bu;

	x ^= x >> 15;
	x *= 0x2c1b3c6du;
	x ^= x >> 12;
	return (float)(int32_t)x * (float)(1u << (x >> 7) % 16);
}

static float factor_of(unsigned rank)
{
	return 1.3f - (float)rank;
}

/* Rounded, and so not a part of a fused addition. */
static float product(unsigned round, unsigned rank, size_t i)
{
	volatile float value = element(round, rank, i) * factor_of(rank);

	return value;
}

static float sum_of(unsigned round, unsigned ranks, unsigned block, size_t i)
{
	volatile float total = 0, part = 0;
	unsigned rank;

	for (rank = 0; rank < ranks; rank++) {
		part = rank % block ? part + product(round, rank, i) : product(round, rank, i);
		if ((rank + 1) % block && rank + 1 < ranks)
			continue;
		total = rank < block ? part : total + part;
	}
	return total;
}

static unsigned char byte_of(unsigned round, unsigned ranks, size_t i)
{
	unsigned char all = 0;
	unsigned rank;

	for (rank = 0; rank < ranks; rank++)
		all ^= (unsigned char)(round * 101 + rank * 37 + i * 11 + (i >> 8) * (rank + 59));
	return all;
}

/* Element @i of @rank; of bytes the one that makes all elements of the ranks up to it right. */
static void fill(const struct site *s, const struct object *o, char *send, size_t count)
{
	unsigned rank = s->r.rank;
	float value;
	size_t i;

	for (i = 0; i < count; i++) {
		if (number(s, o)) {
			send[i] =
				(char)(byte_of(s->round, rank + 1, i) ^ byte_of(s->round, rank, i));
			continue;
		}
		value = element(s->round, rank, i);
		memcpy(send + i * sizeof(value), &value, sizeof(value));
	}
}

/* Elements @first and following of the reduction are the result, and the bytes behind are old. */
static bool is_reduced(const struct site *s, const struct object *o, unsigned block, size_t first,
		       size_t count, size_t guards)
{
	const char *end = o->result + count * size_of(s, o);
	bool is_right = true;
	float value;
	size_t i;

	for (i = 0; i < count && is_right; i++) {
		if (number(s, o)) {
			is_right = (unsigned char)o->result[i] ==
				   byte_of(s->round, s->r.size, first + i);
			continue;
		}
		value = sum_of(s->round, s->r.size, block, first + i);
		is_right = memcmp(o->result + i * sizeof(value), &value, sizeof(value)) == 0;
	}
	for (i = 0; i < guards && is_right; i++)
		is_right = end[i] == GUARD;
	return is_right;
}

/* With the factor at @factor. */
static struct oriel_reduction reduction_of(const struct site *s, const struct object *o,
					   unsigned block, const float *factor)
{
	const struct oriel_reduction reduction = {.size = sizeof(reduction),
						  .type = types[number(s, o)],
						  .op = number(s, o) ? ORIEL_OP_BXOR
								     : ORIEL_OP_PREMUL_SUM,
						  .block = block,
						  .factor = number(s, o) ? NULL : factor};

	return reduction;
}

/* Reductions of mapped ranks alone have several algorithms that @algorithm may name. */
static void create_by(struct site *s, struct object *o, unsigned block, unsigned algorithm)
{
	const float factor = factor_of(s->r.rank);
	const struct oriel_reduction reduction = reduction_of(s, o, block, &factor);
	const struct oriel_view view = nodes_view(s, o);
	struct oriel_coll_attr attr = {.size = sizeof(attr),
				       .algorithm = algorithm,
				       .chunk = CHUNK};

	if (!CHECK_OK(&s->r, oriel_allreduce_create(s->r.comm, &view, &reduction, &attr, &o->all)))
		_Exit(1);
	if (algorithm == ORIEL_ALGORITHM_ONE_SHOT)
		attr.algorithm = ORIEL_ALGORITHM_DEFAULT;
	if (is_by_nodes())
		attr.algorithm = ORIEL_ALGORITHM_HIERARCHICAL;
	if (!CHECK_OK(&s->r, oriel_reduce_scatter_create(s->r.comm, &view, &reduction, &attr,
							 &o->scatter)))
		_Exit(1);
	if (algorithm == ORIEL_ALGORITHM_LL)
		attr.algorithm = ORIEL_ALGORITHM_DEFAULT;
	if (!CHECK_OK(&s->r, oriel_reduce_create(s->r.comm, &view, &reduction, &attr, &o->root)))
		_Exit(1);
}

static void create(struct site *s, struct object *o, unsigned block)
{
	create_by(s, o, block, ORIEL_ALGORITHM_DEFAULT);
}

static void destroy(struct object *o)
{
	oriel_allreduce_destroy(o->all);
	oriel_reduce_scatter_destroy(o->scatter);
	oriel_reduce_destroy(o->root);
}

static unsigned block_of(const struct site *s, const struct object *o)
{
	struct oriel_coll_info info = {.size = sizeof(info)};

	(void)s;
	oriel_allreduce_query(o->all, 1, &info);
	return info.block;
}

/* In place, or from an odd address. */
static void all_once(struct site *s, struct object *o, size_t count)
{
	size_t bytes = count * size_of(s, o);
	char *send = (s->round + s->r.rank) % 2 ? o->result : o->send + 1 + s->round % 3;

	memset(o->result, GUARD, s->r.size * SHARE);
	fill(s, o, send, count);
	/* A peer that is ahead writes to the view. */
	nodes_meet(s);
	if (!CHECK_OK(&s->r, oriel_allreduce_run_on_stream(o->all, send, count, o->stream)))
		return;
	fakecuda_finish(o->stream);
	CHECK(&s->r, is_reduced(s, o, block_of(s, o), 0, count, s->r.size * SHARE - bytes));
	s->round++;
}

static void scatter_once(struct site *s, struct object *o, size_t count)
{
	size_t size = size_of(s, o), bytes = count * size;
	bool is_in_place = (s->round + s->r.rank) % 2;
	char *send = is_in_place ? o->result : o->send + 1;

	memset(o->result, GUARD, s->r.size * SHARE);
	fill(s, o, send, count * s->r.size);
	nodes_meet(s);
	if (!CHECK_OK(&s->r,
		      oriel_reduce_scatter_run_on_stream(o->scatter, send, count, o->stream)))
		return;
	fakecuda_finish(o->stream);
	CHECK(&s->r, is_reduced(s, o, block_of(s, o), s->r.rank * count, count,
				is_in_place ? 0 : s->r.size * SHARE - bytes));
	s->round++;
}

/* In place at the root, or from an odd address. No view of another rank changes. */
static void root_once(struct site *s, struct object *o, size_t count)
{
	size_t size = size_of(s, o), most = s->r.size * SHARE;
	unsigned root = s->round % s->r.size;
	bool is_root = root == s->r.rank;
	char *send = is_root && s->round % 4 < 2 ? o->result : o->send + 1;

	memset(o->result, GUARD, most);
	fill(s, o, send, count);
	nodes_meet(s);
	if (!CHECK_OK(&s->r, oriel_reduce_run_on_stream(o->root, root, send, count, o->stream)))
		return;
	fakecuda_finish(o->stream);
	CHECK(&s->r, is_reduced(s, o, block_of(s, o), 0, is_root ? count : 0,
				is_root ? most - count * size : most));
	s->round++;
}

/* Which algorithm has an object of all nodes, and which ones could it have? */
static void check_algorithms(struct site *s, const struct object *o)
{
	unsigned owner = 1u << ORIEL_ALGORITHM_OWNER;
	unsigned both = owner | 1u << ORIEL_ALGORITHM_HIERARCHICAL;
	struct oriel_coll_info info = {.size = sizeof(info)};
	bool has_both;

	CHECK_OK(&s->r, oriel_allreduce_query(o->all, 8, &info));
	CHECK(&s->r, info.bytes_max == s->r.size * SHARE);
	if (info.nodes == 1)
		return;
	has_both = s->r.size % info.nodes == 0 && s->r.size / info.nodes > 1 &&
		   info.block == s->r.size / info.nodes;
	CHECK(&s->r, info.supported == (has_both ? both : owner));
	CHECK(&s->r, info.algorithm == (is_by_nodes() ? ORIEL_ALGORITHM_HIERARCHICAL
						      : ORIEL_ALGORITHM_OWNER));
	CHECK_OK(&s->r, oriel_reduce_query(o->root, 8, &info));
	CHECK(&s->r, info.supported == (has_both ? both : owner));
	CHECK_OK(&s->r, oriel_reduce_scatter_query(o->scatter, 8, &info));
	CHECK(&s->r, info.supported == (has_both ? both : owner));
	CHECK(&s->r, info.algorithm == (is_by_nodes() ? ORIEL_ALGORITHM_HIERARCHICAL
						      : ORIEL_ALGORITHM_OWNER));
}

/* The nodes are no blocks of such an order. */
static void check_refused(struct site *s, struct object *o, unsigned block)
{
	const float factor = factor_of(s->r.rank);
	const struct oriel_reduction reduction = reduction_of(s, o, block, &factor);
	const struct oriel_view view = nodes_view(s, o);

	CHECK_FAILS(&s->r, oriel_allreduce_create(s->r.comm, &view, &reduction, NULL, &o->all),
		    ORIEL_ERR_UNSUPPORTED, "algorithm hierarchical needs several nodes");
}

static void test_sizes(struct site *s)
{
	static const unsigned blocks[] = {0, 1, 2, 3};
	struct object *o;
	unsigned i, k;

	for (k = 0; k < (is_by_nodes() ? OBJECTS : 4 * OBJECTS); k++) {
		o = &s->objects[k % OBJECTS];
		if (is_by_nodes())
			check_refused(s, o, 1);
		create(s, o, blocks[k / OBJECTS]);
		check_algorithms(s, o);
		for (i = 0; i < COUNTS; i++) {
			all_once(s, o, counts[i]);
			scatter_once(s, o, counts[i]);
			root_once(s, o, counts[i]);
		}
		all_once(s, o, LONG);
		/* All of the view: more than one round. */
		all_once(s, o, s->r.size * SHARE / size_of(s, o));
		scatter_once(s, o, SHARE / size_of(s, o));
		root_once(s, o, s->r.size * SHARE / size_of(s, o));
		CHECK_OK(&s->r, oriel_allreduce_run_on_stream(o->all, NULL, 0, o->stream));
		CHECK_FAILS(&s->r, oriel_allreduce_run(o->all, o->send, 8), ORIEL_ERR_INVALID,
			    "call oriel_allreduce_run_on_stream()");
		CHECK_FAILS(&s->r,
			    oriel_allreduce_run_on_stream(o->all, o->result + 4, 8, o->stream),
			    ORIEL_ERR_INVALID, "overlaps");
		destroy(o);
	}
}

/* Several executions in flight in a stream; each rank checks only the last ones, later. */
static void test_ahead(struct site *s)
{
	struct object *o = &s->objects[0];
	unsigned i, k;

	create(s, o, 0);
	for (k = 0; k < AHEAD; k++) {
		fill(s, o, o->send, LONG);
		memset(o->result, GUARD, s->r.size * SHARE);
		nodes_meet(s);
		for (i = 0; i < 8; i++) {
			CHECK_OK(&s->r,
				 oriel_reduce_scatter_run_on_stream(o->scatter, o->send,
								    PART / s->r.size, o->stream));
			CHECK_OK(&s->r, oriel_reduce_run_on_stream(o->root, i % s->r.size, o->send,
								   LONG, o->stream));
			CHECK_OK(&s->r,
				 oriel_allreduce_run_on_stream(o->all, o->send, LONG, o->stream));
		}
		fakecuda_finish(o->stream);
		CHECK(&s->r, is_reduced(s, o, block_of(s, o), 0, LONG, 64));
		nodes_meet(s);
		s->round++;
	}
	destroy(o);
}

/* Two objects in two streams, which ranks reach in different orders. */
static void test_two(struct site *s)
{
	struct object *o = s->objects;
	unsigned i, k;

	for (i = 0; i < OBJECTS; i++)
		create(s, &o[i], 0);
	for (k = 0; k < TWICE; k++) {
		for (i = 0; i < OBJECTS; i++)
			fill(s, &o[i], o[i].send, LONG);
		nodes_meet(s);
		for (i = 0; i < 2 * OBJECTS; i++) {
			struct object *one = &o[(s->r.rank + i) % OBJECTS];

			CHECK_OK(&s->r, oriel_allreduce_run_on_stream(one->all, one->send, LONG,
								      one->stream));
		}
		for (i = 0; i < OBJECTS; i++) {
			fakecuda_finish(o[i].stream);
			CHECK(&s->r, is_reduced(s, &o[i], block_of(s, &o[i]), 0, LONG, 0));
		}
		nodes_meet(s);
		s->round++;
	}
	for (i = OBJECTS; i-- > 0;)
		destroy(&o[i]);
}

static CUgraphExec capture(struct site *s, struct object *o, size_t count, CUgraph *graph)
{
	nodes_capture_begin(s, o);
	CHECK_OK(&s->r, oriel_allreduce_run_on_stream(o->all, o->send, count, o->stream));
	return nodes_capture_end(s, o, graph);
}

static void replay(struct site *s, struct object *o, CUgraphExec exec, size_t count)
{
	fill(s, o, o->send, count);
	CHECK(&s->r, cuGraphLaunch(exec, o->stream) == CUDA_SUCCESS);
	fakecuda_finish(o->stream);
	CHECK(&s->r, is_reduced(s, o, block_of(s, o), 0, count, 0));
	s->round++;
}

/* Launches of two captures of one object and posted executions, in turn, many times. */
static void test_graphs(struct site *s)
{
	struct object *o = &s->objects[0];
	size_t few = 33, many = s->r.size * CHUNK + 5;
	CUgraphExec execs[2];
	CUgraph graphs[2];
	unsigned i;

	create(s, o, is_by_nodes() ? 0 : 2);
	all_once(s, o, few);
	execs[0] = capture(s, o, few, &graphs[0]);
	execs[1] = capture(s, o, many, &graphs[1]);
	for (i = 0; i < REPLAYS / 4; i++) {
		replay(s, o, execs[0], few);
		if (i % 50 == 0) {
			all_once(s, o, many);
			scatter_once(s, o, few);
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

/* Calls without an object. */
static void test_cached(struct site *s)
{
	const float factor = factor_of(s->r.rank);
	const struct oriel_reduction sum = reduction_of(s, &s->objects[0], 1, &factor);
	struct object *o = &s->objects[0];
	unsigned i;

	for (i = 0; i < 6; i++) {
		fill(s, o, o->send, LONG);
		nodes_meet(s);
		CHECK_OK(&s->r, oriel_allreduce_once_on_stream(s->r.comm, o->send, o->result,
							       LONG - i, &sum, o->stream));
		fakecuda_finish(o->stream);
		CHECK(&s->r, is_reduced(s, o, 1, 0, LONG - i, 0));
		nodes_meet(s);
		CHECK_OK(&s->r, oriel_reduce_scatter_once_on_stream(s->r.comm, o->send, o->result,
								    100, &sum, o->stream));
		fakecuda_finish(o->stream);
		CHECK(&s->r, is_reduced(s, o, 1, s->r.rank * 100, 100, 0));
		nodes_meet(s);
		CHECK_OK(&s->r, oriel_reduce_once_on_stream(s->r.comm, i % s->r.size, o->send,
							    o->result, 200, &sum, o->stream));
		fakecuda_finish(o->stream);
		if (i % s->r.size == s->r.rank)
			CHECK(&s->r, is_reduced(s, o, 1, 0, 200, 0));
		nodes_meet(s);
		s->round++;
	}
	CHECK_OK(&s->r, oriel_object_cache_release(s->r.comm, NULL, 0));
}

static enum oriel_status start_long(struct site *s, struct object *o)
{
	return oriel_allreduce_run_on_stream(o->all, o->send, s->r.size * SHARE / sizeof(float),
					     o->stream);
}

/* The last rank never starts; the streams of its peers go on within the timeout. */
static void test_absent(struct site *s)
{
	struct object *o = &s->objects[0];

	create(s, o, 0);
	all_once(s, o, LONG);
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	if (s->r.rank + 1 < s->r.size)
		CHECK_OK(&s->r, start_long(s, o));
	nodes_expect_rejected(s, o, start_long);
	CHECK(&s->r, ori_dev_health(&s->r.dev) == ORIEL_ERR_TIMEOUT);
	CHECK(&s->r, strstr(oriel_last_error(), "all-reduce") != NULL);
	destroy(o);
}

static enum oriel_status start_some(struct site *s, struct object *o)
{
	(void)s;
	return oriel_allreduce_run_on_stream(o->all, o->send, LONG, o->stream);
}

static enum oriel_status start_scatter(struct site *s, struct object *o)
{
	return oriel_reduce_scatter_run_on_stream(o->scatter, o->send, PART / s->r.size, o->stream);
}

/* The same within a node, where a kernel waits and its text names the rank. */
static void leave_out(struct site *s, unsigned algorithm, nodes_start *start, const char *kind)
{
	struct object *o = &s->objects[0];
	char who[80];

	create_by(s, o, 0, algorithm);
	all_once(s, o, LONG);
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	if (s->r.rank + 1 < s->r.size)
		CHECK_OK(&s->r, start(s, o));
	nodes_expect_rejected(s, o, start);
	snprintf(who, sizeof(who), ": rank %u (mapped) has not started", s->r.size - 1);
	CHECK(&s->r, ori_dev_health(&s->r.dev) == ORIEL_ERR_TIMEOUT);
	CHECK(&s->r, strstr(oriel_last_error(), kind) && strstr(oriel_last_error(), who));
	destroy(o);
}

static void test_absent_ll(struct site *s)
{
	leave_out(s, ORIEL_ALGORITHM_LL, start_some, "all-reduce timed out");
}

static void test_absent_one_shot(struct site *s)
{
	leave_out(s, ORIEL_ALGORITHM_ONE_SHOT, start_some, "all-reduce timed out");
}

static void test_absent_owner(struct site *s)
{
	leave_out(s, ORIEL_ALGORITHM_OWNER, start_some, "all-reduce timed out");
}

static void test_absent_ll_scatter(struct site *s)
{
	leave_out(s, ORIEL_ALGORITHM_LL, start_scatter, "reduce-scatter timed out");
}

static void test_absent_owner_scatter(struct site *s)
{
	leave_out(s, ORIEL_ALGORITHM_OWNER, start_scatter, "reduce-scatter timed out");
}

static void test_aborted(struct site *s)
{
	struct object *o = &s->objects[0];
	CUgraph graph;

	create(s, o, 0);
	all_once(s, o, LONG);
	graph = nodes_abort_replays(s, o, start_long, 100);
	destroy(o);
	cuGraphDestroy(graph);
}

static void fail_copies(struct site *s, unsigned after)
{
	struct object *o = &s->objects[0];

	create(s, o, 0);
	all_once(s, o, LONG);
	nodes_fail_copies(s, o, start_long, after);
	destroy(o);
}

/* Where the nodes add first, copies within them fail here, between them or of results later. */
static void test_driver_early(struct site *s)
{
	fail_copies(s, 10);
}

static void test_driver(struct site *s)
{
	fail_copies(s, 100);
}

static void test_driver_late(struct site *s)
{
	fail_copies(s, 400);
}

/* After @kernels no kernel can be launched when all-to-alls are in the streams already. */
static void tear(struct site *s, unsigned kernels)
{
	struct object *o = &s->objects[0];
	enum oriel_status status;

	create(s, o, 0);
	all_once(s, o, LONG);
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	if (s->r.rank == 0)
		fakecuda_fail("cuLaunchKernel", kernels);
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	status = start_long(s, o);
	/* Launches of all ranks are counted: one whose first one succeeds may post all. */
	CHECK(&s->r, status == ORIEL_ERR_ABORTED || (status == ORIEL_OK && kernels > 0));
	nodes_expect_rejected(s, o, start_long);
	CHECK(&s->r, ori_dev_health(&s->r.dev) == ORIEL_ERR_ABORTED);
	destroy(o);
}

static void test_torn(struct site *s)
{
	tear(s, 0);
}

/* One rank has launched the first kernel of several. */
static void test_torn_later(struct site *s)
{
	tear(s, 1);
}

/* A build without kernels refuses, and the communicator is as before. */
static void test_refused(struct site *s)
{
	struct object *o = &s->objects[0];

	create(s, o, 0);
	CHECK_FAILS(&s->r, start_long(s, o), ORIEL_ERR_UNSUPPORTED, "built without nvcc");
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	CHECK(&s->r, ori_dev_health(&s->r.dev) == ORIEL_OK);
	destroy(o);
}

const struct nodes_test nodes_tests[] = {
	{"sizes", test_sizes, LONG_NS},
	{"ahead", test_ahead, LONG_NS},
	{"two", test_two, LONG_NS},
	{"graphs", test_graphs, LONG_NS},
	{"cached", test_cached, LONG_NS},
	{"absent", test_absent, LONG_NS / 10},
	{"absent_ll", test_absent_ll, LONG_NS / 10},
	{"absent_one_shot", test_absent_one_shot, LONG_NS / 10},
	{"absent_owner", test_absent_owner, LONG_NS / 10},
	{"absent_ll_scatter", test_absent_ll_scatter, LONG_NS / 10},
	{"absent_owner_scatter", test_absent_owner_scatter, LONG_NS / 10},
	{"aborted", test_aborted, LONG_NS},
	{"driver_early", test_driver_early, LONG_NS},
	{"driver", test_driver, LONG_NS},
	{"driver_late", test_driver_late, LONG_NS},
	{"torn", test_torn, LONG_NS},
	{"torn_later", test_torn_later, LONG_NS},
	{"refused", test_refused, LONG_NS},
	{NULL, NULL, 0},
};
