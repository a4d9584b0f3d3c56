/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations in streams: copy engines move bytes, and a kernel does everything that has an
 * order or an atomic in it. A copy is complete at the peer before the next operation in the
 * stream begins, so a signal behind it covers it. A kernel moves few bytes with a signal, and
 * all bytes for a NIC, to which only kernels post. window_host.c calls it.
 */
#include <oriel/dev/atomic.h>
#include <oriel/dev/exchange.h>
#include <oriel/dev/gather.h>
#include <oriel/dev/reduction.h>

#include "base/error.h"
#include "comm/health.h"
#include "comm/links.h"
#include "window/window.h"
#include "window/window_pack.h"

#define STREAM_FEW 262144u /* bytes that one block copies sooner than an engine and a kernel */

/*
 * May the operation run? NULL in *@stream becomes the default stream. In @call the tables are those
 * in host memory, so that the host checks arguments with the functions of oriel/dev/detail/check.h,
 * as kernels do.
 */
static enum oriel_status stream_begin(struct ori_window_call *call, const struct oriel_window *w,
				      void **stream)
{
	ori_window_call_open(call, w);
	call->device.peers = w->peers;
	call->device.table = w->table;
	*stream = ori_gpu_stream(*stream);
	if (!w->comm->program.module)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"operations in streams: the library was built without nvcc");
	return ori_comm_check(w->comm);
}

/* The address of the @length bytes at @at of @peer, which exist. */
static char *stream_find(const struct ori_window_call *call, uint32_t peer, uint64_t at,
			 size_t length)
{
	struct oriel_dev_target target;

	ori_dev_locate(&call->device, true, peer, at, length, &target);
	return target.base;
}

/* Kernels load from @memory, or store to it. */
static enum oriel_status stream_check_local(const struct oriel_window *w, const void *memory)
{
	bool is_reached;
	enum oriel_status status = w->gpu->ops->can_access(w->gpu, memory, &is_reached);

	if (status == ORIEL_OK && !is_reached)
		return ori_fail(ORIEL_ERR_INVALID,
				"%p is host memory that is not pinned, or of another GPU, which "
				"kernels do not reach",
				memory);
	return status;
}

/* Kernels copy to and from @memory. */
static enum oriel_status stream_check_memory(const struct oriel_window *w, const void *memory,
					     uint64_t length)
{
	enum oriel_status status;

	if (!length)
		return ORIEL_OK;
	status = stream_check_local(w, memory);
	/* Memory that kernels post to a NIC has to be registered with it. */
	return status == ORIEL_OK ? ori_links_reach(w->comm, memory) : status;
}

/* A kernel writes a number of @bytes to @memory. */
static enum oriel_status stream_check_result(const struct oriel_window *w, const void *memory,
					     uint32_t bytes)
{
	if (!memory || (uintptr_t)memory & (bytes - 1))
		return ori_fail(ORIEL_ERR_INVALID,
				"the result at %p is no aligned word of %u bytes", memory, bytes);
	return stream_check_memory(w, memory, bytes);
}

static enum oriel_status stream_check_channel(const struct oriel_window *w,
					      const struct oriel_dev_window *d,
					      enum oriel_dev_what what,
					      const struct ori_kernel_call *c)
{
	enum oriel_status status = ori_dev_check_other(d, what, c->peer, c->id, d->channels);

	return status == ORIEL_OK ? stream_check_memory(w, c->memory, c->length) : status;
}

/* Checks a signal at or from all ranks, whose @op is at most @last. */
static enum oriel_status stream_check_signal(const struct oriel_dev_window *d,
					     enum oriel_dev_what what,
					     const struct ori_kernel_call *c, uint32_t last)
{
	enum oriel_status status = ori_dev_check_any(d, what, c->id, d->signals);

	return status == ORIEL_OK ? ori_dev_check_choice(d, what, c->op, last) : status;
}

static enum oriel_status stream_check_counter(const struct oriel_dev_window *d,
					      enum oriel_dev_what what,
					      const struct ori_kernel_call *c)
{
	enum oriel_status status = ori_dev_check_id(d, what, c->peer, c->counter, d->counters);

	return status == ORIEL_OK ? ori_dev_check_choice(d, what, c->op, ORIEL_LE) : status;
}

