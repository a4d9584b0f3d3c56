/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions over several nodes of GPUs, the inside. internode_open.c opens the object,
 * gather_internode.c runs its executions as jobs, and internode_schedule.c (all-gather, broadcast)
 * and internode_alltoall.c implement the operations of one execution. Reductions have both:
 * reduce_internode.c.
 */
#ifndef ORI_COLL_INTERNODE_H
#define ORI_COLL_INTERNODE_H

#include <oriel/dev/exchange.h>
#include <oriel/p2p.h>
#include <oriel/progress.h>

#include "coll/gather_internode.h"

#define ORI_INTERNODE_REQUESTS 16u /* posted puts, and posted expects, of a pair of ranks */
#define ORI_INTERNODE_SLOTS 64u    /* in the staging of an all-to-all */
#define ORI_INTERNODE_SLOT ((size_t)256 << 10) /* bytes of one, at most */
#define ORI_INTERNODE_ROWS 2u /* times the bytes of all slots: the rows of a reduction, at most */

/*
 * Signals of the object's own window, numbered from 0. CREDIT is also the first signal of the
 * series that oriel/dev/exchange.h uses for notes.
 */
enum ori_internode_signal { ORI_INTERNODE_CREDIT, ORI_INTERNODE_DATA, ORI_INTERNODE_SIGNALS };

/* Requests in the order of their posts. Those from @done up to @begun have not completed. */
struct ori_internode_queue {
	struct oriel_p2p_request requests[ORI_INTERNODE_REQUESTS];
	uint64_t begun, done;
};

/* The state of one pair of ranks, seen from this rank. */
struct ori_internode_peer {
	/* A rank of another node: an endpoint, unless no execution involves the pair. */
	struct oriel_p2p *p2p;
	struct oriel_p2p_remote remote;           /* the view of the peer */
	struct oriel_p2p_remote remote_rows;      /* its rows; reductions only */
	struct ori_internode_queue puts, expects; /* this execution, as all down to @slots */
	uint64_t due;                             /* chunks that the peer sends */
	uint64_t taken;                           /* chunks that arrived and were handled */
	uint64_t sent;  /* bytes of the message to it that were copied to slots */
	uint32_t slots; /* slots in use for it */

	/* A rank of this node: its view, and its rows, are mapped into this process. */
	char *view;
	char *rows;
	uint64_t credits, data; /* signals that executions have consumed */

	/* This execution. */
	bool has_credit;  /* the peer has started, so its view may be written */
	bool is_notified; /* it gets a DATA signal once all copies are done */
	bool awaits_data; /* its DATA signal has not arrived */
};

enum ori_internode_slot_state { ORI_INTERNODE_FREE, ORI_INTERNODE_COPYING, ORI_INTERNODE_PUTTING };

/* A part of a message: a copy engine brings it to the slot, and a put sends it from there. */
struct ori_internode_slot {
	enum ori_internode_slot_state state;
	uint32_t peer;
	uint64_t offset; /* in the view of @peer */
	char *address;   /* in the staging */
	size_t length;
	struct oriel_p2p_request request;
};

/*
 * The staging of an all-to-all and of a reduction. The caller's messages lie in memory that is not
 * registered with the NICs, so they are copied to slots of registered memory and put from there.
 * Those of a reduction go to the rows of their owners, one for each rank, ahead of the slots.
 */
struct ori_internode_stage {
	struct oriel_copies *copies;
	struct oriel_p2p_memory *memory;
	char *rows;                         /* on the GPU, as the slots */
	char *base;                         /* of the slots */
	size_t slot;                        /* bytes */
	struct oriel_dev_alltoallv *layout; /* [ranks], host memory that copy engines write */
	struct oriel_dev_note *notes;       /* [ranks], valid once the peer has_credit */
	struct oriel_dev_gather series;     /* signals and staging of the notes */
	uint64_t epoch;                     /* counts the executions with notes */
	struct ori_internode_slot slots[ORI_INTERNODE_SLOTS];
};

enum ori_internode_phase { ORI_INTERNODE_MOVING, ORI_INTERNODE_COMPLETING, ORI_INTERNODE_WAITING };

