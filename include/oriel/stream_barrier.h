/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent barrier, on streams of GPUs or between threads of hosts, for who has no
 * window at hand; oriel_window_barrier() is the same on a slot of one.
 */
#ifndef ORIEL_STREAM_BARRIER_H
#define ORIEL_STREAM_BARRIER_H

#include <oriel/comm.h>
#include <oriel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_stream_barrier;

enum oriel_stream_barrier_flags {
	ORIEL_STREAM_BARRIER_GPU = 1, /* on streams, which needs ORIEL_COMM_GPU; on all ranks */
};

/*
 * Collective: all ranks call it in one order and all get the same status. @comm must
 * outlive the object. ORIEL_ERR_MISMATCH: @flags differ.
 */
enum oriel_status oriel_stream_barrier_create(struct oriel_comm *comm, unsigned flags,
					      struct oriel_stream_barrier **barrier);

/* Collective, as oriel_window_destroy(). NULL is allowed. */
void oriel_stream_barrier_destroy(struct oriel_stream_barrier *barrier);

/*
 * What comes behind it, in the stream or after it has returned, comes after all that any
 * rank had before it; what was put to this rank before is visible. Without
 * ORIEL_STREAM_BARRIER_GPU @stream is NULL and the calling thread waits; else it is
 * posted to @stream, also one that is captured, and what fails later breaks the
 * communicator. Executions of one object are ordered, in one order on all ranks.
 */
enum oriel_status oriel_stream_barrier_start(struct oriel_stream_barrier *barrier, void *stream);

#ifdef __cplusplus
}
#endif

#endif