static enum oriel_status stream_check_atomic(const struct oriel_dev_window *d,
					     const struct ori_kernel_call *c)
{
	const struct oriel_dev_atomic atomic =
		ori_dev_atomic_of((enum oriel_dev_atomic_op)c->op, c->bytes, 0, 0);
	struct oriel_dev_target target;

	return ori_dev_atomic_check(d, c->peer, c->at, &atomic, &target);
}

/* Checks all arguments of @kernel but memory and what stream_move() checks. */
static enum oriel_status stream_check(const struct oriel_window *w,
				      const struct oriel_dev_window *d, enum ori_kernel kernel,
				      const struct ori_kernel_call *c)
{
	struct oriel_dev_target target;
	enum oriel_status status;

	switch (kernel) {
	case ORI_KERNEL_PUT_VALUE:
		return ori_dev_check_word(d, ORIEL_DEV_PUT_VALUE, c->peer, c->at, &target);
	case ORI_KERNEL_ATOMIC:
		return stream_check_atomic(d, c);
	case ORI_KERNEL_SIGNAL:
	case ORI_KERNEL_PUT_SIGNAL:
		return ori_dev_check_signal(d, c->peer, c->id, (enum oriel_signal_op)c->op);
	case ORI_KERNEL_SIGNAL_ALL:
		return stream_check_signal(d, ORIEL_DEV_SIGNAL, c, ORIEL_SIGNAL_SET);
	case ORI_KERNEL_SIGNAL_COUNTER:
	case ORI_KERNEL_PUT_SIGNAL_COUNTER:
		status = stream_check_counter(d, ORIEL_DEV_COUNTER, c);
		if (status != ORIEL_OK)
			return status;
		return ori_dev_check_id(d, ORIEL_DEV_SIGNAL, c->peer, c->id, d->signals);
	case ORI_KERNEL_PUT_COUNTER:
	case ORI_KERNEL_READ_COUNTER:
	case ORI_KERNEL_RESET_COUNTER:
		return stream_check_counter(d, ORIEL_DEV_COUNTER, c);
	case ORI_KERNEL_WAIT_COUNTER:
		return stream_check_counter(d, ORIEL_DEV_WAIT_COUNTER, c);
	case ORI_KERNEL_WAIT_SIGNAL:
	case ORI_KERNEL_READ_SIGNAL:
		return stream_check_signal(d, ORIEL_DEV_WAIT_SIGNAL, c, ORIEL_LE);
	case ORI_KERNEL_WAIT_FROM:
	case ORI_KERNEL_READ_FROM:
		return ori_dev_check_wait_from(d, c->peer, c->id, (enum oriel_compare)c->op);
	case ORI_KERNEL_WAIT_NEXT:
		return ori_dev_check_id(d, ORIEL_DEV_WAIT_SIGNAL_NEXT, c->peer, c->id, d->signals);
	case ORI_KERNEL_BARRIER:
	case ORI_KERNEL_BARRIER_ARRIVE:
	case ORI_KERNEL_BARRIER_WAIT:
		return ori_dev_check_any(d, ORIEL_DEV_BARRIER, c->id, d->barriers);
	case ORI_KERNEL_BARRIER_PEER:
	case ORI_KERNEL_BARRIER_PEER_ARRIVE:
	case ORI_KERNEL_BARRIER_PEER_WAIT:
		return ori_dev_check_other(d, ORIEL_DEV_BARRIER_PEER, c->peer, c->id, d->barriers);
	case ORI_KERNEL_SEND:
		return stream_check_channel(w, d, ORIEL_DEV_SEND, c);
	case ORI_KERNEL_RECV:
		return stream_check_channel(w, d, ORIEL_DEV_RECV, c);
	default:
		return ORIEL_OK;
	}
}

/* Does the operation move bytes of the caller's to an offset in a window, or from there? */
static bool stream_moves(enum ori_kernel kernel)
{
	return kernel == ORI_KERNEL_PUT || kernel == ORI_KERNEL_GET ||
	       kernel == ORI_KERNEL_PUT_SIGNAL || kernel == ORI_KERNEL_PUT_COUNTER ||
	       kernel == ORI_KERNEL_PUT_SIGNAL_COUNTER;
}

