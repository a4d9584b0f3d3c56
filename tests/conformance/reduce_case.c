/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions in host memory: each algorithm, size, alignment and form has the bits of the scalar
 * folds of reductions.h, and no other byte changes. The conformance program runs this suite for
 * every transport. src/reduce/fold_test.c compares the arithmetic of all types.
 */
#include "reductions.h"

#include <stdlib.h>

#define GUARD 0x5a
#define LENGTH 1200000u /* bytes of a view */
#define MOST (LENGTH - 64u)

static const size_t sizes[] = {1, 3, 0, 12, 13, 24, 25, 100, 1025, 8192, 70001};

static void site_open(struct rank *r, struct site *s, unsigned which, unsigned block)
{
	void *memory = NULL;

	memset(s, 0, sizeof(*s));
	s->chunk = 4096;
	s->factor = factor_of(r->rank);
	s->reduction = reduction_of(which, &s->factor, block);
	s->size = oriel_type_size((enum oriel_type)s->reduction.type);
	CHECK_OK(r, oriel_memory_alloc(2 * LENGTH, 0, &memory));
	s->send = malloc((size_t)r->size * LENGTH + 64);
	s->expected = malloc(LENGTH);
	if (!memory || !s->send || !s->expected)
		give_up(r, "memory");
	memset(memory, GUARD, 2 * LENGTH);
	/* A message of which the result is a part may begin in the half before it. */
	s->result = (char *)memory + LENGTH + 1;
	s->view = (struct oriel_view){.size = sizeof(s->view),
				      .kind = ORIEL_VIEW_BUFFER,
				      .buffer = s->result,
				      .length = MOST};
}

static void site_close(struct rank *r, struct site *s)
{
	char *memory = s->result - 1 - LENGTH;

	CHECK_EQ(r, not_all(memory, LENGTH + 1, GUARD), 0);
	oriel_memory_free(memory);
	free(s->send);
	free(s->expected);
}

static unsigned create(struct rank *r, struct site *s, unsigned algorithm)
{
	struct oriel_coll_attr attr = {.size = sizeof(attr),
				       .algorithm = algorithm,
				       .chunk = s->chunk};
	struct oriel_coll_info info = {.size = sizeof(info)};
	bool is_hierarchical, is_fast;

	if (!CHECK_OK(r, oriel_allreduce_create(r->comm, &s->view, &s->reduction, &attr, &s->all)))
		return 0;
	if (algorithm == ORIEL_ALGORITHM_RING || algorithm == ORIEL_ALGORITHM_RECURSIVE)
		attr.algorithm = ORIEL_ALGORITHM_OWNER;
	CHECK_OK(r, oriel_reduce_create(r->comm, &s->view, &s->reduction, &attr, &s->root));
	/* Each rank has its part of a reduce-scatter, which no other one computes. */
	if (algorithm == ORIEL_ALGORITHM_ONE_SHOT)
		attr.algorithm = ORIEL_ALGORITHM_OWNER;
	CHECK_OK(r,
		 oriel_reduce_scatter_create(r->comm, &s->view, &s->reduction, &attr, &s->scatter));
	CHECK_OK(r, oriel_allreduce_query(s->all, 1, &info));
	s->block = info.block;
	CHECK(r, s->block && s->block <= r->size);
	CHECK_EQ(r, info.bytes_max, MOST);
	CHECK_EQ(r, info.accumulation,
		 s->reduction.type == ORIEL_TYPE_BF16 ? ORIEL_TYPE_FP32 : s->reduction.type);
	/* The nodes of these jobs are consecutive ranks. */
	is_hierarchical = info.nodes > 1 && s->block > 1 && s->block * info.nodes == r->size;
	CHECK_EQ(r, info.supported >> ORIEL_ALGORITHM_HIERARCHICAL & 1, is_hierarchical);
	is_fast = info.nodes > 1 && s->reduction.flags && s->reduction.op != ORIEL_OP_USER;
	CHECK_EQ(r, info.supported >> ORIEL_ALGORITHM_RING & 1, is_fast);
	CHECK_EQ(r, info.supported >> ORIEL_ALGORITHM_RECURSIVE & 1, is_fast);
	if (info.nodes > 1 && algorithm == ORIEL_ALGORITHM_DEFAULT)
		CHECK_EQ(r, info.algorithm,
			 is_fast           ? ORIEL_ALGORITHM_RECURSIVE
			 : is_hierarchical ? ORIEL_ALGORITHM_HIERARCHICAL
					   : ORIEL_ALGORITHM_OWNER);
	return info.supported;
}

