/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one collective over a view of all ranks: the only field of the handles of
 * oriel/allgather.h, oriel/alltoall.h, oriel/bcast.h and of reductions, which differ in their kind.
 * Used by all files of this directory.
 */
#ifndef ORI_COLL_GATHER_H
#define ORI_COLL_GATHER_H

#include <stdatomic.h>

#include <oriel/coll.h>
#include <oriel/dev.h>

#include "base/handle.h"
#include "coll/gather_tree.h"
#include "coll/gather_tune.h"

struct oriel_reduction;

/*
 * The most groups that share one execution on a GPU: by lines or by puts; of a broadcast; of an
 * all-to-all with lengths, which the host does not know. Groups of ranks that share a GPU wait
 * for each other: see ori_gather_shared_parts().
 */
#define ORI_GATHER_PARTS 128u
#define ORI_GATHER_BCAST_PARTS 64u
#define ORI_GATHER_EXCHANGE_PARTS 16u

/* Bytes that one part puts, as long as that makes no more parts than allowed. */
#define ORI_GATHER_PUT_PART 16384u

/*
 * Bytes that one warp sends by lines: each of its threads has an LL line, or half of the warp
 * has four LL128 lines.
 */
#define ORI_GATHER_WARPS 16u
#define ORI_GATHER_LL_WARP 256u
#define ORI_GATHER_LL128_WARP 448u

/* Longer messages use LL128 lines on GPUs that NVLink joins. */
#define ORI_GATHER_LL_MOST 65536u

/* Buffers of the window: the staging that lines are written to, and the view. */
#define ORI_GATHER_STAGING 0u
#define ORI_GATHER_RESULT 1u

/* Signals of @window. Plans use CREDIT and DATA, gather_same.c uses SAME and NUMBER. */
enum ori_gather_signal {
	ORI_GATHER_CREDIT,
	ORI_GATHER_DATA,
	ORI_GATHER_SAME,
	ORI_GATHER_NUMBER,
	ORI_GATHER_SERIES = ORI_GATHER_NUMBER + 2, /* two for each part of each series */
};

/* Series of device functions (oriel/dev/gather.h). Each has signals and epochs of its own. */
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
	enum ori_handle_kind handle;
	unsigned host;      /* mask of algorithms: host memory, one domain */
	unsigned nodes;     /* host memory, several domains */
	unsigned gpus;      /* GPU memory, one domain */
	unsigned gpu_nodes; /* GPU memory, several domains */
	bool is_whole;      /* one message may fill the view; else each rank has its share of it */
	bool has_notes;     /* all-to-all: oriel_dev_exchange() */
	bool has_jobs;      /* GPU memory of one domain as well: ori_gather_has_jobs() */
	bool is_reduction;
};

struct ori_internode;
struct ori_reduction;

struct ori_gather {
	const struct ori_gather_kind *kind;
	struct oriel_comm *comm;     /* borrowed */
	struct oriel_window *window; /* its own: signals, staging */
	/*
	 * Handle of @window. In host memory it uses @table instead of the window's own, so that
	 * buffer 1 is the view, whatever window or table has mapped that.
	 */
	struct oriel_dev_window device;
	struct oriel_dev_buffer *table; /* [2][ranks]; NULL on a GPU */
	char *result;                   /* begin of this rank's view */
	size_t bytes_max;
	size_t chunk;
	uint32_t parts; /* the most of an execution; equal on all ranks */
	bool is_gpu;
	bool is_sharing; /* some GPU has several ranks */
	bool is_narrow;  /* LL128 lines do not reach all GPUs: not on NVLink */

	struct oriel_dev_gather ll;
	struct oriel_dev_gather ll128; /* GPUs only */
	struct oriel_dev_gather puts;
	struct oriel_dev_gather notes; /* all-to-alls only */

	uint32_t *leaders; /* [ranks]: the leader of each rank's node */
	struct ori_shape shape;
	struct ori_plan plans[ORI_ALGORITHMS]; /* of the algorithms that have one */
	bool *has_credit;             /* [ranks]: the credit of this execution has arrived */
	uint64_t *taken;              /* [ranks]: chunks of this execution that arrived */
	uint64_t compared;            /* counts the comparisons of gather_same.c */
	uint64_t published[2];        /* bytes of the last executions, as peers have them */
	uint64_t published_count;     /* executions that have published theirs */
	struct oriel_window *numbers; /* GPU memory: where gather_same.c keeps them; else NULL */

