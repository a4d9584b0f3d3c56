/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver for machines without GPUs, for tests: its memory is files, its
 * copies are memcpy(), its only kernels are the library's. It refuses what the real one refuses
 * where the library could get that wrong, and counts what is left behind.
 *
 * FAKECUDA_DEVICES: how many GPUs there are (2). FAKECUDA_ORDER: their numbers in
 * the order in which this process sees them ("1,0"), maybe not all.
 * FAKECUDA_ISLANDS: the first of each group of GPUs that reach each other ("0,2").
 * FAKECUDA_MAJOR: their compute capability (9). FAKECUDA_PROCESSORS: multiprocessors (132).
 * FAKECUDA_PTX: of which the kernels were compiled (90): from 90 on they may come early.
 * FAKECUDA_DRIVER: its version (the one of the headers).
 * FAKECUDA_FABRIC: they are in an NVLink fabric, as "cluster,clique,state" (none).
 * FAKECUDA_IMEX: the domain whose handles this process makes and opens (1; 0: none).
 * FAKECUDA_WORDS: streams write and await words without a kernel (1).
 * FAKECUDA_DMABUF: memory of theirs is given to other devices (0).
 * FAKECUDA_ORDERING: who sees what adapters write to them without a flush (100, its GPU).
 * FAKECUDA_FLUSHES: that flush is there (1).
 * FAKECUDA_CONNECTIONS: queues of each GPU that its streams with threads share (0: no
 * limit): what waits in one holds up all in its queue, as with CUDA_DEVICE_MAX_CONNECTIONS.
 * FAKECUDA_COPY_CONNECTIONS: queues that the copies of those streams go through besides (0:
 * none), as with CUDA_DEVICE_MAX_COPY_CONNECTIONS: a copy whose stream has not come to it
 * yet holds up those of other streams behind it.
 * FAKECUDA_WAITS: 1: what makes or frees memory, pins, loads or instantiates first waits for
 * all that was posted to the streams of its GPU, whoever has posted it (0).
 * FAKECUDA_NVML: "none" for a management library that does not start; "pcie" for one
 * that knows no NVLink.
 */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

#define FAKE_DEVICES 16

/* Allocations, mappings, handles, pins and streams that are still there, in all. */
unsigned fakecuda_left(void);

/* Bytes of all copies so far. */
uint64_t fakecuda_copied(void);

/* Flushes of what adapters have written, so far; and who does them, NULL: nobody. */
unsigned fakecuda_flushes(void);
void fakecuda_on_flush(void (*flush)(void));

/* Would a kernel of @device reach @address? */
bool fakecuda_reaches(int device, const void *address);

/* What the calling thread has posted since it last asked. */
struct fakecuda_posted {
	unsigned copies, batches, kernels;
	unsigned early;  /* those of the kernels that may be launched before what is ahead ends */
	unsigned blocks; /* of those kernels */
};
struct fakecuda_posted fakecuda_posted(void);
/* How many kernels the library has. */
unsigned fakecuda_kernels(void);

/* The next calls of that kind fail: "cuMemMap", after @after that still work. */
void fakecuda_fail(const char *call, unsigned after);

/*
 * Streams made from now on have a thread of their own that does what is posted; those
 * made before, or after it was switched off, do it in the call. Captured they may be
 * both; a graph is done in the order in which it was captured.
 */
void fakecuda_async(bool is_async);
/* Wait until all is done that was posted to @stream. */
void fakecuda_finish(CUstream stream);
/* What graphs have dropped so far. */
unsigned fakecuda_dropped(void);

/* Between the files. */
enum fake_kind {
	FAKE_COPY,
	FAKE_SET,
	FAKE_KERNEL,
	FAKE_WRITE,
	FAKE_TELL,
	FAKE_AWAIT,
	FAKE_RECORD,
	FAKE_WAIT_EVENT,
	FAKE_LET_GO, /* of the graph that was launched */
};

typedef void fake_run(struct oriel_dev_window window, struct ori_kernel_call call);

struct fake_graph;

/* Something in a stream. */
struct fake_op {
	enum fake_kind kind;
	unsigned value; /* to write, to await, to set */
	CUdeviceptr to, from;
	size_t length;
	CUevent event;
	unsigned long long turn; /* of the event; what is told */
	fake_run *run;
	struct oriel_dev_window window;
	struct ori_kernel_call call;
	struct fake_graph *graph;
	CUstream stream;           /* of the queue that it is in */
	unsigned long long number; /* of all that were ever posted */
	unsigned long long place;  /* in a queue of copies; 0: in none */
	struct fake_op *next;
};

/* With FAKECUDA_WAITS: until all is done that has been posted to streams of @device. */
void fake_settle(int device);
CUresult fake_post(CUstream stream, const struct fake_op *op);
/* By this thread. */
void fake_count_copies(unsigned copies);
void fake_count_batch(void);
void fake_count_kernel(unsigned blocks);
void fake_count_early(void);
void fake_bar(bool is_barred); /* this thread from the driver */
/* In the right context, and as if every thread captured a stream. */
bool fake_may_wait(int device);

struct CUctx_st {
	int device; /* as this process numbers them */
};

bool fake_fails(const char *call);
void fake_hide(void *at, size_t length); /* from the CPU, where that can be */
void fake_show(void *at, size_t length);
int fake_number(const char *name, int fallback); /* of the environment */
int fake_physical(int device);
int fake_visible(int physical);  /* -1: hidden */
bool fake_reaches(int a, int b); /* physical */
bool fake_is_peer(int a, int b); /* has a context of @a been opened to that of @b? Physical. */
int fake_current(void);          /* device of the current context, -1: none */
void fake_count(int change);     /* of what is left behind */

#endif
