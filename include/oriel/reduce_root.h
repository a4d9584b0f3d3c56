/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent reduction to a root: created once over memory of every rank, executed any number of
 * times, with any rank as the root, which gets the reduction of the elements of all ranks. Users
 * call it; oriel/reduce.h defines the bits, and docs/reductions.md has the algorithms.
 *
 *   struct oriel_view view = {.size = sizeof(view), .kind = ORIEL_VIEW_BUFFER,
 *                             .length = count * sizeof(float), .buffer = result};
 *   struct oriel_reduction sum = {.size = sizeof(sum), .type = ORIEL_TYPE_FP32,
 *                                 .op = ORIEL_OP_SUM};
 *   oriel_reduce_create(comm, &view, &sum, NULL, &reduce);
 *   oriel_reduce_run(reduce, root, send, count);
 */
#ifndef ORIEL_REDUCE_ROOT_H
#define ORIEL_REDUCE_ROOT_H

#include <oriel/reduce.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_reduce;

/*
 * Collective: the contract of oriel_allreduce_create() applies, but the setting ORIEL_ALLREDUCE
 * does not. Algorithms: ONE_SHOT, where all ranks are mapped; OWNER; HIERARCHICAL, as there. In GPU
 * memory OWNER.
 */
enum oriel_status oriel_reduce_create(struct oriel_comm *comm, const struct oriel_view *view,
				      const struct oriel_reduction *reduction,
				      const struct oriel_coll_attr *attr,
				      struct oriel_reduce **reduce);

/* The contract of oriel_allgather_destroy() applies. */
enum oriel_status oriel_reduce_destroy(struct oriel_reduce *reduce);

/*
 * One execution: the reduction of the @count elements at @send of all ranks is written to the
 * beginning of the view of rank @root, and no view of another rank changes. @root is equal on all
 * ranks. oriel_allreduce_run() has the rest. ORIEL_ERR_RANGE also if @root is not a rank.
 */
enum oriel_status oriel_reduce_run(struct oriel_reduce *reduce, unsigned root, const void *send,
				   size_t count);
enum oriel_status oriel_reduce_run_on_stream(struct oriel_reduce *reduce, unsigned root,
					     const void *send, size_t count,
					     struct CUstream_st *stream);
enum oriel_status oriel_reduce_start(struct oriel_reduce *reduce, unsigned root, const void *send,
				     size_t count);
enum oriel_status oriel_reduce_test(struct oriel_reduce *reduce);
enum oriel_status oriel_reduce_wait(struct oriel_reduce *reduce, uint64_t timeout_ns);

/*
 * One execution without an object: see oriel_allreduce_once(). @recv of every rank has room for the
 * result; that of the root alone changes.
 */
enum oriel_status oriel_reduce_once(struct oriel_comm *comm, unsigned root, const void *send,
				    void *recv, size_t count,
				    const struct oriel_reduction *reduction);

enum oriel_status oriel_reduce_once_on_stream(struct oriel_comm *comm, unsigned root,
					      const void *send, void *recv, size_t count,
					      const struct oriel_reduction *reduction,
					      struct CUstream_st *stream);

/* Local; for @count elements. */
enum oriel_status oriel_reduce_query(const struct oriel_reduce *reduce, size_t count,
				     struct oriel_coll_info *info);

#ifdef __cplusplus
}
#endif

#endif
