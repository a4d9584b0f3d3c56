/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a communicator and its jobs, and how they hold a stream. */
#ifndef ORI_PROGRESS_ENGINE_H
#define ORI_PROGRESS_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include <oriel/progress.h>

#include "comm/comm.h"

/*
 * Words of a job in a stream, both in host memory that the GPU reaches:
 *
 *   stream: begun = 1 | wait until done == 1 | done = 0
 *   thread: wait until begun == 1, begun = 0 | steps | done = 1
 *
 * Neither writes what the other has not read: begun is set again only behind the
 * wait for done, and done only after begun. So both are 0 before each execution,
 * and the values of a captured job are constants. tests/model/stream_model.c.
 */
struct ori_line {
	uint32_t begun;
	uint32_t reserved1[15];
	uint32_t done;
	uint32_t reserved2[15];
};

/* So many at once: to pin them may wait for streams, and so for jobs that are to be posted. */
#define ORI_LINES 4096u

struct ori_lines {
	struct ori_lines *next;
	struct ori_mem *mem; /* [ORI_LINES] */
};

/* In a free line the address of the next one. */
struct ori_free_line {
	struct ori_free_line *next;
};

enum job_state {
	JOB_WAITING, /* for the stream */
	JOB_RUNNING, /* has steps */
	JOB_LEAVING, /* the stream has not come past yet */
};

struct ori_job {
	struct oriel_job call;
	struct ori_job *next;
	struct ori_line *line; /* NULL: no stream */
	enum job_state state;
	bool is_captured;
	atomic_bool is_dropped; /* no graph has it any more */
	atomic_bool is_lost;    /* its stream has none of the words, its context is the caller's */
	atomic_bool is_torn;    /* its stream has only some of them */
	atomic_uint refs;       /* the engine's, the graph's */
};

struct ori_job_list {
	struct ori_job *first, **last;
};

struct ori_engine {
	struct oriel_comm *comm; /* borrowed */
	pthread_t thread;
	uint32_t asleep;       /* see base/nap.h */
	atomic_uint under_way; /* jobs that count */

	pthread_mutex_t lock; /* guards the rest */
	bool is_closing;
	struct ori_job_list posted;
	struct ori_lines *lines;
	struct ori_free_line *free;
};

/* stream_sync.c */

/* The first of them, before any stream waits. */
enum oriel_status ori_lines_open(struct ori_engine *engine);
/* Two words that are 0. */
enum oriel_status ori_line_open(struct ori_engine *engine, struct ori_line **line);
/* No stream and no graph has @line. */
void ori_line_close(struct ori_engine *engine, struct ori_line *line);
/* Of all lines. A stream may still write to them if not @is_over. */
void ori_lines_close(struct ori_engine *engine, bool is_over);
/* The three operations; *@has_begun: a failure came after the first of them. */
enum oriel_status ori_line_post(struct ori_engine *engine, struct ori_line *line, void *stream,
				bool *has_begun);

#endif
