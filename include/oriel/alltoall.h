/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent all-to-all: made once over memory of every rank, executed any number of
 * times. In each execution every rank has a message for every rank. docs/allgather.md
 * has the algorithms and why they are correct.
 */
#ifndef ORIEL_ALLTOALL_H
#define ORIEL_ALLTOALL_H

#include <oriel/allgather.h>
#include <oriel/dev/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_alltoall;

/*
 * Collective: all that is said of oriel_allgather_create() holds, and its attributes
 * are those of this; but ORIEL_ALLGATHER has no say. Algorithms: LL and STORE where all
 * ranks are mapped, CE on GPUs of one domain, DIRECT everywhere but there.
 *
 * GPUs of several nodes: what is sent to other nodes passes through a staging of the object
 * on each GPU, of 64 parts of a chunk each, or of 256 KiB where chunks are longer.
 */
enum oriel_status oriel_alltoall_create(struct oriel_comm *comm, const struct oriel_view *view,
					const struct oriel_allgather_attr *attr,
					struct oriel_alltoall **alltoall);

/* As oriel_allgather_destroy(). */
void oriel_alltoall_destroy(struct oriel_alltoall *alltoall);

/*
 * One execution of messages that are all @bytes long: that for rank p lies p * @bytes
 * behind @send, and that of rank p comes to stand p * @bytes behind the beginning of the
 * view. @bytes, which is equal on all ranks, is at most the view's length divided by
 * the ranks. @send overlaps the view nowhere. All else is as for
 * oriel_allgather_start(): when it is done, streams and graphs, who may call, what
 * starting says of the result of before, and what fails how.
 */
enum oriel_status oriel_alltoall_start(struct oriel_alltoall *alltoall, const void *send,
				       size_t bytes, void *stream);

/*
 * One execution of messages of any lengths, 0 among them, as @layout say, one for each
 * rank: what goes there from @send, what comes from there and where in the view. Each
 * pair of ranks must mean the same lengths; places are the receiver's own business, and
 * may not overlap. It is executed by puts, whatever the attributes name. Both kinds of
 * execution may follow each other, in one order on all ranks; this one also waits for
 * those that neither send nor get anything.
 *
 * Host memory: @layout are the caller's again on return. ORIEL_ERR_RANGE: a place that
 * the view has no room for; nothing was done, and the others wait for this rank.
 * ORIEL_ERR_MISMATCH, on both ranks of a pair: they do not mean the same; all but what
 * should have gone between such pairs is there, and nothing is broken.
 *
 * GPU: @layout lie in memory of the GPU or pinned, and are read when the stream has
 * come to it, so that a kernel before it may have written them, and each launch of a graph
 * reads them anew. Nobody can be told of what is wrong in them, so it breaks the
 * communicator, with the status above.
 */
enum oriel_status oriel_alltoall_start_v(struct oriel_alltoall *alltoall, const void *send,
					 const struct oriel_dev_alltoallv *layout, void *stream);

/* Local; of executions of messages of one length. */
enum oriel_status oriel_alltoall_query(const struct oriel_alltoall *alltoall, size_t bytes,
				       struct oriel_allgather_info *info);

#ifdef __cplusplus
}
#endif

#endif
