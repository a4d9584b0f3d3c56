/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent all-gather: made once over memory of every rank, executed any number
 * of times. Each execution puts a message of every rank into the memory of every
 * rank. docs/allgather.md has the algorithms and why they are correct.
 */
#ifndef ORIEL_ALLGATHER_H
#define ORIEL_ALLGATHER_H

#include <oriel/comm.h>
#include <oriel/status.h>
#include <oriel/window.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_allgather;

enum oriel_algorithm {
	ORIEL_ALGORITHM_DEFAULT, /* as ORIEL_ALLGATHER says, else by the table of the library */

	/* Where all ranks are mapped. */
	ORIEL_ALGORITHM_LL,    /* flagged lines through a staging: small messages */
	ORIEL_ALGORITHM_STORE, /* stores of the caller's thread or of a kernel */
	ORIEL_ALGORITHM_CE,    /* copy engines, and no SM while they copy; GPUs only */

	/* Everywhere, but not on GPUs of one domain. What is called a node here is a domain. */
	ORIEL_ALGORITHM_DIRECT, /* each rank to every other one */
	ORIEL_ALGORITHM_RING,   /* from node to node, in chunks; each tells its domain */
	ORIEL_ALGORITHM_BRUCK,  /* to a node 1, 2, 4 ... away; any number of nodes */
	ORIEL_ALGORITHMS
};

const char *oriel_algorithm_name(enum oriel_algorithm algorithm); /* "ll", "store", ... */

enum oriel_view_flags {
	ORIEL_VIEW_GPU = 1, /* it lies on the GPU of the communicator; on all ranks */
};

/*
 * Memory that is gathered into, of every rank: owned by the caller, and borrowed
 * until the object is destroyed. It is told in one of three ways, the same on all
 * ranks; what another way needs stays 0.
 */
struct oriel_view {
	size_t size;    /* of this struct, as the caller knew it */
	size_t length;  /* in bytes; ranks may differ, and the least one counts */
	unsigned flags; /* enum oriel_view_flags */
	unsigned reserved;

	/* A part of a window: it begins at @at, equal on all ranks. */
	struct oriel_window *window;
	uint64_t at;

	/* Memory of this rank, which is shared for it by the rules of oriel_region_share(). */
	void *buffer;

	/*
	 * @buffer, and where that of every rank lies: of a region that is shared
	 * (oriel_region_table()), or of memory that the caller has mapped himself. @base
	 * of those that are mapped here, any address but NULL of the others; @length; and of
	 * the others @address and @rkeys, but on GPUs, which adapters reach by keys that the
	 * object makes. The table is copied; what it names stays as it is.
	 */
	const struct oriel_dev_buffer *peers; /* [ranks] */
};

/* Zero means default for every field. Equal on all ranks. */
struct oriel_allgather_attr {
	size_t size;        /* of this struct, as the caller knew it */
	unsigned algorithm; /* enum oriel_algorithm; of every execution that can */
	unsigned reserved;
	size_t chunk; /* bytes that go from node to node at once; default 1 MiB, at least 4 KiB */
};

/*
 * Collective: all ranks call it in one order and all get the same status. @comm,
 * and what @view names, must outlive the object. @attr may be NULL. Makes the links
 * of a lazy communicator that are not made.
 *
 * Where the view lies on a GPU, which needs ORIEL_COMM_GPU, those of all ranks do. GPUs
 * that are not mapped are reached by adapters, with oriel/p2p.h; the thread of
 * oriel/progress.h works for the streams then.
 *
 * ORIEL_ERR_MISMATCH: ranks differ in how they tell the view, in @at or in @attr.
 * ORIEL_ERR_UNSUPPORTED: the algorithm asked for is not one for these ranks or this
 * memory. ORIEL_ERR_CONFIG: ORIEL_ALLGATHER is wrong.
 */
enum oriel_status oriel_allgather_create(struct oriel_comm *comm, const struct oriel_view *view,
					 const struct oriel_allgather_attr *attr,
					 struct oriel_allgather **gather);

