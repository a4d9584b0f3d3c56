/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver for machines without GPUs, for tests: its memory is files, its
 * copies are memcpy(), its only kernels are the library's. It rejects invalid calls as the real
 * one does where the library could get them wrong, and counts objects that are not destroyed.
 * The library loads it by the name of the driver.
 *
 * FAKECUDA_DEVICES: number of GPUs (2). FAKECUDA_ORDER: the numbers of the GPUs that this
 * process sees, in its order ("1,0").
 * FAKECUDA_ISLANDS: the first of each group of GPUs that reach each other ("0,2").
 * FAKECUDA_APART: pairs of GPUs that do not reach each other ("0-2,1-3"), in an island.
 * FAKECUDA_NVLINKS: the first of each group of GPUs that NVLink joins (all); GPUs of two groups
 * have PCIe between them, which passes no atomics: cuDeviceGetP2PAttribute() says 0 for
 * NATIVE_ATOMIC_SUPPORTED (CUDA driver API, "Peer Context Memory Access").
 * FAKECUDA_MAJOR: their compute capability (9). FAKECUDA_PROCESSORS: multiprocessors (132).
 * FAKECUDA_PTX: the capability that the kernels were compiled for (90): from 90 on a kernel may
 * be launched before the operations ahead of it end.
 * FAKECUDA_DRIVER: its version (the one of the headers).
 * FAKECUDA_FABRIC: the NVLink fabric of the GPUs, as "cluster,clique,state" (none).
 * FAKECUDA_IMEX: the domain whose handles this process makes and opens (1; 0: none).
 * FAKECUDA_WORDS: streams write words and wait for words without a kernel (1).
 * FAKECUDA_DMABUF: memory of the GPUs can be exported to other devices (0).
 * FAKECUDA_ORDERING: the reader that sees writes of HCAs without a flush (100, its GPU).
 * FAKECUDA_FLUSHES: the driver has that flush (1).
 * FAKECUDA_CONNECTIONS: queues of each GPU that its streams with threads share (0: no
 * limit): an operation that waits blocks all behind it in its queue, as with
 * CUDA_DEVICE_MAX_CONNECTIONS.
 * FAKECUDA_COPY_CONNECTIONS: queues that the copies of those streams go through besides (0:
 * none), as with CUDA_DEVICE_MAX_COPY_CONNECTIONS: a copy that its stream has not reached
 * yet blocks the copies of other streams behind it.
 * FAKECUDA_WAITS: 1: a call that allocates, frees, pins, loads or instantiates first waits for
 * all operations that any thread has posted to the streams of its GPU (0).
 * FAKECUDA_NVML: "none" for a management library that does not start; "pcie" for one
 * without NVLink.
 */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

#define FAKE_DEVICES 16

/* Allocations, mappings, handles, pins and streams that exist, in all. */
unsigned fakecuda_left(void);

/* Bytes of all copies until now. */
uint64_t fakecuda_copied(void);

/* Flushes of writes by HCAs until now; and the function that does them, NULL: none. */
unsigned fakecuda_flushes(void);
void fakecuda_on_flush(void (*flush)(void));

/* Whether a kernel of @device reaches @address. */
bool fakecuda_reaches(int device, const void *address);

/* The operations that the calling thread has posted since its last call. */
struct fakecuda_posted {
	unsigned copies, batches, kernels;
	unsigned early;  /* kernels that may be launched before the operations ahead of them end */
	unsigned blocks; /* of the kernels */
};
struct fakecuda_posted fakecuda_posted(void);
/* The number of kernels that the library has: none if it was built without nvcc. */
unsigned fakecuda_kernels(void);

/* Let the next calls of @call fail, after @after that succeed: "cuMemMap". */
void fakecuda_fail(const char *call, unsigned after);

/*
 * Streams created from now on have a thread of their own that does the posted operations;
 * streams created before, or after it was switched off, do them in the call. Both kinds can be
 * captured; a graph does its operations in the order in which they were captured.
 */
void fakecuda_async(bool is_async);
/* Wait until all operations that were posted to @stream are done. */
void fakecuda_finish(CUstream stream);
/* User objects of graphs that have been released until now. */
unsigned fakecuda_dropped(void);

/* Shared by the files of the fake driver. */
enum fake_kind {
	FAKE_COPY,
	FAKE_SET,
	FAKE_KERNEL,
	FAKE_WRITE32,
	FAKE_WRITE64,
	FAKE_AWAIT,
	FAKE_RECORD,
	FAKE_WAIT_EVENT,
	FAKE_RELEASE, /* drops the reference to the graph that was launched */
};

typedef void fake_run(struct oriel_dev_window window, struct ori_kernel_call call);

struct fake_graph;

/* An operation in a stream. */
struct fake_op {
	enum fake_kind kind;
	unsigned value; /* to write, to wait for, or to set */
	CUdeviceptr to, from;
	size_t length;
	CUevent event;
	unsigned long long turn; /* of the event; the value of FAKE_WRITE64 */
	fake_run *run;
	struct oriel_dev_window window;
	struct ori_kernel_call call;
	struct fake_graph *graph;
	CUstream stream;           /* whose queue it is in */
	unsigned long long number; /* among all operations that were ever posted */
	unsigned long long place;  /* position in a queue of copies; 0: in none */
	struct fake_op *next;
};

/* With FAKECUDA_WAITS: wait until all operations posted to streams of @device are done. */
void fake_wait_device(int device);
CUresult fake_post(CUstream stream, const struct fake_op *op);
/* Each counts for the calling thread. */
void fake_count_copies(unsigned copies);
void fake_count_batch(void);
void fake_count_kernel(unsigned blocks);
void fake_count_early(void);
void fake_forbid_calls(bool is_forbidden); /* make the driver calls of this thread fail */
/*
 * Whether the thread may make a call that may wait: @device is current, and its capture mode is
 * relaxed. Another thread is assumed to capture a stream.
 */
bool fake_may_wait(int device);

struct CUctx_st {
	int device; /* as this process numbers them */
};

bool fake_fails(const char *call);
void fake_hide(void *at, size_t length); /* from the CPU, where that is possible */
void fake_show(void *at, size_t length);
int fake_number(const char *name, int fallback); /* a number in the environment */
int fake_physical(int device);
int fake_visible(int physical);  /* -1: hidden */
bool fake_reaches(int a, int b); /* physical */
bool fake_is_peer(int a, int b); /* whether a context of @a has access to that of @b; physical
				  * numbers */
int fake_current(void);          /* device of the current context, -1: none */
void fake_count(int change);     /* of existing objects */

#endif
