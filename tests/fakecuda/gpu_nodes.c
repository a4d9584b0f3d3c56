/* SPDX-License-Identifier: Apache-2.0 */
/* All-gathers of the fake driver's memory over several nodes. CTest: fakecuda/nodes_*, see nodes.h.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "nodes.h"

static char pattern(unsigned round, unsigned rank, size_t i)
{
	return (char)(round * 101 + rank * 37 + i * 11 + (i >> 8) * 59);
}

static void fill(const struct site *s, char *send, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		send[i] = pattern(s->round, s->r.rank, i);
}

static bool is_gathered(const struct site *s, const struct object *o, size_t bytes)
{
	unsigned rank;
	size_t i;

	for (rank = 0; rank < s->r.size; rank++)
		for (i = 0; i < bytes; i++)
			if (o->result[rank * bytes + i] != pattern(s->round, rank, i))
				return false;
	return true;
}

static enum oriel_status object_try(struct site *s, struct object *o, unsigned algorithm)
{
	struct oriel_coll_attr attr = {.size = sizeof(attr),
				       .algorithm = algorithm,
				       .chunk = CHUNK};
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_BUFFER,
				  .flags = ORIEL_VIEW_GPU,
				  .length = (size_t)s->r.size * SHARE,
				  .buffer = o->result};

	return oriel_allgather_create(s->r.comm, &view, &attr, &o->gather);
}

/* The check before a creation, of the same view. */
static enum oriel_status object_check(struct site *s, const struct object *o, unsigned algorithm,
				      size_t bytes, struct oriel_coll_info *info)
{
	struct oriel_coll_attr attr = {.size = sizeof(attr),
				       .algorithm = algorithm,
				       .chunk = CHUNK};
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_BUFFER,
				  .flags = ORIEL_VIEW_GPU,
				  .length = (size_t)s->r.size * SHARE,
				  .buffer = o->result};

	return oriel_allgather_check(s->r.comm, &view, &attr, bytes, info);
}

static void object_create(struct site *s, struct object *o, unsigned algorithm)
{
	struct oriel_coll_info said = {.size = sizeof(said)}, info = {.size = sizeof(info)};

	CHECK_OK(&s->r, object_check(s, o, algorithm, SHARE, &said));
	if (!CHECK_OK(&s->r, object_try(s, o, algorithm)))
		_Exit(1);
	CHECK_OK(&s->r, oriel_allgather_query(o->gather, SHARE, &info));
	CHECK(&s->r, memcmp(&said, &info, sizeof(info)) == 0);
}

static void object_destroy(struct object *o)
{
	oriel_allgather_destroy(o->gather);
	o->gather = NULL;
}

/* In place, or from an odd address. */
static char *source(struct site *s, struct object *o, size_t bytes, bool is_in_place)
{
	return is_in_place ? o->result + s->r.rank * bytes : o->send + 1;
}

static void gather_once(struct site *s, struct object *o, size_t bytes)
{
	char *send = source(s, o, bytes, s->round % 2);

	fill(s, send, bytes);
	if (!CHECK_OK(&s->r, oriel_allgather_run_on_stream(o->gather, send, bytes, o->stream)))
		return;
	fakecuda_finish(o->stream);
	CHECK(&s->r, is_gathered(s, o, bytes));
	s->round++;
}

/* A view that is a region. */
static void gather_region(struct site *s, struct object *o)
{
	struct oriel_dev_buffer *table = calloc(s->r.size, sizeof(*table));
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_TABLE,
				  .flags = ORIEL_VIEW_GPU,
				  .length = (size_t)s->r.size * SHARE,
				  .buffer = o->result,
				  .peers = table};
	struct oriel_region *region = NULL;

	CHECK_OK(&s->r, oriel_region_register(s->r.comm, o->result, view.length, &region));
	CHECK_OK(&s->r, oriel_region_share(region));
	CHECK_OK(&s->r, oriel_region_table(region, table));
	if (!CHECK_OK(&s->r, oriel_allgather_create(s->r.comm, &view, NULL, &o->gather)))
		_Exit(1);
	free(table);
	gather_once(s, o, 1001);
	gather_once(s, o, SHARE);
	object_destroy(o);
	oriel_region_unregister(region);
}

