/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types that all persistent collectives share: algorithms, the memory that results are written
 * to, attributes and answers. oriel/allgather.h, oriel/alltoall.h, oriel/bcast.h and
 * oriel/gather_scatter.h have the objects, and those of reductions include oriel/reduce.h. Users
 * include those; docs/allgather.md and docs/reductions.md have the algorithms and why they are
 * correct.
 *
 * An object is created once over memory of every rank and executed any number of times. Each kind
 * has these forms of an execution (X is the kind), those without an object below, and a query. Two
 * kinds have more: oriel_allgather_check(), and the executions of an all-to-all with lengths,
 * oriel_alltoall_run_v(), its form on a stream and oriel_alltoall_start_v(). oriel/stream_barrier.h
 * is a barrier with run and run_on_stream alone.
 *
 * oriel_X_run(), host memory: blocks; the execution is complete on return, and @send may be reused.
 *
 * oriel_X_start(), host memory: returns at once, and the thread of the communicator
 * (oriel/progress.h) executes. The caller leaves @send and the view alone until the execution ends.
 * oriel_X_test() polls once and returns ORIEL_AGAIN until then; oriel_X_wait() blocks. Any thread
 * may call these two, and both return the status of the execution started last, ORIEL_OK without
 * one. An object has one such execution at a time, and executes nothing else meanwhile
 * (ORIEL_ERR_STATE); several objects may have one each, started in any order on each rank. Other
 * calls on the communicator may be made meanwhile, such as oriel_comm_barrier().
 *
 * With a limit of its own oriel_X_wait() returns ORIEL_ERR_TIMEOUT when that has passed, the
 * execution goes on, and the call may be made again. With ORIEL_TIMEOUT_DEFAULT and
 * ORIEL_TIMEOUT_INFINITE it waits until the execution ends: one that makes no progress for the
 * timeout of the communicator breaks that.
 *
 * oriel_X_run_on_stream(), GPU memory: posts the execution to @stream, which belongs to the context
 * of the communicator, and returns; it completes in the order of the stream. NULL is CUDA's default
 * stream with legacy synchronization, as cudaStreamLegacy. @send is GPU or pinned memory, and may
 * be reused once the stream has passed the execution. A captured execution runs at each launch of
 * the graph. Launched and posted executions may alternate in any order that is equal on all ranks.
 * Executions of one object must be ordered, by one stream or by events of the caller. Several
 * objects may execute at once, in streams of their own. Where ranks share a GPU these are two
 * objects, or more if all ranks reach them in one order.
 *
 * A call for the other kind of memory: ORIEL_ERR_INVALID, and the text names the function for it.
 *
 * All ranks execute an object in one order, by the same form, with equal @bytes. @bytes may differ
 * from one execution to the next, up to the bytes_max of oriel_X_query(). With 0 bytes no rank
 * waits for another. With its call a rank gives up the previous result: from then on peers write to
 * its view. Bytes of the view behind the result do not change. One thread at a time uses an object.
 * Several objects may execute at once by several threads, or one after the other in one order on
 * all ranks.
 *
 * ORIEL_ERR_RANGE: the view of some rank is too short. ORIEL_ERR_INVALID: @send is NULL, or
 * overlaps the view in a way that the kind does not allow. With these two nothing was done and the
 * communicator is not broken. If one rank alone gets them, its peers wait in an execution that it
 * has not begun, and its next call of this object is its part of that execution. So repeat the call
 * with right arguments, or abort the communicator: a rank that goes on as if the execution were
 * done makes results wrong.
 *
 * A peer that does not call within the timeout, exits or aborts breaks the communicator. All ranks
 * get the status of that: from the call, from oriel_X_test() and oriel_X_wait(), and with GPU
 * memory from oriel_comm_health() and from the next call.
 *
 * All-gathers in host memory: different @bytes break the communicator. The rank that finds them, at
 * the end of the execution, gets ORIEL_ERR_MISMATCH, with both ranks and their values in the text,
 * and aborts the communicator, which ends the executions of the others.
 *
 * Debug builds of the library compare the arguments of the other collectives, and @bytes in GPU
 * memory, in the order of the calls of all ranks. Host memory: all ranks get ORIEL_ERR_MISMATCH,
 * and nothing was done; the comparison is one more barrier. GPU memory: no rank waits. A captured
 * call counts when it is captured, so ranks capture and run in one order. The later rank of a pair
 * gets ORIEL_ERR_MISMATCH, with both ranks and their values in the text, and aborts the
 * communicator, which ends the execution of the earlier one. A rank that is more than 1024 calls
 * ahead of another is not compared with it. Other builds do not compare these: where ranks differ
 * in @bytes or in the root, an execution may return ORIEL_OK with a wrong result, or end with the
 * timeout of the communicator.
 *
 * Calls without an object, oriel_X_once() for host memory and oriel_X_once_on_stream() for GPU
 * memory: one execution, of a cached object (oriel/object_cache.h), whose result is written to
 * @recv. Collective, in one order with all collective calls of the communicator; one thread of a
 * rank at a time. Ranks meet in each call, on the host, which returns after all have called it. So
 * a rank that waits for its stream before the call may not have work of a peer there that the peer
 * posts after the call.
 *
 * oriel_X_once(): any host memory. That of oriel_memory_alloc(), oriel_memory_take_fd() or a window
 * is written in place; if @recv of any rank is other memory, the result passes through memory of
 * the library and is copied. Complete on return.
 *
 * oriel_X_once_on_stream(): @recv is memory as in a view with ORIEL_VIEW_GPU: of the GPU, or of
 * oriel_memory_alloc(). The execution is posted to @stream as above. If that is being captured, the
 * graph executes it at each launch: the object is then kept until oriel_object_cache_release() or
 * oriel_comm_destroy(), and @recv stays as long as the graph. All ranks capture the call, or make
 * it where others launch it.
 *
 * Such a call creates an object if some rank has none for @recv and as many bytes, or the memory
 * there is no longer the one that it was made for (oriel_memory_identity()): as oriel_X_create(),
 * it may then wait for the GPU. So the memory may be freed between calls. oriel_X_create() is for
 * collectives that are frequent: a cached object costs a meeting of the ranks in each call.
 *
 * All ranks get the same status if nothing was done: ORIEL_ERR_MISMATCH: ranks differ in @bytes, in
 * the root or in the kind of call. ORIEL_ERR_INVALID: @send overlaps @recv in another way, a
 * pointer is NULL, or a stream without a GPU. ORIEL_ERR_RANGE: the root is not a rank.
 * ORIEL_ERR_UNSUPPORTED: ranks cannot reach this memory; on a stream also memory without an
 * identity. ORIEL_ERR_NOMEM: too many captured calls. The communicator is not broken by these.
 * Otherwise the errors are those of oriel_X_run() and oriel_X_run_on_stream().
 */
