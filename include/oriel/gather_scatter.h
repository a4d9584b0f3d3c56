/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent gather and scatter: created once over memory of every rank, executed any number of
 * times, with any rank as the root. A gather writes the message of every rank to the memory of the
 * root, a scatter a message of the root to the memory of every rank. Users call them.
 *
 *   struct oriel_view view = {.size = sizeof(view), .kind = ORIEL_VIEW_BUFFER,
 *                             .length = ranks * bytes, .buffer = result};
 *   oriel_gather_create(comm, &view, NULL, &gather);
 *   oriel_gather_run(gather, root, send, bytes);
 */
#ifndef ORIEL_GATHER_SCATTER_H
#define ORIEL_GATHER_SCATTER_H

#include <oriel/coll.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_gather;
struct oriel_scatter;

/*
 * Collective: the contract and the attributes of oriel_allgather_create() apply, but the setting
 * ORIEL_ALLGATHER does not. Algorithm: DIRECT. In GPU memory the thread of the communicator
 * executes it, by copy engines and, between domains, by puts.
 */
enum oriel_status oriel_gather_create(struct oriel_comm *comm, const struct oriel_view *view,
				      const struct oriel_coll_attr *attr,
				      struct oriel_gather **gather);
enum oriel_status oriel_scatter_create(struct oriel_comm *comm, const struct oriel_view *view,
				       const struct oriel_coll_attr *attr,
				       struct oriel_scatter **scatter);

/* The contract of oriel_allgather_destroy() applies. */
enum oriel_status oriel_gather_destroy(struct oriel_gather *gather);
enum oriel_status oriel_scatter_destroy(struct oriel_scatter *scatter);

/*
 * One execution of a gather: @bytes bytes at @send of every rank are written to the view of rank
 * @root, in the order of the ranks. @bytes is at most the length of the shortest view divided by
 * the number of ranks. @send of the root is its part of the result (in place), or does not overlap
 * that; views of other ranks do not change. @root and @bytes are equal on all ranks. oriel/coll.h
 * has the contract of each form. ORIEL_ERR_RANGE also if @root is not a rank. A rank that is not
 * the root waits for the root to begin.
 */
enum oriel_status oriel_gather_run(struct oriel_gather *gather, unsigned root, const void *send,
				   size_t bytes);
enum oriel_status oriel_gather_run_on_stream(struct oriel_gather *gather, unsigned root,
					     const void *send, size_t bytes,
					     struct CUstream_st *stream);
enum oriel_status oriel_gather_start(struct oriel_gather *gather, unsigned root, const void *send,
				     size_t bytes);
enum oriel_status oriel_gather_test(struct oriel_gather *gather);
enum oriel_status oriel_gather_wait(struct oriel_gather *gather, uint64_t timeout_ns);

/*
 * One execution of a scatter: the message for rank r lies at offset r * @bytes of @send, which the
 * root alone reads, and is written to the beginning of the view of rank r. @bytes is at most the
 * length of the shortest view. The view of the root is its part of @send (in place), or does not
 * overlap that. The rest is as for a gather; the root waits for all ranks to begin.
 */
enum oriel_status oriel_scatter_run(struct oriel_scatter *scatter, unsigned root, const void *send,
				    size_t bytes);
enum oriel_status oriel_scatter_run_on_stream(struct oriel_scatter *scatter, unsigned root,
					      const void *send, size_t bytes,
					      struct CUstream_st *stream);
enum oriel_status oriel_scatter_start(struct oriel_scatter *scatter, unsigned root,
				      const void *send, size_t bytes);
enum oriel_status oriel_scatter_test(struct oriel_scatter *scatter);
enum oriel_status oriel_scatter_wait(struct oriel_scatter *scatter, uint64_t timeout_ns);

/*
 * These make one execution without an object: see oriel/coll.h. A gather of host memory reads @recv
 * on the root alone, and its result passes through memory of the library. On a stream @recv of
 * every rank has room for the result, and that of the root alone changes. @recv of a scatter has
 * room for @bytes.
 */
enum oriel_status oriel_gather_once(struct oriel_comm *comm, unsigned root, const void *send,
				    void *recv, size_t bytes);
enum oriel_status oriel_scatter_once(struct oriel_comm *comm, unsigned root, const void *send,
				     void *recv, size_t bytes);
enum oriel_status oriel_gather_once_on_stream(struct oriel_comm *comm, unsigned root,
					      const void *send, void *recv, size_t bytes,
					      struct CUstream_st *stream);
enum oriel_status oriel_scatter_once_on_stream(struct oriel_comm *comm, unsigned root,
					       const void *send, void *recv, size_t bytes,
					       struct CUstream_st *stream);

/* Local. */
enum oriel_status oriel_gather_query(const struct oriel_gather *gather, size_t bytes,
				     struct oriel_coll_info *info);
enum oriel_status oriel_scatter_query(const struct oriel_scatter *scatter, size_t bytes,
				      struct oriel_coll_info *info);

#ifdef __cplusplus
}
#endif

#endif
