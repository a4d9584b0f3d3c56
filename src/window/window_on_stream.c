/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of window_host.c for windows on GPUs, which window_stream.c posts to a stream.
 * Programs call them.
 */
#include "window/window.h"
#include "window/window_pack.h"

static enum oriel_status on_stream(const char *call_name, struct oriel_window *w,
				   enum ori_kernel kernel, const struct ori_kernel_call *c,
				   uint64_t timeout_ns, struct CUstream_st *stream)
{
	enum oriel_status status = ori_window_check_gpu(w, call_name);

	return status == ORIEL_OK ? ori_window_stream_call(w, kernel, c, timeout_ns, stream)
				  : status;
}

enum oriel_status oriel_window_put_on_stream(struct oriel_window *w, unsigned peer, uint64_t to,
					     const void *from, size_t length,
					     struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_bytes(peer, to, from, length);

	return on_stream(__func__, w, ORI_KERNEL_PUT, &c, 0, stream);
}

enum oriel_status oriel_window_put_value_on_stream(struct oriel_window *w, unsigned peer,
						   uint64_t to, uint64_t value,
						   struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_word(peer, to, value);

	return on_stream(__func__, w, ORI_KERNEL_PUT_VALUE, &c, 0, stream);
}

enum oriel_status oriel_window_get_on_stream(struct oriel_window *w, unsigned peer, uint64_t from,
					     void *to, size_t length, struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_bytes(peer, from, to, length);

	return on_stream(__func__, w, ORI_KERNEL_GET, &c, 0, stream);
}

enum oriel_status oriel_window_put_signal_on_stream(struct oriel_window *w, unsigned peer,
						    uint64_t to, const void *from, size_t length,
						    uint32_t id, uint64_t value,
						    struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_put_signal(peer, to, from, length, id, value, 0);

	return on_stream(__func__, w, ORI_KERNEL_PUT_SIGNAL, &c, 0, stream);
}

enum oriel_status oriel_window_fetch_add_on_stream(struct oriel_window *w, unsigned peer,
						   uint64_t at, uint64_t value, uint64_t *old,
						   struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_ADD, 8, peer, at, 0, value, old);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_fetch_and_on_stream(struct oriel_window *w, unsigned peer,
						   uint64_t at, uint64_t value, uint64_t *old,
						   struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_AND, 8, peer, at, 0, value, old);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_fetch_or_on_stream(struct oriel_window *w, unsigned peer,
						  uint64_t at, uint64_t value, uint64_t *old,
						  struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_OR, 8, peer, at, 0, value, old);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_fetch_xor_on_stream(struct oriel_window *w, unsigned peer,
						   uint64_t at, uint64_t value, uint64_t *old,
						   struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_XOR, 8, peer, at, 0, value, old);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_swap_on_stream(struct oriel_window *w, unsigned peer, uint64_t at,
					      uint64_t value, uint64_t *old,
					      struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_SWAP, 8, peer, at, 0, value, old);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_compare_swap_on_stream(struct oriel_window *w, unsigned peer,
						      uint64_t at, uint64_t compare, uint64_t value,
						      uint64_t *old, struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_COMPARE_SWAP, 8, peer, at, compare, value, old);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_fetch_on_stream(struct oriel_window *w, unsigned peer, uint64_t at,
					       uint64_t *value, struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_FETCH, 8, peer, at, 0, 0, value);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_set_on_stream(struct oriel_window *w, unsigned peer, uint64_t at,
					     uint64_t value, struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_SET, 8, peer, at, 0, value, NULL);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_fetch_add_32_on_stream(struct oriel_window *w, unsigned peer,
						      uint64_t at, uint32_t value, uint32_t *old,
						      struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_ADD, 4, peer, at, 0, value, old);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_fetch_and_32_on_stream(struct oriel_window *w, unsigned peer,
						      uint64_t at, uint32_t value, uint32_t *old,
						      struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_AND, 4, peer, at, 0, value, old);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_fetch_or_32_on_stream(struct oriel_window *w, unsigned peer,
						     uint64_t at, uint32_t value, uint32_t *old,
						     struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_OR, 4, peer, at, 0, value, old);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_fetch_xor_32_on_stream(struct oriel_window *w, unsigned peer,
						      uint64_t at, uint32_t value, uint32_t *old,
						      struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_XOR, 4, peer, at, 0, value, old);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_swap_32_on_stream(struct oriel_window *w, unsigned peer, uint64_t at,
						 uint32_t value, uint32_t *old,
						 struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_SWAP, 4, peer, at, 0, value, old);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_compare_swap_32_on_stream(struct oriel_window *w, unsigned peer,
							 uint64_t at, uint32_t compare,
							 uint32_t value, uint32_t *old,
							 struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_COMPARE_SWAP, 4, peer, at, compare, value, old);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_fetch_32_on_stream(struct oriel_window *w, unsigned peer,
						  uint64_t at, uint32_t *value,
						  struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_FETCH, 4, peer, at, 0, 0, value);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_set_32_on_stream(struct oriel_window *w, unsigned peer, uint64_t at,
						uint32_t value, struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_atomic(ORIEL_DEV_ATOMIC_SET, 4, peer, at, 0, value, NULL);

	return on_stream(__func__, w, ORI_KERNEL_ATOMIC, &c, 0, stream);
}

