/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent all-to-all: created once over memory of every rank, executed any number of times. In
 * each execution every rank has a message for every rank. Users call it; docs/allgather.md has the
 * algorithms and why they are correct.
 *
 *   struct oriel_view view = {.size = sizeof(view), .kind = ORIEL_VIEW_BUFFER,
 *                             .length = ranks * bytes, .buffer = result};
 *   oriel_alltoall_create(comm, &view, NULL, &alltoall);
 *   oriel_alltoall_run(alltoall, send, bytes);
 */
#ifndef ORIEL_ALLTOALL_H
#define ORIEL_ALLTOALL_H

#include <oriel/coll.h>
#include <oriel/dev/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_alltoall;

/*
 * Collective: the contract and the attributes of oriel_allgather_create() apply, but the setting
 * ORIEL_ALLGATHER does not. Algorithms: LL and STORE where all ranks are mapped, CE on GPUs of one
 * domain, DIRECT everywhere except there.
 *
 * GPUs of several domains: messages to other domains pass through a staging buffer of the object on
 * each GPU, of 64 slots with the length of a chunk, at most 256 KiB.
 */
enum oriel_status oriel_alltoall_create(struct oriel_comm *comm, const struct oriel_view *view,
					const struct oriel_coll_attr *attr,
					struct oriel_alltoall **alltoall);

/* The contract of oriel_allgather_destroy() applies. */
enum oriel_status oriel_alltoall_destroy(struct oriel_alltoall *alltoall);

/*
 * One execution of messages of @bytes bytes each: the message for rank p lies at @send + p *
 * @bytes, and the message from rank p is written to offset p * @bytes of the view. @bytes is at
 * most the view's length divided by the number of ranks. @send does not overlap the view.
 * oriel/coll.h has the contract of each form. An execution that was started is one by DIRECT.
 */
enum oriel_status oriel_alltoall_run(struct oriel_alltoall *alltoall, const void *send,
				     size_t bytes);
enum oriel_status oriel_alltoall_run_on_stream(struct oriel_alltoall *alltoall, const void *send,
					       size_t bytes, struct CUstream_st *stream);
enum oriel_status oriel_alltoall_start(struct oriel_alltoall *alltoall, const void *send,
				       size_t bytes);

/*
 * One execution of messages of any lengths, 0 included, like MPI_Alltoallv with lengths and
 * displacements in bytes. @layout has one entry for each rank: the message for that rank in @send,
 * and the message from that rank in the view. Both ranks of a pair must give the same lengths. A
 * rank chooses its displacements freely; its received messages may not overlap. It is executed by
 * puts, whatever algorithm the attributes name. Executions with and without lengths may follow each
 * other, in one order on all ranks. This one also waits for ranks that neither send nor receive.
 *
 * Host memory: the caller may reuse @layout on return. ORIEL_ERR_RANGE: a received message exceeds
 * the view; nothing was done, and the peers wait for this rank. ORIEL_ERR_MISMATCH, on both ranks
 * of a pair, from run, test or wait: their lengths differ; the messages between such pairs are
 * missing, all others are complete, and the communicator is not broken.
 *
 * GPU memory: @layout lies in GPU or pinned memory and is read in the order of the stream, so an
 * earlier kernel may write it, and each launch of a graph reads it again. No call can return an
 * error of @layout, so such an error breaks the communicator, with the status above.
 */
enum oriel_status oriel_alltoall_run_v(struct oriel_alltoall *alltoall, const void *send,
				       const struct oriel_dev_alltoallv *layout);
enum oriel_status oriel_alltoall_run_v_on_stream(struct oriel_alltoall *alltoall, const void *send,
						 const struct oriel_dev_alltoallv *layout,
						 struct CUstream_st *stream);
enum oriel_status oriel_alltoall_start_v(struct oriel_alltoall *alltoall, const void *send,
					 const struct oriel_dev_alltoallv *layout);

/* Both serve executions that were started with or without lengths: see oriel/coll.h. */
enum oriel_status oriel_alltoall_test(struct oriel_alltoall *alltoall);
enum oriel_status oriel_alltoall_wait(struct oriel_alltoall *alltoall, uint64_t timeout_ns);

/*
 * These make one execution without an object, of messages of one length: see oriel/coll.h.
 * @send and @recv have the number of ranks times @bytes, and do not overlap.
 */
enum oriel_status oriel_alltoall_once(struct oriel_comm *comm, const void *send, void *recv,
				      size_t bytes);
enum oriel_status oriel_alltoall_once_on_stream(struct oriel_comm *comm, const void *send,
						void *recv, size_t bytes,
						struct CUstream_st *stream);

/* Local; for messages of one length. */
enum oriel_status oriel_alltoall_query(const struct oriel_alltoall *alltoall, size_t bytes,
				       struct oriel_coll_info *info);

#ifdef __cplusplus
}
#endif

#endif