static void test_sizes(struct site *s)
{
	static const size_t sizes[] = {1, 8, 1001, CHUNK, CHUNK + 1, 65536, SHARE};
	struct object *o = &s->objects[0];
	struct oriel_coll_info info = {.size = sizeof(info)};
	unsigned algorithm, i;

	for (algorithm = 0; algorithm <= ORIEL_ALGORITHM_BRUCK; algorithm++) {
		if (algorithm && algorithm < ORIEL_ALGORITHM_DIRECT)
			continue;
		object_create(s, o, algorithm);
		CHECK_OK(&s->r, oriel_allgather_query(o->gather, 8, &info));
		CHECK(&s->r, info.nodes > 1 && info.bytes_max == SHARE);
		CHECK(&s->r,
		      info.supported == (1u << ORIEL_ALGORITHM_DIRECT | 1u << ORIEL_ALGORITHM_RING |
					 1u << ORIEL_ALGORITHM_BRUCK));
		for (i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++)
			gather_once(s, o, sizes[i / 2]);
		CHECK_OK(&s->r, oriel_allgather_run_on_stream(o->gather, NULL, 0, o->stream));
		CHECK_FAILS(&s->r, oriel_allgather_run(o->gather, o->send, 8), ORIEL_ERR_INVALID,
			    "call oriel_allgather_run_on_stream()");
		object_destroy(o);
	}
	CHECK_FAILS(&s->r, object_check(s, o, ORIEL_ALGORITHM_CE, 8, &info), ORIEL_ERR_UNSUPPORTED,
		    "algorithm ce does not support GPU memory of");
	CHECK_FAILS(&s->r, object_check(s, o, 0, SHARE + 1, &info), ORIEL_ERR_RANGE,
		    "do not fit the shortest view");
	gather_region(s, o);
}

/* Several executions in flight in a stream; each rank checks only the last one, later. */
static void test_ahead(struct site *s)
{
	struct object *o = &s->objects[0];
	unsigned i, k;

	object_create(s, o, ORIEL_ALGORITHM_RING);
	for (k = 0; k < AHEAD; k++) {
		fill(s, o->send, SHARE);
		for (i = 0; i < 8; i++)
			CHECK_OK(&s->r, oriel_allgather_run_on_stream(o->gather, o->send, SHARE,
								      o->stream));
		fakecuda_finish(o->stream);
		CHECK(&s->r, is_gathered(s, o, SHARE));
		s->round++;
	}
	object_destroy(o);
}

static CUgraphExec capture(struct site *s, struct object *o, const char *send, size_t bytes,
			   CUgraph *graph)
{
	nodes_capture_begin(s, o);
	CHECK_OK(&s->r, oriel_allgather_run_on_stream(o->gather, send, bytes, o->stream));
	return nodes_capture_end(s, o, graph);
}

static void replay(struct site *s, struct object *o, CUgraphExec exec, char *send, size_t bytes)
{
	fill(s, send, bytes);
	CHECK(&s->r, cuGraphLaunch(exec, o->stream) == CUDA_SUCCESS);
	fakecuda_finish(o->stream);
	CHECK(&s->r, is_gathered(s, o, bytes));
	s->round++;
}

