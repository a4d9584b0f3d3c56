/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of oriel/dev.h for a host thread: the same code, with a text. Programs call
 * them. window_on_stream.c has the same for windows on GPUs.
 */
#include <string.h>

#include "base/error.h"
#include "base/memory_probe.h"
#include "base/wait_text.h"
#include "comm/health.h"
#include "kernels/act.h"
#include "window/window.h"
#include "window/window_pack.h"

enum oriel_status ori_window_other_form(const struct oriel_window *w, const char *call)
{
	uint32_t number = ORIEL_DEV_WINDOW_NUMBER(w->device.number);

	if (w->gpu)
		return ori_fail(ORIEL_ERR_INVALID,
				"window %u lies in GPU memory: call %s_on_stream()", number, call);
	return ori_fail(ORIEL_ERR_INVALID, "window %u lies in host memory: call %.*s()", number,
			(int)(strlen(call) - strlen("_on_stream")), call);
}

/*
 * May the operation run now, on this thread? A communicator that is broken fails each call here,
 * with the text of its failure, before anything is posted.
 */
static enum oriel_status host_begin(struct ori_window_call *call, const struct oriel_window *w)
{
	ori_window_call_open(call, w);
	return ori_comm_check(w->comm);
}

/*
 * Does a NIC read or write the caller's memory, if the peer is reached by one? Received bytes and
 * results of atomics are stored by the calling thread itself.
 */
static inline bool host_names_memory(enum ori_kernel kernel)
{
	return kernel == ORI_KERNEL_PUT || kernel == ORI_KERNEL_GET ||
	       kernel == ORI_KERNEL_PUT_SIGNAL || kernel == ORI_KERNEL_PUT_COUNTER ||
	       kernel == ORI_KERNEL_PUT_SIGNAL_COUNTER || kernel == ORI_KERNEL_SEND;
}

/* Memory that the window holds is accessible. */
static bool host_is_of_window(const struct oriel_window *w, const struct ori_kernel_call *c)
{
	const struct oriel_dev_buffer *own = &w->table[w->device.rank];
	uint32_t i;

	for (i = 0; i < w->shared; i++, own += w->device.ranks) {
		/* An address below the base wraps round and is beyond every length. */
		uint64_t offset = (uint64_t)((uintptr_t)c->memory - (uintptr_t)own->base);

		if (offset < own->length && c->length <= own->length - offset)
			return true;
	}
	return false;
}

/*
 * A queue fails when its NIC finds memory that it may not access, so this check finds that
 * before anything is posted.
 */
static __attribute__((noinline)) enum oriel_status
host_check_memory(const struct oriel_window *w, enum ori_kernel kernel,
		  const struct ori_kernel_call *c)
{
	bool is_target = kernel == ORI_KERNEL_GET;

	if (c->peer >= w->device.ranks || w->peers[c->peer].path != ORIEL_PATH_RDMA ||
	    host_is_of_window(w, c))
		return ORIEL_OK;
	if (is_target ? ori_probe_looks_writable(c->memory, c->length)
		      : ori_probe_looks_readable(c->memory, c->length))
		return ORIEL_OK;
	return ori_window_host_no_access(w, kernel, c, is_target);
}

typedef enum oriel_status host_act(const struct ori_act *act, const struct ori_kernel_call *c);

/*
 * Runs an operation now, on this thread. Inlined in its caller, so that @act is, too, and takes the
 * fields of @c from registers.
 */
static inline __attribute__((always_inline)) enum oriel_status
host_run(const char *call_name, struct oriel_window *w, enum ori_kernel kernel, host_act *act,
	 const struct ori_kernel_call *c, uint64_t timeout_ns)
{
	struct ori_window_call call;
	const struct ori_act local = {&call.device, oriel_dev_thread(), 0, timeout_ns};
	enum oriel_status status = ori_window_check_host(w, call_name);

	if (status != ORIEL_OK)
		return status;
	/* @kernel is a constant here, so that most of these conditions cost nothing. */
	if (!c->memory && (c->length || ori_pack_has_result(kernel, c)))
		return ori_window_host_null(w, kernel, c->op);
	status = host_begin(&call, w);
	if (status == ORIEL_OK)
		status = ori_window_touch_by(w, kernel, c->peer);
	if (status == ORIEL_OK && host_names_memory(kernel) && w->device.rails)
		status = host_check_memory(w, kernel, c);
	if (status != ORIEL_OK)
		return status;
	status = act(&local, c);
	if (status != ORIEL_OK) {
		/* A copy, so that the code between does not need @c in memory. */
		const struct ori_kernel_call copy = *c;

		return ori_window_host_failed(&call, w, kernel, &copy, timeout_ns, status);
	}
	return ORIEL_OK;
}

