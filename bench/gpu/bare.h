/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-made windows over cudaMalloc() memory, with all ranks in one process: they show what the
 * device code does and costs, without the host library. Ranks are assigned to the GPUs round-robin,
 * so two ranks also fit on one GPU. Used by oriel_rows.cu and tests/device.
 */
#ifndef BENCH_GPU_BARE_H
#define BENCH_GPU_BARE_H

#include <oriel/dev.h>

#include <cuda_runtime.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BARE_MAX 8u

#define CUDA_CHECK(call) bare_check(call, #call, __FILE__, __LINE__)

static inline void bare_die(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	exit(2);
}

/* Call it before any CUDA function. Returns the number of GPUs. */
static inline int bare_begin(void)
{
	int gpus = 0;
	cudaError_t error;

	/* A kernel loaded at its first launch would wait for one that spins. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	error = cudaGetDeviceCount(&gpus);
	if (error != cudaSuccess)
		bare_die("no GPU: %s", cudaGetErrorString(error));
	return gpus;
}

static inline void bare_check(cudaError_t error, const char *call, const char *file, int line)
{
	if (error != cudaSuccess)
		bare_die("%s:%d: %s: %s", file, line, call, cudaGetErrorString(error));
}

struct bare_attr {
	uint32_t ranks;
	uint32_t gpus;
	uint32_t signals;
	uint32_t barriers;
	uint32_t counters;
	uint32_t channels;
	uint64_t channel_bytes;
	uint64_t length; /* bytes of buffer 0 and of buffer 1 of each rank */
	uint64_t timeout_ns;
};

struct bare_rank {
	int gpu;
	cudaStream_t stream;
	char *buffer[2];
	void *owned[16];
	unsigned owns;
};

struct bare {
	struct bare_attr attr;
	struct bare_rank rank[BARE_MAX];
	struct oriel_dev_window window[BARE_MAX];
	struct oriel_dev_fault *health; /* one for all; pinned */
	struct oriel_dev_fault *fault;  /* [ranks]; pinned */
};

static inline void *bare_alloc(struct bare *b, uint32_t rank, size_t length)
{
	struct bare_rank *r = &b->rank[rank];
	void *memory = NULL;

	CUDA_CHECK(cudaSetDevice(r->gpu));
	CUDA_CHECK(cudaMalloc(&memory, length ? length : 1));
	CUDA_CHECK(cudaMemset(memory, 0, length ? length : 1));
	r->owned[r->owns++] = memory;
	return memory;
}

static inline void *bare_pinned(size_t length)
{
	void *memory = NULL;

	CUDA_CHECK(cudaHostAlloc(&memory, length, cudaHostAllocPortable | cudaHostAllocMapped));
	memset(memory, 0, length);
	return memory;
}

/* Maps the memory of the GPUs to each other; call it once. */
static inline void bare_enable_peers(uint32_t gpus)
{
	uint32_t i, k;

	for (i = 0; i < gpus; i++) {
		CUDA_CHECK(cudaSetDevice((int)i));
		for (k = 0; k < gpus; k++)
			if (i != k)
				CUDA_CHECK(cudaDeviceEnablePeerAccess((int)k, 0));
	}
}

static inline uint64_t bare_lines(uint64_t bytes)
{
	return (bytes + ORIEL_DEV_LINE - 1) / ORIEL_DEV_LINE * ORIEL_DEV_LINE;
}

/* The parts of a control segment, as oriel/dev/types.h has them; returns its length. */
static inline uint64_t bare_lay_out(const struct bare_attr *a, struct oriel_dev_window *w)
{
	uint64_t at;

	w->signal_stride = (uint32_t)bare_lines(a->signals * 8);
	w->barrier_stride = (uint32_t)bare_lines(a->barriers * 8);
	at = (uint64_t)a->ranks * w->signal_stride;
	w->arrivals_at = at;
	at += (uint64_t)a->ranks * w->barrier_stride;
	w->pairs_at = at;
	at += (uint64_t)a->ranks * w->barrier_stride;
	w->flat_at = at;
	at += (uint64_t)a->barriers * ORIEL_DEV_LINE;
	w->channels_at = at;
	at += (uint64_t)a->ranks * a->channels * sizeof(struct oriel_dev_channel);
	w->staging_at = bare_lines(at);
	return w->staging_at + (uint64_t)a->ranks * a->channels * a->channel_bytes;
}

