/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent reduce-scatter: created once over memory of every rank, executed any number of times.
 * In each execution rank r gets the r-th part of the reduction of the elements of all ranks. Users
 * call it; oriel/reduce.h defines the bits, and docs/reductions.md has the algorithms.
 *
 *   struct oriel_view view = {.size = sizeof(view), .kind = ORIEL_VIEW_BUFFER,
 *                             .length = count * sizeof(float), .buffer = result};
 *   struct oriel_reduction sum = {.size = sizeof(sum), .type = ORIEL_TYPE_FP32,
 *                                 .op = ORIEL_OP_SUM};
 *   oriel_reduce_scatter_create(comm, &view, &sum, NULL, &scatter);
 *   oriel_reduce_scatter_run(scatter, send, count);
 */
#ifndef ORIEL_REDUCE_SCATTER_H
#define ORIEL_REDUCE_SCATTER_H

#include <oriel/reduce.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_reduce_scatter;

/*
 * Collective: the contract of oriel_allreduce_create() applies, but the setting ORIEL_ALLREDUCE
 * does not. @view is for the part of this rank alone. Algorithms: OWNER; HIERARCHICAL, as there, in
 * host memory; in GPU memory, where all ranks are mapped, also LL, for parts of up to 512 KiB.
 */
enum oriel_status oriel_reduce_scatter_create(struct oriel_comm *comm,
					      const struct oriel_view *view,
					      const struct oriel_reduction *reduction,
					      const struct oriel_coll_attr *attr,
					      struct oriel_reduce_scatter **scatter);

/* The contract of oriel_allgather_destroy() applies. */
enum oriel_status oriel_reduce_scatter_destroy(struct oriel_reduce_scatter *scatter);

/*
 * One execution: @send has @count elements for each rank, in the order of the ranks. The reduction
 * of those for rank r, of all ranks, is written to the beginning of the view of rank r. @count is
 * equal on all ranks, and at most what the shortest view has room for. The result is the part of
 * this rank of @send, or the beginning of @send (both in place), or does not overlap it; in place,
 * other parts of @send may be read until the execution ends. oriel_allreduce_run() has the rest.
 */
enum oriel_status oriel_reduce_scatter_run(struct oriel_reduce_scatter *scatter, const void *send,
					   size_t count);
enum oriel_status oriel_reduce_scatter_run_on_stream(struct oriel_reduce_scatter *scatter,
						     const void *send, size_t count,
						     struct CUstream_st *stream);
enum oriel_status oriel_reduce_scatter_start(struct oriel_reduce_scatter *scatter, const void *send,
					     size_t count);
enum oriel_status oriel_reduce_scatter_test(struct oriel_reduce_scatter *scatter);
enum oriel_status oriel_reduce_scatter_wait(struct oriel_reduce_scatter *scatter,
					    uint64_t timeout_ns);

/* One execution without an object: see oriel_allreduce_once(). @recv is for @count elements. */
enum oriel_status oriel_reduce_scatter_once(struct oriel_comm *comm, const void *send, void *recv,
					    size_t count, const struct oriel_reduction *reduction);

enum oriel_status oriel_reduce_scatter_once_on_stream(struct oriel_comm *comm, const void *send,
						      void *recv, size_t count,
						      const struct oriel_reduction *reduction,
						      struct CUstream_st *stream);

/* Local; for @count elements of each part. */
enum oriel_status oriel_reduce_scatter_query(const struct oriel_reduce_scatter *scatter,
					     size_t count, struct oriel_coll_info *info);

#ifdef __cplusplus
}
#endif

#endif
