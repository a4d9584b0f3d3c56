/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of oriel/dev.h for a host thread: the same code, with a text. */
#include <oriel/dev.h>

#include "base/error.h"
#include "window/window.h"

/*
 * One operation of a host thread: a handle of its own, so that refused
 * arguments are told to the thread that passed them.
 */
struct host_call {
	struct oriel_dev_window device;
	struct oriel_dev_fault fault;
};

/* May the operation run now, on this thread? */
static enum oriel_status host_begin(struct host_call *call, const struct oriel_window *w,
				    const void *stream)
{
	if (stream)
		return ori_fail(ORIEL_ERR_INVALID,
				"window %u lies in host memory and takes no stream",
				w->device.number);
	call->device = w->device;
	call->device.fault = &call->fault;
	call->fault.state = ORIEL_DEV_FAULT_EMPTY;
	return ori_comm_check(w->comm);
}

/* What the device function returned, with its text where it failed. */
static enum oriel_status host_end(const struct host_call *call, const struct oriel_window *w,
				  int64_t result)
{
	enum oriel_status status;
	char text[192];

	if (result >= 0)
		return ORIEL_OK;
	if (call->fault.state == ORIEL_DEV_FAULT_FULL) {
		ori_window_fault_text(&call->device, &call->fault, text, sizeof(text));
		return ori_fail((enum oriel_status)call->fault.status, "%s", text);
	}
	status = ori_comm_check(w->comm);
	if (status != ORIEL_OK)
		return status;
	if (result == ORIEL_ERR_NO_PATH)
		return ori_fail(ORIEL_ERR_NO_PATH,
				"window %u is sparse and not all that it is to reach is connected",
				w->device.number);
	return ori_fail((enum oriel_status)result, "window %u: %s", w->device.number,
			oriel_status_text((enum oriel_status)result));
}

/* The same of something posted to @peer, of which a counter tells when it is done. */
static enum oriel_status host_posted(const struct host_call *call, const struct oriel_window *w,
				     unsigned peer, int64_t ticket)
{
	if (ticket == ORIEL_ERR_NO_PATH)
		return ori_fail(ORIEL_ERR_NO_PATH, "window %u: rank %u is not connected to rank %u",
				w->device.number, peer, w->device.rank);
	return host_end(call, w, ticket);
}

/* The same of what is to be done on return. */
static enum oriel_status host_done(const struct host_call *call, const struct oriel_window *w,
				   unsigned peer, int64_t ticket)
{
	if (ticket < 0)
		return host_posted(call, w, peer, ticket);
	return host_end(call, w,
			oriel_dev_wait_local(&call->device, oriel_dev_thread(), peer, ticket, 0));
}