	/* The execution started last: its enum oriel_status; ORIEL_AGAIN: it runs. */
	_Atomic int started;
	_Atomic uint32_t awaited;        /* the rank that it waits for; ORI_PLAN_OWN: none */
	char started_text[256];          /* of its failure; written before @started */
	struct ori_internode *internode; /* ori_gather_has_jobs(); else NULL */
	struct ori_reduction *reduction; /* reductions; else NULL */

	unsigned supported;             /* mask of algorithms */
	enum oriel_algorithm requested; /* DEFAULT: the table decides */
	struct ori_tune tune;           /* that table; without rows the library's decides */
};

/*
 * Do jobs of the communicator's thread execute it (gather_internode.h)? In GPU memory over nodes,
 * and if one rank alone gets messages, or sends different ones.
 */
static inline bool ori_gather_has_jobs(const struct ori_gather *gather)
{
	return gather->is_gpu && (gather->shape.nodes > 1 || gather->kind->has_jobs);
}

/* The first signal of a series. */
static inline uint32_t ori_gather_id(const struct ori_gather *gather, enum ori_gather_series series)
{
	return ORI_GATHER_SERIES + series * 2 * gather->parts;
}

/*
 * gather_make.c creates a handle of @kind, whose only field is the gather; gather_start.c has what
 * its executions share. All functions leave a message for oriel_last_error() where they fail.
 * @reduction: of a kind that is one; else NULL.
 */
enum oriel_status ori_gather_create(const struct ori_gather_kind *kind, struct oriel_comm *comm,
				    const struct oriel_view *view,
				    const struct oriel_reduction *reduction,
				    const struct oriel_coll_attr *attr, void **handle,
				    const char *call);
/* @handle: of @kind; NULL is allowed. */
enum oriel_status ori_gather_destroy(const struct ori_gather_kind *kind, void *handle,
				     const char *call);
/* Would ori_gather_create() succeed, with an object that executes @bytes? Collective. */
enum oriel_status ori_gather_try(const struct ori_gather_kind *kind, struct oriel_comm *comm,
				 const struct oriel_view *view, const struct oriel_coll_attr *attr,
				 size_t bytes, struct oriel_coll_info *info, const char *call);
struct oriel_coll_info ori_gather_info(const struct ori_gather *gather, size_t bytes);
/* The query functions, for messages of @bytes. */
enum oriel_status ori_gather_query(const struct ori_gather_kind *kind, const void *handle,
				   size_t bytes, struct oriel_coll_info *info, const char *call);
/*
 * May an execution begin by @call? Is the communicator healthy, has the last one that was started
 * ended, and is the memory of the kind of @call: of a GPU if it is @on_stream?
 */
enum oriel_status ori_gather_check(const struct ori_gather *gather, const char *call,
				   bool on_stream);
/*
 * Rejects NULL instead of a message, before the execution begins: otherwise the thread of the
 * communicator reads it, in a call that the user does not see.
 */
enum oriel_status ori_gather_null_send(const struct ori_gather *gather);
/* Is @root one of @ranks ranks? */
enum oriel_status ori_gather_check_root(const struct ori_gather_kind *kind, uint32_t root,
					uint32_t ranks);
/* The stream of a caller: NULL is CUDA's default stream with legacy synchronization. */
void *ori_gather_stream(struct CUstream_st *stream);
/* Returns @status, a failure of an execution, and leaves the text of what broke it. */
enum oriel_status ori_gather_fail(const struct ori_gather *gather, enum oriel_status status);

/* Returns @status to the caller of an execution; of a failure, the text of what broke it is left.
 */
static inline enum oriel_status ori_gather_end(const struct ori_gather *gather,
					       enum oriel_status status)
{
	return status == ORIEL_OK ? status : ori_gather_fail(gather, status);
}

/* gather_job.c: the test and wait functions. */
enum oriel_status ori_gather_test(const struct ori_gather_kind *kind, const void *handle,
				  const char *call);
enum oriel_status ori_gather_wait(const struct ori_gather_kind *kind, const void *handle,
				  uint64_t timeout_ns, const char *call);
/* Has the execution that was started not ended? */
static inline bool ori_gather_is_running(const struct ori_gather *gather)
{
	return atomic_load_explicit(&gather->started, memory_order_acquire) == ORIEL_AGAIN;
}
/* Waits for its end; the timeout of the communicator bounds the wait. */
void ori_gather_await(const struct ori_gather *gather);

