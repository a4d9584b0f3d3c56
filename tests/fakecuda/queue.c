/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of the fake driver: operations that were posted to streams with threads, and waits for
 * them.
 */
#include <stdlib.h>

#include "stream.h"

#define QUEUES 32u

static atomic_bool makes_async;
static atomic_ullong posted; /* operations so far; the count numbers them */

void fakecuda_async(bool is_async)
{
	atomic_store(&makes_async, is_async);
}

/* Copies go through a second queue as well, in the order in which they were posted. */
struct fake_copies {
	unsigned long long posted, done; /* guarded by the lock */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned streams[FAKE_DEVICES]; /* made so far */
	struct fake_copies of[FAKE_DEVICES][QUEUES];
} copies = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Streams take the queues of copies in turn. */
static struct fake_copies *copies_take(int device)
{
	unsigned limit = (unsigned)fake_number("FAKECUDA_COPY_CONNECTIONS", 0), number;

	if (!limit)
		return NULL;
	pthread_mutex_lock(&copies.lock);
	number = copies.streams[device]++;
	pthread_mutex_unlock(&copies.lock);
	return &copies.of[device][number % (limit < QUEUES ? limit : QUEUES)];
}

static void copies_post(struct fake_op *op)
{
	if (op->kind != FAKE_COPY || !op->stream->copies)
		return;
	pthread_mutex_lock(&copies.lock);
	op->place = ++op->stream->copies->posted;
	pthread_mutex_unlock(&copies.lock);
}

/* The stream has reached the copy; copies posted before it may still wait for theirs. */
static void copies_enter(const struct fake_op *op)
{
	if (!op->place)
		return;
	pthread_mutex_lock(&copies.lock);
	while (op->stream->copies->done + 1 < op->place)
		pthread_cond_wait(&copies.changed, &copies.lock);
	pthread_mutex_unlock(&copies.lock);
}

static void copies_leave(const struct fake_op *op)
{
	if (!op->place)
		return;
	pthread_mutex_lock(&copies.lock);
	op->stream->copies->done++;
	pthread_cond_broadcast(&copies.changed);
	pthread_mutex_unlock(&copies.lock);
}

static void *queue_main(void *argument)
{
	struct fake_queue *q = argument;
	struct fake_op *op;

	pthread_mutex_lock(&q->lock);
	for (;;) {
		while (!q->first && !q->is_closing)
			pthread_cond_wait(&q->changed, &q->lock);
		op = q->first;
		if (!op)
			break;
		pthread_mutex_unlock(&q->lock);
		copies_enter(op);
		fake_do(op);
		copies_leave(op);
		pthread_mutex_lock(&q->lock);
		q->first = op->next;
		if (!q->first)
			q->last = &q->first;
		op->stream->done++;
		free(op);
		pthread_cond_broadcast(&q->changed);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

static struct {
	pthread_mutex_t lock;
	struct fake_queue *all;
	struct fake_queue *shared[FAKE_DEVICES][QUEUES];
} queues = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct fake_queue *queue_open_locked(int device)
{
	struct fake_queue *q = calloc(1, sizeof(*q));

	if (!q)
		abort();
	q->device = device;
	q->last = &q->first;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->changed, NULL);
	if (pthread_create(&q->thread, NULL, queue_main, q) != 0)
		abort();
	q->next = queues.all;
	queues.all = q;
	return q;
}

/* Find the queue with the fewest streams. */
static struct fake_queue **queue_place_locked(int device, unsigned limit)
{
	struct fake_queue **places = queues.shared[device], **best = places;

	for (unsigned i = 1; i < limit && i < QUEUES && *best; i++)
		if (!places[i] || places[i]->streams < (*best)->streams)
			best = &places[i];
	return best;
}

/* The stream gets a queue of its own, or shares one if their number is limited. */
void fake_queue_take(CUstream s)
{
	unsigned limit = (unsigned)fake_number("FAKECUDA_CONNECTIONS", 0);
	struct fake_queue *q, **place;

	if (!atomic_load(&makes_async))
		return;
	pthread_mutex_lock(&queues.lock);
	place = limit ? queue_place_locked(s->device, limit) : NULL;
	q = place && *place ? *place : queue_open_locked(s->device);
	q->place = place;
	q->streams++;
	if (place)
		*place = q;
	pthread_mutex_unlock(&queues.lock);
	s->queue = q;
	s->copies = copies_take(s->device);
}

static void queue_remove_locked(struct fake_queue *q)
{
	struct fake_queue **link = &queues.all;

	while (*link != q)
		link = &(*link)->next;
	*link = q->next;
	if (q->place)
		*q->place = NULL;
}

void fake_queue_drop(struct fake_queue *q)
{
	bool is_last;

	pthread_mutex_lock(&queues.lock);
	is_last = --q->streams == 0;
	if (is_last)
		queue_remove_locked(q);
	pthread_mutex_unlock(&queues.lock);
	if (!is_last)
		return;
	pthread_mutex_lock(&q->lock);
	q->is_closing = true;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
	pthread_join(q->thread, NULL);
	pthread_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

CUresult fake_post(CUstream s, const struct fake_op *op)
{
	struct fake_op *own;

	if (s->capture) {
		fake_graph_add(s->capture, op);
		return CUDA_SUCCESS;
	}
	own = malloc(sizeof(*own));
	if (!own)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*own = *op;
	own->next = NULL;
	own->stream = s;
	if (!s->queue) {
		fake_do(own);
		free(own);
		return CUDA_SUCCESS;
	}
	pthread_mutex_lock(&s->queue->lock);
	own->number = atomic_fetch_add(&posted, 1) + 1;
	copies_post(own);
	*s->queue->last = own;
	s->queue->last = &own->next;
	s->posted++;
	pthread_cond_broadcast(&s->queue->changed);
	pthread_mutex_unlock(&s->queue->lock);
	return CUDA_SUCCESS;
}

void fakecuda_finish(CUstream s)
{
	unsigned long long last;

	if (!s->queue)
		return;
	pthread_mutex_lock(&s->queue->lock);
	last = s->posted;
	while (s->done < last)
		pthread_cond_wait(&s->queue->changed, &s->queue->lock);
	pthread_mutex_unlock(&s->queue->lock);
}

/* Whether an operation of @device that was posted up to @last is not done. */
static bool queues_are_at(int device, unsigned long long last)
{
	struct fake_queue *q;
	bool is_found = false;

	pthread_mutex_lock(&queues.lock);
	for (q = queues.all; q && !is_found; q = q->next) {
		if (q->device != device)
			continue;
		pthread_mutex_lock(&q->lock);
		is_found = q->first && q->first->number <= last;
		pthread_mutex_unlock(&q->lock);
	}
	pthread_mutex_unlock(&queues.lock);
	return is_found;
}

void fake_wait_device(int device)
{
	unsigned long long last = atomic_load(&posted);

	if (!fake_number("FAKECUDA_WAITS", 0))
		return;
	while (queues_are_at(device, last))
		fake_rest();
}