/* In a stream these are done in its order; on this thread they are done on return. */
static inline enum oriel_status host_put_value(const struct ori_act *act,
					       const struct ori_kernel_call *c)
{
	struct oriel_dev_ticket ticket = {0, 0, 0};
	enum oriel_status posted = oriel_dev_put_value(act->w, c->peer, c->at, c->value, &ticket);

	return ori_act_done(act, posted, ticket);
}

static inline enum oriel_status host_signal(const struct ori_act *act,
					    const struct ori_kernel_call *c)
{
	struct oriel_dev_ticket ticket = {0, 0, 0};
	enum oriel_status posted = oriel_dev_signal(act->w, act->group, c->peer, c->id,
						    (enum oriel_signal_op)c->op, c->value, &ticket);

	return ori_act_done(act, posted, ticket);
}

enum oriel_status oriel_window_put(struct oriel_window *w, unsigned peer, uint64_t to,
				   const void *from, size_t length)
{
	const struct ori_kernel_call c = ori_pack_bytes(peer, to, from, length);

	return host_run(__func__, w, ORI_KERNEL_PUT, ori_act_put, &c, 0);
}

enum oriel_status oriel_window_put_value(struct oriel_window *w, unsigned peer, uint64_t to,
					 uint64_t value)
{
	const struct ori_kernel_call c = ori_pack_word(peer, to, value);

	return host_run(__func__, w, ORI_KERNEL_PUT_VALUE, host_put_value, &c, 0);
}

enum oriel_status oriel_window_get(struct oriel_window *w, unsigned peer, uint64_t from, void *to,
				   size_t length)
{
	const struct ori_kernel_call c = ori_pack_bytes(peer, from, to, length);

	return host_run(__func__, w, ORI_KERNEL_GET, ori_act_get, &c, 0);
}

enum oriel_status oriel_window_put_signal(struct oriel_window *w, unsigned peer, uint64_t to,
					  const void *from, size_t length, uint32_t id,
					  uint64_t value)
{
	const struct ori_kernel_call c = ori_pack_put_signal(peer, to, from, length, id, value, 0);

	return host_run(__func__, w, ORI_KERNEL_PUT_SIGNAL, ori_act_put_signal, &c, 0);
}

enum oriel_status oriel_window_fetch_add(struct oriel_window *w, unsigned peer, uint64_t at,
					 uint64_t value, uint64_t *old)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_ADD, 8, peer, at, 0, value, old);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_fetch_and(struct oriel_window *w, unsigned peer, uint64_t at,
					 uint64_t value, uint64_t *old)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_AND, 8, peer, at, 0, value, old);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_fetch_or(struct oriel_window *w, unsigned peer, uint64_t at,
					uint64_t value, uint64_t *old)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_OR, 8, peer, at, 0, value, old);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_fetch_xor(struct oriel_window *w, unsigned peer, uint64_t at,
					 uint64_t value, uint64_t *old)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_XOR, 8, peer, at, 0, value, old);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_swap(struct oriel_window *w, unsigned peer, uint64_t at,
				    uint64_t value, uint64_t *old)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_SWAP, 8, peer, at, 0, value, old);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_compare_swap(struct oriel_window *w, unsigned peer, uint64_t at,
					    uint64_t compare, uint64_t value, uint64_t *old)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_COMPARE_SWAP, 8, peer, at, compare, value, old);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_fetch(struct oriel_window *w, unsigned peer, uint64_t at,
				     uint64_t *value)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_FETCH, 8, peer, at, 0, 0, value);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_set(struct oriel_window *w, unsigned peer, uint64_t at,
				   uint64_t value)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_SET, 8, peer, at, 0, value, NULL);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_fetch_add_32(struct oriel_window *w, unsigned peer, uint64_t at,
					    uint32_t value, uint32_t *old)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_ADD, 4, peer, at, 0, value, old);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_fetch_and_32(struct oriel_window *w, unsigned peer, uint64_t at,
					    uint32_t value, uint32_t *old)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_AND, 4, peer, at, 0, value, old);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_fetch_or_32(struct oriel_window *w, unsigned peer, uint64_t at,
					   uint32_t value, uint32_t *old)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_OR, 4, peer, at, 0, value, old);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_fetch_xor_32(struct oriel_window *w, unsigned peer, uint64_t at,
					    uint32_t value, uint32_t *old)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_XOR, 4, peer, at, 0, value, old);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_swap_32(struct oriel_window *w, unsigned peer, uint64_t at,
				       uint32_t value, uint32_t *old)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_SWAP, 4, peer, at, 0, value, old);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_compare_swap_32(struct oriel_window *w, unsigned peer, uint64_t at,
					       uint32_t compare, uint32_t value, uint32_t *old)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_COMPARE_SWAP, 4, peer, at, compare, value, old);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_fetch_32(struct oriel_window *w, unsigned peer, uint64_t at,
					uint32_t *value)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_FETCH, 4, peer, at, 0, 0, value);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_set_32(struct oriel_window *w, unsigned peer, uint64_t at,
				      uint32_t value)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_SET, 4, peer, at, 0, value, NULL);

	return host_run(__func__, w, ORI_KERNEL_ATOMIC, ori_act_atomic, &c, 0);
}

