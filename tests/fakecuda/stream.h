/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and graphs from inside. */
#ifndef FAKECUDA_STREAM_H
#define FAKECUDA_STREAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "fakecuda.h"

struct CUstream_st {
	int device;
	bool is_async;
	struct fake_graph *capture; /* that it is part of; NULL: none */

	pthread_t thread;
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t changed;
	struct fake_op *first, **last;
	unsigned long long posted, done;
	bool is_closing;
};

/* What was captured, in that order. Graphs and executables refer to it. */
struct fake_graph {
	atomic_uint refs;
	struct fake_op *first, **last;
	struct CUuserObject_st *held;
	CUstream begun; /* by that one */
};

void fake_do(struct fake_op *op);
void fake_graph_add(struct fake_graph *graph, const struct fake_op *op);
void fake_graph_drop(struct fake_graph *graph);

#endif
