/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of an object that is of reductions alone: the fold, and the staging through which ranks
 * pass their elements. Used by gather_make.c, by allreduce.c, reduce_scatter.c
 * and reduce_root.c, and by the executions.
 */
#ifndef ORI_COLL_REDUCTION_H
#define ORI_COLL_REDUCTION_H

#include "coll/gather.h"
#include "reduce/fold.h"

/* The most bytes of elements in one half of the staging. */
#define ORI_REDUCE_SLOT ((size_t)256 << 10)

/*
 * GPU memory: the most bytes of a message by LL lines where NVLink joins the GPUs and longer ones
 * have LL128 lines, by lines and by one shot, of the slots of all ranks for one half of a part, and
 * those that one part of an execution has at most while there are parts left.
 */
#define ORI_REDUCE_LL ((size_t)64 << 10)
#define ORI_REDUCE_LINES ((size_t)512 << 10)
#define ORI_REDUCE_ONE_SHOT ((size_t)4 << 20)
#define ORI_REDUCE_SLOTS ((size_t)128 << 10)
#define ORI_REDUCE_LL_PART 2048u
#define ORI_REDUCE_LL128_PART 4096u
#define ORI_REDUCE_STAGED_PART 8192u

/* Ahead of the elements of a half. One rank writes it and all others read it. */
struct ori_reduce_head {
	uint64_t step;  /* the elements are those of this step; from 1 on */
	uint64_t bytes; /* of the whole execution */
	uint64_t root;
	uint64_t reserved;
	char few[96]; /* elements that are few enough to arrive with the step */
};

static_assert(sizeof(struct ori_reduce_head) == ORIEL_DEV_LINE, "elements begin at a line");

struct ori_reduction {
	struct oriel_reduction given; /* as the caller gave it; @factor is not read any more */
	struct ori_fold fold;
	uint64_t *factors;   /* [ranks]; packed by the fold's type, but words in GPU memory */
	size_t factors_at;   /* GPU memory: their offset in the staging, where kernels read them */
	const char **inputs; /* [ranks]: scratch of an execution, as @outs is */
	char **outs;
	bool is_hierarchical;  /* it has the algorithm HIERARCHICAL */
	bool is_fast;          /* it has RING and RECURSIVE */
	struct ori_plan heard; /* @expected: ranks that HIERARCHICAL has messages of */
	size_t slot;           /* bytes of elements of a half */
	uint64_t step;         /* the last one that this rank has begun */
};

struct ori_gather_job;
struct ori_gather_request;
struct ori_gather_join;

/* reduction.c. @reduction NULL: there is nothing to free. */
struct ori_reduction *ori_reduction_alloc(const struct oriel_reduction *given, uint32_t ranks);
void ori_reduction_free(struct ori_reduction *reduction);
/* The type, operation, block and factor of @request, for its peers. */
void ori_reduction_join(const struct oriel_reduction *given, struct ori_gather_join *join);
/* The factors of all ranks. */
void ori_reduction_combine(struct ori_gather *g, const struct ori_gather_join *joins);
/* Once the shape of @g is known: the block, and whether the nodes are the blocks. */
void ori_reduction_order(struct ori_gather *g);
/* Then, once its longest view is known. */
enum oriel_status ori_reduction_open(struct ori_gather *g);
/* Bytes of the staging of one domain, in host memory. */
size_t ori_reduction_staging(const struct ori_gather *g);
/*
 * The factors of GPU memory lie behind @staging bytes of others. Returns the bytes of both. The
 * second function copies them there; the third is what kernels read.
 */
size_t ori_reduction_lay_out(struct ori_gather *g, size_t staging);
enum oriel_status ori_reduction_copy_factors(struct ori_gather *g);
struct oriel_dev_reduction ori_reduction_device(const struct ori_gather *g);
/*
 * reduce_stream.c: lays out the staging of GPU memory. Returns its bytes. Then one execution.
 */
size_t ori_reduce_stream_lay_out(struct ori_gather *g);
enum oriel_status ori_reduce_stream(struct ori_gather *g, enum oriel_algorithm algorithm,
				    const void *send, size_t count, void *stream);

/* reduce_internode.c: one execution of GPU memory by jobs. */
enum oriel_status ori_reduce_internode(struct ori_gather *g, enum oriel_algorithm algorithm,
				       uint32_t root, const void *send, size_t count, void *stream);

/*
 * reduction_call.c: an execution of @count elements by @handle; checks that it is of @kind, and the
 * other arguments. @root is that of a reduction to a root, else 0. @is_start: the thread of the
 * communicator executes.
 */
enum oriel_status ori_reduction_execute(const struct ori_gather_kind *kind, void *handle,
					uint32_t root, const void *send, size_t count,
					bool is_start, const char *call);
/* The same of GPU memory, posted to a stream of the caller. */
enum oriel_status ori_reduction_execute_on_stream(const struct ori_gather_kind *kind, void *handle,
						  uint32_t root, const void *send, size_t count,
						  struct CUstream_st *stream, const char *call);
/* The query functions, for @count elements. */
enum oriel_status ori_reduction_query(const struct ori_gather_kind *kind, const void *handle,
				      size_t count, struct oriel_coll_info *info, const char *call);
/* Vectors of the sums of a vector of elements in GPU memory: oriel_window_reduce_block_on_stream().
 */
uint32_t ori_reduction_vectors(const struct ori_gather *g);
/* The bytes of @count elements, or SIZE_MAX if that is too many. */
size_t ori_reduction_bytes(const struct ori_gather *g, size_t count);

/* A range of bytes of a round. */
struct ori_reduce_part {
	size_t begin, length;
};

/* The share of @rank of @length bytes: whole elements, and whole lines but for the last share. */
struct ori_reduce_part ori_reduce_share(size_t length, uint32_t ranks, uint32_t rank);

/* reduce_nodes.c: one execution of several nodes. The first function blocks, the second posts. */
enum oriel_status ori_reduce_nodes_run(struct ori_gather *g, enum oriel_algorithm algorithm,
				       uint32_t root, const void *send, size_t count);
enum oriel_status ori_reduce_nodes_start(struct ori_gather *g, enum oriel_algorithm algorithm,
					 uint32_t root, const void *send, size_t count);

/* reduce_run.c: one execution of mapped ranks. The first function blocks, the second posts. */
enum oriel_status ori_reduce_run(struct ori_gather *g, enum oriel_algorithm algorithm,
				 uint32_t root, const void *send, size_t count);
enum oriel_status ori_reduce_start(struct ori_gather *g, enum oriel_algorithm algorithm,
				   uint32_t root, const void *send, size_t count);

#endif
