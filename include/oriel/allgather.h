/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent all-gather: created once over memory of every rank, executed any number of times.
 * Each execution writes the message of every rank to the memory of every rank. Users call it;
 * docs/allgather.md has the algorithms and why they are correct.
 */
#ifndef ORIEL_ALLGATHER_H
#define ORIEL_ALLGATHER_H

#include <oriel/coll.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_allgather;

/*
 * Collective: all ranks call it in one order and all get the same status. @comm, and the memory
 * and the window that @view names, must outlive the object. @attr may be NULL. Connects the links
 * that a lazy communicator has not connected yet.
 *
 * ORIEL_VIEW_GPU needs ORIEL_COMM_GPU. GPUs that are not mapped are reached by NICs, with
 * oriel/p2p.h, and the thread of oriel/progress.h works for the streams then.
 *
 * ORIEL_ERR_MISMATCH: ranks differ in the kind of view, in @at or in @attr.
 * ORIEL_ERR_UNSUPPORTED: these ranks or this memory do not support the requested algorithm.
 * ORIEL_ERR_CONFIG: ORIEL_ALLGATHER or the table of ORIEL_TUNE is invalid.
 */
enum oriel_status oriel_allgather_create(struct oriel_comm *comm, const struct oriel_view *view,
					 const struct oriel_coll_attr *attr,
					 struct oriel_allgather **gather);

/*
 * Collective; waits until all ranks have called it, but no longer than the timeout, so that no
 * memory is freed while a peer may write to it. Executions in streams have completed, and no
 * captured graph is launched again.
 *
 * With a broken communicator it waits only for the copies of this rank. Where ranks are threads
 * of one process, a view on a GPU must stay until all of them have called this.
 */
enum oriel_status oriel_allgather_destroy(struct oriel_allgather *gather);

/*
 * One execution: @bytes bytes at @send of every rank are written to the beginning of the view of
 * every rank, in the order of the ranks: the message of rank r at offset r * @bytes. All ranks
 * start the same executions in one order, with equal @bytes. @bytes may differ from one execution
 * to the next, up to the view's length divided by the number of ranks. With 0 bytes no rank waits
 * for another.
 *
 * @send is any readable memory, registered or not, outside of the view, or this rank's part of the
 * result (in place): offset rank * @bytes of the view.
 *
 * With its start a rank gives up the previous result: from then on peers write to its view. Bytes
 * of the view behind the result do not change.
 *
 * Host memory: @stream is NULL (otherwise ORIEL_ERR_INVALID), and the execution is complete on
 * return; @send may be reused. One thread at a time uses an object. Several objects may execute at
 * once by several threads, or one after the other in one order on all ranks.
 *
 * GPU memory: the execution is posted to @stream, which is not NULL (cudaStreamLegacy is CUDA's
 * default stream) and belongs to the context of the communicator, and completes in its order. @send
 * is GPU or pinned memory, and may be reused once the stream has passed the execution. A captured
 * execution runs at each launch of the graph. Launched and started executions may alternate in any
 * order that is equal on all ranks. Executions of one object must be ordered, by one stream or by
 * events of the caller. Several objects may execute at once, in streams of their own. Where ranks
 * share a GPU these are two objects, or more if all ranks reach them in one order.
 *
 * Host memory: different @bytes break the communicator. The rank that finds them, at the end of
 * the execution, gets ORIEL_ERR_MISMATCH, with both ranks and their values in the text, and aborts
 * the communicator, which ends the executions of the others.
 *
 * Debug builds of the library compare the arguments of the other collectives, and @bytes in GPU
 * memory, in the order of the calls of all ranks. Host memory: all ranks get ORIEL_ERR_MISMATCH,
 * and nothing was done; the comparison is one more barrier. GPU memory: no rank waits. A captured
 * call counts when it is captured, so ranks capture and start in one order. The later rank of a
 * pair gets ORIEL_ERR_MISMATCH, with both ranks and their values in the text, and aborts the
 * communicator, which ends the execution of the earlier one. A rank that is more than 1024 calls
 * ahead of another is not compared with it.
 *
 * ORIEL_ERR_RANGE: the view of some rank is too short. ORIEL_ERR_INVALID: @send overlaps the view
 * in another way. With these two nothing was done and the communicator is not broken. A peer that
 * does not start within the timeout, exits or aborts breaks the communicator. All ranks get the
 * status of that; with GPU memory from oriel_comm_health() and from the next call.
 */