enum oriel_status oriel_window_signal(struct oriel_window *w, unsigned peer, uint32_t id,
				      enum oriel_signal_op op, uint64_t value)
{
	const struct ori_kernel_call c = ori_pack_signal(peer, id, (uint32_t)op, value);

	return host_run(__func__, w, ORI_KERNEL_SIGNAL, host_signal, &c, 0);
}

enum oriel_status oriel_window_signal_all(struct oriel_window *w, uint32_t id,
					  enum oriel_signal_op op, uint64_t value)
{
	const struct ori_kernel_call c = ori_pack_signal(0, id, (uint32_t)op, value);

	return host_run(__func__, w, ORI_KERNEL_SIGNAL_ALL, ori_act_signal_all, &c, 0);
}

enum oriel_status oriel_window_wait_signal(struct oriel_window *w, uint32_t id,
					   enum oriel_compare compare, uint64_t operand,
					   uint64_t timeout_ns)
{
	const struct ori_kernel_call c = ori_pack_signal(0, id, (uint32_t)compare, operand);

	return host_run(__func__, w, ORI_KERNEL_WAIT_SIGNAL, ori_act_wait_signal, &c, timeout_ns);
}

enum oriel_status oriel_window_wait_signal_from(struct oriel_window *w, unsigned source,
						uint32_t id, enum oriel_compare compare,
						uint64_t operand, uint64_t timeout_ns)
{
	const struct ori_kernel_call c = ori_pack_signal(source, id, (uint32_t)compare, operand);

	return host_run(__func__, w, ORI_KERNEL_WAIT_FROM, ori_act_wait_signal_from, &c,
			timeout_ns);
}

enum oriel_status oriel_window_wait_signal_next(struct oriel_window *w, unsigned source,
						uint32_t id, uint64_t count, uint64_t timeout_ns)
{
	const struct ori_kernel_call c = ori_pack_signal(source, id, 0, count);

	return host_run(__func__, w, ORI_KERNEL_WAIT_NEXT, ori_act_wait_signal_next, &c,
			timeout_ns);
}

enum oriel_status oriel_window_read_signal(struct oriel_window *w, uint32_t id, uint64_t *value)
{
	const struct ori_kernel_call c = ori_pack_read_signal(0, id, value);

	return host_run(__func__, w, ORI_KERNEL_READ_SIGNAL, ori_act_read_signal, &c, 0);
}

enum oriel_status oriel_window_read_signal_from(struct oriel_window *w, unsigned source,
						uint32_t id, uint64_t *value)
{
	const struct ori_kernel_call c = ori_pack_read_signal(source, id, value);

	return host_run(__func__, w, ORI_KERNEL_READ_FROM, ori_act_read_signal_from, &c, 0);
}

enum oriel_status oriel_window_barrier(struct oriel_window *w, uint32_t slot, uint64_t timeout_ns)
{
	const struct ori_kernel_call c = ori_pack_barrier(0, slot);

	return host_run(__func__, w, ORI_KERNEL_BARRIER, ori_act_barrier, &c, timeout_ns);
}

enum oriel_status oriel_window_barrier_arrive(struct oriel_window *w, uint32_t slot)
{
	const struct ori_kernel_call c = ori_pack_barrier(0, slot);

	return host_run(__func__, w, ORI_KERNEL_BARRIER_ARRIVE, ori_act_barrier_arrive, &c, 0);
}

enum oriel_status oriel_window_barrier_wait(struct oriel_window *w, uint32_t slot,
					    uint64_t timeout_ns)
{
	const struct ori_kernel_call c = ori_pack_barrier(0, slot);

	return host_run(__func__, w, ORI_KERNEL_BARRIER_WAIT, ori_act_barrier_wait, &c, timeout_ns);
}