/* Launches of two captures of one object and started executions, in turn, many times. */
static void test_graphs(struct site *s)
{
	struct object *o = &s->objects[0];
	size_t few = 1000, many = 3 * CHUNK + 5;
	CUgraphExec execs[2];
	CUgraph graphs[2];
	unsigned i;

	object_create(s, o, ORIEL_ALGORITHM_DEFAULT);
	gather_once(s, o, few);
	execs[0] = capture(s, o, o->send, few, &graphs[0]);
	execs[1] = capture(s, o, o->send + 3, many, &graphs[1]);
	for (i = 0; i < REPLAYS / 2; i++) {
		replay(s, o, execs[0], o->send, few);
		if (i % 50 == 0)
			gather_once(s, o, many);
		replay(s, o, execs[1], o->send + 3, many);
	}
	/* Destroy one capture before the object, and of the other only the graph. */
	cuGraphDestroy(graphs[0]);
	cuGraphExecDestroy(execs[0]);
	nodes_meet(s);
	gather_once(s, o, many);
	cuGraphDestroy(graphs[1]);
	object_destroy(o);
	cuGraphExecDestroy(execs[1]);
}

/* Two objects in two streams, which ranks reach in different orders. */
static void test_two(struct site *s)
{
	struct object *o = s->objects;
	unsigned i, k, first = s->r.rank % 2;

	object_create(s, &o[0], ORIEL_ALGORITHM_RING);
	object_create(s, &o[1], ORIEL_ALGORITHM_BRUCK);
	for (k = 0; k < TWICE; k++) {
		for (i = 0; i < 2; i++) {
			struct object *one = &o[(first + i) % 2];

			fill(s, one->send, SHARE);
			CHECK_OK(&s->r, oriel_allgather_run_on_stream(one->gather, one->send, SHARE,
								      one->stream));
			/*
			 * One rank may post the second execution only after the first has ended.
			 */
		}
		for (i = 0; i < 2; i++) {
			fakecuda_finish(o[i].stream);
			CHECK(&s->r, is_gathered(s, &o[i], SHARE));
		}
		s->round++;
	}
	/* Destroy the objects in the reverse order of their creation. */
	object_destroy(&o[1]);
	object_destroy(&o[0]);
}

/* Destroys a part of a capture: executable, graph, object, or the communicator of @s. */
static void destroy_part(struct site *s, struct object *o, CUgraphExec exec, CUgraph graph,
			 char what)
{
	if (what == 'e')
		cuGraphExecDestroy(exec);
	else if (what == 'g')
		cuGraphDestroy(graph);
	else if (what == 'o')
		object_destroy(o);
	else
		oriel_comm_destroy(s->r.comm);
}

/*
 * Further communicators beside the first, with objects over the same memory. Their parts are
 * destroyed in several orders, each object before its communicator, and the rest still works.
 */
static void test_orders(struct site *s)
{
	static const char *const orders[] = {"egoc", "geoc", "eogc", "ogec",
					     "ocge", "oceg", "goce"};
	struct object *first = &s->objects[0], beside = s->objects[1];
	size_t bytes = 2 * CHUNK + 3;
	struct site other;
	CUgraphExec exec;
	CUgraph graph;
	unsigned i, k;

	beside.result = first->result;
	object_create(s, first, ORIEL_ALGORITHM_RING);
	for (i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		other = *s;
		rank_join(&other.r, LONG_NS);
		object_create(&other, &beside, ORIEL_ALGORITHM_DEFAULT);
		exec = capture(&other, &beside, beside.send, bytes, &graph);
		for (k = 0; k < 3; k++) {
			replay(&other, &beside, exec, beside.send, bytes);
			gather_once(s, first, 1000);
		}
		for (k = 0; k < 4; k++) {
			destroy_part(&other, &beside, exec, graph, orders[i][k]);
			/* Destroying an object or a communicator is collective itself. */
			if (orders[i][k] != 'o' && orders[i][k] != 'c')
				nodes_meet(s);
			gather_once(s, first, 1000);
		}
		s->r.failures = other.r.failures > s->r.failures ? other.r.failures : s->r.failures;
	}
	object_destroy(first);
}