static void close_objects(struct rank *r, struct site *s)
{
	CHECK_OK(r, oriel_allreduce_destroy(s->all));
	CHECK_OK(r, oriel_reduce_destroy(s->root));
	CHECK_OK(r, oriel_reduce_scatter_destroy(s->scatter));
}

static void check_result(struct rank *r, const struct site *s, const char *at, size_t count)
{
	CHECK_EQ(r, memcmp(at, s->expected, count * s->size), 0);
}

/* In place on each third rank, for an address of the message that is odd or even. */
static void run_all(struct rank *r, struct site *s, size_t count, bool is_started)
{
	struct oriel_coll_info info = {.size = sizeof(info)};
	bool in_place = (s->round + r->rank) % 3 == 0;
	char *send = in_place ? s->result : s->send + s->round % 8;

	CHECK_OK(r, oriel_allreduce_query(s->all, count, &info));
	s->algorithm = info.algorithm;
	s->round++;
	fill_own(r, s, send, count);
	expect(r, s, 0, count);
	if (is_started) {
		CHECK_OK(r, oriel_allreduce_start(s->all, send, count));
		CHECK_OK(r, oriel_allreduce_wait(s->all, ORIEL_TIMEOUT_DEFAULT));
	} else {
		CHECK_OK(r, oriel_allreduce_run(s->all, send, count));
	}
	check_result(r, s, s->result, count);
	if (!in_place)
		memset(send, GUARD, count * s->size);
}

static void run_scatter(struct rank *r, struct site *s, size_t count, bool is_started)
{
	size_t whole = count * r->size;
	/* Not in place, the whole message in place, or this rank's part of it. */
	unsigned way = count && whole * s->size <= MOST ? (s->round + r->rank) % 3 : 0;
	size_t before = way == 2 ? r->rank * count * s->size : 0;
	char *send = way ? s->result - before : s->send + s->round % 8;

	s->algorithm = ORIEL_ALGORITHM_OWNER;
	s->round++;
	fill_own(r, s, send, whole);
	expect(r, s, r->rank * count, count);
	if (is_started) {
		CHECK_OK(r, oriel_reduce_scatter_start(s->scatter, send, count));
		CHECK_OK(r, oriel_reduce_scatter_wait(s->scatter, ORIEL_TIMEOUT_DEFAULT));
	} else {
		CHECK_OK(r, oriel_reduce_scatter_run(s->scatter, send, count));
	}
	check_result(r, s, s->result, count);
	if (before)
		memset(send, GUARD, before);
}

static void run_root(struct rank *r, struct site *s, size_t count, bool is_started)
{
	unsigned root = (unsigned)(s->round * 7 % r->size);
	bool in_place = (s->round + r->rank) % 3 == 1;
	char *send = in_place ? s->result : s->send + s->round % 8;

	s->algorithm = ORIEL_ALGORITHM_OWNER;
	s->round++;
	memset(s->result, GUARD, count * s->size);
	fill_own(r, s, send, count);
	if (is_started) {
		CHECK_OK(r, oriel_reduce_start(s->root, root, send, count));
		CHECK_OK(r, oriel_reduce_wait(s->root, ORIEL_TIMEOUT_DEFAULT));
	} else {
		CHECK_OK(r, oriel_reduce_run(s->root, root, send, count));
	}
	if (root == r->rank) {
		expect(r, s, 0, count);
		check_result(r, s, s->result, count);
	} else if (!in_place) {
		CHECK_EQ(r, not_all(s->result, count * s->size, GUARD), 0);
	}
}

static void run_sizes(struct rank *r, struct site *s)
{
	size_t i, count;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		count = sizes[i];
		/* The scalar fold of every rank takes its time on a few cores. */
		if (r->size > 4 && s->size != 4 && count > 8192)
			continue;
		memset(s->result, GUARD, MOST);
		run_all(r, s, count, i % 4 == 3);
		run_root(r, s, count, i % 4 == 2);
		CHECK_EQ(r, not_all(s->result + count * s->size, MOST - count * s->size, GUARD), 0);
		run_scatter(r, s, count, i % 4 == 1);
	}
}