/*
 * Collective; waits until all ranks have come, so that nobody's memory goes while it
 * may be written, but no longer than the timeout. Executions in streams are over, and
 * no captured graph is launched again. NULL is allowed. A handle that is not alive is
 * reported (oriel_last_error) and otherwise ignored.
 *
 * Of a broken communicator it waits for this rank's own copies alone: where ranks are
 * threads of one process, a view on a GPU stays until all of them have come to this.
 */
void oriel_allgather_destroy(struct oriel_allgather *gather);

/*
 * One execution: @bytes bytes at @send of every rank come to stand one behind the
 * other, in the order of the ranks, at the beginning of the view of every rank. All
 * ranks start the same executions in one order, with equal @bytes; these may differ
 * from one to the next, up to the view's length divided by the ranks. 0 bytes are
 * nothing at all: nobody waits for anybody.
 *
 * @send is any readable memory, registered or not, outside of the view, or this
 * rank's place in the result: rank * @bytes behind the beginning of the view.
 *
 * By starting, a rank says that it no longer reads the result of before: from then on
 * the others write to its view. Bytes of the view behind the result stay as they are.
 *
 * Host memory: @stream is NULL (ORIEL_ERR_INVALID else), and it is done on return;
 * @send is the caller's again. One thread at a time for each object; several objects
 * at once by several threads, or one after the other in one order on all ranks.
 *
 * GPU: posted to @stream, not NULL, of the context of the communicator, and done in
 * its order; @send is GPU memory or pinned, and the caller's again when the stream has
 * come past. What was captured is done at each launch of the graph, and executions
 * that are launched and executions that are started may alternate in any way that is
 * the same on all ranks. Executions of one object are ordered, by one stream or by
 * events of the caller. Several objects may execute at once, in streams of their own;
 * where ranks share a GPU two, or more if all ranks come to them in one order.
 *
 * Debug builds of the library look whether all ranks mean the same @bytes, in the order of
 * their calls, and so do those of the other collectives. Host memory: ORIEL_ERR_MISMATCH, on
 * all of them, and nothing was done. That is a barrier more. GPU: nobody waits; what is
 * captured counts when it is captured, so ranks capture and start in one order. Who comes
 * second gets ORIEL_ERR_MISMATCH, with both ranks and their numbers, and aborts the
 * communicator, which ends what the first has in its stream. A rank that is more than
 * 1024 calls ahead of another one is not compared with it.
 *
 * ORIEL_ERR_RANGE: the view of some rank is too short. ORIEL_ERR_INVALID: @send
 * overlaps the view in another way. Of these nothing was done and nothing is broken.
 * A peer that does not come within the timeout, dies or aborts breaks the
 * communicator; all ranks get the status of that, from GPUs by
 * oriel_comm_health() and the next call.
 */
enum oriel_status oriel_allgather_start(struct oriel_allgather *gather, const void *send,
					size_t bytes, void *stream);

/*
 * The same of host memory, beside the calling thread: begin returns at once, and the
 * thread of the communicator (oriel/progress.h) does the rest by the algorithms that
 * plans are made for, whatever start would take. All ranks begin an execution, or
 * all start it. @send and the view stay as they are until it is over: test looks once,
 * ORIEL_AGAIN until then; wait waits. Both return what became of the execution begun
 * last, ORIEL_OK if there is none, by any thread. One of each object at a time
 * (ORIEL_ERR_STATE); several objects at once, in any order on each rank.
 */
enum oriel_status oriel_allgather_begin(struct oriel_allgather *gather, const void *send,
					size_t bytes);
enum oriel_status oriel_allgather_test(struct oriel_allgather *gather);
enum oriel_status oriel_allgather_wait(struct oriel_allgather *gather);

/* What an object can do. Local. */
struct oriel_allgather_info {
	size_t bytes_max;   /* of an execution */
	unsigned nodes;     /* domains */
	unsigned supported; /* algorithms that it has, a mask of 1 << enum oriel_algorithm */
	unsigned algorithm; /* enum oriel_algorithm of an execution of the bytes asked for */
	unsigned reserved;
};

enum oriel_status oriel_allgather_query(const struct oriel_allgather *gather, size_t bytes,
					struct oriel_allgather_info *info);

#ifdef __cplusplus
}
#endif

#endif