static enum oriel_status start_share(struct site *s, struct object *o)
{
	return oriel_allgather_run_on_stream(o->gather, source(s, o, SHARE, true), SHARE,
					     o->stream);
}

/* The last rank never starts; the streams of its peers go on within the timeout. */
static void test_absent(struct site *s)
{
	struct object *o = &s->objects[0];

	object_create(s, o, ORIEL_ALGORITHM_DEFAULT);
	gather_once(s, o, SHARE);
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	if (s->r.rank + 1 < s->r.size)
		CHECK_OK(&s->r, start_share(s, o));
	nodes_expect_rejected(s, o, start_share);
	object_destroy(o);
}

static void test_aborted(struct site *s)
{
	struct object *o = &s->objects[0];
	CUgraph graph;

	object_create(s, o, ORIEL_ALGORITHM_RING);
	gather_once(s, o, SHARE);
	graph = nodes_abort_replays(s, o, start_share, 200);
	object_destroy(o);
	cuGraphDestroy(graph);
}

static void test_driver(struct site *s)
{
	struct object *o = &s->objects[0];

	object_create(s, o, ORIEL_ALGORITHM_RING);
	gather_once(s, o, SHARE);
	nodes_fail_copies(s, o, start_share, 40);
	object_destroy(o);
}

/* A failed creation reports its cause and frees what it has, and the next one succeeds. */
static void test_rejected(struct site *s)
{
	struct object *o = &s->objects[0];

	/* All ranks have created their streams. */
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	fakecuda_fail("cuStreamCreate", 0);
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	CHECK_FAILS(&s->r, object_try(s, o, ORIEL_ALGORITHM_RING), ORIEL_ERR_INVALID,
		    "of the fake driver");
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	fakecuda_fail(NULL, 0);
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	object_create(s, o, ORIEL_ALGORITHM_RING);
	gather_once(s, o, SHARE);
	object_destroy(o);
}

#ifndef NDEBUG
/* The number of ranks of this process that got ORIEL_ERR_MISMATCH. */
static atomic_uint mismatches;

/*
 * Debug builds: all ranks but the last start and do not wait for it. The last one starts after
 * them or, with @at_once, together with them. The later rank of a pair gets the error.
 */
static void start_apart(struct site *s, struct object *o, bool at_once, bool is_captured)
{
	bool is_last = s->r.rank + 1 == s->r.size;
	enum oriel_status status = ORIEL_OK;
	CUgraph graph;

	if (is_captured)
		nodes_capture_begin(s, o);
	if (!is_last)
		status = oriel_allgather_run_on_stream(o->gather, o->send, 1000, o->stream);
	CHECK(&s->r, at_once || status == ORIEL_OK);
	if (!at_once)
		nodes_meet(s);
	if (is_last)
		status = oriel_allgather_run_on_stream(o->gather, o->send, SHARE, o->stream);
	if (status == ORIEL_ERR_MISMATCH) {
		CHECK(&s->r,
		      strstr(oriel_last_error(), is_last ? ", 1000 on rank" : ": 1000 on rank"));
		atomic_fetch_add(&mismatches, 1);
	}
	CHECK(&s->r, status == ORIEL_ERR_MISMATCH || (is_last ? at_once : status == ORIEL_OK) ||
			     (at_once && status == ORIEL_ERR_ABORTED));
	if (is_captured)
		CHECK(&s->r, cuStreamEndCapture(o->stream, &graph) == CUDA_SUCCESS &&
				     cuGraphDestroy(graph) == CUDA_SUCCESS);
}

