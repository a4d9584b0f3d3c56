/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of peer_rows.cu: threads of its process that share one GPU, either mapped to each other
 * or each on a virtual node of its own, with the software HCA between them.
 */
#ifndef BENCH_GPU_PEER_JOB_H
#define BENCH_GPU_PEER_JOB_H

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

#define PEERS_MAX 16
#define PEER_TIMEOUT_NS 20000000000ull /* of all waits, those of kernels too */

struct peer {
	unsigned rank, ranks;
	const char *path, *place; /* in rows */
	struct oriel_comm *comm;
	struct oriel_window *window; /* of the current row */
	struct oriel_dev_window dev;
	cudaStream_t stream;
	size_t length;
	char *target, *source; /* parts of the window, @length bytes each */
	char *bytes;           /* of the host, twice @length */
};

typedef void peer_function(struct peer *r);

struct peer_thread {
	pthread_t id;
	struct peer peer;
	struct oriel_local_job *job;
	peer_function *run;
	char node[16]; /* empty: that of all */
};

#define CUDA_MUST(r, call) peer_cuda(r, call, #call)
#define ORIEL_MUST(r, call) peer_oriel(r, call, #call)

/* Other ranks would wait for this one, so the process ends. */
static void peer_die(const struct peer *r, const char *format, ...)
{
	va_list list;

	fprintf(stderr, "peer_rows: rank %u of %u, %s: ", r->rank, r->ranks, r->path);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fprintf(stderr, "\n");
	exit(1);
}

static void peer_cuda(const struct peer *r, cudaError_t error, const char *call)
{
	if (error != cudaSuccess)
		peer_die(r, "%s: %s", call, cudaGetErrorString(error));
}

static void peer_oriel(const struct peer *r, enum oriel_status status, const char *call)
{
	if (status != ORIEL_OK)
		peer_die(r, "%s: %s: %s", call, oriel_status_name(status), oriel_last_error());
}

/* The first failure that kernels have reported of the current window. */
static const char *peer_fault(struct peer *r)
{
	struct oriel_dev_fault fault;

	return oriel_window_fault(r->window, &fault) == ORIEL_OK ? oriel_last_error()
								 : "no record of it";
}

static void *peer_pinned(struct peer *r, size_t length)
{
	void *memory;

	CUDA_MUST(r, cudaHostAlloc(&memory, length, cudaHostAllocPortable));
	memset(memory, 0, length);
	return memory;
}

static void peer_pattern(char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		at[i] = (char)(i * 131 + (i >> 8) * 29 + seed * 17 + 3);
}

/* Collective: a window whose signals and counters are 0, and whose bytes are unset. */
static void peer_window_open(struct peer *r)
{
	struct oriel_window_attr attr = {};
	void *memory;
	size_t length;

	attr.size = sizeof(attr);
	attr.length = 2 * r->length;
	attr.flags = ORIEL_WINDOW_DEVICE;
	attr.signals = 4;
	attr.barriers = 1;
	attr.counters = 4;
	attr.channels = 1;
	attr.channel_bytes = 4096;
	ORIEL_MUST(r, oriel_window_create(r->comm, &attr, &r->window));
	ORIEL_MUST(r, oriel_window_device(r->window, &r->dev));
	ORIEL_MUST(r, oriel_window_buffer(r->window, 0, &memory, &length));
	r->target = (char *)memory;
	r->source = r->target + r->length;
}

/* Collective. */
static void peer_window_close(struct peer *r)
{
	oriel_window_destroy(r->window);
	r->window = NULL;
}

static void peer_meet(struct peer *r)
{
	ORIEL_MUST(r, oriel_comm_barrier(r->comm));
}

static void peer_open(struct peer_thread *t, struct oriel_bootstrap *bootstrap)
{
	struct peer *r = &t->peer;
	struct oriel_comm_attr attr = {};

	CUDA_MUST(r, cudaSetDevice(0));
	CUDA_MUST(r, cudaFree(NULL));
	CUDA_MUST(r, cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
	r->bytes = (char *)malloc(2 * r->length);
	if (!r->bytes)
		peer_die(r, "no memory for %zu bytes", 2 * r->length);
	attr.size = sizeof(attr);
	attr.timeout_ns = PEER_TIMEOUT_NS;
	attr.node = t->node[0] ? t->node : NULL;
	attr.flags = ORIEL_COMM_GPU;
	ORIEL_MUST(r, oriel_bootstrap_open_local(t->job, r->rank, bootstrap));
	ORIEL_MUST(r, oriel_comm_create(bootstrap, &attr, &r->comm));
}

static void *peer_main(void *argument)
{
	struct peer_thread *t = (struct peer_thread *)argument;
	struct peer *r = &t->peer;
	struct oriel_bootstrap bootstrap;

	peer_open(t, &bootstrap);
	t->run(r);
	oriel_comm_destroy(r->comm);
	oriel_bootstrap_close(&bootstrap);
	CUDA_MUST(r, cudaStreamDestroy(r->stream));
	free(r->bytes);
	return NULL;
}

/* Before anything touches CUDA. */
static void peers_begin(void)
{
	/* Modules that are loaded at the first launch would wait for kernels that wait for it. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	/* And so would kernels of several ranks in one queue of one GPU. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	setenv("ORIEL_HCA", "soft", 1);
}

/* @run on each of @ranks, with windows of twice @length. */
static void peers_run(peer_function *run, unsigned ranks, size_t length, bool is_rdma)
{
	static struct peer_thread threads[PEERS_MAX];
	struct oriel_local_job *job;

	memset(threads, 0, sizeof(threads));
	ORIEL_MUST(&threads[0].peer, oriel_local_job_create(ranks, &job));
	for (unsigned i = 0; i < ranks; i++) {
		struct peer_thread *t = &threads[i];

		t->run = run;
		t->job = job;
		t->peer.rank = i;
		t->peer.ranks = ranks;
		t->peer.length = length;
		t->peer.path = is_rdma ? "rdma[soft]" : "mapped";
		t->peer.place = is_rdma ? "software HCA, one GPU" : "mapped, one GPU";
		if (is_rdma)
			snprintf(t->node, sizeof(t->node), "node %u", i);
		if (pthread_create(&t->id, NULL, peer_main, t))
			peer_die(&t->peer, "no thread");
	}
	for (unsigned i = 0; i < ranks; i++)
		pthread_join(threads[i].id, NULL);
	oriel_local_job_destroy(job);
}

#endif
