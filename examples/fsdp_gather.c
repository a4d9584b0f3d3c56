/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fully sharded parameters: every rank keeps a part of each layer. One thread gathers the layers
 * one after the other into two buffers in turn, ahead of the thread that computes. Prints a
 * timeline, and how much of the gathering the computation hides. fsdp_gather_gpu.cu is the same on
 * GPUs, as a CUDA graph.
 * usage: fsdp_gather [LAYERS]
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <oriel/oriel.h>

#include "fsdp_timeline.h"

#define BUFFERS 2u
#define LAYERS_MAX 256u
#define WIDTHS 4u

/* Parameters of a layer that one rank keeps: two of attention, two of a larger layer. */
static const size_t widths[WIDTHS] = {16384, 16384, 65536, 65537};

struct model {
	struct oriel_comm *comm;
	struct oriel_allgather *gathers[BUFFERS];
	void *buffers[BUFFERS];
	float *shard; /* of this rank, for the largest layer */
	struct layer layers[LAYERS_MAX];
	unsigned count, rank, ranks;
	double start;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned gathered, computed; /* layers */
	enum oriel_status status;    /* of the gathering thread */
};

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static float parameter(unsigned layer, size_t index)
{
	return (float)((layer * 7919u + index * 31u) % 1009u) / 1009.0f;
}

/* Compute this rank's part of @layer, as if it had been kept in memory. */
static size_t load_shard(struct model *m, unsigned layer)
{
	size_t width = widths[layer % WIDTHS], i;

	for (i = 0; i < width; i++)
		m->shard[i] = parameter(layer, m->rank * width + i);
	return width * sizeof(float);
}

static void notify(struct model *m, unsigned *count)
{
	pthread_mutex_lock(&m->lock);
	(*count)++;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

static enum oriel_status wait_for(struct model *m, const unsigned *count, unsigned least)
{
	enum oriel_status status;

	pthread_mutex_lock(&m->lock);
	while (*count < least && m->status == ORIEL_OK)
		pthread_cond_wait(&m->changed, &m->lock);
	status = m->status;
	pthread_mutex_unlock(&m->lock);
	return status;
}

static enum oriel_status gather_layer(struct model *m, unsigned layer)
{
	struct span *span = &m->layers[layer].gather;
	enum oriel_status status = ORIEL_OK;
	size_t bytes = load_shard(m, layer);

	/* Starting declares that the buffer's old content is no longer read. */
	if (layer >= BUFFERS)
		status = wait_for(m, &m->computed, layer - BUFFERS + 1);
	span->begin = now_us() - m->start;
	if (status == ORIEL_OK)
		status = oriel_allgather_run(m->gathers[layer % BUFFERS], m->shard, bytes);
	span->end = now_us() - m->start;
	return status;
}

static void *gather_all(void *argument)
{
	struct model *m = argument;
	enum oriel_status status = ORIEL_OK;
	unsigned layer;

	for (layer = 0; layer < m->count && status == ORIEL_OK; layer++) {
		status = gather_layer(m, layer);
		if (status == ORIEL_OK) {
			notify(m, &m->gathered);
			continue;
		}
		fprintf(stderr, "rank %u: layer %u: %s\n", m->rank, layer, oriel_last_error());
		pthread_mutex_lock(&m->lock);
		m->status = status;
		pthread_cond_broadcast(&m->changed);
		pthread_mutex_unlock(&m->lock);
	}
	return NULL;
}

/* Stands for a forward pass; returns the number of wrong parameters. */
static size_t compute_layer(struct model *m, unsigned layer)
{
	const float *all = m->buffers[layer % BUFFERS];
	size_t count = widths[layer % WIDTHS] * m->ranks, wrong = 0, i;
	struct span *span = &m->layers[layer].compute;
	double sum = 0;

	span->begin = now_us() - m->start;
	for (i = 0; i < count; i++) {
		sum += tanh(all[i] * 0.5 + sum * 1e-9);
		wrong += all[i] != parameter(layer, i);
	}
	span->end = now_us() - m->start;
	return sum > 0 ? wrong : count;
}

static enum oriel_status model_open(struct model *m)
{
	struct oriel_view view = {.size = sizeof(view), .kind = ORIEL_VIEW_BUFFER};
	enum oriel_status status = ORIEL_OK;
	size_t widest = 0;
	unsigned i;

	for (i = 0; i < WIDTHS; i++)
		widest = widths[i] > widest ? widths[i] : widest;
	m->shard = calloc(widest, sizeof(float));
	if (!m->shard)
		return ORIEL_ERR_NOMEM;
	view.length = widest * sizeof(float) * m->ranks;
	for (i = 0; i < BUFFERS && status == ORIEL_OK; i++) {
		status = oriel_memory_alloc(view.length, 0, &m->buffers[i]);
		view.buffer = m->buffers[i];
		if (status == ORIEL_OK)
			status = oriel_allgather_create(m->comm, &view, NULL, &m->gathers[i]);
	}
	return status;
}

static void model_close(struct model *m)
{
	unsigned i;

	for (i = 0; i < BUFFERS; i++) {
		oriel_allgather_destroy(m->gathers[i]);
		oriel_memory_free(m->buffers[i]);
	}
	free(m->shard);
}

static enum oriel_status model_run(struct model *m)
{
	enum oriel_status status = ORIEL_OK;
	size_t wrong = 0;
	pthread_t thread;
	unsigned layer;

	m->start = now_us();
	if (pthread_create(&thread, NULL, gather_all, m))
		return ORIEL_ERR_SYSTEM;
	for (layer = 0; layer < m->count && status == ORIEL_OK; layer++) {
		status = wait_for(m, &m->gathered, layer + 1);
		if (status == ORIEL_OK) {
			wrong += compute_layer(m, layer);
			notify(m, &m->computed);
		}
	}
	pthread_join(thread, NULL);
	if (status != ORIEL_OK)
		return status;
	if (m->rank == 0)
		timeline_print(m->layers, m->count);
	printf("rank %u of %u: %u layers, %zu parameters wrong\n", m->rank, m->ranks, m->count,
	       wrong);
	return wrong ? ORIEL_ERR_PROTOCOL : ORIEL_OK;
}

int main(int argc, char **argv)
{
	static struct model m = {.lock = PTHREAD_MUTEX_INITIALIZER,
				 .changed = PTHREAD_COND_INITIALIZER};
	enum oriel_status status;

	m.count = argc > 1 ? (unsigned)atoi(argv[1]) : 16;
	if (m.count < 1 || m.count > LAYERS_MAX) {
		fprintf(stderr, "usage: fsdp_gather [LAYERS], at most %u\n", LAYERS_MAX);
		return 2;
	}
	status = oriel_comm_create(NULL, NULL, &m.comm);
	if (status == ORIEL_OK) {
		m.rank = oriel_comm_rank(m.comm);
		m.ranks = oriel_comm_size(m.comm);
		status = model_open(&m);
	}
	if (status == ORIEL_OK)
		status = model_run(&m);
	else
		fprintf(stderr, "%s\n", oriel_last_error());
	model_close(&m);
	oriel_comm_destroy(m.comm);
	return status == ORIEL_OK ? 0 : 1;
}