static void run_algorithms(struct rank *r, unsigned which, unsigned block, unsigned flags)
{
	unsigned mask = 1u << ORIEL_ALGORITHM_DEFAULT, algorithm;
	struct site s;

	site_open(r, &s, which, block);
	s.reduction.flags = flags;
	/* A round of RECURSIVE has a part of it, and each of its steps waits for another rank. */
	if (flags)
		s.chunk = 65536;
	for (algorithm = 0; has_algorithm(algorithm); algorithm++) {
		if (!(mask >> algorithm & 1))
			continue;
		mask |= create(r, &s, algorithm);
		run_sizes(r, &s);
		close_objects(r, &s);
	}
	CHECK(r, mask >> ORIEL_ALGORITHM_OWNER & 1);
	site_close(r, &s);
}

static void every_algorithm_adds_in_the_order(struct rank *r)
{
	run_algorithms(r, SUM_FP32, 0, 0);
}

static void partial_results_are_wide(struct rank *r)
{
	run_algorithms(r, SUM_BF16, 0, 0);
}

static void blocks_of_two_are_added_first(struct rank *r)
{
	run_algorithms(r, SUM_FP32, 2, 0);
}

static void bytes_need_no_alignment(struct rank *r)
{
	run_algorithms(r, BXOR_UINT8, 0, 0);
}

static void each_rank_has_its_factor(struct rank *r)
{
	run_algorithms(r, PREMUL_FP64, 3, 0);
}

static void a_function_is_applied_in_the_order(struct rank *r)
{
	run_algorithms(r, USER_INT16, 0, 0);
}

static void fast_ones_have_orders_of_their_own(struct rank *r)
{
	run_algorithms(r, SUM_FP32, 0, ORIEL_REDUCE_FAST);
	run_algorithms(r, SUM_BF16, 2, ORIEL_REDUCE_FAST);
	run_algorithms(r, PREMUL_FP64, 0, ORIEL_REDUCE_FAST);
}

static void functions_are_never_fast(struct rank *r)
{
	run_algorithms(r, USER_INT16, 0, ORIEL_REDUCE_FAST);
}

/* Parts of a round have several chunks. */
static void long_rings_have_chunks(struct rank *r)
{
	static const size_t counts[] = {40000, 140001, 299000};
	struct oriel_coll_info info = {.size = sizeof(info)};
	struct oriel_coll_attr attr = {.size = sizeof(attr), .algorithm = ORIEL_ALGORITHM_RING};
	struct site s;
	unsigned i;

	site_open(r, &s, SUM_FP32, 0);
	s.chunk = (size_t)1 << 20;
	s.reduction.flags = ORIEL_REDUCE_FAST;
	if (create(r, &s, ORIEL_ALGORITHM_DEFAULT)) {
		CHECK_OK(r, oriel_allreduce_query(s.all, 1, &info));
		CHECK_OK(r, oriel_allreduce_destroy(s.all));
		if (!(info.supported >> ORIEL_ALGORITHM_RING & 1))
			attr.algorithm = ORIEL_ALGORITHM_DEFAULT;
		CHECK_OK(r, oriel_allreduce_create(r->comm, &s.view, &s.reduction, &attr, &s.all));
		for (i = 0; i < (r->size > 4 ? 2 : 6); i++)
			run_all(r, &s, counts[i % 3], i % 2);
		close_objects(r, &s);
	}
	site_close(r, &s);
}

/* Where the number of ranks is no power of two, the first ones are added in pairs before. */
static void trees_have_any_number_of_ranks(struct rank *r)
{
	static const unsigned types[] = {SUM_FP32, SUM_BF16, PREMUL_FP64, BXOR_UINT8};
	/* With elements of one byte the halves of the last two have an odd length. */
	static const size_t counts[] = {1, 0, 13, 1025, 20001, 16385, 16513};
	struct site s;
	unsigned i, k;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		site_open(r, &s, types[i], 0);
		s.reduction.flags = ORIEL_REDUCE_FAST;
		s.chunk = 65536;
		if (create(r, &s, ORIEL_ALGORITHM_DEFAULT) >> ORIEL_ALGORITHM_RECURSIVE & 1) {
			close_objects(r, &s);
			create(r, &s, ORIEL_ALGORITHM_RECURSIVE);
		}
		for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
			run_all(r, &s, counts[k], k % 2);
		for (k = 0; k < 12; k++) {
			run_all(r, &s, 1 + k * 37 % 300, k % 2);
			if (k % 7 == r->rank % 7)
				oriel_cpu_back_off(300000);
		}
		close_objects(r, &s);
		site_close(r, &s);
	}
}

