/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent barrier, on GPU streams or between host threads, for users without a window.
 * oriel_window_barrier() is the same on a barrier slot of a window.
 *
 *   oriel_stream_barrier_create(comm, ORIEL_STREAM_BARRIER_GPU, &barrier);
 *   oriel_stream_barrier_run_on_stream(barrier, stream);
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
	ORIEL_STREAM_BARRIER_GPU = 1, /* on streams, needs ORIEL_COMM_GPU; equal on all ranks */
};

/*
 * Collective: all ranks call it in one order and all get the same status. @comm must
 * outlive the object. ORIEL_ERR_MISMATCH: @flags differ.
 */
enum oriel_status oriel_stream_barrier_create(struct oriel_comm *comm, unsigned flags,
					      struct oriel_stream_barrier **barrier);

/* Collective, as oriel_window_destroy(). NULL is allowed. */
enum oriel_status oriel_stream_barrier_destroy(struct oriel_stream_barrier *barrier);

/*
 * Operations after the call happen after all operations of all ranks before theirs, and puts to
 * this rank from before it are visible. The calling thread waits. Executions of one object are
 * ordered, in one order on all ranks. ORIEL_ERR_INVALID: the object has ORIEL_STREAM_BARRIER_GPU.
 */
enum oriel_status oriel_stream_barrier_run(struct oriel_stream_barrier *barrier);

/*
 * The same in @stream, NULL for CUDA's default stream, which may be captured: the call returns at
 * once, and a later failure breaks the communicator. ORIEL_ERR_INVALID: the object has no
 * ORIEL_STREAM_BARRIER_GPU.
 */
enum oriel_status oriel_stream_barrier_run_on_stream(struct oriel_stream_barrier *barrier,
						     struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
