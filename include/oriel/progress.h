/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of a communicator. It runs jobs of the caller step by step, at once or in the order of
 * a stream, which waits for the job without a kernel. Used by collectives and by programs.
 * docs/progress.md says how it works, and why a stream never waits for ever.
 *
 *   struct oriel_job job = {.size = sizeof(job), .step = step, .context = context};
 *   oriel_comm_post(comm, &job);
 */
#ifndef ORIEL_PROGRESS_H
#define ORIEL_PROGRESS_H

#include <oriel/comm.h>
#include <oriel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A posted job is executed once; a captured one once at each launch of its graph. */
struct oriel_job {
	size_t size; /* of this struct, as the caller knew it */

	/*
	 * One step. The thread of the communicator calls it and has other jobs, so a step never
	 * waits. ORIEL_AGAIN: call again; *@has_moved, false before the call, says whether there
	 * was progress, since the thread sleeps when no job makes any. Any other status ends the
	 * execution, and a failure breaks the communicator. Once that is broken the next step is
	 * the last, whatever it returns. Each execution has at least one step.
	 */
	enum oriel_status (*step)(void *context, bool *has_moved);
	/*
	 * There are no more steps. NULL is allowed. Called once, by the same thread or within
	 * oriel_comm_destroy(). The objects that the job worked on may be destroyed by then, since
	 * a captured job can be executed until its graph is destroyed.
	 */
	void (*release)(void *context);
	void *context;
};

/*
 * Creates what the first post would create: the thread, and words for 4096 jobs in streams or
 * graphs. Words for each further 4096 jobs are created when they are needed. Creating words waits
 * for the GPU. If work on the GPU may wait for this rank, as streams of ranks that share a GPU and
 * a process do, call this before that work is posted. Local, any thread.
 */
enum oriel_status oriel_comm_prepare(struct oriel_comm *comm);

/*
 * Any thread may call them, but no step, in any order on each rank. The job is copied. Unless the
 * call fails, the context belongs to the library until it is released.
 *
 * oriel_comm_post(): the execution begins at once.
 *
 * oriel_comm_post_on_stream(): @stream belongs to the GPU of @comm; NULL is CUDA's default stream,
 * as for windows (oriel/window.h). The execution begins when all operations before it in the
 * stream have completed, and operations behind it begin when it ends. Each side sees what the
 * other wrote. The stream goes on after a failure as well, and oriel_comm_health() says what
 * failed. While the stream is captured the job becomes a part of the graph; the caller orders
 * launches of that graph, so that they do not overlap.
 *
 * Jobs of one stream begin in its order. Jobs of several streams begin in the order in which the
 * thread finds them ready, and those that it finds together in the order of their posts. No job
 * waits for another to end, so ranks whose streams reach their jobs in different orders do not
 * block each other.
 *
 * At most ORIEL_JOBS jobs are posted and not ended, captured ones not counted. A post beyond the
 * limit waits for the first of them to end. ORIEL_ERR_TIMEOUT: none ended within the timeout of
 * @comm, which is not broken by that.
 *
 * If the driver takes only a part of the operations of a job, the post breaks @comm.
 * ORIEL_ERR_INVALID: on a stream, and @comm has no GPU. ORIEL_ERR_STATE: called by a step.
 */
#define ORIEL_JOBS 1024u

enum oriel_status oriel_comm_post(struct oriel_comm *comm, const struct oriel_job *job);
enum oriel_status oriel_comm_post_on_stream(struct oriel_comm *comm, const struct oriel_job *job,
					    struct CUstream_st *stream);

/*
 * A mark in a stream is for the question whether the GPU of @comm has passed it, also after the
 * stream was destroyed. @comm must outlive the mark; one thread at a time uses one. set moves the
 * mark behind all that @stream holds now; NULL is CUDA's default stream. test polls once: ORIEL_OK
 * if the GPU has passed it, or it was never set; ORIEL_AGAIN: not yet. set returns ORIEL_ERR_STATE
 * while the stream is being captured, since a graph has no such place, and ORIEL_ERR_INVALID
 * without a GPU. Both return other failures of the driver, such as that of a kernel before.
 */
struct oriel_mark;

enum oriel_status oriel_mark_create(struct oriel_comm *comm, struct oriel_mark **mark);
enum oriel_status oriel_mark_destroy(struct oriel_mark *mark); /* NULL is allowed */
enum oriel_status oriel_mark_set_on_stream(struct oriel_mark *mark, struct CUstream_st *stream);
enum oriel_status oriel_mark_test(struct oriel_mark *mark);

/* Local: is @stream, of the GPU of @comm, being captured? NULL is CUDA's default stream. */
enum oriel_status oriel_comm_is_capturing(struct oriel_comm *comm, struct CUstream_st *stream,
					  bool *is_capturing);

/*
 * Asynchronous copies by the copy engines of the GPU of @comm, in streams that all copies of @comm
 * share. Without a GPU each copy is done in its call. One thread at a time uses an object. Objects
 * do not wait for each other's copies if streams can write words (CUDA drivers from 11.7 on). @comm
 * must outlive the object. A failure is ORIEL_ERR_NOMEM, or that of the driver with its text.
 */
struct oriel_copies;

enum oriel_status oriel_copies_create(struct oriel_comm *comm, struct oriel_copies **copies);
/* Waits for its copies, at most for the timeout of @comm. NULL is allowed. */
enum oriel_status oriel_copies_destroy(struct oriel_copies *copies);

/*
 * Allocates host memory that belongs to the object and that copies read and write asynchronously:
 * pinned, in whole pages, zeroed. At most once for each object (ORIEL_ERR_STATE), which frees it.
 * The call may wait for the GPU.
 */
enum oriel_status oriel_copies_memory(struct oriel_copies *copies, size_t length, void **memory);

/* Adds a copy to stream @lane, modulo their number. Copies in other streams may overtake it. */
enum oriel_status oriel_copies_add(struct oriel_copies *copies, unsigned lane, void *to,
				   const void *from, size_t length);
/*
 * Polls once. ORIEL_OK: all added copies are complete and visible to every GPU and rank.
 * ORIEL_AGAIN: not yet.
 */
enum oriel_status oriel_copies_test(struct oriel_copies *copies);

#ifdef __cplusplus
}
#endif

#endif