static inline void bare_fill(struct bare *b, uint32_t rank, char **controls)
{
	const struct bare_attr *a = &b->attr;
	struct oriel_dev_window *w = &b->window[rank];
	struct oriel_dev_buffer table[2][BARE_MAX];
	struct oriel_dev_peer peers[BARE_MAX];
	void *memory;
	uint32_t i;

	memset(table, 0, sizeof(table));
	memset(peers, 0, sizeof(peers));
	for (i = 0; i < a->ranks; i++) {
		peers[i].control = controls[i];
		peers[i].path = i == rank ? ORIEL_PATH_SELF : ORIEL_PATH_MAPPED;
		table[0][i].base = b->rank[i].buffer[0];
		table[1][i].base = b->rank[i].buffer[1];
		table[0][i].length = table[1][i].length = a->length;
	}
	w->control = controls[rank];
	memory = bare_alloc(b, rank, sizeof(peers));
	CUDA_CHECK(cudaMemcpy(memory, peers, sizeof(peers), cudaMemcpyDefault));
	w->peers = (const struct oriel_dev_peer *)memory;
	memory = bare_alloc(b, rank, sizeof(table));
	for (i = 0; i < 2; i++)
		CUDA_CHECK(cudaMemcpy((char *)memory + i * a->ranks * sizeof(table[0][0]), table[i],
				      a->ranks * sizeof(table[0][0]), cudaMemcpyDefault));
	w->table = (const struct oriel_dev_buffer *)memory;
	for (i = 0; i < a->ranks; i++) {
		w->inline_peers[i].control = peers[i].control;
		w->inline_peers[i].signals = ori_dev_mapped_signal(w, peers[i].control, 0);
		w->inline_peers[i].mark = ORIEL_DEV_MARK + peers[i].path;
		w->inline_peers[i].rank = i;
		w->inline_peers[i].base = table[0][i].base;
		w->inline_peers[i].length = table[0][i].length;
		w->inline_wide |= 1u << i;
	}
	w->counter_words = (uint64_t *)bare_alloc(b, rank, 8ul * a->ranks * a->counters);
	w->signal_bases = (uint64_t *)bare_alloc(b, rank, 8ul * a->ranks * a->signals);
	w->slots = (struct oriel_dev_slot *)bare_alloc(b, rank, sizeof(*w->slots) * a->barriers);
	w->pair_epochs = (uint64_t *)bare_alloc(b, rank, 8ul * a->ranks * a->barriers);
	w->senders =
		(struct oriel_dev_sender *)bare_alloc(b, rank,
						      sizeof(*w->senders) * a->ranks * a->channels);
	w->receivers = (struct oriel_dev_receiver *)bare_alloc(b, rank,
							       sizeof(*w->receivers) * a->ranks *
								       a->channels);
}

static inline void bare_open(struct bare *b, const struct bare_attr *attr)
{
	char *controls[BARE_MAX];
	uint64_t length = 0;
	uint32_t i;

	memset(b, 0, sizeof(*b));
	b->attr = *attr;
	b->health = (struct oriel_dev_fault *)bare_pinned(sizeof(*b->health));
	b->fault = (struct oriel_dev_fault *)bare_pinned(sizeof(*b->fault) * attr->ranks);
	for (i = 0; i < attr->ranks; i++) {
		struct oriel_dev_window *w = &b->window[i];

		b->rank[i].gpu = (int)(i % attr->gpus);
		CUDA_CHECK(cudaSetDevice(b->rank[i].gpu));
		CUDA_CHECK(cudaStreamCreateWithFlags(&b->rank[i].stream, cudaStreamNonBlocking));
		w->magic = ORIEL_DEV_MAGIC;
		w->version = ORIEL_DEV_VERSION;
		w->size = sizeof(*w);
		w->number = 1;
		w->rank = i;
		w->ranks = attr->ranks;
		w->signals = attr->signals;
		w->barriers = attr->barriers;
		w->counters = attr->counters;
		w->channels = attr->channels;
		w->buffers = 2;
		w->spin = 1;
		w->channel_bytes = attr->channel_bytes;
		w->timeout_ns = attr->timeout_ns;
		w->fault = &b->fault[i];
		w->health = b->health;
		w->blame = b->health;
		length = bare_lay_out(attr, w);
		controls[i] = (char *)bare_alloc(b, i, length);
		b->rank[i].buffer[0] = (char *)bare_alloc(b, i, attr->length);
		b->rank[i].buffer[1] = (char *)bare_alloc(b, i, attr->length);
	}
	for (i = 0; i < attr->ranks; i++)
		bare_fill(b, i, controls);
}

static inline void bare_close(struct bare *b)
{
	uint32_t i, k;

	for (i = 0; i < b->attr.ranks; i++) {
		CUDA_CHECK(cudaSetDevice(b->rank[i].gpu));
		CUDA_CHECK(cudaDeviceSynchronize());
	}
	for (i = 0; i < b->attr.ranks; i++) {
		CUDA_CHECK(cudaSetDevice(b->rank[i].gpu));
		for (k = 0; k < b->rank[i].owns; k++)
			CUDA_CHECK(cudaFree(b->rank[i].owned[k]));
		CUDA_CHECK(cudaStreamDestroy(b->rank[i].stream));
	}
	CUDA_CHECK(cudaFreeHost(b->fault));
	CUDA_CHECK(cudaFreeHost(b->health));
}

/* Waits for the streams of all ranks; a broken communicator ends the program. */
static inline void bare_wait(struct bare *b, const char *what)
{
	uint32_t i;

	for (i = 0; i < b->attr.ranks; i++) {
		CUDA_CHECK(cudaSetDevice(b->rank[i].gpu));
		CUDA_CHECK(cudaStreamSynchronize(b->rank[i].stream));
	}
	if (b->health->state != ORIEL_DEV_FAULT_EMPTY)
		bare_die("%s: status %d, in operation %u, peer %u, id %u, expected %llu, seen %llu",
			 what, b->health->status, b->health->what, b->health->peer, b->health->id,
			 (unsigned long long)b->health->expected,
			 (unsigned long long)b->health->seen);
	for (i = 0; i < b->attr.ranks; i++)
		if (b->fault[i].state != ORIEL_DEV_FAULT_EMPTY)
			bare_die("%s: rank %u: arguments refused, status %d, operation %u", what, i,
				 b->fault[i].status, b->fault[i].what);
}

#endif
