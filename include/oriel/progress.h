/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of a communicator: it does work of the caller's step by step, at once
 * or at a place in a stream, where what is behind waits without a kernel.
 * docs/progress.md says how, and why a stream never waits for ever.
 */
#ifndef ORIEL_PROGRESS_H
#define ORIEL_PROGRESS_H

#include <oriel/comm.h>
#include <oriel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Posted once, executed once; captured in a graph, once at each launch. */
struct oriel_job {
	size_t size; /* of this struct, as the caller knew it */

	/*
	 * One step, called by that thread, which has other jobs: it never waits for
	 * anything. ORIEL_AGAIN: not over yet, call again; *@has_moved, false before, says
	 * whether it got any further, for the thread rests where nothing does. All else
	 * ends the execution, and a failure breaks the communicator. Once that is broken
	 * a step is the last, whatever it returns; each execution has one at least.
	 */
	enum oriel_status (*step)(void *context, bool *has_moved);
	/*
	 * No more steps; NULL: nothing to do. Called once, by that thread or within
	 * oriel_comm_destroy(), maybe when what the job worked on has gone: what was
	 * captured can be executed until its graph has gone too.
	 */
	void (*release)(void *context);
	void *context;
};

/*
 * What the first post would make: the thread, and words for 4096 jobs that are in
 * streams or captured; each 4096 more are made when they are needed. To make them
 * waits for what the GPU has to do. Where that waits for this very rank, as streams
 * of ranks that share a GPU and a process do, this comes before. Local, any thread.
 */
enum oriel_status oriel_comm_prepare(struct oriel_comm *comm);

/*
 * Any thread but a step, in any order on any rank. The job is copied. Unless this
 * fails, the context is the library's until it is released.
 *
 * @stream NULL: the execution begins at once.
 *
 * Else @stream is one of the GPU of @comm: the execution begins when all that is
 * before it there is done, and what is behind it begins when it is over; what either
 * wrote the other sees. After a failure the stream goes on as well, and
 * oriel_comm_health() says what there was. While a stream is captured the job goes
 * into the graph; launches of it that are not ordered otherwise do not overlap.
 *
 * Jobs of one stream begin in its order. Of those of several the one that is found
 * first begins first, of those found at once the one that was posted first; none
 * waits for another to be over, so that ranks whose streams came to their jobs in
 * different orders do not wait for each other.
 *
 * There are at most ORIEL_JOBS that are posted and not over, not counting what was
 * captured. Beyond it waits for the first of them to be over: ORIEL_ERR_TIMEOUT, of
 * which nothing is broken, if none is within the timeout of @comm.
 *
 * Where the driver takes only a part of what a stream has to do for it, it breaks
 * @comm. ORIEL_ERR_INVALID: a stream, and @comm has no GPU. ORIEL_ERR_STATE: called by a step.
 */
#define ORIEL_JOBS 1024u

enum oriel_status oriel_comm_post(struct oriel_comm *comm, const struct oriel_job *job,
				  void *stream);

/*
 * Copies that go on beside their caller and beside each other: by the engines of the
 * GPU of @comm, in streams of their own. Without a GPU each is done in its call. One
 * thread at a time. @comm must outlive it.
 */
struct oriel_copies;

enum oriel_status oriel_copies_create(struct oriel_comm *comm, struct oriel_copies **copies);
/* Waits until they are all done, at most the timeout of @comm. NULL is allowed. */
void oriel_copies_destroy(struct oriel_copies *copies);

/*
 * Host memory of their own that they go to and come from without their caller waiting for it:
 * pinned, of whole pages, and zero. Once for each object; gone with it. To make it may wait for
 * what the GPU has to do.
 */
enum oriel_status oriel_copies_memory(struct oriel_copies *copies, size_t length, void **memory);

/* In the @lane'th stream, modulo their number, behind what is there; others overtake it. */
enum oriel_status oriel_copies_add(struct oriel_copies *copies, unsigned lane, void *to,
				   const void *from, size_t length);
/* Look once: ORIEL_OK when all that were added are done, for every GPU and rank; ORIEL_AGAIN. */
enum oriel_status oriel_copies_test(struct oriel_copies *copies);

#ifdef __cplusplus
}
#endif

#endif