enum oriel_status oriel_window_signal_on_stream(struct oriel_window *w, unsigned peer, uint32_t id,
						enum oriel_signal_op op, uint64_t value,
						struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_signal(peer, id, (uint32_t)op, value);

	return on_stream(__func__, w, ORI_KERNEL_SIGNAL, &c, 0, stream);
}

enum oriel_status oriel_window_signal_all_on_stream(struct oriel_window *w, uint32_t id,
						    enum oriel_signal_op op, uint64_t value,
						    struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_signal(0, id, (uint32_t)op, value);

	return on_stream(__func__, w, ORI_KERNEL_SIGNAL_ALL, &c, 0, stream);
}

enum oriel_status oriel_window_wait_signal_on_stream(struct oriel_window *w, uint32_t id,
						     enum oriel_compare compare, uint64_t operand,
						     uint64_t timeout_ns,
						     struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_signal(0, id, (uint32_t)compare, operand);

	return on_stream(__func__, w, ORI_KERNEL_WAIT_SIGNAL, &c, timeout_ns, stream);
}

enum oriel_status oriel_window_wait_signal_from_on_stream(struct oriel_window *w, unsigned source,
							  uint32_t id, enum oriel_compare compare,
							  uint64_t operand, uint64_t timeout_ns,
							  struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_signal(source, id, (uint32_t)compare, operand);

	return on_stream(__func__, w, ORI_KERNEL_WAIT_FROM, &c, timeout_ns, stream);
}

enum oriel_status oriel_window_wait_signal_next_on_stream(struct oriel_window *w, unsigned source,
							  uint32_t id, uint64_t count,
							  uint64_t timeout_ns,
							  struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_signal(source, id, 0, count);

	return on_stream(__func__, w, ORI_KERNEL_WAIT_NEXT, &c, timeout_ns, stream);
}

enum oriel_status oriel_window_read_signal_on_stream(struct oriel_window *w, uint32_t id,
						     uint64_t *value, struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_read_signal(0, id, value);

	return on_stream(__func__, w, ORI_KERNEL_READ_SIGNAL, &c, 0, stream);
}

enum oriel_status oriel_window_read_signal_from_on_stream(struct oriel_window *w, unsigned source,
							  uint32_t id, uint64_t *value,
							  struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_read_signal(source, id, value);

	return on_stream(__func__, w, ORI_KERNEL_READ_FROM, &c, 0, stream);
}

enum oriel_status oriel_window_barrier_on_stream(struct oriel_window *w, uint32_t slot,
						 uint64_t timeout_ns, struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_barrier(0, slot);

	return on_stream(__func__, w, ORI_KERNEL_BARRIER, &c, timeout_ns, stream);
}

enum oriel_status oriel_window_barrier_arrive_on_stream(struct oriel_window *w, uint32_t slot,
							struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_barrier(0, slot);

	return on_stream(__func__, w, ORI_KERNEL_BARRIER_ARRIVE, &c, 0, stream);
}

enum oriel_status oriel_window_barrier_wait_on_stream(struct oriel_window *w, uint32_t slot,
						      uint64_t timeout_ns,
						      struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_barrier(0, slot);

	return on_stream(__func__, w, ORI_KERNEL_BARRIER_WAIT, &c, timeout_ns, stream);
}

enum oriel_status oriel_window_barrier_peer_on_stream(struct oriel_window *w, unsigned peer,
						      uint32_t slot, uint64_t timeout_ns,
						      struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_barrier(peer, slot);

	return on_stream(__func__, w, ORI_KERNEL_BARRIER_PEER, &c, timeout_ns, stream);
}