/* Each call runs in a communicator of its own, since it breaks that. */
static void test_calls_differ(struct site *s)
{
	struct oriel_health health = {.size = sizeof(health)};
	struct site other;
	struct object *o;
	unsigned i, before;

	for (i = 0; i < TWICE; i++) {
		other = *s;
		o = &other.objects[0];
		before = atomic_load(&mismatches);
		rank_join(&other.r, LONG_NS);
		object_create(&other, o, ORIEL_ALGORITHM_DEFAULT);
		gather_once(&other, o, 1000);
		CHECK_OK(&other.r, oriel_comm_barrier(other.r.comm));
		nodes_meet(s);
		start_apart(&other, o, i > 1, i % 2);
		while (oriel_comm_health(other.r.comm, &health) == ORIEL_OK &&
		       health.status == ORIEL_OK)
			ori_dev_back_off(10000000);
		CHECK(&other.r, health.status == ORIEL_ERR_ABORTED);
		fakecuda_finish(o->stream);
		nodes_meet(s);
		CHECK(&other.r, atomic_load(&mismatches) > before);
		nodes_meet(s);
		object_destroy(o);
		oriel_comm_destroy(other.r.comm);
		s->r.failures = other.r.failures;
	}
}
#endif

static struct oriel_object_cache_info cache_info(struct site *s)
{
	struct oriel_object_cache_info info = {.size = sizeof(info)};

	CHECK_OK(&s->r, oriel_object_cache_query(s->r.comm, &info));
	return info;
}

/* Without an object. */
static void call_once(struct site *s, struct object *o, size_t bytes)
{
	char *send = source(s, o, bytes, s->round % 2);

	fill(s, send, bytes);
	if (!CHECK_OK(&s->r,
		      oriel_allgather_once_on_stream(s->r.comm, send, o->result, bytes, o->stream)))
		return;
	fakecuda_finish(o->stream);
	CHECK(&s->r, is_gathered(s, o, bytes));
	s->round++;
}

static CUgraphExec call_captured(struct site *s, struct object *o, size_t bytes, CUgraph *graph)
{
	nodes_capture_begin(s, o);
	CHECK_OK(&s->r,
		 oriel_allgather_once_on_stream(s->r.comm, o->send, o->result, bytes, o->stream));
	return nodes_capture_end(s, o, graph);
}

/*
 * Calls find their objects again, inside a capture and outside; one of the captures creates its
 * object. Those stay, whatever calls follow, until they are released.
 */
static void test_cached(struct site *s)
{
	struct object *o = &s->objects[0];
	size_t few = 1000, many = 3 * CHUNK + 5;
	CUgraphExec execs[2];
	CUgraph graphs[2];
	unsigned i;

	call_once(s, o, few);
	call_once(s, o, few - 1);
	CHECK(&s->r, cache_info(s).objects == 1 && cache_info(s).hits == 1);
	execs[0] = call_captured(s, o, few, &graphs[0]);
	CHECK(&s->r,
	      cache_info(s).objects == 1 && cache_info(s).captured == 1 && cache_info(s).hits == 2);
	execs[1] = call_captured(s, o, many, &graphs[1]);
	CHECK(&s->r, cache_info(s).objects == 2 && cache_info(s).captured == 2);
	for (i = 0; i < 20; i++) {
		replay(s, o, execs[0], o->send, few);
		if (i % 3 == 0)
			call_once(s, o, many);
		replay(s, o, execs[1], o->send, many);
	}
	CHECK(&s->r, cache_info(s).objects == 2);
	/* More objects than may be kept: those of graphs are not destroyed. */
	for (i = 0; i < ORIEL_OBJECT_CACHE_MOST + 2; i++)
		CHECK_OK(&s->r, oriel_allgather_once_on_stream(s->r.comm, o->send,
							       s->objects[1].result + 8 * i, 8,
							       s->objects[1].stream));
	fakecuda_finish(s->objects[1].stream);
	CHECK(&s->r, cache_info(s).objects == ORIEL_OBJECT_CACHE_MOST + 2);
	replay(s, o, execs[0], o->send, few);
	replay(s, o, execs[1], o->send, many);
	for (i = 0; i < 2; i++) {
		cuGraphExecDestroy(execs[i]);
		cuGraphDestroy(graphs[i]);
	}
	nodes_meet(s);
	CHECK_OK(&s->r, oriel_object_cache_release(s->r.comm, o->result, 1));
	CHECK(&s->r,
	      cache_info(s).objects == ORIEL_OBJECT_CACHE_MOST && cache_info(s).captured == 0);
}

