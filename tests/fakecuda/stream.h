/* SPDX-License-Identifier: Apache-2.0 */
/* The internals of streams and graphs; files of the fake driver include it. */
#ifndef FAKECUDA_STREAM_H
#define FAKECUDA_STREAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "fakecuda.h"

/*
 * A queue does the operations of its streams in the order of posting; several streams may share
 * it.
 */
struct fake_queue {
	unsigned streams; /* guarded by the lock of the queues, as is @next */
	struct fake_queue **place, *next;
	pthread_t thread;
	int device;

	pthread_mutex_t lock; /* guards the rest, and the counts of the streams */
	pthread_cond_t changed;
	struct fake_op *first, **last;
	bool is_closing;
};

struct CUstream_st {
	int device;
	struct fake_graph *capture; /* the graph that is being captured; NULL: none */
	struct fake_queue *queue;   /* NULL: operations are done in the call */
	struct fake_copies *copies; /* a second queue for its copies; NULL: none */
	unsigned long long posted, done;
};

/* The captured operations, in that order. Graphs and executables refer to it. */
struct fake_graph {
	atomic_uint refs;
	struct fake_op *first, **last;
	struct CUuserObject_st *held;
	CUstream begun; /* the stream that began the capture */
};

/*
 * @stream, or the default stream of the current GPU if that is CU_STREAM_LEGACY, which synchronizes
 * with no stream of cuStreamCreate() here: these are all non-blocking (CUDA driver API, "Stream
 * synchronization behavior").
 */
CUstream fake_stream(CUstream stream);
void fake_queue_take(CUstream stream);
void fake_queue_drop(struct fake_queue *queue);
void fake_do(struct fake_op *op);
void fake_rest(void);
void fake_graph_add(struct fake_graph *graph, const struct fake_op *op);
void fake_graph_drop(struct fake_graph *graph);

#endif
