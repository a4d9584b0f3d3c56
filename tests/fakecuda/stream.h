/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and graphs from inside. */
#ifndef FAKECUDA_STREAM_H
#define FAKECUDA_STREAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "fakecuda.h"

/* What streams have posted is done in that order, of several that share it too. */
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
	struct fake_graph *capture; /* that it is part of; NULL: none */
	struct fake_queue *queue;   /* NULL: what is posted is done in the call */
	struct fake_copies *copies; /* that its copies go through, too; NULL: no other one */
	unsigned long long posted, done;
};

/* What was captured, in that order. Graphs and executables refer to it. */
struct fake_graph {
	atomic_uint refs;
	struct fake_op *first, **last;
	struct CUuserObject_st *held;
	CUstream begun; /* by that one */
};

void fake_queue_take(CUstream stream);
void fake_queue_drop(struct fake_queue *queue);
void fake_do(struct fake_op *op);
void fake_rest(void);
void fake_graph_add(struct fake_graph *graph, const struct fake_op *op);
void fake_graph_drop(struct fake_graph *graph);

#endif