/* The default limit of the handle is the one that breaks the communicator when it passes. */
static enum oriel_status stream_launch(const struct oriel_window *w, enum ori_kernel kernel,
				       const struct ori_kernel_call *call, uint64_t timeout_ns,
				       void *stream)
{
	static const unsigned threads[] = {ORI_KERNELS(ORI_KERNEL_THREADS)};
	struct oriel_dev_window device = w->device;
	struct ori_kernel_call c = *call;
	void *arguments[] = {&device, &c};

	if (timeout_ns)
		device.timeout_ns = timeout_ns;
	return w->gpu->ops->launch(w->gpu, &w->comm->program, kernel, c.parts ? c.parts : 1,
				   threads[kernel], arguments, stream);
}

/* Does one kernel do all of it? */
static enum oriel_status stream_choose(const struct oriel_window *w, enum ori_kernel kernel,
				       const struct ori_kernel_call *c, bool *is_kernel)
{
	bool is_plain = kernel == ORI_KERNEL_PUT || kernel == ORI_KERNEL_GET;

	*is_kernel = true;
	if (!c->length)
		return ORIEL_OK;
	/* The kernel only names the memory, and the NIC reaches any that is registered. */
	if (w->peers[c->peer].path == ORIEL_PATH_RDMA)
		return ori_links_reach(w->comm, c->memory);
	*is_kernel = false;
	if (is_plain || c->length > STREAM_FEW)
		return ORIEL_OK;
	return w->gpu->ops->can_access(w->gpu, c->memory, is_kernel);
}

/* A copy engine moves the bytes; the kernel does the rest, with length 0. */
static enum oriel_status stream_copy(const struct oriel_window *w, enum ori_kernel kernel,
				     const struct ori_kernel_call *c, char *remote, void *stream)
{
	struct ori_kernel_call rest = *c;
	bool is_get = kernel == ORI_KERNEL_GET;
	enum oriel_status status;

	status = w->gpu->ops->stream_copy(w->gpu, stream, is_get ? c->memory : remote,
					  is_get ? remote : c->memory, c->length);
	if (status != ORIEL_OK || is_get || kernel == ORI_KERNEL_PUT)
		return status;
	rest.memory = NULL;
	rest.length = 0;
	return stream_launch(w, kernel, &rest, 0, stream);
}

static enum oriel_status stream_move(const struct ori_window_call *call,
				     const struct oriel_window *w, enum ori_kernel kernel,
				     const struct ori_kernel_call *c, void *stream)
{
	enum oriel_dev_what what = kernel == ORI_KERNEL_GET ? ORIEL_DEV_GET : ORIEL_DEV_PUT;
	bool is_plain = kernel == ORI_KERNEL_PUT || kernel == ORI_KERNEL_GET;
	struct oriel_dev_target remote;
	enum oriel_status status;
	bool is_kernel = false;

	status = ori_dev_check_range(&call->device, what, c->peer, c->at, c->length, &remote);
	if (status == ORIEL_OK)
		status = stream_choose(w, kernel, c, &is_kernel);
	if (status != ORIEL_OK || (is_plain && !c->length))
		return status;
	return is_kernel ? stream_launch(w, kernel, c, 0, stream)
			 : stream_copy(w, kernel, c, remote.base, stream);
}

enum oriel_status ori_window_stream_call(struct oriel_window *w, enum ori_kernel kernel,
					 const struct ori_kernel_call *c, uint64_t timeout_ns,
					 void *stream)
{
	struct ori_window_call call;
	enum oriel_status status;

	if (stream_moves(kernel) && c->length && !c->memory)
		return ori_window_host_null(w, kernel, c->op);
	status = stream_begin(&call, w, &stream);
	if (status == ORIEL_OK)
		status = stream_check(w, &call.device, kernel, c);
	if (status == ORIEL_OK && ori_pack_has_result(kernel, c))
		status = stream_check_result(w, c->memory, c->bytes ? c->bytes : 8);
	if (status == ORIEL_OK)
		status = stream_moves(kernel) ? stream_move(&call, w, kernel, c, stream)
					      : stream_launch(w, kernel, c, timeout_ns, stream);
	return status;
}

/*
 * Checks the range of each rank that gets bytes, which an engine must reach, before the first copy
 * is posted: what is in a stream cannot be taken back.
 */