#ifndef ORIEL_COLL_H
#define ORIEL_COLL_H

#include <oriel/comm.h>
#include <oriel/status.h>
#include <oriel/window.h>

#ifdef __cplusplus
extern "C" {
#endif

enum oriel_algorithm {
	/*
	 * All-gathers and all-reduces: as ORIEL_ALLGATHER and ORIEL_ALLREDUCE say; where these are
	 * not set, and other kinds: by a table (oriel/tune.h).
	 */
	ORIEL_ALGORITHM_DEFAULT,

	/* All ranks are mapped: one domain. */
	ORIEL_ALGORITHM_LL,    /* lines with flags, through a staging buffer: small messages */
	ORIEL_ALGORITHM_STORE, /* stores by the calling thread or by a kernel */
	ORIEL_ALGORITHM_CE,    /* copy engines, which use no SM; GPUs only */

	/* All ranks, but in GPU memory of one domain gathers and scatters alone. */
	ORIEL_ALGORITHM_DIRECT, /* each rank to every other rank */
	ORIEL_ALGORITHM_RING,   /* from domain to domain, in chunks; within a domain to all ranks */
	ORIEL_ALGORITHM_BRUCK,  /* steps of 1, 2, 4 ... domains, for any number of domains */

	/* Reductions (oriel/reduce.h). */
	ORIEL_ALGORITHM_ONE_SHOT, /* each rank that gets the result reads the values of all ranks */
	ORIEL_ALGORITHM_OWNER,    /* each rank reads a part of all ranks, and writes its result */

	/* First the ranks of each domain, which is a block of the order, then the domains. */
	ORIEL_ALGORITHM_HIERARCHICAL,

	/*
	 * All-reduces with ORIEL_REDUCE_FAST: recursive doubling, and halving of long messages.
	 * RING is from rank to rank.
	 */
	ORIEL_ALGORITHM_RECURSIVE,
};

/* "ll", "store", ...; "unknown" for a number that is none, as the one behind the last is. */
const char *oriel_algorithm_name(enum oriel_algorithm algorithm);

/* Where the memory of a view comes from. A view without a kind is refused. */
enum oriel_view_kind {
	ORIEL_VIEW_WINDOW = 1, /* a part of a window: @window, @at */
	ORIEL_VIEW_BUFFER,     /* a buffer that the object shares: @buffer */
	ORIEL_VIEW_TABLE,      /* a buffer that all ranks reach already: @buffer, @peers */
};

enum oriel_view_flags {
	ORIEL_VIEW_GPU = 1, /* memory of the communicator's GPU; equal on all ranks */
};

/*
 * The memory of every rank that results are written to. The caller owns it, and the object borrows
 * it until it is destroyed. @kind is equal on all ranks, and says which of the last four fields
 * count; the others are 0 (ORIEL_ERR_INVALID names the field).
 */
struct oriel_view {
	size_t size;    /* of this struct, as the caller knew it */
	unsigned kind;  /* enum oriel_view_kind */
	unsigned flags; /* enum oriel_view_flags */
	size_t length;  /* in bytes; ranks may differ, and the shortest counts */

	/* ORIEL_VIEW_WINDOW: begins at @at of @window (oriel_at()), which is equal on all ranks. */
	struct oriel_window *window;
	uint64_t at;

	/*
	 * ORIEL_VIEW_BUFFER: memory of this rank, which the object shares by the rules of
	 * oriel_region_share(). Host memory of oriel_memory_alloc() always will do, that of
	 * malloc() where no peer in another process maps it (ORIEL_ERR_UNSUPPORTED).
	 * ORIEL_VIEW_TABLE: memory of this rank.
	 */
	void *buffer;

	/*
	 * ORIEL_VIEW_TABLE: the buffers of all ranks, of a shared region (oriel_region_table()), or
	 * of memory that the caller has mapped. Each entry has @base and @length. @base is the
	 * local address of a mapped buffer, and any address but NULL for another one. The latter
	 * has @address and @rkeys as well, except on GPUs, where the object creates the keys for
	 * the NICs. The table is copied; the memory that it names must stay mapped and registered.
	 */
	const struct oriel_dev_buffer *peers; /* [ranks] */
};

/* Attributes of a new object. Zero means default for every field. Equal on all ranks. */
struct oriel_coll_attr {
	size_t size;        /* of this struct, as the caller knew it */
	unsigned algorithm; /* enum oriel_algorithm; for every execution that supports it */
	unsigned reserved;  /* 0 */
	size_t chunk; /* bytes of one transfer between domains; default 1 MiB, at least 4 KiB */
};

/* Limits and choices of an object. */
struct oriel_coll_info {
	size_t size;        /* of this struct, as the caller knew it */
	size_t bytes_max;   /* the most of an execution, of each rank */
	unsigned nodes;     /* domains */
	unsigned supported; /* mask of 1 << enum oriel_algorithm */
	unsigned algorithm; /* enum oriel_algorithm that executes the bytes that were asked for */
	unsigned reserved;

	/* Reductions have these (oriel/reduce.h); they are 0 for the others. */
	unsigned block;        /* consecutive ranks that are added first */
	unsigned accumulation; /* enum oriel_type */
};

#ifdef __cplusplus
}
#endif

#endif
