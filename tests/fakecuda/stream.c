/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events of the fake driver. */
#include "stream.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COPY_WORDS 4096u /* longer copies are done by memcpy() */

struct CUevent_st {
	atomic_uint refs;
	CUstream stream;                 /* where it was recorded */
	struct fake_graph *capture;      /* the stream's graph, while it is captured */
	unsigned long long turn;         /* of the last record */
	_Atomic unsigned long long done; /* records that streams have passed */
};

static atomic_ullong copied;

uint64_t fakecuda_copied(void)
{
	return atomic_load(&copied);
}

static void event_drop(CUevent event)
{
	if (atomic_fetch_sub(&event->refs, 1) == 1)
		free(event);
}

/* Copy aligned words at once: kernels may poll and change them. */
static void copy(CUdeviceptr to, CUdeviceptr from, size_t length)
{
	size_t i;

	if (length > COPY_WORDS || (to | from | length) % 8 != 0) {
		memcpy((void *)to, (const void *)from, length);
		return;
	}
	for (i = 0; i < length; i += 8)
		__atomic_store_n((uint64_t *)(to + i),
				 __atomic_load_n((const uint64_t *)(from + i), __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
}

void fake_rest(void)
{
	const struct timespec nap = {0, 20000};

	nanosleep(&nap, NULL);
}

void fake_do(struct fake_op *op)
{
	switch (op->kind) {
	case FAKE_COPY:
		copy(op->to, op->from, op->length);
		atomic_fetch_add(&copied, op->length);
		break;
	case FAKE_SET:
		memset((void *)op->to, (int)op->value, op->length);
		break;
	case FAKE_KERNEL:
		op->run(op->window, op->call);
		break;
	case FAKE_WRITE32:
		__atomic_store_n((uint32_t *)op->to, op->value, __ATOMIC_RELEASE);
		break;
	case FAKE_WRITE64:
		__atomic_store_n((uint64_t *)op->to, op->turn, __ATOMIC_RELEASE);
		break;
	case FAKE_AWAIT:
		while (__atomic_load_n((uint32_t *)op->to, __ATOMIC_ACQUIRE) != op->value)
			fake_rest();
		break;
	case FAKE_RECORD:
		atomic_store(&op->event->done, op->turn);
		event_drop(op->event);
		break;
	case FAKE_WAIT_EVENT:
		while (atomic_load(&op->event->done) < op->turn)
			fake_rest();
		event_drop(op->event);
		break;
	case FAKE_RELEASE:
		fake_graph_drop(op->graph);
		break;
	}
}

static struct CUstream_st defaults[FAKE_DEVICES];

static void defaults_open(void)
{
	for (int i = 0; i < FAKE_DEVICES; i++)
		defaults[i].device = i;
}

CUstream fake_stream(CUstream stream)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int device = fake_current();

	pthread_once(&once, defaults_open);
	return stream == CU_STREAM_LEGACY ? &defaults[device < 0 ? 0 : device] : stream;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
	struct CUstream_st *s;

	if (fake_current() < 0 || !(flags & CU_STREAM_NON_BLOCKING) || fake_fails("cuStreamCreate"))
		return CUDA_ERROR_INVALID_VALUE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->device = fake_current();
	fake_queue_take(s);
	fake_count(1);
	*stream = s;
	return CUDA_SUCCESS;
}

/*
 * The real driver does not wait; here the queued operations are done before the stream is
 * destroyed.
 */
CUresult cuStreamDestroy(CUstream s)
{
	fakecuda_finish(s);
	if (s->queue)
		fake_queue_drop(s->queue);
	free(s);
	fake_count(-1);
	return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	stream = fake_stream(stream);
	if (!fake_may_wait(stream->device) || stream->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	fakecuda_finish(stream);
	return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream s)
{
	bool is_done = true;

	s = fake_stream(s);
	if (!fake_may_wait(s->device) || s->capture || fake_fails("cuStreamQuery"))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (s->queue) {
		pthread_mutex_lock(&s->queue->lock);
		is_done = s->done == s->posted;
		pthread_mutex_unlock(&s->queue->lock);
	}
	return is_done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
	CUevent e;

	if (fake_current() < 0 || flags != CU_EVENT_DISABLE_TIMING || fake_fails("cuEventCreate"))
		return CUDA_ERROR_INVALID_VALUE;
	e = calloc(1, sizeof(*e));
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_store(&e->refs, 1);
	fake_count(1);
	*event = e;
	return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event)
{
	event_drop(event);
	fake_count(-1);
	return CUDA_SUCCESS;
}

/* Within a graph the order of posting is the order of the graph: there is nothing to record. */
CUresult cuEventRecord(CUevent event, CUstream stream)
{
	struct fake_op op = {.kind = FAKE_RECORD, .event = event};

	stream = fake_stream(stream);
	if (!fake_may_wait(stream->device) || fake_fails("cuEventRecord"))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	event->stream = stream;
	event->capture = stream->capture;
	if (stream->capture)
		return CUDA_SUCCESS;
	op.turn = ++event->turn;
	atomic_fetch_add(&event->refs, 1);
	return fake_post(stream, &op);
}

CUresult cuEventQuery(CUevent event)
{
	if (fake_current() < 0 || event->capture || fake_fails("cuEventQuery"))
		return CUDA_ERROR_INVALID_VALUE;
	return atomic_load(&event->done) < event->turn ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/*
 * A wait for an event that was never recorded ends at once; a graph cannot wait for an event
 * outside it.
 */
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	struct fake_op op = {.kind = FAKE_WAIT_EVENT, .event = event, .turn = event->turn};

	stream = fake_stream(stream);
	if (!fake_may_wait(stream->device) || flags || !event->stream || event->stream == stream ||
	    fake_fails("cuStreamWaitEvent"))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->capture && stream->capture != event->capture)
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	if (event->capture) {
		/* The second stream of a capture is joined again, and is no longer captured. */
		if (stream == event->capture->begun)
			event->stream->capture = NULL;
		else
			stream->capture = event->capture;
		return CUDA_SUCCESS;
	}
	atomic_fetch_add(&event->refs, 1);
	return fake_post(stream, &op);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t length, CUstream stream)
{
	struct fake_op op = {.kind = FAKE_COPY, .to = to, .from = from, .length = length};

	stream = fake_stream(stream);
	if (!fake_may_wait(stream->device) || fake_fails("cuMemcpyAsync"))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	fake_count_copies(1);
	return fake_post(stream, &op);
}

#if CUDA_VERSION >= 12080

/* Do the last copy first, since no caller may rely on an order. No copy is captured or empty. */
#if CUDA_VERSION >= 13000
CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *lengths, size_t count,
			    CUmemcpyAttributes *attributes, size_t *first, size_t kinds,
			    CUstream stream)