enum oriel_status oriel_window_barrier_peer(struct oriel_window *w, unsigned peer, uint32_t slot,
					    uint64_t timeout_ns)
{
	const struct ori_kernel_call c = ori_pack_barrier(peer, slot);

	return host_run(__func__, w, ORI_KERNEL_BARRIER_PEER, ori_act_barrier_peer, &c, timeout_ns);
}

enum oriel_status oriel_window_barrier_peer_arrive(struct oriel_window *w, unsigned peer,
						   uint32_t slot)
{
	const struct ori_kernel_call c = ori_pack_barrier(peer, slot);

	return host_run(__func__, w, ORI_KERNEL_BARRIER_PEER_ARRIVE, ori_act_barrier_peer_arrive,
			&c, 0);
}

enum oriel_status oriel_window_barrier_peer_wait(struct oriel_window *w, unsigned peer,
						 uint32_t slot, uint64_t timeout_ns)
{
	const struct ori_kernel_call c = ori_pack_barrier(peer, slot);

	return host_run(__func__, w, ORI_KERNEL_BARRIER_PEER_WAIT, ori_act_barrier_peer_wait, &c,
			timeout_ns);
}

enum oriel_status oriel_window_send(struct oriel_window *w, unsigned peer, uint32_t channel,
				    const void *from, size_t length, uint64_t timeout_ns)
{
	const struct ori_kernel_call c = ori_pack_message(peer, channel, from, length);

	return host_run(__func__, w, ORI_KERNEL_SEND, ori_act_send, &c, timeout_ns);
}

enum oriel_status oriel_window_recv(struct oriel_window *w, unsigned peer, uint32_t channel,
				    void *to, size_t length, uint64_t timeout_ns)
{
	const struct ori_kernel_call c = ori_pack_message(peer, channel, to, length);

	return host_run(__func__, w, ORI_KERNEL_RECV, ori_act_recv, &c, timeout_ns);
}

enum oriel_status oriel_window_drain(struct oriel_window *w, uint64_t timeout_ns)
{
	const struct ori_kernel_call c = {0};

	return host_run(__func__, w, ORI_KERNEL_DRAIN, ori_act_drain, &c, timeout_ns);
}

enum oriel_status oriel_window_flush(struct oriel_window *w, uint64_t timeout_ns)
{
	const struct ori_kernel_call c = {0};

	return host_run(__func__, w, ORI_KERNEL_FLUSH, ori_act_flush, &c, timeout_ns);
}

/*
 * With a window in host memory, a call that takes a counter may return before its put is done: the
 * counter says when the source may be reused. All other calls return when the caller's memory is
 * its own again.
 */
enum oriel_status oriel_window_put_counter(struct oriel_window *w, unsigned peer, uint64_t to,
					   const void *from, size_t length, uint32_t counter)
{
	const struct ori_kernel_call c = ori_pack_put_counter(peer, to, from, length, counter);

	return host_run(__func__, w, ORI_KERNEL_PUT_COUNTER, ori_act_put_counter, &c, 0);
}

enum oriel_status oriel_window_put_signal_counter(struct oriel_window *w, unsigned peer,
						  uint64_t to, const void *from, size_t length,
						  uint32_t id, uint64_t value, uint32_t counter)
{
	const struct ori_kernel_call c =
		ori_pack_put_signal(peer, to, from, length, id, value, counter);

	return host_run(__func__, w, ORI_KERNEL_PUT_SIGNAL_COUNTER, ori_act_put_signal_counter, &c,
			0);
}

enum oriel_status oriel_window_signal_counter(struct oriel_window *w, unsigned peer, uint32_t id,
					      uint64_t value, uint32_t counter)
{
	const struct ori_kernel_call c = ori_pack_signal_counter(peer, id, value, counter);

	return host_run(__func__, w, ORI_KERNEL_SIGNAL_COUNTER, ori_act_signal_counter, &c, 0);
}

enum oriel_status oriel_window_wait_counter(struct oriel_window *w, unsigned peer, uint32_t counter,
					    enum oriel_compare compare, uint64_t operand,
					    uint64_t timeout_ns)
{
	const struct ori_kernel_call c =
		ori_pack_wait_counter(peer, counter, (uint32_t)compare, operand);

	return host_run(__func__, w, ORI_KERNEL_WAIT_COUNTER, ori_act_wait_counter, &c, timeout_ns);
}