enum oriel_status oriel_allgather_start(struct oriel_allgather *gather, const void *send,
					size_t bytes, struct CUstream_st *stream);

/*
 * The nonblocking form for host memory: begin returns at once, and the thread of the communicator
 * (oriel/progress.h) executes by DIRECT, RING or BRUCK, whatever start would choose. All ranks
 * begin an execution, or all start it. The caller leaves @send and the view alone until it ends.
 * test polls once and returns ORIEL_AGAIN until then; wait blocks. Any thread may call either, and
 * both return the status of the execution begun last, ORIEL_OK without one. An object has one such
 * execution at a time (ORIEL_ERR_STATE); several objects may have one each, begun in any order on
 * each rank.
 */
enum oriel_status oriel_allgather_begin(struct oriel_allgather *gather, const void *send,
					size_t bytes);
enum oriel_status oriel_allgather_test(struct oriel_allgather *gather);
enum oriel_status oriel_allgather_wait(struct oriel_allgather *gather);

/*
 * The call without an object: one execution, of a cached object (oriel/object_cache.h). @recv has
 * room for the result, the number of ranks times @bytes; @send is as in oriel_allgather_start(),
 * with @recv for the view. Collective, in one order with all collective calls of @comm; one thread
 * of a rank at a time. Ranks meet in each call, on the host, which returns after all have called
 * it. So a rank that waits for its stream before the call may not have work of a peer there that
 * the peer posts after the call.
 *
 * @stream NULL: host memory, which may be any. That of oriel_memory_alloc(),
 * oriel_memory_take_fd() or a window is written in place; if @recv of any rank is other memory, the
 * result passes through memory of the library and is copied. Complete on return.
 *
 * Else @recv is memory as in a view with ORIEL_VIEW_GPU: of the GPU, or of oriel_memory_alloc().
 * The execution is posted to @stream. If that is being captured, the graph executes it at each
 * launch: the object is then kept until oriel_object_cache_release() or oriel_comm_destroy(), and
 * @recv stays as long as the graph. All ranks capture the call, or start it where others launch it.
 *
 * A call creates an object if some rank has none for @recv and as many bytes, or the memory there
 * is no longer the one that it was made for (oriel_memory_identity()): as oriel_allgather_create(),
 * it may then wait for the GPU. So the memory may be freed between calls. oriel_allgather_create()
 * is for collectives that are frequent: a cached object costs a meeting of the ranks in each call.
 *
 * All ranks get the same status if nothing was done: ORIEL_ERR_MISMATCH: ranks differ in @bytes, in
 * the kind of call, or some have a stream. ORIEL_ERR_INVALID: @send overlaps @recv in another way,
 * a pointer is NULL, or a stream without a GPU. ORIEL_ERR_UNSUPPORTED: ranks cannot reach this
 * memory; with a stream also memory without an identity. ORIEL_ERR_NOMEM: too many captured calls.
 * The communicator is not broken by these. Otherwise the errors are those of
 * oriel_allgather_start().
 */
enum oriel_status oriel_allgather_once(struct oriel_comm *comm, const void *send, void *recv,
				       size_t bytes, struct CUstream_st *stream);

/* Local. */
enum oriel_status oriel_allgather_query(const struct oriel_allgather *gather, size_t bytes,
					struct oriel_coll_info *info);

/*
 * Before a creation: can these ranks gather @bytes of each into this memory, by this algorithm?
 * Takes the arguments of oriel_allgather_create(). ORIEL_OK: yes, and @info is what
 * oriel_allgather_query() of the object would give. Otherwise the status says no and
 * oriel_last_error() why. ORIEL_ERR_UNSUPPORTED: @attr or ORIEL_ALLGATHER names an algorithm that
 * does not support these ranks, this memory or @bytes (an object executes such @bytes by another
 * one); GPUs without a path; or a buffer cannot be shared. ORIEL_ERR_RANGE: the view of some rank
 * is too short. Other arguments fail as they do in a creation.
 *
 * Collective, since the shortest view counts and a rank only knows which GPUs it has mapped
 * itself: all ranks call it with equal @bytes and get the same status. No object, window or link
 * is left. The buffer of a view without a table is shared while the call lasts.
 */
enum oriel_status oriel_allgather_check(struct oriel_comm *comm, const struct oriel_view *view,
					const struct oriel_coll_attr *attr, size_t bytes,
					struct oriel_coll_info *info);

#ifdef __cplusplus
}
#endif

#endif