enum oriel_status oriel_window_put(struct oriel_window *w, unsigned peer, uint64_t to,
				   const void *from, size_t length, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_move(
			w, ORI_KERNEL_PUT,
			&(struct ori_kernel_call){.peer = peer,
						  .at = to,
						  .memory = (void *)(uintptr_t)from,
						  .length = length},
			stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_done(&call, w, peer,
			 oriel_dev_put(&call.device, oriel_dev_thread(), peer, to, from, length));
}

enum oriel_status oriel_window_put_value(struct oriel_window *w, unsigned peer, uint64_t to,
					 uint64_t value, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_PUT_VALUE,
					      &(struct ori_kernel_call){.peer = peer,
									.at = to,
									.value = value},
					      0, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_done(&call, w, peer, oriel_dev_put_value(&call.device, peer, to, value));
}

enum oriel_status oriel_window_get(struct oriel_window *w, unsigned peer, uint64_t from, void *to,
				   size_t length, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_move(w, ORI_KERNEL_GET,
					      &(struct ori_kernel_call){.peer = peer,
									.at = from,
									.memory = to,
									.length = length},
					      stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_done(&call, w, peer,
			 oriel_dev_get(&call.device, oriel_dev_thread(), peer, from, to, length));
}

enum oriel_status oriel_window_put_signal(struct oriel_window *w, unsigned peer, uint64_t to,
					  const void *from, size_t length, uint32_t id,
					  uint64_t value, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_move(
			w, ORI_KERNEL_PUT_SIGNAL,
			&(struct ori_kernel_call){.peer = peer,
						  .at = to,
						  .memory = (void *)(uintptr_t)from,
						  .length = length,
						  .id = id,
						  .value = value},
			stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_done(&call, w, peer,
			 oriel_dev_put_signal(&call.device, oriel_dev_thread(), peer, to, from,
					      length, id, value));
}

enum oriel_status oriel_window_fetch_add(struct oriel_window *w, unsigned peer, uint64_t at,
					 uint64_t value, uint64_t *old, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_FETCH_ADD,
					      &(struct ori_kernel_call){.peer = peer,
									.at = at,
									.value = value,
									.memory = old},
					      0, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w, oriel_dev_fetch_add(&call.device, peer, at, value, old));
}

enum oriel_status oriel_window_signal(struct oriel_window *w, unsigned peer, uint32_t id,
				      enum oriel_signal_op op, uint64_t value, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_SIGNAL,
					      &(struct ori_kernel_call){.peer = peer,
									.id = id,
									.op = (uint32_t)op,
									.value = value},
					      0, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_done(&call, w, peer,
			 oriel_dev_signal(&call.device, oriel_dev_thread(), peer, id, op, value));
}

enum oriel_status oriel_window_signal_all(struct oriel_window *w, uint32_t id,
					  enum oriel_signal_op op, uint64_t value, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_SIGNAL_ALL,
					      &(struct ori_kernel_call){.id = id,
									.op = (uint32_t)op,
									.value = value},
					      0, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w,
			oriel_dev_signal_all(&call.device, oriel_dev_thread(), id, op, value));
}

enum oriel_status oriel_window_wait_signal(struct oriel_window *w, uint32_t id,
					   enum oriel_compare compare, uint64_t operand,
					   uint64_t timeout_ns, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_WAIT_SIGNAL,
					      &(struct ori_kernel_call){.id = id,
									.op = (uint32_t)compare,
									.value = operand},
					      timeout_ns, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w,
			oriel_dev_wait_signal(&call.device, oriel_dev_thread(), id, compare,
					      operand, timeout_ns));
}

enum oriel_status oriel_window_wait_signal_from(struct oriel_window *w, unsigned source,
						uint32_t id, enum oriel_compare compare,
						uint64_t operand, uint64_t timeout_ns, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_WAIT_FROM,
					      &(struct ori_kernel_call){.peer = source,
									.id = id,
									.op = (uint32_t)compare,
									.value = operand},
					      timeout_ns, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w,
			oriel_dev_wait_signal_from(&call.device, oriel_dev_thread(), source, id,
						   compare, operand, timeout_ns));
}

enum oriel_status oriel_window_wait_signal_next(struct oriel_window *w, unsigned source,
						uint32_t id, uint64_t count, uint64_t timeout_ns,
						void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_WAIT_NEXT,
					      &(struct ori_kernel_call){.peer = source,
									.id = id,
									.value = count},
					      timeout_ns, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w,
			oriel_dev_wait_signal_next(&call.device, oriel_dev_thread(), source, id,
						   count, timeout_ns));
}

enum oriel_status oriel_window_read_signal(struct oriel_window *w, uint32_t id, uint64_t *value,
					   void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_READ_SIGNAL,
					      &(struct ori_kernel_call){.id = id, .memory = value},
					      0, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w, oriel_dev_read_signal(&call.device, id, value));
}

enum oriel_status oriel_window_read_signal_from(struct oriel_window *w, unsigned source,
						uint32_t id, uint64_t *value, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_READ_FROM,
					      &(struct ori_kernel_call){.peer = source,
									.id = id,
									.memory = value},
					      0, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w, oriel_dev_read_signal_from(&call.device, source, id, value));
}