#else
CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *lengths, size_t count,
			    CUmemcpyAttributes *attributes, size_t *first, size_t kinds,
			    size_t *failed, CUstream stream)
#endif
{
	struct fake_op op = {.kind = FAKE_COPY};
	CUresult result = CUDA_SUCCESS;

#if CUDA_VERSION < 13000
	if (!failed)
		return CUDA_ERROR_INVALID_VALUE;
#endif
	/* "Must not be legacy NULL stream" (cuda.h) */
	if (stream == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fake_may_wait(stream->device) || stream->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!count || kinds != 1 || *first ||
	    attributes->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
	    fake_fails("cuMemcpyBatchAsync"))
		return CUDA_ERROR_INVALID_VALUE;
	fake_count_batch();
	fake_count_copies((unsigned)count);
	while (count-- > 0 && result == CUDA_SUCCESS) {
		op.to = to[count];
		op.from = from[count];
		op.length = lengths[count];
		result = op.length ? fake_post(stream, &op) : CUDA_ERROR_INVALID_VALUE;
	}
	return result;
}

#endif

/* The copy is done on return, whatever streams do. */
static CUresult copy_now(CUdeviceptr to, CUdeviceptr from, size_t length, CUdeviceptr device)
{
	if (fake_current() < 0 || !fakecuda_reaches(fake_current(), (void *)device))
		return CUDA_ERROR_INVALID_VALUE;
	copy(to, from, length);
	return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t length)
{
	return copy_now(to, (CUdeviceptr)from, length, to);
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t length)
{
	return copy_now((CUdeviceptr)to, from, length, from);
}

CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t length, CUstream stream)
{
	struct fake_op op = {.kind = FAKE_SET, .to = at, .value = value, .length = length};

	stream = fake_stream(stream);
	if (!fake_may_wait(stream->device))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return fake_post(stream, &op);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
	struct fake_op op = {.kind = FAKE_WRITE32, .to = at, .value = value};

	stream = fake_stream(stream);
	if (!fake_may_wait(stream->device) || flags || at % 4 ||
	    !fakecuda_reaches(stream->device, (void *)at) || fake_fails("cuStreamWriteValue32"))
		return CUDA_ERROR_INVALID_VALUE;
	return fake_post(stream, &op);
}

/* The address must be in pinned memory. */
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags)
{
	struct fake_op op = {.kind = FAKE_WRITE64, .to = at, .turn = value};

	stream = fake_stream(stream);
	if (!fake_may_wait(stream->device) || flags || at % 8 ||
	    !fakecuda_reaches(stream->device, (void *)at) || fake_fails("cuStreamWriteValue64"))
		return CUDA_ERROR_INVALID_VALUE;
	return fake_post(stream, &op);
}

static atomic_uint flushes;
static void (*_Atomic on_flush)(void);

void fakecuda_on_flush(void (*flush)(void))
{
	atomic_store(&on_flush, flush);
}

unsigned fakecuda_flushes(void)
{
	return atomic_load(&flushes);
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
				    CUflushGPUDirectRDMAWritesScope scope)
{
	void (*flush)(void) = atomic_load(&on_flush);

	if (fake_current() < 0 || target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
	    scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER ||
	    fake_fails("cuFlushGPUDirectRDMAWrites"))
		return CUDA_ERROR_INVALID_VALUE;
	if (flush)
		flush();
	atomic_fetch_add(&flushes, 1);
	return CUDA_SUCCESS;
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
	struct fake_op op = {.kind = FAKE_AWAIT, .to = at, .value = value};

	stream = fake_stream(stream);
	if (!fake_may_wait(stream->device) ||
	    flags != (CU_STREAM_WAIT_VALUE_EQ | CU_STREAM_WAIT_VALUE_FLUSH) || at % 4 ||
	    !fakecuda_reaches(stream->device, (void *)at) || fake_fails("cuStreamWaitValue32"))
		return CUDA_ERROR_INVALID_VALUE;
	return fake_post(stream, &op);
}
