/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of GPU memory over several nodes, and gathers, scatters and reductions to a root over
 * any, by jobs of the communicator's thread: puts of p2p between nodes, copy engines within a node.
 * Called by the objects (gather_make.c) and by their start functions (allgather.c, alltoall.c,
 * bcast.c, reduce_internode.c, root_run.c).
 */
#ifndef ORI_COLL_GATHER_INTERNODE_H
#define ORI_COLL_GATHER_INTERNODE_H

#include "coll/gather.h"

struct ori_internode;

/* Bytes of GPU staging that ori_internode_open() expects in the window of @g. */
size_t ori_internode_staging(const struct ori_gather *g);
/* Reductions have a row for each rank at its begin. Returns the bytes of one. */
size_t ori_internode_row(const struct ori_gather *g);
/*
 * Collective; @g has its window, its view and its plans. @length: bytes of the view. @mine: what
 * this rank came to before; where it is a failure it is that of all ranks.
 */
enum oriel_status ori_internode_open(struct ori_gather *g, size_t length, enum oriel_status mine);
/* Collective. NULL is allowed. No execution is in progress, or the communicator is broken. */
void ori_internode_close(struct ori_internode *internode);

/*
 * Post one execution to @stream. All-gathers and broadcasts follow a plan of gather_plan.h. Their
 * job first copies the message of this rank, or of the root, to its offset in the view.
 */
enum oriel_status ori_internode_allgather(struct ori_gather *g, enum oriel_algorithm algorithm,
					  const char *send, size_t bytes, void *stream);
enum oriel_status ori_internode_bcast(struct ori_gather *g, enum oriel_algorithm algorithm,
				      uint32_t root, const char *send, size_t bytes, void *stream);
/*
 * Without @layout every message has @bytes bytes. With it @bytes is ignored, and the job reads
 * @layout in the order of the stream.
 */
enum oriel_status ori_internode_alltoall(struct ori_gather *g, const void *send,
					 const struct oriel_dev_alltoallv *layout, size_t bytes,
					 void *stream);

/* A gather or a scatter: all ranks send to @root, or @root to all ranks. */
enum oriel_status ori_internode_root(struct ori_gather *g, uint32_t root, const void *send,
				     size_t bytes, void *stream);

/* The messages of a rank for all ranks: that for rank r lies r * @stride behind @send. */
struct ori_internode_messages {
	const char *send;
	size_t stride;
	size_t bytes; /* of each, but none lie behind @end */
	size_t end;
	bool is_to_root; /* the other ranks get none */
	uint32_t root;
};

/*
 * The parts of a reduction. First the all-to-all, in which the message of rank s goes to row s of
 * the staging. Then the all-gather: the @length bytes at @begin of the views are pieces of @piece
 * bytes, of which the last one may be shorter, and ranks may have none. Piece r lies in the view of
 * rank r and goes to those of all ranks.
 */
enum oriel_status ori_internode_rows(struct ori_gather *g,
				     const struct ori_internode_messages *messages, void *stream);
enum oriel_status ori_internode_pieces(struct ori_gather *g, enum oriel_algorithm algorithm,
				       size_t begin, size_t piece, size_t length, void *stream);

#endif