static enum oriel_status stream_check_each(const struct ori_window_call *call,
					   const struct oriel_window *w,
					   const struct ori_window_put *put)
{
	enum oriel_status status = ORIEL_OK;
	struct oriel_dev_target remote;
	uint32_t i;

	for (i = 0; i < w->device.ranks && !put->table && status == ORIEL_OK; i++)
		if (!put->is_domain || w->peers[i].path != ORIEL_PATH_RDMA)
			status = ori_dev_check_range(&call->device, ORIEL_DEV_PUT, i, put->to,
						     put->length, &remote);
	for (i = 0; i < w->device.ranks && status == ORIEL_OK; i++)
		if (!put->table && !put->is_domain && w->peers[i].path == ORIEL_PATH_RDMA)
			status = ori_fail(ORIEL_ERR_UNSUPPORTED,
					  "window %u: copy engines do not reach rank %u: the forms "
					  "for the domain leave it out",
					  ORIEL_DEV_WINDOW_NUMBER(w->device.number), i);
	return status;
}

/* The address to which the bytes of @peer go; NULL: it gets none. The arguments are checked. */
static char *stream_target(const struct ori_window_call *call, const struct oriel_window *w,
			   const struct ori_window_put *put, uint32_t peer)
{
	if (put->table)
		return put->table[peer];
	if (w->peers[peer].path == ORIEL_PATH_RDMA)
		return NULL;
	return stream_find(call, peer, put->to, put->length);
}

/* Copies in the lane run beside later operations in @stream, until the join. */
static enum oriel_status stream_fork(struct oriel_window *w, void *stream)
{
	enum oriel_status status = ORIEL_OK;

	if (!w->lane.fork_event)
		status = w->gpu->ops->open_side_stream(w->gpu, &w->lane);
	return status == ORIEL_OK ? w->gpu->ops->fork(w->gpu, &w->lane, stream) : status;
}

/*
 * Few bytes each, in as few calls of the driver as possible, also this rank's own. ORIEL_AGAIN:
 * not in this stream.
 */
static enum oriel_status stream_put_batches(const struct ori_window_call *call,
					    const struct oriel_window *w,
					    const struct ori_window_put *put, void *stream)
{
	uint32_t ranks = w->device.ranks, count = 0, i, peer;
	enum oriel_status status = ORIEL_OK;
	const void *sources[ORI_GPU_BATCH];
	void *targets[ORI_GPU_BATCH];
	const char *source;
	char *remote;

	for (i = 0; i < ranks && status == ORIEL_OK; i++) {
		peer = (w->device.rank + i) % ranks;
		source = put->from + peer * put->stride;
		remote = stream_target(call, w, put, peer);
		if (remote && remote != source) {
			sources[count] = source;
			targets[count++] = remote;
		}
		if (!count || (count < ORI_GPU_BATCH && i + 1 < ranks))
			continue;
		status = w->gpu->ops->stream_copy_batch(w->gpu, stream, targets, sources,
							put->length, count);
		count = 0;
	}
	return status;
}

/*
 * To one peer after the other, each rank beginning at another one: three H200s that each GPU
 * writes to at once get 235 GB/s of it together, one after the other 383. The copy to this rank
 * itself runs beside that.
 */
enum oriel_status ori_window_stream_put_each(struct oriel_window *w,
					     const struct ori_window_put *put, void *stream)
{
	const struct ori_gpu_ops *ops = w->gpu->ops;
	const char *mine = put->from + w->device.rank * put->stride;
	uint32_t ranks = w->device.ranks, i, peer;
	enum oriel_status status, joined;
	struct ori_window_call call;
	char *own, *remote;

	status = stream_begin(&call, w, &stream);
	if (status == ORIEL_OK)
		status = stream_check_each(&call, w, put);
	if (status != ORIEL_OK || !put->length)
		return status;
	if (put->length <= w->batch) {
		status = stream_put_batches(&call, w, put, stream);
		if (status != ORIEL_AGAIN)
			return status;
		status = ORIEL_OK;
	}
	own = stream_target(&call, w, put, w->device.rank);
	if (!own)
		own = (char *)(uintptr_t)mine;
	if (own != mine)
		status = stream_fork(w, stream);
	for (i = 1; i < ranks && status == ORIEL_OK; i++) {
		peer = (w->device.rank + i) % ranks;
		remote = stream_target(&call, w, put, peer);
		if (remote)
			status = ops->stream_copy(w->gpu, stream, remote,
						  put->from + peer * put->stride, put->length);
	}
	if (own == mine || !w->lane.fork_event)
		return status;
	if (status == ORIEL_OK)
		status = ops->stream_copy(w->gpu, w->lane.stream, own, mine, put->length);
	/*
	 * Also after a failure: a capture must not end with a stream that has not been joined.
	 */
	joined = ops->join(w->gpu, &w->lane, stream);
	return status == ORIEL_OK ? joined : status;
}