struct ori_internode_ops;

struct ori_internode_job {
	const struct ori_internode_ops *ops;
	struct ori_gather *g;
	size_t bytes;

	/* ori_internode_length() has the lengths of blocks, and of messages without @layout. */
	size_t stride; /* between the blocks in the view, or the messages at @send */
	size_t end;    /* of the last one */

	/* internode_schedule.c */
	const struct ori_plan *plan;
	struct ori_plan own; /* the plan, if it belongs to this job alone */
	size_t chunk;
	size_t begin;  /* of the blocks, in the views */
	size_t offset; /* in the view of this rank, where @send is copied to */

	const char *send; /* a schedule: NULL if nothing is to be copied to @offset */

	/* internode_alltoall.c */
	const struct oriel_dev_alltoallv *layout; /* the caller's; NULL: messages of @bytes */

	/* Without @layout. */
	enum ori_internode_route route;
	uint32_t root;   /* of routes that have one */
	bool is_to_rows; /* not to the views */
	size_t at;       /* of the messages at their target */
	size_t row;      /* between those of two ranks there, or more: alltoall_place() */
};

/* Bytes of block or message @index: @bytes, but none lie behind @end. */
static inline size_t ori_internode_length(const struct ori_internode_job *job, uint32_t index)
{
	size_t begin = index * job->stride;

	if (begin >= job->end)
		return 0;
	return job->end - begin < job->bytes ? job->end - begin : job->bytes;
}

/* The current execution. */
struct ori_internode_run {
	const struct ori_internode_job *job; /* NULL: there is none */
	enum ori_internode_phase phase;
	uint32_t lane;     /* of the next copy */
	uint64_t moved_ns; /* time of the last progress */
	uint64_t lost_ns;  /* time at which an endpoint was first found closed; 0: none is */

	/* internode_schedule.c: the position in the plan. */
	bool is_copying_source; /* the message is still copied to the view */
	uint32_t move;          /* of the plan */
	uint64_t offset;        /* in the block */
	uint32_t target;        /* of the move */

	/* internode_alltoall.c */
	bool is_reading; /* the layout is still copied to host memory */
	uint32_t next;   /* the first rank to be considered for the next slot */
};

struct ori_internode {
	struct ori_gather *g;        /* borrowed */
	struct oriel_window *window; /* its own: signals and notes, in host memory */
	struct oriel_dev_window device;
	struct oriel_copies *copies;
	struct oriel_p2p_memory *memory;   /* the view */
	size_t length;                     /* of the view, in bytes */
	struct ori_internode_stage *stage; /* of an all-to-all or a reduction; else NULL */
	struct ori_internode_run run;
	struct ori_internode_peer peers[];
};

/* One kind of execution. The thread of the communicator calls these, and none of them blocks. */
struct ori_internode_ops {
	/*
	 * Grants the credits: from now on peers may write to the view. Sets @due and @awaits_data
	 * of each peer.
	 */
	enum oriel_status (*begin)(struct ori_internode *internode);
	/*
	 * Posts as much as it can. ORIEL_OK: everything is posted, and only copies and @puts of
	 * peers are left to complete.
	 */
	enum oriel_status (*move)(struct ori_internode *internode, bool *has_moved);
	/* The rank that move() waits for, for error texts; ORI_PLAN_OWN: none in particular. */
	uint32_t (*awaited_rank)(const struct ori_internode *internode);
};

/* gather_internode.c */

/* Copies @job and posts it to @stream. On success the plan in @job->own belongs to the copy. */
enum oriel_status ori_internode_post(const struct ori_internode_job *job, void *stream);
struct oriel_p2p_request *
ori_internode_free_request(struct ori_internode_queue *q); /* NULL: all are in use */
/* Consumes one signal @id of @rank and counts it in *@used. ORIEL_AGAIN: it has not arrived. */
enum oriel_status ori_internode_test_signal(struct ori_internode *internode, uint32_t rank,
					    enum ori_internode_signal id, uint64_t *used);
enum oriel_status ori_internode_send_signal(struct ori_internode *internode, uint32_t rank,
					    enum ori_internode_signal id);

#endif