/* A rank may have its result before its peers; it frees the memory, and they lose the object. */
static void test_freed(struct site *s)
{
	size_t bytes = 3 * CHUNK + 5, room = (size_t)s->r.size * SHARE;
	struct object *o = &s->objects[0];
	CUdeviceptr at = 0, managed = 0;
	char host[64] = {0}, *whole;
	unsigned i;

	for (i = 0; i < 2 * s->r.size; i++) {
		call_once(s, o, bytes);
		CHECK(&s->r, cache_info(s).hits == i && cache_info(s).objects == 1);
		call_once(s, o, bytes);
		CHECK(&s->r, cache_info(s).hits == i + 1);
		if (i % s->r.size != s->r.rank)
			continue;
		CHECK(&s->r, cuMemFree((CUdeviceptr)o->result) == CUDA_SUCCESS);
		CHECK(&s->r, cuMemAlloc(&at, room) == CUDA_SUCCESS);
		o->result = (char *)at;
	}
	/* Posted, and released before it has ended. */
	fill(s, o->send, bytes);
	CHECK_OK(&s->r,
		 oriel_allgather_once_on_stream(s->r.comm, o->send, o->result, bytes, o->stream));
	CHECK_OK(&s->r, oriel_object_cache_release(s->r.comm, NULL, 0));
	CHECK(&s->r, cache_info(s).objects == 0);
	fakecuda_finish(o->stream);
	CHECK(&s->r, is_gathered(s, o, bytes));
	s->round++;
	/* Memory of one rank that cannot be shared, or recognised. */
	CHECK(&s->r, cuMemAllocManaged(&managed, room, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
	whole = s->r.rank ? o->result : (char *)managed;
	CHECK_FAILS(&s->r, oriel_allgather_once_on_stream(s->r.comm, o->send, whole, 8, o->stream),
		    ORIEL_ERR_UNSUPPORTED, "managed memory");
	cuMemFree(managed);
	whole = malloc(s->r.size * sizeof(host));
	CHECK_FAILS(&s->r,
		    oriel_allgather_once_on_stream(s->r.comm, o->send,
						   s->r.rank ? o->result : whole, 8, o->stream),
		    ORIEL_ERR_UNSUPPORTED, "a later call cannot recognise");
	host[3] = (char)s->r.rank;
	CHECK_OK(&s->r, oriel_allgather_once(s->r.comm, host, whole, sizeof(host)));
	for (i = 0; i < s->r.size; i++)
		CHECK(&s->r, whole[i * sizeof(host) + 3] == (char)i);
	CHECK_FAILS(&s->r,
		    s->r.rank ? oriel_allgather_once_on_stream(s->r.comm, o->send, o->result, 8,
							       o->stream)
			      : oriel_allgather_once(s->r.comm, o->send, whole, 8),
		    ORIEL_ERR_MISMATCH, "whether there is a stream");
	free(whole);
}

const struct nodes_test nodes_tests[] = {
#ifndef NDEBUG
	{"calls_differ", test_calls_differ, LONG_NS},
#endif
	{"sizes", test_sizes, LONG_NS},
	{"ahead", test_ahead, LONG_NS},
	{"graphs", test_graphs, LONG_NS},
	{"two", test_two, LONG_NS},
	{"orders", test_orders, LONG_NS},
	{"absent", test_absent, LONG_NS / 10},
	{"aborted", test_aborted, LONG_NS},
	{"driver", test_driver, LONG_NS},
	{"rejected", test_rejected, LONG_NS},
	{"cached", test_cached, LONG_NS},
	{"freed", test_freed, LONG_NS},
	{NULL, NULL, 0},
};