enum oriel_status oriel_window_read_counter(struct oriel_window *w, unsigned peer, uint32_t counter,
					    uint64_t *value)
{
	const struct ori_kernel_call c = ori_pack_counter(peer, counter, value);

	return host_run(__func__, w, ORI_KERNEL_READ_COUNTER, ori_act_read_counter, &c, 0);
}

enum oriel_status oriel_window_reset_counter(struct oriel_window *w, unsigned peer,
					     uint32_t counter)
{
	const struct ori_kernel_call c = ori_pack_counter(peer, counter, NULL);

	return host_run(__func__, w, ORI_KERNEL_RESET_COUNTER, ori_act_reset_counter, &c, 0);
}

enum oriel_status oriel_window_reset_signals(struct oriel_window *w)
{
	const struct ori_kernel_call c = {0};

	return host_run(__func__, w, ORI_KERNEL_RESET, ori_act_reset_signals, &c, 0);
}

static enum oriel_status host_check(const struct oriel_window *w, unsigned peer, uint32_t buffer,
				    const char *call)
{
	if (peer >= w->device.ranks)
		return ori_fail(ORIEL_ERR_RANGE, "%s: rank %u is out of range, the job has %u",
				call, peer, w->device.ranks);
	/* The handle counts the room for buffers; only the first @shared are in use. */
	if (buffer >= w->shared)
		return ori_fail(ORIEL_ERR_RANGE, "%s: buffer %u is out of range, the window has %u",
				call, buffer, w->shared);
	return ORIEL_OK;
}

enum oriel_status oriel_window_buffer(const struct oriel_window *w, uint32_t buffer, void **address,
				      size_t *length)
{
	enum oriel_status status = ori_handle_check(w, ORI_HANDLE_WINDOW, __func__);
	const struct oriel_dev_buffer *entry;

	if (status == ORIEL_OK)
		status = host_check(w, w->device.rank, buffer, __func__);
	if (status == ORIEL_OK && !address)
		status = ori_fail(ORIEL_ERR_INVALID, "oriel_window_buffer: address is NULL");
	if (status != ORIEL_OK)
		return status;
	entry = &w->table[(size_t)buffer * w->device.ranks + w->device.rank];
	*address = entry->base;
	if (length)
		*length = entry->length;
	return ORIEL_OK;
}

enum oriel_status oriel_window_peer_length(const struct oriel_window *w, unsigned peer,
					   uint32_t buffer, size_t *length)
{
	enum oriel_status status = ori_handle_check(w, ORI_HANDLE_WINDOW, __func__);

	if (status == ORIEL_OK)
		status = host_check(w, peer, buffer, __func__);
	if (status == ORIEL_OK && !length)
		status = ori_fail(ORIEL_ERR_INVALID, "oriel_window_peer_length: length is NULL");
	if (status == ORIEL_OK)
		*length = w->table[(size_t)buffer * w->device.ranks + peer].length;
	return status;
}

enum oriel_status oriel_window_peer_address(const struct oriel_window *w, unsigned peer,
					    uint64_t at, void **address)
{
	uint32_t buffer = (uint32_t)(at >> ORIEL_AT_BITS);
	uint64_t offset = at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
	enum oriel_status status = ori_handle_check(w, ORI_HANDLE_WINDOW, __func__);
	const struct oriel_dev_buffer *entry;

	if (status == ORIEL_OK)
		status = host_check(w, peer, buffer, __func__);
	if (status == ORIEL_OK && !address)
		status = ori_fail(ORIEL_ERR_INVALID, "oriel_window_peer_address: address is NULL");
	if (status != ORIEL_OK)
		return status;
	entry = &w->table[(size_t)buffer * w->device.ranks + peer];
	/* A rank that shares no bytes has no address either. */
	if (offset >= entry->length)
		return ori_fail(ORIEL_ERR_RANGE,
				"oriel_window_peer_address: byte %llu is out of range, buffer %u "
				"of rank %u has %llu",
				(unsigned long long)offset, buffer, peer,
				(unsigned long long)entry->length);
	status = ori_window_touch(w, peer);
	if (status != ORIEL_OK)
		return status;
	/* By the host's table: those of the handle may lie on a GPU. */
	if (w->peers[peer].path == ORIEL_PATH_RDMA)
		return ori_fail(ORIEL_ERR_NO_PATH, "rank %u is not mapped by rank %u", peer,
				w->device.rank);
	*address = entry->base + offset;
	return ORIEL_OK;
}