enum oriel_status oriel_window_barrier_peer_arrive_on_stream(struct oriel_window *w, unsigned peer,
							     uint32_t slot,
							     struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_barrier(peer, slot);

	return on_stream(__func__, w, ORI_KERNEL_BARRIER_PEER_ARRIVE, &c, 0, stream);
}

enum oriel_status oriel_window_barrier_peer_wait_on_stream(struct oriel_window *w, unsigned peer,
							   uint32_t slot, uint64_t timeout_ns,
							   struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_barrier(peer, slot);

	return on_stream(__func__, w, ORI_KERNEL_BARRIER_PEER_WAIT, &c, timeout_ns, stream);
}

enum oriel_status oriel_window_send_on_stream(struct oriel_window *w, unsigned peer,
					      uint32_t channel, const void *from, size_t length,
					      uint64_t timeout_ns, struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_message(peer, channel, from, length);

	return on_stream(__func__, w, ORI_KERNEL_SEND, &c, timeout_ns, stream);
}

enum oriel_status oriel_window_recv_on_stream(struct oriel_window *w, unsigned peer,
					      uint32_t channel, void *to, size_t length,
					      uint64_t timeout_ns, struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_message(peer, channel, to, length);

	return on_stream(__func__, w, ORI_KERNEL_RECV, &c, timeout_ns, stream);
}

enum oriel_status oriel_window_drain_on_stream(struct oriel_window *w, uint64_t timeout_ns,
					       struct CUstream_st *stream)
{
	const struct ori_kernel_call c = {0};

	return on_stream(__func__, w, ORI_KERNEL_DRAIN, &c, timeout_ns, stream);
}

enum oriel_status oriel_window_flush_on_stream(struct oriel_window *w, uint64_t timeout_ns,
					       struct CUstream_st *stream)
{
	const struct ori_kernel_call c = {0};

	return on_stream(__func__, w, ORI_KERNEL_FLUSH, &c, timeout_ns, stream);
}

enum oriel_status oriel_window_put_counter_on_stream(struct oriel_window *w, unsigned peer,
						     uint64_t to, const void *from, size_t length,
						     uint32_t counter, struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_put_counter(peer, to, from, length, counter);

	return on_stream(__func__, w, ORI_KERNEL_PUT_COUNTER, &c, 0, stream);
}

enum oriel_status oriel_window_put_signal_counter_on_stream(struct oriel_window *w, unsigned peer,
							    uint64_t to, const void *from,
							    size_t length, uint32_t id,
							    uint64_t value, uint32_t counter,
							    struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_put_signal(peer, to, from, length, id, value, counter);

	return on_stream(__func__, w, ORI_KERNEL_PUT_SIGNAL_COUNTER, &c, 0, stream);
}

enum oriel_status oriel_window_signal_counter_on_stream(struct oriel_window *w, unsigned peer,
							uint32_t id, uint64_t value,
							uint32_t counter,
							struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_signal_counter(peer, id, value, counter);

	return on_stream(__func__, w, ORI_KERNEL_SIGNAL_COUNTER, &c, 0, stream);
}

enum oriel_status oriel_window_wait_counter_on_stream(struct oriel_window *w, unsigned peer,
						      uint32_t counter, enum oriel_compare compare,
						      uint64_t operand, uint64_t timeout_ns,
						      struct CUstream_st *stream)
{
	const struct ori_kernel_call c =
		ori_pack_wait_counter(peer, counter, (uint32_t)compare, operand);

	return on_stream(__func__, w, ORI_KERNEL_WAIT_COUNTER, &c, timeout_ns, stream);
}

enum oriel_status oriel_window_read_counter_on_stream(struct oriel_window *w, unsigned peer,
						      uint32_t counter, uint64_t *value,
						      struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_counter(peer, counter, value);

	return on_stream(__func__, w, ORI_KERNEL_READ_COUNTER, &c, 0, stream);
}

enum oriel_status oriel_window_reset_counter_on_stream(struct oriel_window *w, unsigned peer,
						       uint32_t counter, struct CUstream_st *stream)
{
	const struct ori_kernel_call c = ori_pack_counter(peer, counter, NULL);

	return on_stream(__func__, w, ORI_KERNEL_RESET_COUNTER, &c, 0, stream);
}

enum oriel_status oriel_window_reset_signals_on_stream(struct oriel_window *w,
						       struct CUstream_st *stream)
{
	const struct ori_kernel_call c = {0};

	return on_stream(__func__, w, ORI_KERNEL_RESET, &c, 0, stream);
}