static bool stream_reduces(enum ori_kernel kernel)
{
	return kernel == ORI_KERNEL_REDUCE_LINES || kernel == ORI_KERNEL_REDUCE_STAGED;
}

/* Bytes of the elements of a reduction, which has been checked. */
static uint64_t stream_bytes(const struct ori_kernel_call *c)
{
	return c->length * ori_dev_type_size(c->reduction.type);
}

/* Bytes that @kernel leaves in a result as far as the host knows, and those of the staging. */
static uint64_t stream_result(const struct oriel_window *w, enum ori_kernel kernel,
			      const struct ori_kernel_call *c)
{
	/* Only that of owners is found by its offset. */
	if (stream_reduces(kernel))
		return c->op ? stream_bytes(c) : 0;
	if (kernel == ORI_KERNEL_EXCHANGE)
		return 0;
	return kernel == ORI_KERNEL_BROADCAST ? c->length : w->device.ranks * c->length;
}

static uint64_t stream_staging(const struct oriel_window *w, enum ori_kernel kernel,
			       const struct ori_kernel_call *c)
{
	if (kernel == ORI_KERNEL_REDUCE_STAGED)
		return oriel_dev_reduce_staging(w->device.ranks, c->parts, c->gather.slot);
	if (kernel == ORI_KERNEL_GATHER_LINES || kernel == ORI_KERNEL_REDUCE_LINES)
		return oriel_dev_gather_staging(w->device.ranks, c->parts, c->gather.slot);
	return kernel == ORI_KERNEL_EXCHANGE ? oriel_dev_exchange_staging(w->device.ranks, c->parts)
					     : 0;
}

/* Checks the bytes to send; a broadcast has some at its root alone. */
static enum oriel_status stream_check_sent(const struct oriel_window *w,
					   const struct oriel_dev_window *d, enum ori_kernel kernel,
					   const struct ori_kernel_call *c)
{
	enum oriel_status status;

	if (kernel == ORI_KERNEL_BROADCAST && c->peer != w->device.rank)
		return ori_dev_check_id(d, ORIEL_DEV_PUT, c->peer, 0, 1);
	if (stream_reduces(kernel) && !c->op) {
		status = stream_check_memory(w, c->gather.result, c->length);
		if (status != ORIEL_OK)
			return status;
	}
	if (kernel != ORI_KERNEL_EXCHANGE)
		return stream_check_memory(w, c->memory, c->length);
	status = stream_check_result(w, c->layout, 8);
	return status == ORIEL_OK && c->memory ? stream_check_memory(w, c->memory, 1) : status;
}

/* The arguments that only reductions have. */
static enum oriel_status stream_check_reduce(const struct oriel_window *w,
					     const struct oriel_dev_window *d,
					     enum ori_kernel kernel,
					     const struct ori_kernel_call *c)
{
	struct oriel_dev_fold fold;
	enum oriel_status status = ori_dev_reduce_check(d, &c->reduction, &fold);

	if (status == ORIEL_OK && c->length >> 60)
		status = ori_fail(ORIEL_ERR_RANGE, "window %u: reduction of %llu elements",
				  ORIEL_DEV_WINDOW_NUMBER(w->device.number),
				  (unsigned long long)c->length);
	if (status == ORIEL_OK && kernel == ORI_KERNEL_REDUCE_LINES &&
	    oriel_dev_gather_slot(c->gather.lines, stream_bytes(c), c->parts) > c->gather.slot)
		status = ori_fail(ORIEL_ERR_RANGE,
				  "window %u: reduction of %llu bytes in %u parts: slots of %llu "
				  "bytes",
				  ORIEL_DEV_WINDOW_NUMBER(w->device.number),
				  (unsigned long long)stream_bytes(c), c->parts,
				  (unsigned long long)c->gather.slot);
	return status;
}