enum oriel_status oriel_window_barrier(struct oriel_window *w, uint32_t slot, uint64_t timeout_ns,
				       void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_BARRIER,
					      &(struct ori_kernel_call){.id = slot}, timeout_ns,
					      stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w,
			oriel_dev_barrier(&call.device, oriel_dev_thread(), slot, timeout_ns));
}

enum oriel_status oriel_window_send(struct oriel_window *w, unsigned peer, uint32_t channel,
				    const void *from, size_t length, uint64_t timeout_ns,
				    void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(
			w, ORI_KERNEL_SEND,
			&(struct ori_kernel_call){.peer = peer,
						  .id = channel,
						  .memory = (void *)(uintptr_t)from,
						  .length = length},
			timeout_ns, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w,
			oriel_dev_send(&call.device, oriel_dev_thread(), peer, channel, from,
				       length, timeout_ns));
}

enum oriel_status oriel_window_recv(struct oriel_window *w, unsigned peer, uint32_t channel,
				    void *to, size_t length, uint64_t timeout_ns, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_RECV,
					      &(struct ori_kernel_call){.peer = peer,
									.id = channel,
									.memory = to,
									.length = length},
					      timeout_ns, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w,
			oriel_dev_recv(&call.device, oriel_dev_thread(), peer, channel, to, length,
				       timeout_ns));
}

enum oriel_status oriel_window_drain(struct oriel_window *w, uint64_t timeout_ns, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_DRAIN, &(struct ori_kernel_call){0},
					      timeout_ns, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w, oriel_dev_drain(&call.device, oriel_dev_thread(), timeout_ns));
}

enum oriel_status oriel_window_flush(struct oriel_window *w, uint64_t timeout_ns, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_FLUSH, &(struct ori_kernel_call){0},
					      timeout_ns, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w, oriel_dev_flush(&call.device, oriel_dev_thread(), timeout_ns));
}

enum oriel_status oriel_window_put_counter(struct oriel_window *w, unsigned peer, uint64_t to,
					   const void *from, size_t length, uint32_t counter,
					   void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_move(
			w, ORI_KERNEL_PUT_COUNTER,
			&(struct ori_kernel_call){.peer = peer,
						  .at = to,
						  .memory = (void *)(uintptr_t)from,
						  .length = length,
						  .counter = counter},
			stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_posted(&call, w, peer,
			   oriel_dev_put_counter(&call.device, oriel_dev_thread(), peer, to, from,
						 length, counter));
}

enum oriel_status oriel_window_put_signal_counter(struct oriel_window *w, unsigned peer,
						  uint64_t to, const void *from, size_t length,
						  uint32_t id, uint64_t value, uint32_t counter,
						  void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_move(
			w, ORI_KERNEL_PUT_SIGNAL_COUNTER,
			&(struct ori_kernel_call){.peer = peer,
						  .at = to,
						  .memory = (void *)(uintptr_t)from,
						  .length = length,
						  .id = id,
						  .value = value,
						  .counter = counter},
			stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_posted(&call, w, peer,
			   oriel_dev_put_signal_counter(&call.device, oriel_dev_thread(), peer, to,
							from, length, id, value, counter));
}

enum oriel_status oriel_window_signal_counter(struct oriel_window *w, unsigned peer, uint32_t id,
					      uint64_t value, uint32_t counter, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_SIGNAL_COUNTER,
					      &(struct ori_kernel_call){.peer = peer,
									.id = id,
									.value = value,
									.counter = counter},
					      0, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_posted(&call, w, peer,
			   oriel_dev_signal_counter(&call.device, oriel_dev_thread(), peer, id,
						    value, counter));
}

enum oriel_status oriel_window_wait_counter(struct oriel_window *w, unsigned peer, uint32_t counter,
					    enum oriel_compare compare, uint64_t operand,
					    uint64_t timeout_ns, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_WAIT_COUNTER,
					      &(struct ori_kernel_call){.peer = peer,
									.counter = counter,
									.op = (uint32_t)compare,
									.value = operand},
					      timeout_ns, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w,
			oriel_dev_wait_counter(&call.device, oriel_dev_thread(), peer, counter,
					       compare, operand, timeout_ns));
}

enum oriel_status oriel_window_read_counter(struct oriel_window *w, unsigned peer, uint32_t counter,
					    uint64_t *value, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_READ_COUNTER,
					      &(struct ori_kernel_call){.peer = peer,
									.counter = counter,
									.memory = value},
					      0, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w, oriel_dev_read_counter(&call.device, peer, counter, value));
}

