/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent all-gather: created once over memory of every rank, executed any number of times.
 * Each execution writes the message of every rank to the memory of every rank. Users call it;
 * docs/allgather.md has the algorithms and why they are correct.
 *
 *   struct oriel_view view = {.size = sizeof(view), .kind = ORIEL_VIEW_BUFFER,
 *                             .length = ranks * bytes, .buffer = result};
 *   oriel_allgather_create(comm, &view, NULL, &gather);
 *   oriel_allgather_run(gather, send, bytes);
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
 * captured graph is launched again. ORIEL_ERR_STATE: an execution that was started has not ended,
 * and nothing was done; the caller waits for it and calls again.
 *
 * With a broken communicator it waits only for the copies of this rank, and for the thread of the
 * communicator to leave an execution that was started. Where ranks are threads of one process, a
 * view on a GPU must stay until all of them have called this.
 */
enum oriel_status oriel_allgather_destroy(struct oriel_allgather *gather);

/*
 * One execution: @bytes bytes at @send of every rank are written to the beginning of the view of
 * every rank, in the order of the ranks: the message of rank r at offset r * @bytes. @bytes is at
 * most the view's length divided by the number of ranks.
 *
 * @send is any readable memory, registered or not, outside of the view, or this rank's part of the
 * result (in place): offset rank * @bytes of the view.
 *
 * oriel/coll.h has the contract of each form: completion, streams and graphs, threads, the previous
 * result, and errors. An execution that was started is one by DIRECT, RING or BRUCK, whatever run
 * would choose.
 */
enum oriel_status oriel_allgather_run(struct oriel_allgather *gather, const void *send,
				      size_t bytes);
enum oriel_status oriel_allgather_run_on_stream(struct oriel_allgather *gather, const void *send,
						size_t bytes, struct CUstream_st *stream);
enum oriel_status oriel_allgather_start(struct oriel_allgather *gather, const void *send,
					size_t bytes);
enum oriel_status oriel_allgather_test(struct oriel_allgather *gather);
enum oriel_status oriel_allgather_wait(struct oriel_allgather *gather, uint64_t timeout_ns);

/*
 * These make one execution without an object: see oriel/coll.h. @recv has room for the
 * result, the number of ranks times @bytes; @send is as above, with @recv for the view.
 */
enum oriel_status oriel_allgather_once(struct oriel_comm *comm, const void *send, void *recv,
				       size_t bytes);
enum oriel_status oriel_allgather_once_on_stream(struct oriel_comm *comm, const void *send,
						 void *recv, size_t bytes,
						 struct CUstream_st *stream);

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