/* Small and large ones, blocking and started, so that all use the staging and views in turn. */
static void mix(struct rank *r, unsigned flags)
{
	struct site s;
	unsigned i;

	site_open(r, &s, SUM_FP32, 0);
	s.reduction.flags = flags;
	if (create(r, &s, ORIEL_ALGORITHM_DEFAULT)) {
		for (i = 0; i < (r->size > 4 ? 40 : 120); i++) {
			run_all(r, &s, 1 + i * 37 % 300, i % 5 == 0);
			if (i % 7 == r->rank % 7)
				oriel_cpu_back_off(1000000);
			run_root(r, &s, 1 + i * 11 % 200, i % 6 == 0);
			if (i % 8 == 0)
				run_all(r, &s, 20000 + i, i % 3 == 0);
			run_scatter(r, &s, 1 + i * 5 % 90, i % 4 == 0);
		}
		close_objects(r, &s);
	}
	site_close(r, &s);
}

static void executions_do_not_mix(struct rank *r)
{
	mix(r, 0);
}

static void fast_executions_do_not_mix(struct rank *r)
{
	mix(r, ORIEL_REDUCE_FAST);
}

/* Memory that ranks map, and memory that they cannot map; each reduction has its object. */
static void reductions_without_an_object(struct rank *r)
{
	unsigned which, i, root;
	struct site s;
	size_t count;
	char *to;

	for (which = 0; which < REDUCTIONS; which++) {
		site_open(r, &s, which, 0);
		create(r, &s, ORIEL_ALGORITHM_DEFAULT);
		close_objects(r, &s);
		for (i = 0; i < (r->size > 4 ? 4 : 8); i++) {
			to = i % 2 ? s.result : s.send + (size_t)r->size * 8 * 1000;
			count = i == 3 ? 0 : 1 + i * 61;
			root = i % r->size;
			s.round++;
			fill_own(r, &s, s.send, count);
			expect(r, &s, 0, count);
			CHECK_OK(r, oriel_allreduce_once(r->comm, s.send, to, count, &s.reduction));
			check_result(r, &s, to, count);
			memset(to, GUARD, count * s.size);
			CHECK_OK(r,
				 oriel_reduce_once(r->comm, root, s.send, to, count, &s.reduction));
			if (root == r->rank)
				check_result(r, &s, to, count);
			else
				CHECK_EQ(r, not_all(to, count * s.size, GUARD), 0);
			fill_own(r, &s, s.send, count * r->size);
			expect(r, &s, r->rank * count, count);
			CHECK_OK(r, oriel_reduce_scatter_once(r->comm, s.send, to, count,
							      &s.reduction));
			check_result(r, &s, to, count);
		}
		CHECK_OK(r, oriel_object_cache_release(r->comm, NULL, 0));
		site_close(r, &s);
	}
}

