/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of oriel/progress.h by the copy engines of a GPU. Jobs call them from the thread of the
 * communicator.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/detail/order.h>
#include <oriel/progress.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/comm.h"

#define COPIES_LANES 3u
/* Polls without an arrival between two queries of a stream, which report a failed GPU. */
#define COPIES_QUERY_EVERY 256u

/*
 * Streams that all copies of a communicator share. The streams of a process map to few hardware
 * queues (CUDA_DEVICE_MAX_CONNECTIONS), and a stream that waits for a job blocks the others in
 * its queue, copies of that very job among them. So there are only a few streams.
 */
struct ori_copy_streams {
	void *lanes[COPIES_LANES];
	struct ori_mem *words; /* [lanes] of a cache line: completed copies of the stream */

	pthread_mutex_t lock; /* guards begun: the streams store these counts in this order */
	uint64_t begun[COPIES_LANES];
};

struct oriel_copies {
	struct oriel_comm *comm;          /* borrowed */
	struct ori_copy_streams *streams; /* NULL without a GPU */
	struct ori_mem *memory;           /* NULL until oriel_copies_memory() */
	uint64_t last[COPIES_LANES];      /* awaited count; 0: none; or COPIES_WHOLE_STREAM */
	unsigned polls;
};

/* No count is known: the copies are done when the stream is empty. */
#define COPIES_WHOLE_STREAM UINT64_MAX

static uint64_t *copies_word(const struct ori_copy_streams *s, unsigned lane)
{
	return (uint64_t *)(void *)(s->words->address + lane * ORIEL_DEV_LINE);
}

static void streams_free(const struct ori_gpu *gpu, struct ori_copy_streams *s)
{
	unsigned i;

	for (i = 0; i < COPIES_LANES; i++)
		if (s->lanes[i])
			gpu->ops->close_stream(gpu, s->lanes[i]);
	ori_mem_unref_pinned(gpu, s->words);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static enum oriel_status streams_fill(const struct ori_gpu *gpu, struct ori_copy_streams *s)
{
	enum oriel_status status;
	unsigned i;

	status = ori_mem_alloc_pinned(gpu, (size_t)COPIES_LANES * ORIEL_DEV_LINE, &s->words);
	for (i = 0; i < COPIES_LANES && status == ORIEL_OK; i++)
		status = gpu->ops->open_stream(gpu, &s->lanes[i]);
	return status;
}

static void streams_close(struct oriel_comm *comm, void *streams)
{
	streams_free(comm->gpu, streams);
}

static enum oriel_status streams_open_locked(struct oriel_comm *comm, struct ori_attached *attached)
{
	struct ori_copy_streams *s = calloc(1, sizeof(*s));
	enum oriel_status status;

	if (!s)
		return ori_fail_nomem(sizeof(*s), "copies");
	pthread_mutex_init(&s->lock, NULL);
	status = streams_fill(comm->gpu, s);
	if (status != ORIEL_OK) {
		streams_free(comm->gpu, s);
		return status;
	}
	attached->object = s;
	attached->close = streams_close;
	return ORIEL_OK;
}

static enum oriel_status streams_get(struct oriel_comm *comm, struct ori_copy_streams **streams)
{
	struct ori_attached *attached = &comm->attached[ORI_ATTACHED_COPY_STREAMS];
	enum oriel_status status = ORIEL_OK;

	pthread_mutex_lock(&attached->lock);
	if (!attached->object)
		status = streams_open_locked(comm, attached);
	*streams = attached->object;
	pthread_mutex_unlock(&attached->lock);
	return status;
}

enum oriel_status oriel_copies_create(struct oriel_comm *comm, struct oriel_copies **out)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct oriel_copies *c;

	if (status == ORIEL_OK && !out)
		status = ori_fail_null(__func__, "copies");
	if (status != ORIEL_OK)
		return status;
	c = ori_handle_alloc(ORI_HANDLE_COPIES, sizeof(*c));
	if (!c)
		return ori_fail_nomem(sizeof(*c), "copies");
	c->comm = comm;
	if (comm->gpu)
		status = streams_get(comm, &c->streams);
	if (status != ORIEL_OK) {
		ori_handle_free(c);
		return status;
	}
	ori_handle_open(c, comm);
	*out = c;
	return ORIEL_OK;
}