/*
 * The most parts for each of @sharers ranks on one GPU of which each of @processors runs one
 * block. Two objects may execute at once, in streams that reach them in different orders on
 * different ranks. If the first waits for another GPU, all sharers may execute the first and
 * all but one the second, and their blocks must leave room for a block of that one.
 */
uint32_t ori_gather_shared_parts(uint32_t sharers, uint32_t processors);
uint32_t ori_gather_exchange_parts(const struct ori_gather *gather);
/* Parts for an execution of @bytes in turns: see oriel_dev_put_part(). */
uint32_t ori_gather_turns(const struct ori_gather *gather, size_t bytes);
/* Bytes that one part sends by @lines, as long as that makes no more parts than allowed. */
size_t ori_gather_lines_part(const struct ori_gather *gather, uint32_t lines);
/* LL or STORE, by a kernel or by the calling thread; @stride as in oriel/dev/gather.h. */
enum oriel_status ori_gather_mapped(struct ori_gather *gather, enum oriel_algorithm algorithm,
				    const void *send, size_t stride, size_t bytes, void *stream);

/* CE; @stride as above. */
enum oriel_status ori_gather_engines(struct ori_gather *gather, const void *send, size_t stride,
				     size_t bytes, void *stream);

/*
 * gather_same.c, for all-gathers of host memory: lets the peers know the bytes of the execution
 * that begins. They cost nothing while they do not change. Reductions of several nodes, too; one to
 * a root passes bytes * 65536 + root.
 */
enum oriel_status ori_gather_publish(struct ori_gather *g, uint64_t bytes);
/*
 * After that execution: ORIEL_ERR_MISMATCH, and the communicator is aborted, if a peer has sent
 * this rank another number of bytes. @plan: of the execution; NULL: all have sent to all.
 */
enum oriel_status ori_gather_compare(struct ori_gather *g, const struct ori_plan *plan);
/* The same for one rank, of which a message has arrived. */
enum oriel_status ori_gather_compare_rank(struct ori_gather *g, uint32_t peer);

/* The same for a difference that the caller has found: @peer has @seen for @what instead. */
enum oriel_status ori_gather_break(struct ori_gather *g, const char *what, uint64_t value,
				   uint32_t peer, uint64_t seen);

/*
 * gather_same.c: ORIEL_ERR_MISMATCH if @value, named @what in the text, differs between ranks. In
 * host memory all ranks get it. In GPU memory the later rank of a pair gets it, and the
 * communicator is aborted. Builds with NDEBUG do not compare.
 */
#ifndef NDEBUG
/* Collective. Creates what the comparison needs. */
enum oriel_status ori_gather_same_open(struct ori_gather *gather);
enum oriel_status ori_gather_same(struct ori_gather *gather, const char *what, uint64_t value);
#else
static inline enum oriel_status ori_gather_same_open(struct ori_gather *gather)
{
	(void)gather;
	return ORIEL_OK;
}

static inline enum oriel_status ori_gather_same(struct ori_gather *gather, const char *what,
						uint64_t value)
{
	(void)gather;
	(void)what;
	(void)value;
	return ORIEL_OK;
}
#endif

/* gather_choose.c: the algorithm for @bytes of each rank. */
enum oriel_algorithm ori_gather_choose(const struct ori_gather *g, size_t bytes);
/* Do the request or the table of the user choose @algorithm for any bytes? */
bool ori_gather_may_choose(const struct ori_gather *g, enum oriel_algorithm algorithm);
/* Rank 0 logs the algorithms for all sizes, and @why these. */
void ori_gather_log_choice(const struct ori_gather *g, const char *why);
/* The algorithm that the setting of a kind names; DEFAULT if the kind has none. */
enum oriel_status ori_gather_setting(const struct ori_gather_kind *kind,
				     enum oriel_algorithm *algorithm);
/* The name of that setting, NULL without one. */
const char *ori_gather_setting_name(enum ori_collective collective);
/* ORIEL_ERR_CONFIG: a row of the table, read from @path, names an algorithm that @g lacks. */
enum oriel_status ori_gather_check_table(const struct ori_gather *g, const char *path);
/* The longest message, in bytes, that LL sends. */
size_t ori_gather_lines_max(bool is_gpu);

#endif
