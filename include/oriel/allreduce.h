/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent all-reduce: created once over memory of every rank, executed any number of times. In
 * each execution every rank gets the reduction of the elements of all ranks. Users call it;
 * oriel/reduce.h defines the bits of the result, and docs/reductions.md has the algorithms.
 *
 *   struct oriel_view view = {.size = sizeof(view), .kind = ORIEL_VIEW_BUFFER,
 *                             .length = count * sizeof(float), .buffer = result};
 *   struct oriel_reduction sum = {.size = sizeof(sum), .type = ORIEL_TYPE_FP32,
 *                                 .op = ORIEL_OP_SUM};
 *   oriel_allreduce_create(comm, &view, &sum, NULL, &allreduce);
 *   oriel_allreduce_run(allreduce, send, count);
 */
#ifndef ORIEL_ALLREDUCE_H
#define ORIEL_ALLREDUCE_H

#include <oriel/reduce.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_allreduce;

/*
 * Collective: the contract and the attributes of oriel_allgather_create() apply, with the setting
 * ORIEL_ALLREDUCE for ORIEL_ALLGATHER. @reduction is copied. Algorithms: ONE_SHOT for up to 256
 * KiB, where all ranks are mapped; OWNER; HIERARCHICAL, where the domains are several, and each is
 * a block of two or more ranks whose elements have at least the bytes of one of the accumulation
 * type; RING and RECURSIVE with ORIEL_REDUCE_FAST. In GPU memory they are OWNER and, where all
 * ranks are mapped, LL up to 512 KiB and ONE_SHOT up to 4 MiB.
 *
 * ORIEL_ERR_INVALID: @reduction is invalid. ORIEL_ERR_MISMATCH: ranks differ in the type, the
 * operation, the block or the flags. ORIEL_ERR_UNSUPPORTED: ORIEL_VIEW_GPU, and @reduction is USER;
 * RING or RECURSIVE where they are not allowed.
 */
enum oriel_status oriel_allreduce_create(struct oriel_comm *comm, const struct oriel_view *view,
					 const struct oriel_reduction *reduction,
					 const struct oriel_coll_attr *attr,
					 struct oriel_allreduce **allreduce);

/* The contract of oriel_allgather_destroy() applies. */
enum oriel_status oriel_allreduce_destroy(struct oriel_allreduce *allreduce);

/*
 * One execution: the reduction of the @count elements at @send of all ranks is written to the
 * beginning of the view of every rank. @count is equal on all ranks, and at most what the shortest
 * view has room for. @send is the beginning of the view of this rank (in place), or does not
 * overlap the result; ranks may differ in that. Neither needs an alignment. oriel/coll.h has the
 * contract of each form, where @bytes are those of the @count elements; different ones break the
 * communicator with ORIEL_ERR_MISMATCH, as those of an all-gather do.
 */
enum oriel_status oriel_allreduce_run(struct oriel_allreduce *allreduce, const void *send,
				      size_t count);
enum oriel_status oriel_allreduce_run_on_stream(struct oriel_allreduce *allreduce, const void *send,
						size_t count, struct CUstream_st *stream);
enum oriel_status oriel_allreduce_start(struct oriel_allreduce *allreduce, const void *send,
					size_t count);
enum oriel_status oriel_allreduce_test(struct oriel_allreduce *allreduce);
enum oriel_status oriel_allreduce_wait(struct oriel_allreduce *allreduce, uint64_t timeout_ns);

/*
 * One execution without an object: see oriel/coll.h. @recv has room for the @count elements of the
 * result; @send is as above, with @recv for the view. Cached objects are of one reduction: the
 * type, the operation, the block, the value of the factor, the function and its context.
 */
enum oriel_status oriel_allreduce_once(struct oriel_comm *comm, const void *send, void *recv,
				       size_t count, const struct oriel_reduction *reduction);

enum oriel_status oriel_allreduce_once_on_stream(struct oriel_comm *comm, const void *send,
						 void *recv, size_t count,
						 const struct oriel_reduction *reduction,
						 struct CUstream_st *stream);

/* Local; for @count elements. */
enum oriel_status oriel_allreduce_query(const struct oriel_allreduce *allreduce, size_t count,
					struct oriel_coll_info *info);

#ifdef __cplusplus
}
#endif

#endif
