/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object of oriel/allgather.h, and what its files share. Those of oriel/alltoall.h
 * and oriel/bcast.h are such an object as well, of another kind: what there is to
 * execute over one view of all ranks.
 */
#ifndef ORI_COLL_GATHER_H
#define ORI_COLL_GATHER_H

#include <stdatomic.h>

#include <oriel/allgather.h>
#include <oriel/dev.h>

#include "base/live.h"
#include "coll/gather_tree.h"
#include "coll/gather_tune.h"

/*
 * Groups that share one execution on a GPU, at most: by lines or by puts; of a broadcast;
 * of messages of which the host does not know the length. Those of ranks that share a GPU
 * wait for each other: see ori_gather_shared_parts().
 */
#define ORI_GATHER_PARTS 128u
#define ORI_GATHER_BCAST_PARTS 64u
#define ORI_GATHER_EXCHANGE_PARTS 16u

/* Bytes that one part puts, at most, where there are fewer parts. */
#define ORI_GATHER_PUT_PART 16384u

/*
 * And what one sends by lines, if all its warps send to one peer: each thread of them
 * has a line, or half of one have four.
 */
#define ORI_GATHER_WARPS 16u
#define ORI_GATHER_LL_WARP 256u
#define ORI_GATHER_LL128_WARP 448u

/* Beyond so many bytes they go by LL128 on a GPU. */
#define ORI_GATHER_LL_MOST 65536u

/* Buffers of the window: what lines go through, what is gathered into. */
#define ORI_GATHER_STAGING 0u
#define ORI_GATHER_RESULT 1u

/* Of @window. CREDIT and DATA are of plans, SAME and NUMBER of gather_same.c. */
enum ori_gather_signal {
	ORI_GATHER_CREDIT,
	ORI_GATHER_DATA,
	ORI_GATHER_SAME,
	ORI_GATHER_NUMBER,
	ORI_GATHER_SERIES = ORI_GATHER_NUMBER + 2, /* two for each part of each series */
};

/* What is executed by functions of the device, each kind with epochs of its own. */
enum ori_gather_series {
	ORI_GATHER_LL,
	ORI_GATHER_LL128,
	ORI_GATHER_PUTS,
	ORI_GATHER_NOTES,
	ORI_GATHER_KINDS
};

struct ori_gather_kind {
	const char *name; /* in texts */
	enum ori_collective number;
	unsigned host;      /* algorithms, a mask: of host memory of one domain */
	unsigned nodes;     /* of several */
	unsigned gpus;      /* of one domain */
	unsigned gpu_nodes; /* GPUs of several */
	bool is_whole;      /* one message fills the view; else each rank has its share */
	bool has_notes;
};

struct ori_internode;

struct oriel_allgather {
	const struct ori_gather_kind *kind;
	struct oriel_comm *comm;     /* borrowed */
	struct oriel_window *window; /* its own: signals, staging */
	/*
	 * Handle of @window; in host memory with @table in place of its own, so that
	 * buffer 1 is the view, whoever has mapped that.
	 */
	struct oriel_dev_window device;
	struct oriel_dev_buffer *table; /* [2][ranks]; NULL on a GPU */
	char *result;                   /* the view of this rank */
	size_t bytes_max;
	size_t chunk;
	uint32_t parts; /* of an execution, at most; equal on all ranks */
	bool is_gpu;
	bool is_sharing; /* do ranks share a GPU, anywhere? */

	struct oriel_dev_gather ll;
	struct oriel_dev_gather ll128; /* GPUs only */
	struct oriel_dev_gather puts;
	struct oriel_dev_gather notes; /* of all-to-all */

	uint32_t *leaders; /* [ranks], of their nodes */
	struct ori_shape shape;
	struct ori_plan plans[ORIEL_ALGORITHMS]; /* of those that have one */
	bool *has_credit;                        /* [ranks]: in this execution */
	uint64_t *taken;                         /* [ranks]: chunks, in this execution */
	uint64_t compared;                       /* numbers that were compared */
	struct oriel_window *numbers;            /* of GPU memory, where they are; else NULL */

	_Atomic int begun;               /* enum oriel_status: ORIEL_AGAIN while a job is at it */
	struct ori_internode *internode; /* of GPUs of several nodes; else NULL */

