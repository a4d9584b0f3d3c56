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
 * Behind the rows those that may be HIERARCHICAL have two areas for sums: of the own node, and of
 * all nodes. Returns the bytes of one.
 */
size_t ori_internode_sums(const struct ori_gather *g);
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

/* The ranks that send each other messages. Message m of a rank lies m * stride behind the first. */
enum ori_internode_route {
	ORI_INTERNODE_ALL,       /* every rank sends message r to rank r */
	ORI_INTERNODE_TO_ROOT,   /* rank r sends message r to the root */
	ORI_INTERNODE_FROM_ROOT, /* the root sends message r to rank r */

	/*
	 * The nodes are blocks of consecutive ranks. Message r goes to the rank of the sender's
	 * node with the local rank of rank r, which gets a message for each node. And message n
	 * goes to the rank of node n with the sender's local rank.
	 */
	ORI_INTERNODE_IN_NODE,
	ORI_INTERNODE_IN_RAIL,
};

/* The messages of a rank. */
struct ori_internode_messages {
	const char *send;
	size_t stride;
	size_t bytes; /* of each, but none lie behind @end */
	size_t end;
	enum ori_internode_route route;
	uint32_t root;   /* of routes that have one */
	bool is_to_rows; /* the staging of a reduction; else the view */
	size_t at;       /* of the messages there, */
	size_t row; /* and between two: of the senders in order, and in a node of the nodes, too */
};

enum oriel_status ori_internode_send(struct ori_gather *g,
				     const struct ori_internode_messages *messages, void *stream);
/*
 * The end of an all-reduce, an all-gather: the @length bytes at @begin of the views are pieces of
 * @piece bytes, of which the last one may be shorter, and ranks may have none. Piece r lies in the
 * view of rank r and goes to those of all ranks.
 */
enum oriel_status ori_internode_pieces(struct ori_gather *g, enum oriel_algorithm algorithm,
				       size_t begin, size_t piece, size_t length, void *stream);

#endif