/* Objects of one root after the other, blocking and started; and without an object. */
static void gather_and_scatter(struct rank *r)
{
	static const size_t lengths[] = {1, 0, 77, 4096, 70000};
	struct oriel_gather *gather = NULL;
	struct oriel_scatter *scatter = NULL;
	unsigned root, rank, i;
	struct site s;
	size_t bytes;
	char *own;

	site_open(r, &s, BXOR_UINT8, 0);
	if (!CHECK_OK(r, oriel_gather_create(r->comm, &s.view, NULL, &gather)) ||
	    !CHECK_OK(r, oriel_scatter_create(r->comm, &s.view, NULL, &scatter)))
		return;
	for (i = 0; i < 10; i++) {
		bytes = lengths[i % 5];
		if (bytes > MOST / r->size)
			bytes = MOST / r->size;
		root = (i * 3 + 1) % r->size;
		/* The root sends in place in each second execution. */
		own = i % 2 && root == r->rank ? s.result + root * bytes : s.send + 1;
		memset(s.result, GUARD, MOST);
		fill(own, bytes, i * 100 + r->rank);
		if (i % 3 == 0) {
			CHECK_OK(r, oriel_gather_start(gather, root, own, bytes));
			CHECK_OK(r, oriel_gather_wait(gather, ORIEL_TIMEOUT_DEFAULT));
		} else {
			CHECK_OK(r, oriel_gather_run(gather, root, own, bytes));
		}
		for (rank = 0; rank < r->size && root == r->rank; rank++)
			CHECK_EQ(r, wrong(s.result + rank * bytes, bytes, i * 100 + rank), 0);
		if (root != r->rank)
			CHECK_EQ(r, not_all(s.result, MOST, GUARD), 0);
		for (rank = 0; rank < r->size && root == r->rank; rank++)
			fill(s.send + rank * bytes, bytes, i * 200 + rank);
		if (i % 3 == 1) {
			CHECK_OK(r, oriel_scatter_start(scatter, root, s.send, bytes));
			CHECK_OK(r, oriel_scatter_wait(scatter, ORIEL_TIMEOUT_DEFAULT));
		} else {
			CHECK_OK(r, oriel_scatter_run(scatter, root, s.send, bytes));
		}
		CHECK_EQ(r, wrong(s.result, bytes, i * 200 + r->rank), 0);
		CHECK_OK(r, oriel_scatter_once(r->comm, root, s.send, s.expected, bytes));
		CHECK_EQ(r, wrong(s.expected, bytes, i * 200 + r->rank), 0);
		CHECK_OK(r, oriel_gather_once(r->comm, root, s.expected,
					      root == r->rank ? s.send + 3 : NULL, bytes));
		for (rank = 0; rank < r->size && root == r->rank; rank++)
			CHECK_EQ(r, wrong(s.send + 3 + rank * bytes, bytes, i * 200 + rank), 0);
	}
	CHECK_STATUS(r, oriel_gather_run(gather, r->size, s.send, 1), ORIEL_ERR_RANGE);
	CHECK_LAST(r, "gather: root");
	CHECK_STATUS(r, oriel_gather_run(gather, 0, NULL, 1), ORIEL_ERR_INVALID);
	CHECK_LAST(r, "gather: send is NULL");
	CHECK_STATUS(r, oriel_scatter_run(scatter, r->rank, s.result + 1, 8), ORIEL_ERR_INVALID);
	CHECK_LAST(r, "scatter: the send buffer overlaps the result");
	CHECK_OK(r, oriel_gather_destroy(gather));
	CHECK_OK(r, oriel_scatter_destroy(scatter));
	site_close(r, &s);
}

/* The root reads its result late, while its peers have started the next gather. */
static void a_gathered_result_stays(struct rank *r)
{
	struct oriel_gather *gather = NULL;
	struct site s;
	unsigned i, rank;

	site_open(r, &s, BXOR_UINT8, 0);
	if (!CHECK_OK(r, oriel_gather_create(r->comm, &s.view, NULL, &gather)))
		return;
	for (i = 0; i < 8; i++) {
		fill(s.send, 3000, i * 100 + r->rank);
		CHECK_OK(r, oriel_gather_run(gather, 0, s.send, 3000));
		if (r->rank)
			continue;
		oriel_cpu_back_off(64000000);
		for (rank = 0; rank < r->size; rank++)
			CHECK_EQ(r, wrong(s.result + rank * 3000, 3000, i * 100 + rank), 0);
	}
	CHECK_OK(r, oriel_gather_destroy(gather));
	site_close(r, &s);
}

/* The sum of an average of int8 is an int64: few ranks in a node have fewer bytes. */
static void wide_sums_stay_in_small_nodes(struct rank *r)
{
	struct oriel_coll_info info = {.size = sizeof(info)};
	struct site s;

	site_open(r, &s, BXOR_UINT8, 0);
	s.reduction.type = ORIEL_TYPE_INT8;
	s.reduction.op = ORIEL_OP_AVG;
	if (CHECK_OK(r, oriel_allreduce_create(r->comm, &s.view, &s.reduction, NULL, &s.all))) {
		CHECK_OK(r, oriel_allreduce_query(s.all, 8192, &info));
		CHECK_EQ(r, info.algorithm,
			 info.nodes > 1 && info.block >= 8 && info.block * info.nodes == r->size
				 ? ORIEL_ALGORITHM_HIERARCHICAL
				 : ORIEL_ALGORITHM_OWNER);
		CHECK_OK(r, oriel_allreduce_destroy(s.all));
	}
	site_close(r, &s);
}

