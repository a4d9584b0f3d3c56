/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are threads, on virtual nodes of fake GPUs, with streams that have threads of their
 * own. gpu_nodes, gpu_nodes_exchange, gpu_nodes_reduce and gpu_nodes_root include it: PROGRAM TEST
 * RANKS NODES.
 */
#ifndef FAKECUDA_NODES_H
#define FAKECUDA_NODES_H

#include <pthread.h>

#include "rank.h"

/* Fewer under ThreadSanitizer, which runs one of so many threads at a time. */
#ifdef ORIEL_DEV_TSAN
#define SHARE 70000u
#define REPLAYS 60u
#define AHEAD 2u
#define TWICE 4u
#else
#define SHARE 300000u /* the most bytes of each rank */
#define REPLAYS 1000u
#define AHEAD 5u  /* rounds with several executions in flight */
#define TWICE 20u /* rounds with two objects in flight */
#endif
#define CHUNK 4096u
#define OBJECTS 2u

struct object {
	struct oriel_allgather *gather;
	struct oriel_alltoall *alltoall;
	struct oriel_bcast *bcast;
	struct oriel_allreduce *all;
	struct oriel_reduce_scatter *scatter;
	struct oriel_reduce *root;
	struct oriel_gather *gather_root;
	struct oriel_scatter *scatter_root;
	CUstream stream;
	char *result, *send; /* GPU memory: SHARE for each rank; @send has some bytes more */
};

struct site {
	struct rank r;
	struct object objects[OBJECTS];
	unsigned round;
	pthread_barrier_t *barrier; /* of all ranks */
};

struct nodes_test {
	const char *name;
	void (*run)(struct site *s);
	uint64_t timeout_ns;
};

/* Defined by the program; ends with a NULL name. */
extern const struct nodes_test nodes_tests[];

/* Returns the view of the whole result of @o, in GPU memory. */
struct oriel_view nodes_view(const struct site *s, const struct object *o);

/* Waits for the communicator to break, and for the stream to go on after that. */
void nodes_expect_broken(struct site *s, struct object *o);
/* The same, and a later start fails with the status that broke the communicator. */
typedef enum oriel_status nodes_start(struct site *s, struct object *o);
void nodes_expect_rejected(struct site *s, struct object *o, nodes_start *start);
/* The first rank aborts in the middle of @launches replays. The caller destroys the graph. */
CUgraph nodes_abort_replays(struct site *s, struct object *o, nodes_start *start,
			    unsigned launches);
/* The driver of one rank fails after @after copies: all ranks break, and its stream goes on. */
void nodes_fail_copies(struct site *s, struct object *o, nodes_start *start, unsigned after);
/*
 * A barrier of all ranks after a call that may wait for all work of its GPU, that of other ranks
 * included: no rank posts new work before all ranks have returned from that call.
 */
void nodes_meet(const struct site *s);
/* Captures the stream. All ranks call nodes_capture_end(). */
void nodes_capture_begin(struct site *s, struct object *o);
CUgraphExec nodes_capture_end(struct site *s, struct object *o, CUgraph *graph);

#endif