/* ORIEL_AGAIN: the copies of the stream @lane have not completed. */
static enum oriel_status copies_poll(struct oriel_copies *c, unsigned lane)
{
	const struct ori_gpu *gpu = c->comm->gpu;
	enum oriel_status status;

	/* Acquire: pairs with the stream's write of the count behind the copy. */
	if (c->last[lane] != COPIES_WHOLE_STREAM &&
	    oriel_dev_load_acquire(copies_word(c->streams, lane)) >= c->last[lane])
		return ORIEL_OK;
	if (c->last[lane] != COPIES_WHOLE_STREAM && ++c->polls % COPIES_QUERY_EVERY)
		return ORIEL_AGAIN;
	status = gpu->ops->stream_query(gpu, c->streams->lanes[lane]);
	return c->last[lane] != COPIES_WHOLE_STREAM && status == ORIEL_OK ? ORIEL_AGAIN : status;
}

static enum oriel_status copies_test(struct oriel_copies *c)
{
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	for (i = 0; i < COPIES_LANES && status == ORIEL_OK; i++) {
		if (!c->last[i])
			continue;
		status = copies_poll(c, i);
		if (status == ORIEL_OK)
			c->last[i] = 0;
	}
	return status;
}

enum oriel_status oriel_copies_destroy(struct oriel_copies *c)
{
	uint64_t begun = ori_clock_ns();

	if (!ori_handle_shut(c, ORI_HANDLE_COPIES, __func__))
		return ori_handle_refused(c);
	while (copies_test(c) == ORIEL_AGAIN && ori_clock_ns() - begun < c->comm->timeout_ns)
		oriel_cpu_back_off(ori_clock_ns() - begun);
	ori_mem_unref_pinned(c->comm->gpu, c->memory);
	ori_handle_free(c);
	return ORIEL_OK;
}

enum oriel_status oriel_copies_memory(struct oriel_copies *c, size_t length, void **memory)
{
	enum oriel_status status = ori_handle_check(c, ORI_HANDLE_COPIES, __func__);

	if (status == ORIEL_OK && !memory)
		status = ori_fail_null(__func__, "memory");
	if (status != ORIEL_OK)
		return status;
	if (c->memory)
		return ori_fail(ORIEL_ERR_STATE, "these copies have their memory already");
	status = ori_mem_alloc_pinned(c->comm->gpu, length, &c->memory);
	if (status == ORIEL_OK)
		*memory = c->memory->address;
	return status;
}

/*
 * Without a driver that writes words (ORI_GPU_STREAM_FLAGS) the only test is whether the whole
 * stream is empty, which includes the copies of other objects.
 */
static enum oriel_status copies_begin(struct oriel_copies *c, unsigned lane, void *to,
				      const void *from, size_t length)
{
	const struct ori_gpu *gpu = c->comm->gpu;
	struct ori_copy_streams *s = c->streams;
	void *stream = s->lanes[lane];
	enum oriel_status status;

	/* The count is stored only once the driver has taken both operations. */
	c->last[lane] = COPIES_WHOLE_STREAM;
	if (!(gpu->flags & ORI_GPU_STREAM_FLAGS))
		return gpu->ops->stream_copy(gpu, stream, to, from, length);
	pthread_mutex_lock(&s->lock);
	status = gpu->ops->stream_copy_and_flag(gpu, stream, to, from, length, copies_word(s, lane),
						s->begun[lane] + 1);
	s->begun[lane] += status == ORIEL_OK;
	if (status == ORIEL_OK)
		c->last[lane] = s->begun[lane];
	pthread_mutex_unlock(&s->lock);
	return status;
}

enum oriel_status oriel_copies_add(struct oriel_copies *c, unsigned lane, void *to,
				   const void *from, size_t length)
{
	enum oriel_status status = ori_handle_check(c, ORI_HANDLE_COPIES, __func__);

	if (status == ORIEL_OK && length && (!to || !from))
		status = ori_fail_null(__func__, to ? "from" : "to");
	if (status != ORIEL_OK || !length)
		return status;
	if (!c->comm->gpu) {
		memcpy(to, from, length);
		return ORIEL_OK;
	}
	return copies_begin(c, lane % COPIES_LANES, to, from, length);
}

enum oriel_status oriel_copies_test(struct oriel_copies *c)
{
	enum oriel_status status = ori_handle_check(c, ORI_HANDLE_COPIES, __func__);

	return status == ORIEL_OK ? copies_test(c) : status;
}