/* The memory of the sums of blocks is loaded and stored in whole vectors. */
static enum oriel_status stream_check_sums(const struct oriel_window *w,
					   const struct oriel_dev_window *d, enum ori_kernel kernel,
					   const struct ori_kernel_call *c)
{
	const void *sums = kernel == ORI_KERNEL_REDUCE_BLOCK ? c->gather.result : c->memory;
	uint64_t stride = kernel == ORI_KERNEL_REDUCE_SUMS ? c->gather.stride : 0;
	uint32_t size = c->reduction.block, blocks = size ? (d->ranks - 1) / size + 1 : 1;

	if (((uintptr_t)sums | stride) & 15)
		return ori_fail(ORIEL_ERR_INVALID,
				"window %u: sums at %p, %llu bytes apart: they are aligned to 16",
				ORIEL_DEV_WINDOW_NUMBER(w->device.number), sums,
				(unsigned long long)stride);
	return ori_dev_check_choice(d, ORIEL_DEV_REDUCE, c->id, blocks - 1);
}

static bool stream_has_rows(enum ori_kernel kernel)
{
	return kernel == ORI_KERNEL_REDUCE_ROWS || kernel == ORI_KERNEL_REDUCE_BLOCK ||
	       kernel == ORI_KERNEL_REDUCE_SUMS;
}

/* A reduction of rows, or of sums, waits for no rank and moves no bytes to one. */
static enum oriel_status stream_check_rows(const struct oriel_window *w,
					   const struct oriel_dev_window *d, enum ori_kernel kernel,
					   const struct ori_kernel_call *c)
{
	enum oriel_status status = stream_check_reduce(w, d, kernel, c);

	if (status == ORIEL_OK && kernel != ORI_KERNEL_REDUCE_ROWS)
		status = stream_check_sums(w, d, kernel, c);
	if (status == ORIEL_OK && c->length)
		status = stream_check_local(w, c->memory);
	if (status == ORIEL_OK && c->length)
		status = stream_check_local(w, c->gather.result);
	return status;
}

/* Checks the signals and the ranges that all parts use. */
static enum oriel_status stream_check_gather(const struct oriel_window *w,
					     const struct oriel_dev_window *d,
					     enum ori_kernel kernel,
					     const struct ori_kernel_call *c)
{
	uint64_t result = stream_result(w, kernel, c), staging = stream_staging(w, kernel, c);
	enum oriel_status status = ORIEL_OK;
	struct oriel_dev_target target;
	uint32_t peer;

	if (stream_has_rows(kernel))
		return stream_check_rows(w, d, kernel, c);
	if (stream_reduces(kernel))
		status = stream_check_reduce(w, d, kernel, c);
	if (status == ORIEL_OK)
		status = ori_dev_check_any(d, ORIEL_DEV_SIGNAL, c->gather.id + 2 * c->parts - 1,
					   d->signals);
	if (status == ORIEL_OK && kernel == ORI_KERNEL_GATHER_LINES &&
	    oriel_dev_gather_slot(c->gather.lines, c->length, c->parts) > c->gather.slot)
		status =
			ori_fail(ORIEL_ERR_RANGE,
				 "window %u: gather of %llu bytes in %u parts: slots of %llu bytes",
				 ORIEL_DEV_WINDOW_NUMBER(w->device.number),
				 (unsigned long long)c->length, c->parts,
				 (unsigned long long)c->gather.slot);
	for (peer = 0; peer < d->ranks && status == ORIEL_OK; peer++) {
		status = ori_dev_check_range(d, ORIEL_DEV_PUT, peer, c->gather.to, result, &target);
		if (status == ORIEL_OK && staging)
			status = ori_dev_check_range(d, ORIEL_DEV_PUT_LL, peer, c->gather.staging,
						     staging, &target);
	}
	return status == ORIEL_OK ? stream_check_sent(w, d, kernel, c) : status;
}

enum oriel_status ori_window_stream_gather(struct oriel_window *w, enum ori_kernel kernel,
					   const struct ori_kernel_call *c, void *stream)
{
	struct ori_window_call call;
	enum oriel_status status = stream_begin(&call, w, &stream);

	if (status == ORIEL_OK)
		status = stream_check_gather(w, &call.device, kernel, c);
	if (status == ORIEL_OK && (c->length || kernel == ORI_KERNEL_EXCHANGE))
		status = stream_launch(w, kernel, c, 0, stream);
	return status;
}
