/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of GPU memory over several nodes, by jobs of the communicator's
 * thread: between nodes by puts of p2p, within a node by copy engines.
 */
#ifndef ORI_COLL_GATHER_INTERNODE_H
#define ORI_COLL_GATHER_INTERNODE_H

#include "coll/gather.h"

struct ori_internode;

/* Bytes of the staging on the GPU that ori_internode_open() finds in the window of @g. */
size_t ori_internode_staging(const struct oriel_allgather *g);
/* Collective; @g has its window, its view and its plans. @length: of the view. */
enum oriel_status ori_internode_open(struct oriel_allgather *g, size_t length);
/* Collective. NULL is allowed. Nothing is under ops any more, or the communicator is broken. */
void ori_internode_close(struct ori_internode *internode);

/*
 * One execution at its place in @stream. Of an all-gather and of a broadcast, by the
 * plans of gather_plan.h, the first thing is that the message, of this rank or of the
 * root, comes to its place in the view.
 */
enum oriel_status ori_internode_allgather(struct oriel_allgather *g, enum oriel_algorithm algorithm,
					  const char *send, size_t bytes, void *stream);
enum oriel_status ori_internode_bcast(struct oriel_allgather *g, enum oriel_algorithm algorithm,
				      uint32_t root, const char *send, size_t bytes, void *stream);
/* All-to-all, of messages of @bytes, or as @layout say, read when the stream has come there. */
enum oriel_status ori_internode_alltoall(struct oriel_allgather *g, const void *send,
					 const struct oriel_dev_alltoallv *layout, size_t bytes,
					 void *stream);

#endif
