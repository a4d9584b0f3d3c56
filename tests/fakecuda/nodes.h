/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are threads, on virtual nodes, with streams that have threads of their own:
 * what the programs for collectives of such GPUs share. PROGRAM TEST RANKS NODES.
 */
#ifndef FAKECUDA_NODES_H
#define FAKECUDA_NODES_H

#include <pthread.h>

#include "rank.h"

/* Fewer under ThreadSanitizer, which has one of so many threads run at a time. */
#ifdef ORIEL_DEV_TSAN
#define SHARE 70000u
#define REPLAYS 60u
#define AHEAD 2u
#define TWICE 4u
#else
#define SHARE 300000u /* bytes of each rank at most */
#define REPLAYS 1000u
#define AHEAD 5u  /* times that several are under way */
#define TWICE 20u /* times that two are */
#endif
#define CHUNK 4096u
#define OBJECTS 2u

struct object {
	struct oriel_allgather *gather;
	struct oriel_alltoall *alltoall;
	struct oriel_bcast *bcast;
	CUstream stream;
	char *result, *send; /* on the GPU: SHARE of each rank, and some bytes more to send */
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

/* Of the program, behind the last one a NULL. */
extern const struct nodes_test nodes_tests[];

/* Waits for the communicator to break, and for the stream to go on after that. */
void nodes_expect_broken(struct site *s, struct object *o);
/* And what is started after that is refused with what broke it. */
typedef enum oriel_status nodes_start(struct site *s, struct object *o);
void nodes_expect_rejected(struct site *s, struct object *o, nodes_start *start);
/* The first rank gives up in the middle of @launches replays. The graph is the caller's. */
CUgraph nodes_abort_replays(struct site *s, struct object *o, nodes_start *start,
			    unsigned launches);
/* A rank whose driver fails, after so many copies more, breaks all, and its stream goes on. */
void nodes_fail_copies(struct site *s, struct object *o, nodes_start *start, unsigned after);
/*
 * What a rank of this process has called may wait for all that its GPU has to do, for others
 * too: nobody goes on to give that anything to do before all have come back from it.
 */
void nodes_meet(const struct site *s);
/* What follows in the stream is captured, up to the end, to which all come. */
void nodes_capture_begin(struct site *s, struct object *o);
CUgraphExec nodes_capture_end(struct site *s, struct object *o, CUgraph *graph);

#endif