static void invalid_arguments_are_rejected(struct rank *r)
{
	struct oriel_coll_attr attr = {.size = sizeof(attr),
				       .algorithm = ORIEL_ALGORITHM_HIERARCHICAL};
	struct oriel_reduction other;
	struct site s;

	site_open(r, &s, SUM_FP32, 0);
	if (!create(r, &s, ORIEL_ALGORITHM_DEFAULT))
		return;
	CHECK_STATUS(r, oriel_allreduce_run(s.all, s.send, LENGTH / 4), ORIEL_ERR_RANGE);
	CHECK_LAST(r, "all-reduce of 300000 elements of type fp32, but the shortest view has");
	CHECK_STATUS(r, oriel_allreduce_run(s.all, s.send, SIZE_MAX / 2), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_allreduce_run(s.all, NULL, 1), ORIEL_ERR_INVALID);
	CHECK_LAST(r, "all-reduce: send is NULL");
	CHECK_STATUS(r, oriel_allreduce_run(s.all, s.result + 4, 2), ORIEL_ERR_INVALID);
	CHECK_LAST(r, "overlaps the result");
	CHECK_STATUS(r, oriel_reduce_run(s.root, r->size, s.send, 1), ORIEL_ERR_RANGE);
	CHECK_LAST(r, "root");
	CHECK_STATUS(r, oriel_allreduce_once(r->comm, s.send, NULL, 2, &s.reduction),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "recv is NULL");
	/* The failed calls changed nothing. */
	run_all(r, &s, 5, false);
	close_objects(r, &s);

	other = s.reduction;
	other.op = ORIEL_OP_BAND;
	CHECK_STATUS(r, oriel_allreduce_create(r->comm, &s.view, &other, NULL, &s.all),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "op band is for integers, not fp32");
	CHECK_STATUS(r, oriel_allreduce_create(r->comm, &s.view, NULL, NULL, &s.all),
		     ORIEL_ERR_INVALID);
	other = s.reduction;
	other.block = r->size;
	CHECK_STATUS(r, oriel_allreduce_create(r->comm, &s.view, &other, &attr, &s.all),
		     ORIEL_ERR_UNSUPPORTED);
	CHECK_LAST(r, "algorithm hierarchical needs several nodes, each of them a block of two");
	attr.algorithm = ORIEL_ALGORITHM_RING;
	CHECK_STATUS(r, oriel_allreduce_create(r->comm, &s.view, &s.reduction, &attr, &s.all),
		     ORIEL_ERR_UNSUPPORTED);
	CHECK_LAST(r, "algorithm ring adds in another order: it needs ORIEL_REDUCE_FAST");
	s.reduction.flags = 2;
	CHECK_STATUS(r, oriel_allreduce_create(r->comm, &s.view, &s.reduction, NULL, &s.all),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "flags 0x2");
	site_close(r, &s);
}

static void different_reductions_are_a_mismatch(struct rank *r)
{
	struct site s;

	site_open(r, &s, SUM_FP32, 0);
	if (r->rank == r->size - 1)
		s.reduction.op = ORIEL_OP_MAX;
	CHECK_STATUS(r, oriel_allreduce_create(r->comm, &s.view, &s.reduction, NULL, &s.all),
		     ORIEL_ERR_MISMATCH);
	CHECK_LAST(r, "ranks differ in the operation (enum oriel_op): 1 on rank 0, 4 on rank");
	CHECK_STATUS(r, oriel_allreduce_once(r->comm, s.send, s.result, 4, &s.reduction),
		     ORIEL_ERR_MISMATCH);
	CHECK_LAST(r, "ranks differ in the operation");
	s.reduction.op = ORIEL_OP_SUM;
	s.reduction.block = 1 + (r->rank == 0);
	CHECK_STATUS(r, oriel_reduce_create(r->comm, &s.view, &s.reduction, NULL, &s.root),
		     ORIEL_ERR_MISMATCH);
	CHECK_LAST(r, "ranks differ in the block: 2 on rank 0, 1 on rank 1");
	s.reduction.block = 0;
	s.reduction.flags = r->rank == 0 ? ORIEL_REDUCE_FAST : 0;
	CHECK_STATUS(r, oriel_allreduce_create(r->comm, &s.view, &s.reduction, NULL, &s.all),
		     ORIEL_ERR_MISMATCH);
	CHECK_LAST(r, "ranks differ in the flags of the reduction (ORIEL_REDUCE_FAST): 1 on rank");
	site_close(r, &s);
}

