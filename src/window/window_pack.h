/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of an operation as device code takes them, one function for each list of
 * arguments. window_host.c runs them, window_on_stream.c posts them.
 */
#ifndef ORI_WINDOW_WINDOW_PACK_H
#define ORI_WINDOW_WINDOW_PACK_H

#include <oriel/dev/detail/order_atomic.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* put and get; @at lies in the window of @peer. */
static inline struct ori_kernel_call ori_pack_bytes(unsigned peer, uint64_t at, const void *memory,
						    size_t length)
{
	return (struct ori_kernel_call){.peer = peer,
					.at = at,
					.memory = (void *)(uintptr_t)memory,
					.length = length};
}

static inline struct ori_kernel_call
ori_pack_put_counter(unsigned peer, uint64_t to, const void *from, size_t length, uint32_t counter)
{
	return (struct ori_kernel_call){.peer = peer,
					.at = to,
					.memory = (void *)(uintptr_t)from,
					.length = length,
					.counter = counter};
}

/* Without a counter @counter is 0. */
static inline struct ori_kernel_call ori_pack_put_signal(unsigned peer, uint64_t to,
							 const void *from, size_t length,
							 uint32_t id, uint64_t value,
							 uint32_t counter)
{
	return (struct ori_kernel_call){.peer = peer,
					.at = to,
					.memory = (void *)(uintptr_t)from,
					.length = length,
					.id = id,
					.value = value,
					.counter = counter};
}

/* put_value. */
static inline struct ori_kernel_call ori_pack_word(unsigned peer, uint64_t at, uint64_t value)
{
	return (struct ori_kernel_call){.peer = peer, .at = at, .value = value};
}

/* An atomic on a word of @bytes; SET has no @old. */
static inline struct ori_kernel_call ori_pack_atomic(enum oriel_dev_atomic_op op, uint32_t bytes,
						     unsigned peer, uint64_t at, uint64_t compare,
						     uint64_t value, void *old)
{
	return (struct ori_kernel_call){.op = op,
					.bytes = bytes,
					.peer = peer,
					.at = at,
					.compare = compare,
					.value = value,
					.memory = old};
}

/* Does the operation return a value of the caller's memory at @memory? */
static inline bool ori_pack_has_result(enum ori_kernel kernel, const struct ori_kernel_call *c)
{
	return (kernel == ORI_KERNEL_ATOMIC && c->op != ORIEL_DEV_ATOMIC_SET) ||
	       kernel == ORI_KERNEL_READ_SIGNAL || kernel == ORI_KERNEL_READ_FROM ||
	       kernel == ORI_KERNEL_READ_COUNTER;
}

/* Signals and their waits; @peer is 0 where all ranks are meant. */
static inline struct ori_kernel_call ori_pack_signal(unsigned peer, uint32_t id, uint32_t op,
						     uint64_t value)
{
	return (struct ori_kernel_call){.peer = peer, .id = id, .op = op, .value = value};
}

static inline struct ori_kernel_call ori_pack_read_signal(unsigned peer, uint32_t id,
							  uint64_t *value)
{
	return (struct ori_kernel_call){.peer = peer, .id = id, .memory = value};
}

static inline struct ori_kernel_call ori_pack_signal_counter(unsigned peer, uint32_t id,
							     uint64_t value, uint32_t counter)
{
	return (struct ori_kernel_call){.peer = peer, .id = id, .value = value, .counter = counter};
}

static inline struct ori_kernel_call ori_pack_wait_counter(unsigned peer, uint32_t counter,
							   uint32_t compare, uint64_t operand)
{
	return (struct ori_kernel_call){.peer = peer,
					.counter = counter,
					.op = compare,
					.value = operand};
}

/* read_counter, and reset_counter without @value. */
static inline struct ori_kernel_call ori_pack_counter(unsigned peer, uint32_t counter,
						      uint64_t *value)
{
	return (struct ori_kernel_call){.peer = peer, .counter = counter, .memory = value};
}

/* Barriers; @peer is 0 where all ranks are meant. */
static inline struct ori_kernel_call ori_pack_barrier(unsigned peer, uint32_t slot)
{
	return (struct ori_kernel_call){.peer = peer, .id = slot};
}

static inline struct ori_kernel_call ori_pack_message(unsigned peer, uint32_t channel,
						      const void *memory, size_t length)
{
	return (struct ori_kernel_call){.peer = peer,
					.id = channel,
					.memory = (void *)(uintptr_t)memory,
					.length = length};
}

#endif
