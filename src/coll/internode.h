/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions over several nodes of GPUs, from inside: what internode_schedule.c and
 * internode_alltoall.c share with those that run them (gather_internode.c) and make what they need
 * (internode_open.c).
 */
#ifndef ORI_COLL_INTERNODE_H
#define ORI_COLL_INTERNODE_H

#include <oriel/dev/exchange.h>
#include <oriel/p2p.h>
#include <oriel/progress.h>

#include "coll/gather_internode.h"

#define ORI_INTERNODE_REQUESTS 16u /* puts and expects of one pair that are under ops, each */
#define ORI_INTERNODE_SLOTS 64u    /* of the staging of an all-to-all */
#define ORI_INTERNODE_SLOT ((size_t)256 << 10)

/* Of the window of signals; the first of a series of oriel/dev/exchange.h as well. */
enum ori_internode_signal { ORI_INTERNODE_CREDIT, ORI_INTERNODE_DATA, ORI_INTERNODE_SIGNALS };

/* Requests in the order in which they were begun; those between @done and @begun are not over. */
struct ori_internode_queue {
	struct oriel_p2p_request requests[ORI_INTERNODE_REQUESTS];
	uint64_t begun, done;
};

/* One rank. */
struct ori_internode_peer {
	/* Of another node, if anything ever goes there or comes from there. */
	struct oriel_p2p *p2p;
	struct oriel_p2p_remote remote;           /* its view */
	struct ori_internode_queue puts, expects; /* of this execution, as all down to @slots */
	uint64_t due;                             /* chunks that come from it */
	uint64_t taken;                           /* chunks that have come and were dealt with */
	uint64_t sent;  /* bytes of its message that are in slots, or were */
	uint32_t slots; /* that it has */

	/* Of this node. */
	char *view;             /* its, mapped here */
	uint64_t credits, data; /* signals that executions have used up */

	/* In this execution. */
	bool has_credit;  /* it may be written to */
	bool is_notified; /* that all has been copied, once it has */
	bool awaits_data; /* that word from there is missing */
};

enum ori_internode_slot_state { ORI_INTERNODE_FREE, ORI_INTERNODE_COPYING, ORI_INTERNODE_PUTTING };

/* A part of a message on its ops: by an engine into the slot, from there by a put. */
struct ori_internode_slot {
	enum ori_internode_slot_state state;
	uint32_t peer;
	uint64_t offset; /* in the view of @peer */
	char *address;   /* in the staging */
	size_t length;
	struct oriel_p2p_request request;
};

/* Of an all-to-all: what adapters do not know is put from here. */
struct ori_internode_stage {
	struct oriel_copies *copies;
	struct oriel_p2p_memory *memory;
	char *base;                         /* on the GPU */
	size_t slot;                        /* bytes */
	struct oriel_dev_alltoallv *layout; /* [ranks], which engines write */
	struct oriel_dev_note *notes;       /* [ranks], of those that have come */
	struct oriel_dev_gather series;     /* of the notes */
	uint64_t epoch;                     /* executions with notes */
	struct ori_internode_slot slots[ORI_INTERNODE_SLOTS];
};

enum ori_internode_phase { ORI_INTERNODE_MOVING, ORI_INTERNODE_COMPLETING, ORI_INTERNODE_WAITING };

struct ori_internode_ops;

struct ori_internode_job {
	const struct ori_internode_ops *ops;
	struct oriel_allgather *g;
	size_t bytes;

	/* Of a walk. */
	const struct ori_plan *plan;
	struct ori_plan own; /* that, if it is of this job alone */
	size_t stride;       /* of the blocks in the view */
	size_t chunk;
	size_t offset; /* in the view of this rank, where @send is copied to */

	const char *send; /* of a walk NULL where it stands there, or there is none */

	/* Of an exchange. */
	const struct oriel_dev_alltoallv *layout; /* of the caller; NULL: all are @bytes */
};

/* The execution under ops. */
struct ori_internode_run {
	const struct ori_internode_job *job; /* NULL: there is none */
	enum ori_internode_phase phase;
	uint32_t lane;     /* of the next copy */
	uint64_t moved_ns; /* when it last got any further */
	uint64_t lost_ns;  /* when it first heard that an end has gone; 0: none has */

	/* Of a walk. */
	bool is_copying_source; /* what is sent is not at its place yet */
	uint64_t chunks;        /* of a block */
	uint32_t move;          /* of the plan */
	uint64_t offset;        /* in the block */
	uint32_t target;        /* of the move */

	/* Of an exchange. */
	bool is_reading; /* the layout */
	uint32_t next;   /* rank that a slot is for, if it needs one */
};

struct ori_internode {
	struct oriel_allgather *g;   /* borrowed */
	struct oriel_window *window; /* of signals and notes, in host memory */
	struct oriel_dev_window device;
	struct oriel_copies *copies;
	struct oriel_p2p_memory *memory;   /* the view */
	size_t length;                     /* of it */
	struct ori_internode_stage *stage; /* of an all-to-all; else NULL */
	struct ori_internode_run run;
	struct ori_internode_peer peers[];
};

/* What one kind of execution does. Called by the thread of the communicator; nothing blocks. */
struct ori_internode_ops {
	/* From now on the others may write to the view. Says what is @due and @awaits_data. */
	enum oriel_status (*begin)(struct ori_internode *internode);
	/* As far as it goes now. ORIEL_OK: all has left, but for copies and @puts of peers. */
	enum oriel_status (*move)(struct ori_internode *internode, bool *has_moved);
	/* The rank that keeps it from moving; ORI_PLAN_OWN: none in particular. */
	uint32_t (*awaited_rank)(const struct ori_internode *internode);
};

/* gather_internode.c */

/* The job is the caller's where it fails; else it is freed when it is over. */
enum oriel_status ori_internode_post(const struct ori_internode_job *job, void *stream);
struct oriel_p2p_request *
ori_internode_free_request(struct ori_internode_queue *q); /* NULL: not now */
/* Has @rank raised @id once more than executions have used up? ORIEL_AGAIN. */
enum oriel_status ori_internode_test_signal(struct ori_internode *internode, uint32_t rank,
					    enum ori_internode_signal id, uint64_t *used);
enum oriel_status ori_internode_send_signal(struct ori_internode *internode, uint32_t rank,
					    enum ori_internode_signal id);

#endif
