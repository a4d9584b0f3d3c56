/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent broadcast: made once over memory of every rank, executed any number of
 * times, each time from any rank. docs/allgather.md has the algorithms and why they are
 * correct.
 */
#ifndef ORIEL_BCAST_H
#define ORIEL_BCAST_H

#include <oriel/allgather.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_bcast;

/*
 * Collective: all that is said of oriel_allgather_create() holds, and its attributes
 * are those of this; but ORIEL_ALLGATHER has no say. Algorithms: DIRECT, from the root
 * to each; RING, from one rank to the next, in chunks; BRUCK, along a tree, in chunks;
 * on GPUs of one domain instead STORE and CE, both from the root to each. On GPUs of several
 * nodes RING and BRUCK go from node to node, and one rank of each tells the others.
 */
enum oriel_status oriel_bcast_create(struct oriel_comm *comm, const struct oriel_view *view,
				     const struct oriel_allgather_attr *attr,
				     struct oriel_bcast **bcast);

/* As oriel_allgather_destroy(). */
void oriel_bcast_destroy(struct oriel_bcast *bcast);

/*
 * One execution: @bytes bytes at @send of rank @root come to stand at the beginning of
 * the view of every rank, its own among them. @root and @bytes are equal on all ranks;
 * @bytes is at most the length of the shortest view. @send, which only the root looks
 * at, is the beginning of its view, or overlaps the view nowhere. All else is as for
 * oriel_allgather_start(): when it is done, streams and graphs, who may call, what
 * starting says of the result of before, and what fails how. ORIEL_ERR_RANGE also for a
 * @root that there is not.
 */
enum oriel_status oriel_bcast_start(struct oriel_bcast *bcast, unsigned root, const void *send,
				    size_t bytes, void *stream);

/* Local. */
enum oriel_status oriel_bcast_query(const struct oriel_bcast *bcast, size_t bytes,
				    struct oriel_allgather_info *info);

#ifdef __cplusplus
}
#endif

#endif