	unsigned supported;
	enum oriel_algorithm requested; /* DEFAULT: by the table */
	struct ori_tune tune;           /* that table; without rows that of the library */
	struct ori_live live;
};

/*
 * gather_make.c: an object of @kind. gather_start.c: what its executions have in common.
 * Messages are left where something fails.
 */
enum oriel_status ori_gather_create(const struct ori_gather_kind *kind, struct oriel_comm *comm,
				    const struct oriel_view *view,
				    const struct oriel_allgather_attr *attr,
				    struct oriel_allgather **gather);
void ori_gather_destroy(const struct ori_gather_kind *kind, struct oriel_allgather *gather);
/* Is it healthy, and is @stream what its memory needs? */
enum oriel_status ori_gather_check(const struct oriel_allgather *gather, const void *stream);
/* What an execution returns: @status, with a text. */
enum oriel_status ori_gather_end(const struct oriel_allgather *gather, enum oriel_status status);
/* Until what was begun is over: it has the timeout of the communicator, and its health. */
void ori_gather_await(const struct oriel_allgather *gather);
/*
 * Parts for each of @sharers ranks on one GPU, at most, where each of @processors takes one block.
 * Two objects may execute at once, in streams that ranks come to in different orders: where one
 * waits for another GPU, all sharers may be at it, and all but one at the other. Those must leave
 * room for a block of that one.
 */
uint32_t ori_gather_shared_parts(uint32_t sharers, uint32_t processors);
uint32_t ori_gather_exchange_parts(const struct oriel_allgather *gather);
/* Groups for an execution of @bytes in turns: see oriel_dev_put_part(). */
uint32_t ori_gather_turns(const struct oriel_allgather *gather, size_t bytes);
/* Bytes of one part that goes by @lines, at most, where there are fewer than there may be. */
size_t ori_gather_lines_part(const struct oriel_allgather *gather, uint32_t lines);
/* By lines or by stores, of the kernels or of this thread; @stride as in oriel/dev/gather.h. */
enum oriel_status ori_gather_mapped(struct oriel_allgather *gather, enum oriel_algorithm algorithm,
				    const void *send, size_t stride, size_t bytes, void *stream);

/* By copy engines; @stride as well. */
enum oriel_status ori_gather_engines(struct oriel_allgather *gather, const void *send,
				     size_t stride, size_t bytes, void *stream);

/* gather_run.c: one execution of @plan by the calling thread, in host memory. */
enum oriel_status ori_gather_run(struct oriel_allgather *g, const struct ori_plan *plan,
				 const void *send, size_t bytes, size_t chunk);

/* The same by a job; g->begun tells when. */
enum oriel_status ori_gather_begin(struct oriel_allgather *g, const struct ori_plan *plan,
				   const void *send, size_t bytes, size_t chunk);

/*
 * gather_same.c: ORIEL_ERR_MISMATCH if @value is not the same on all ranks. Of host memory on
 * all of them; of GPU memory on those who come when the other one has come, and the
 * communicator is broken. In builds with NDEBUG nobody looks.
 */
#ifndef NDEBUG
/* Collective; what that needs. */
enum oriel_status ori_gather_same_open(struct oriel_allgather *gather);
enum oriel_status ori_gather_same(struct oriel_allgather *gather, const char *what, uint64_t value);
#else
static inline enum oriel_status ori_gather_same_open(struct oriel_allgather *gather)
{
	(void)gather;
	return ORIEL_OK;
}

static inline enum oriel_status ori_gather_same(struct oriel_allgather *gather, const char *what,
						uint64_t value)
{
	(void)gather;
	(void)what;
	(void)value;
	return ORIEL_OK;
}
#endif

/* gather_choose.c: what executes @bytes of each rank. */
enum oriel_algorithm ori_gather_choose(const struct oriel_allgather *g, size_t bytes);
/* The algorithm that ORIEL_ALLGATHER names. */
enum oriel_status ori_gather_setting(enum oriel_algorithm *algorithm);
/* Is there a row of its table that it cannot execute? @path: where that is from. */
enum oriel_status ori_gather_check_table(const struct oriel_allgather *g, const char *path);
/* Messages of at most so many bytes go by lines. */
size_t ori_gather_lines_max(bool is_gpu);

#endif
