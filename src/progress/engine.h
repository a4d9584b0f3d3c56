/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of a communicator, its jobs, and the words by which a stream waits for a job. Used by
 * engine.c and stream_sync.c.
 */
#ifndef ORI_PROGRESS_ENGINE_H
#define ORI_PROGRESS_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include <oriel/progress.h>

#include "comm/comm.h"

/*
 * The words of a job in a stream, both in host memory that the GPU maps:
 *
 *   stream: begun = 1 | wait until done == 1 | done = 0
 *   thread: wait until begun == 1, begun = 0 | steps | done = 1
 *
 * Neither side overwrites a value that the other has not read: the stream sets begun again only
 * behind its wait for done, and the thread sets done only after it has seen begun. So both are 0
 * before each execution, and the values of a captured job are constants.
 * tests/model/stream_model.c explores this.
 */
struct ori_line {
	uint32_t begun;
	uint32_t reserved1[15];
	uint32_t done;
	uint32_t reserved2[15];
};

/*
 * Lines of one allocation. Pinning may wait for streams, and so for jobs that are yet to be
 * posted.
 */
#define ORI_LINES 4096u

struct ori_lines {
	struct ori_lines *next;
	struct ori_mem *mem; /* [ORI_LINES] */
};

/* A free line holds the address of the next one. */
struct ori_free_line {
	struct ori_free_line *next;
};

enum job_state {
	JOB_WAITING, /* for its stream */
	JOB_RUNNING, /* its steps are called */
	JOB_LEAVING, /* its steps are over, and the stream has not passed it */
};

struct ori_job {
	struct oriel_job call;
	struct ori_job *next;
	struct ori_line *line; /* NULL: no stream */
	enum job_state state;
	bool is_captured;
	atomic_bool is_dropped; /* no graph holds it any more */
	atomic_bool
		is_lost; /* the driver took none of its operations; the context is the caller's */
	atomic_bool is_torn; /* the driver took only some of its operations */
	atomic_uint refs;    /* held by the engine, by the graph and during a post */
};

struct ori_job_list {
	struct ori_job *first, **last;
};

struct ori_engine {
	struct oriel_comm *comm; /* borrowed */
	pthread_t thread;
	uint32_t asleep;       /* the word of ori_sleep_until_woken(): 1 while the thread sleeps */
	atomic_uint under_way; /* jobs in progress that are not captured */

	pthread_mutex_t lock; /* guards the rest */
	bool is_closing;
	struct ori_job_list posted;
	struct ori_lines *lines;
	struct ori_free_line *free;
};

/* stream_sync.c */

/* Allocates the first lines, before any stream waits. */
enum oriel_status ori_lines_open(struct ori_engine *engine);
/* Both words are 0. */
enum oriel_status ori_line_open(struct ori_engine *engine, struct ori_line **line);
/* No stream and no graph uses @line any more. */
void ori_line_close(struct ori_engine *engine, struct ori_line *line);
/* Frees all lines. Unless @is_over a stream may still write to them, and their memory stays. */
void ori_lines_close(struct ori_engine *engine, bool is_over);
/* Posts the three operations of the stream. *@has_begun: the driver took the first of them. */
enum oriel_status ori_line_post(struct ori_engine *engine, struct ori_line *line, void *stream,
				bool *has_begun);

#endif