static void different_counts(struct rank *r, unsigned flags, unsigned first, unsigned others)
{
	enum oriel_status status;
	struct site s;

	site_open(r, &s, SUM_FP32, 0);
	s.reduction.flags = flags;
	if (create(r, &s, ORIEL_ALGORITHM_DEFAULT)) {
		status = oriel_allreduce_run(s.all, s.send, r->rank ? others : first);
		CHECK(r, status == ORIEL_ERR_MISMATCH || status == ORIEL_ERR_ABORTED);
		if (status == ORIEL_ERR_MISMATCH)
			CHECK_LAST(r, "all-reduce: ranks differ in bytes: ");
		rank_meet_anyway(r);
		oriel_allreduce_destroy(s.all);
		oriel_reduce_destroy(s.root);
		oriel_reduce_scatter_destroy(s.scatter);
	}
	site_close(r, &s);
}

static void different_counts_break_the_communicator(struct rank *r)
{
	different_counts(r, 0, 5, 4);
}

static void different_counts_of_trees_break_the_communicator(struct rank *r)
{
	different_counts(r, ORIEL_REDUCE_FAST, 5, 4);
}

static void different_counts_of_rings_break_the_communicator(struct rank *r)
{
	different_counts(r, ORIEL_REDUCE_FAST, 70000, 90000);
}

static const struct test_case reduce_cases[] = {
	{"every_algorithm_adds_in_the_order", every_algorithm_adds_in_the_order, NULL, 1,
	 NO_WINDOW},
	{"partial_results_are_wide", partial_results_are_wide, NULL, 1, NO_WINDOW},
	{"blocks_of_two_are_added_first", blocks_of_two_are_added_first, NULL, 1, NO_WINDOW},
	{"bytes_need_no_alignment", bytes_need_no_alignment, NULL, 1, NO_WINDOW},
	{"each_rank_has_its_factor", each_rank_has_its_factor, NULL, 1, NO_WINDOW},
	{"a_function_is_applied_in_the_order", a_function_is_applied_in_the_order, NULL, 1,
	 NO_WINDOW},
	{"fast_ones_have_orders_of_their_own", fast_ones_have_orders_of_their_own, NULL, 1,
	 NO_WINDOW},
	{"functions_are_never_fast", functions_are_never_fast, NULL, 1, NO_WINDOW},
	{"long_rings_have_chunks", long_rings_have_chunks, NULL, 1, NO_WINDOW},
	{"trees_have_any_number_of_ranks", trees_have_any_number_of_ranks, NULL, 1, NO_WINDOW},
	{"executions_do_not_mix", executions_do_not_mix, NULL, 1, NO_WINDOW},
	{"fast_executions_do_not_mix", fast_executions_do_not_mix, NULL, 1, NO_WINDOW},
	{"reductions_without_an_object", reductions_without_an_object, NULL, 1, NO_WINDOW},
	{"gather_and_scatter", gather_and_scatter, NULL, 1, NO_WINDOW},
	{"a_gathered_result_stays", a_gathered_result_stays, NULL, 2, NO_WINDOW},
	{"wide_sums_stay_in_small_nodes", wide_sums_stay_in_small_nodes, NULL, 1, NO_WINDOW},
	{"invalid_arguments_are_rejected", invalid_arguments_are_rejected, NULL, 1, NO_WINDOW},
	{"different_reductions_are_a_mismatch", different_reductions_are_a_mismatch, NULL, 2,
	 NO_WINDOW},
	{"different_counts_break_the_communicator", different_counts_break_the_communicator, NULL,
	 2, NO_WINDOW | BREAKS_COMM},
	{"different_counts_of_trees_break_the_communicator",
	 different_counts_of_trees_break_the_communicator, NULL, 2, NO_WINDOW | BREAKS_COMM},
	{"different_counts_of_rings_break_the_communicator",
	 different_counts_of_rings_break_the_communicator, NULL, 2, NO_WINDOW | BREAKS_COMM},
};

const struct suite reduce_suite = SUITE(reduce);