enum oriel_status oriel_window_reset_counter(struct oriel_window *w, unsigned peer,
					     uint32_t counter, void *stream)
{
	struct host_call call;
	enum oriel_status status;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_RESET_COUNTER,
					      &(struct ori_kernel_call){.peer = peer,
									.counter = counter},
					      0, stream);
	status = host_begin(&call, w, stream);
	if (status != ORIEL_OK)
		return status;
	return host_end(&call, w, oriel_dev_reset_counter(&call.device, peer, counter));
}

enum oriel_status oriel_window_reset_signals(struct oriel_window *w, void *stream)
{
	struct host_call call;
	enum oriel_status status;
	uint32_t source, id;

	if (w->gpu)
		return ori_window_stream_call(w, ORI_KERNEL_RESET, &(struct ori_kernel_call){0}, 0,
					      stream);
	status = host_begin(&call, w, stream);
	for (source = 0; source < w->device.ranks && status == ORIEL_OK; source++)
		for (id = 0; id < w->device.signals && status == ORIEL_OK; id++)
			status = oriel_dev_reset_signal(&call.device, source, id);
	return status;
}

static enum oriel_status host_check(const struct oriel_window *w, unsigned peer, uint32_t buffer)
{
	if (peer >= w->device.ranks)
		return ori_fail(ORIEL_ERR_RANGE, "rank %u of %u", peer, w->device.ranks);
	if (buffer >= w->shared)
		return ori_fail(ORIEL_ERR_RANGE, "buffer %u of %u", buffer, w->shared);
	return ORIEL_OK;
}

enum oriel_status oriel_window_buffer(const struct oriel_window *w, uint32_t buffer, void **address,
				      size_t *length)
{
	enum oriel_status status = host_check(w, w->device.rank, buffer);
	const struct oriel_dev_buffer *place;

	if (status != ORIEL_OK)
		return status;
	place = &w->table[(size_t)buffer * w->device.ranks + w->device.rank];
	*address = place->base;
	if (length)
		*length = place->length;
	return ORIEL_OK;
}

enum oriel_status oriel_window_peer_length(const struct oriel_window *w, unsigned peer,
					   uint32_t buffer, size_t *length)
{
	enum oriel_status status = host_check(w, peer, buffer);

	if (status == ORIEL_OK)
		*length = w->table[(size_t)buffer * w->device.ranks + peer].length;
	return status;
}

enum oriel_status oriel_window_peer_address(const struct oriel_window *w, unsigned peer,
					    uint64_t at, void **address)
{
	uint32_t buffer = (uint32_t)(at >> ORIEL_AT_BITS);
	uint64_t offset = at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
	enum oriel_status status = host_check(w, peer, buffer);
	const struct oriel_dev_buffer *place;

	if (status != ORIEL_OK)
		return status;
	place = &w->table[(size_t)buffer * w->device.ranks + peer];
	if (offset >= place->length)
		return ori_fail(ORIEL_ERR_RANGE, "byte %llu of %llu in buffer %u of rank %u",
				(unsigned long long)offset, (unsigned long long)place->length,
				buffer, peer);
	/* Not by the handle: its tables may lie on a GPU. */
	if (w->peers[peer].path == ORIEL_PATH_RDMA)
		return ori_fail(ORIEL_ERR_NO_PATH, "rank %u is not mapped by rank %u", peer,
				w->device.rank);
	*address = place->base + offset;
	return ORIEL_OK;
}
